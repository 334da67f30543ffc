"""A platform: one machine, its clock rates, and the cost of each operation, with evidence.

``[machine]`` is a coherent host and its interface.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from nicscope.config import toml_files
from nicscope.config.costs import (
    COSTS,
    Evidence,
    Origin,
    UnitCost,
    check_known_keys,
    half_up,
    open_file,
    read_origin,
    read_unit,
)
from nicscope.config.design import (
    BURSTS,
    CELL_WORDS,
    CONTROL_BYTES,
    DELIVERY_COSTS,
    FIRMWARE_COSTS,
    MAY_BE_PART,
    Scheme,
    ServedBy,
)
from nicscope.config.quantities import read_bytes
from nicscope.config.toml_files import is_path, open_shelf, read_texts, shelf_names
from nicscope.errors import PlatformError, did_you_mean
from nicscope.inputs import STDIN
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


BYTES = "bytes"
SIZES = {BYTES: 1, "KiB": 1 << 10, "MiB": 1 << 20}
SWITCH = "0 or 1"
_WITHOUT_SOURCE = Origin(Evidence.ASSUMED, "without a source")  # of what is bare, as in a design
_NUMBER = re.compile(r"([0-9]{1,15})\s*(.*)")


class MachineWord(msgspec.Struct, frozen=True):
    """The meaning and unit of one parameter."""

    meaning: str
    unit: str


MACHINE: dict[str, MachineWord] = {
    # the host: caches, bus, memory
    "memory_bytes": MachineWord("memory of a host", BYTES),
    "l1_bytes": MachineWord("first level", BYTES),
    "l1_line": MachineWord("line of the first level", BYTES),
    "l1_ways": MachineWord("lines of a set of the first level", "lines"),
    "l2_bytes": MachineWord("second level", BYTES),
    "l2_line": MachineWord("block: a line of the second level", BYTES),
    "l2_ways": MachineWord("lines of a set of the second level", "lines"),
    "word": MachineWord("what a program writes and reads at a time", BYTES),
    "bus_bytes": MachineWord("what the bus moves in a cycle", BYTES),
    "arbitration": MachineWord("from a request to the grant on an idle bus", "bus cycles"),
    "address_phase": MachineWord("address phase of a transaction", "bus cycles"),
    "snoop": MachineWord("from the address to the caches' answer", "bus cycles"),
    "retry_delay": MachineWord("from a retry to the next attempt", "bus cycles"),
    "combine_buffers": MachineWord("write-combining buffers of the processor", "buffers"),
    "combine_bytes": MachineWord("what each of them holds", BYTES),
    "fill_then_invalidate": MachineWord(
        "a write that misses loads the block, then invalidates", SWITCH
    ),
    "background_percent": MachineWord("of the bus's time, another master's bursts", "%"),
    "background_bytes": MachineWord("of each of these bursts", BYTES),
    "processors": MachineWord("processors of a host", "processors"),
    # the link
    "cell_bytes": MachineWord("data in a cell of the link", BYTES),
    "trailer_bytes": MachineWord("behind the data of what is sent as one, in its last cell", BYTES),
    # the interface
    "nic_memory_bytes": MachineWord("memory of an interface", BYTES),
    "staging_bytes": MachineWord("of it for messages outside registrations", BYTES),
    "dma_mbytes_s": MachineWord("peak rate of the DMA engine", "MB/s"),
    "dma_window": MachineWord("reads or writes that the engine has under way", "blocks"),
    "read_window": MachineWord("reads that the cache controller has under way", "blocks"),
    "doorbell_bytes": MachineWord("a token", BYTES),
    "receive_method": MachineWord("EDT's: 1 coherent, 2 like DMA", "1 or 2"),
    "initialisation": MachineWord("of registered blocks: 1 by flushing, 2 by reading", "1 or 2"),
    "when_full": MachineWord("no room to register: 1 DMA instead, 2 wait", "1 or 2"),
    "pinned_bytes_max": MachineWord("registered memory kept at most", BYTES),
    "queue_blocks": MachineWord("of each of the two cacheable queues", "blocks"),
    "lazy_pointers": MachineWord("the producer looks at the head only when it must", SWITCH),
    "valid_bits": MachineWord("an entry itself says that it is there", SWITCH),
    "sense_reverse": MachineWord("what says so alternates with passes", SWITCH),
    "ni_mhz": MachineWord("clock of the interface's processor", "MHz"),
    "host_mhz": MachineWord("clock of the host's processors", "MHz"),
    # the messaging
    "mtu": MachineWord("of a message in a frame", BYTES),
    "max_transfer": MachineWord("of a message", BYTES),
    "window": MachineWord("frames of a connection on their way", "frames"),
    "retries": MachineWord("time-outs in a row before a connection is lost", "times"),
    "read_mbytes_s": MachineWord("of blocks that the host wrote; 0: the bus's rate", "MB/s"),
}


# The times of the same machine: names of ``COSTS``.
MACHINE_TIMES = (
    "l1_latency",
    "l2_latency",
    "bus_cycle",
    "memory_latency",
    "cache_supply",
    "device_latency",
    "flush_instruction",
    "reaction",
    "queue_poll",
    "dma_init",
    "dma_interrupt",
)
VIA_COSTS = ("retry_timeout",)  # what the messaging asks for beside the costs of ports
CLOCKS = ("ni_mhz", "host_mhz")  # by which costs may be scaled; nobody needs them else
LEAST_TRAILER = 6  # bytes
# What any host may state: one that has no bus here too.
OF_ANY = ("processors", *CLOCKS, *CELL_WORDS)
# What the messaging has, beside what host and interface have.
OF_VIA = ("mtu", "max_transfer", "window", "retries", "read_mbytes_s")


class Parameter(msgspec.Struct, frozen=True):
    """A whole number in the unit of ``MACHINE``, and its origin."""

    name: str
    value: int
    unit: str  # of the citation
    origin: Origin


def read_number(word: str, text: str) -> int | None:
    """Parse parameter ``word``, bare or with its unit; None if that fails."""
    own = MACHINE[word].unit
    if own == BYTES:
        return read_bytes(text)
    found = _NUMBER.fullmatch(text.strip())
    return int(found[1]) if found and found[2] in ("", own) else None


def read_machine(cells: Any, sources: Mapping[str, str], called: str) -> dict[str, Parameter]:
    """The parameters that a platform's ``[machine]`` states.

    Errors: ``PlatformError`` beginning with ``called`` for the first that is wrong.
    """
    if not isinstance(cells, dict):
        raise PlatformError(f"{called}: machine must be a table of parameters")
    check_known_keys(cells, MACHINE, f"{called}: machine", PlatformError)
    return {
        key: _read_parameter(key, cell, sources, f"{called}: machine.{key}")
        for key, cell in cells.items()
    }


def _read_parameter(key: str, cell: Any, sources: Mapping[str, str], where: str) -> Parameter:
    own = MACHINE[key].unit
    if isinstance(cell, int | str) and not isinstance(cell, bool):
        number = read_number(key, str(cell))
        if number is None:
            raise PlatformError(f"{where}: must be a number of {own}, got {cell!r}")
        cell = {"value": number, "unit": own, **_WITHOUT_SOURCE.to_json()}
    units = SIZES if own == BYTES else {own: 1}
    unit, origin = _read_cell(cell, ("value",), units, sources, where)
    value, most = cell.get("value"), LONGEST_PS // units[unit]
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlatformError(f"{where}: value must be a whole number, got {value!r}")
    if not 0 <= value <= most:
        raise PlatformError(f"{where}: value must be from 0 to {most}, got {value}")
    if key in CLOCKS and value == 0:
        raise PlatformError(f"{where}: a clock must be 1 MHz or more, got 0")
    if own in (SWITCH, "1 or 2") and str(value) not in own.split(" or "):
        raise PlatformError(f"{where}: value must be {own}, got {value}")
    return Parameter(key, value * units[unit], unit, origin)


def _read_cell(
    cell: Any,
    values: tuple[str, ...],
    units: Iterable[str],
    sources: Mapping[str, str],
    where: str,
) -> tuple[str, Origin]:
    """The unit and the origin of a table that states ``values`` besides.

    Errors: ``PlatformError`` beginning with ``where``.
    """
    if not isinstance(cell, dict):
        raise PlatformError(f"{where} must be a table of value, unit, evidence and source, or bare")
    check_known_keys(cell, (*values, "unit", "evidence", "source"), where, PlatformError)
    origin = read_origin(cell, sources, where, PlatformError)
    return read_unit(cell, units, where), origin


# Whatever translates: queues, the kernel, processes, the disk.
EVERYWHERE = (
    "system_call",
    "post",
    "poll",
    "interrupt_entry",
    "kernel_pin_shared",
    "zero_map_in",
    "page_fault",
    "page_out",
    "thread_delay",
    "wake_up",
    "notify",
    "ni_handle",
    "send_queue",
    "receive_queue",
)
# Where the host's kernel serves ports, besides; elsewhere it need not be stated.
OF_KERNEL = ("trap",)
_COPY = ("copy_start", "copy_per_byte")
_KERNEL = ("interrupt", "kernel_pin", "kernel_unpin")
# What translation takes besides.
OF_SCHEME: dict[Scheme, tuple[str, ...]] = {
    Scheme.PINNED: _COPY,
    Scheme.STATIC: ("ni_table_read", "user_pin"),
    Scheme.INTERRUPT: ("ni_check", *_KERNEL),
    Scheme.UNET_MM: (
        "ni_hit_send",
        "ni_hit_receive",
        "ni_hit_pretranslate",
        "ni_handshake",
        *_KERNEL,
        "kernel_pin_receive",
        *_COPY,
    ),
    # the interrupt is for a second-level table that is swapped out (UTLB, 3.3)
    Scheme.UTLB: (
        "user_check",
        "user_pin",
        "user_unpin",
        "ni_check",
        "ni_dma",
        "ni_miss",
        "interrupt",
    ),
    Scheme.UTLB_SHARED: ("user_tree", "user_pin", "user_unpin", "ni_check", "ni_dma", "ni_miss"),
    Scheme.UTLB_PROCESS: ("user_tree", "user_pin", "user_unpin", "ni_table_read"),
    Scheme.HANDLE: ("ni_check", "miss_delay", "kernel_pin", "kernel_unpin"),
    Scheme.RNIC: ("ni_check", "icm_fetch", "user_pin"),
}
# What some designs of a scheme never charge: it may be unstated where it is not charged.
OF_DESIGN = ("ni_further_way",)
# What may be unstated: a miss thread that was not timed takes what its pins take.
BESIDE_PINS = ("miss_processing",)
TABLES = ("request_check_min", "request_check_max", "user_pin", "user_unpin", "ni_dma", "ni_miss")
PROGRAM_COSTS = (
    *OF_KERNEL,
    *EVERYWHERE,
    *dict.fromkeys(name for names in OF_SCHEME.values() for name in names if name not in TABLES),
    *OF_DESIGN,
    *BESIDE_PINS,
)

# Where a cost is not stated, the first of these that is. What does not apply stands in for none.
FALLBACKS = {
    "user_tree": ("user_check",),
    "ni_hit_send": ("ni_check", "ni_handle"),
    "ni_hit_receive": ("ni_check", "ni_handle"),
    "ni_hit_pretranslate": ("ni_check", "ni_handle"),
    "ni_check": ("ni_hit_send", "ni_handle"),
    "ni_table_read": ("ni_check", "ni_hit_send", "ni_handle"),
    "kernel_pin_receive": ("kernel_pin",),
    "miss_delay": ("interrupt",),
}
# A user's call where it was not timed: into the kernel and back, and the kernel's work by page.
# On UTLB's prototype that is how the two relate (27 = 10 + 17 us, 25 = 10 + 15).
_CALLS = {"user_pin": "kernel_pin", "user_unpin": "kernel_unpin"}

LONGEST = 64  # sizes that a table holds by itself
MIDDLE = Fraction(1, 2)


class ProgramCosts(NamedTuple):
    """Picoseconds of each step (per byte, where the name says so); not applicable ones are 0."""

    steps: dict[str, int]
    """Every name of ``PROGRAM_COSTS``."""
    tables: dict[str, NDArray[np.int64]]
    """Every name of ``TABLES``: entry n is a call of n pages, or a fetch of n entries; entry 0 is
    0.  Beyond its end the straight line through its last two entries goes on."""
    unstated: tuple[str, ...]
    """Names of ``OF_DESIGN`` that the platform does not state; they are 0 in ``steps``."""
    served_by: str = ServedBy.NIC.value


def program_costs(
    platform: Platform,
    scheme: Scheme,
    longest: int = LONGEST,
    place: Fraction = MIDDLE,
    *,
    served_by: str = ServedBy.NIC,
) -> ProgramCosts:
    """Costs of programs on ``platform`` whose NICs translate by ``scheme``.

    Tables reach to ``longest`` (33 or more, so that its end lies beyond every printed size).  Of a
    range the value at ``place`` is taken: 0 is its low end, 1 its high end.  What the scheme never
    charges is 0 if the platform does not state it; what only a kernel that serves ports charges is
    0 unless ``served_by`` is one, whatever the platform states.  Errors: ``PlatformError`` naming
    every cost that scheme and program need and the platform does not state; ``ValueError`` for a
    ``longest`` or ``place`` out of range.
    """
    import numpy as np

    if longest < 33 or not 0 <= place <= 1:
        raise ValueError(f"longest must be 33 or more and place from 0 to 1: {longest}, {place}")
    check_priced(platform, scheme, served_by)
    steps = {name: _step(platform, name, place) for name in PROGRAM_COSTS}
    if served_by != ServedBy.KERNEL:
        steps |= dict.fromkeys(OF_KERNEL, 0)
    tables = {name: _table(platform, name, longest, place) for name in TABLES}
    return ProgramCosts(
        {name: ps or 0 for name, ps in steps.items()},
        {
            name: np.array([0] * (longest + 1) if row is None else row, np.int64)
            for name, row in tables.items()
        },
        unpriced_of_design(platform),
        served_by,
    )


def check_priced(platform: Platform, scheme: Scheme, served_by: str = ServedBy.NIC) -> None:
    """Check that ``platform`` states all costs that programs under ``scheme`` need.

    Errors: ``PlatformError`` naming what it does not.
    """
    needed = [*EVERYWHERE, *OF_SCHEME[scheme]]
    needed += OF_KERNEL if served_by == ServedBy.KERNEL else ()
    absent = [name for name in needed if not _is_priced(platform, name)]
    if absent:
        raise PlatformError(
            f"platform {platform.name!r} states no {', '.join(absent)}: programs over "
            f"{scheme.value} cannot be simulated on it; state them in a file of your own, or "
            "choose another platform"
        )


def unpriced_of_design(platform: Platform) -> tuple[str, ...]:
    """Names of ``OF_DESIGN`` that ``platform`` does not state."""
    return tuple(name for name in OF_DESIGN if not _is_priced(platform, name))


def _is_priced(platform: Platform, name: str) -> bool:
    """Whether ``platform`` states the cost, a substitute, or that it does not apply."""
    if name in platform.not_applicable:
        return True
    if any(one in platform.costs for one in (name, *FALLBACKS.get(name, ()))):
        return True
    return name in _CALLS and all(
        _is_priced(platform, part) for part in ("system_call", _CALLS[name])
    )


def _step(platform: Platform, name: str, place: Fraction) -> int | None:
    """Picoseconds of one event; None if neither the cost nor a substitute is stated."""
    if name in platform.not_applicable:
        return 0
    for one in (name, *FALLBACKS.get(name, ())):
        if one in platform.costs:
            cost = platform.costs[one]
            return int(cost.low_ps + place * (cost.high_ps - cost.low_ps))
    return None


def _table(platform: Platform, name: str, longest: int, place: Fraction) -> list[int] | None:
    """Picoseconds by size, from 0 to ``longest``; None as in ``_step``."""
    if name in platform.not_applicable:
        return [0] * (longest + 1)
    if name in platform.costs:
        return [0, *_by_size(platform.costs[name], longest)]
    if name not in _CALLS:
        return None
    call, page = (_step(platform, part, place) for part in ("system_call", _CALLS[name]))
    if call is None or page is None:
        return None
    return [0, *(call + size * page for size in range(1, longest + 1))]


@functools.lru_cache(maxsize=64)
def _by_size(cost: UnitCost, longest: int) -> tuple[int, ...]:
    """Picoseconds of sizes 1 to ``longest``; a line between printed sizes is rounded down."""
    return tuple(int(cost.each(Fraction(size))[0]) for size in range(1, longest + 1))


NI, HOST = "ni_mhz", "host_mhz"  # words of ``[machine]``
CHANGEABLE = (NI, HOST, "nic_memory_bytes")
BY_NI = (
    "ni_check", "ni_further_way", "ni_handle", "ni_table_read", "ni_hit_send", "ni_hit_receive",
    "ni_hit_pretranslate", "ni_miss", "send_queue", "receive_queue", "firmware_start",
    "firmware_finish", "firmware_accept", "firmware_log", "dma_init", "dma_interrupt",
    "pci_read_start", "pci_write_start", "link_start",
)  # fmt: skip
BY_HOST = (
    "user_check", "user_tree", "request_check_min", "request_check_max", "user_pin", "user_unpin",
    "trap", "system_call", "interrupt", "interrupt_entry", "kernel_pin", "kernel_pin_receive",
    "kernel_pin_shared", "kernel_unpin", "zero_map_in", "thread_delay", "wake_up", "notify",
    "miss_delay", "miss_processing", "send_call",
)  # fmt: skip
# Where the host's kernel serves ports it does what firmware would.
OF_WHO_SERVES = tuple(name for name in BY_NI if name.startswith(("ni_", "send_", "receive_")))
WITHIN = {"ni_miss": "ni_dma"}  # the part of a cost that is a bus's


def clocks_of(machine: Mapping[str, Parameter]) -> dict[str, int]:
    """The clock rates that a machine states, in MHz."""
    return {name: machine[name].value for name in (NI, HOST) if name in machine}


def _at_clocks(platform: Platform, wanted: Mapping[str, int]) -> dict[str, UnitCost]:
    """The costs of ``platform`` scaled from the clock rates that it states to ``wanted``.

    Errors: ``PlatformError`` if a clock is to be changed that it does not state.
    """
    stated, costs, name = clocks_of(platform.machine), platform.costs, platform.name
    serves = platform.served_by == ServedBy.NIC.value  # its NIC runs firmware
    for clock in wanted:
        if clock not in stated:
            raise PlatformError(
                f"platform {name!r} states no {clock} of its [machine]: what it costs at "
                f"{wanted[clock]} MHz cannot be told; state it there"
            )
    changed = {clock: Fraction(stated[clock], wanted[clock]) for clock in wanted}
    found = dict(costs)
    for key in (*BY_NI, *BY_HOST):
        clock = NI if key in BY_NI and (serves or key not in OF_WHO_SERVES) else HOST
        if key in costs and changed.get(clock, 1) != 1:
            words = f"{name} by {stated[clock]} over {wanted[clock]} MHz"
            found[key] = _scaled(costs[key], changed[clock], costs.get(WITHIN.get(key, "")), words)
    return found


def _scaled(cost: UnitCost, by: Fraction, within: UnitCost | None, words: str) -> UnitCost:
    """``cost`` scaled by ``by``, except the share that is ``within`` it."""

    def at(ps: int, size: int | None) -> int:
        fixed = Fraction(0)
        if within is not None:
            fixed = min(Fraction(ps), within.each(None if size is None else Fraction(size))[0])
        return half_up(fixed + (ps - fixed) * by)

    source = cost.origin.source.removeprefix("assumed: ")
    return msgspec.structs.replace(
        cost,
        low_ps=at(cost.low_ps, None) if not cost.points else 0,
        high_ps=at(cost.high_ps, None) if not cost.points else 0,
        points=tuple((size, at(ps, size)) for size, ps in cost.points),
        origin=Origin(Evidence.ASSUMED, f"assumed: {words} ({cost.origin.evidence}: {source})"),
    )


def read_changes(changes: str, where: str) -> dict[str, Parameter]:
    """The parameters that ``WORD=VALUE,...`` states.  Errors: ``PlatformError``."""
    found: dict[str, Parameter] = {}
    for change in changes.split(","):
        word, _, text = change.partition("=")
        if word not in CHANGEABLE:
            raise PlatformError(f"{where}: no {word!r} behind @{did_you_mean(word, CHANGEABLE)}")
        number = read_number(word, text)
        if not number:
            example = "512KiB" if MACHINE[word].unit == BYTES else "66MHz"
            raise PlatformError(f"{where}: {word} must be like {example}, got {text!r}")
        origin = Origin(Evidence.ASSUMED, f"assumed: {where}")
        found[word] = Parameter(word, number, MACHINE[word].unit, origin)
    return found


PS_PER_US = 10**6
TIME_UNITS = {"ps": 1, "ns": 10**3, "us": PS_PER_US, "ms": 10**9, "s": 10**12}
PER_BYTE_UNITS = {f"{unit}/B": ps for unit, ps in TIME_UNITS.items()}
FINEST_DIGIT = 12  # a picosecond is the twelfth decimal of a second
LONGEST_PS = 2**62  # what an int64 clock can still add up


def whole_ps(value: Decimal, ps_per_unit: int) -> int | None:
    """``value`` units in picoseconds, or None if that is not a whole number."""
    if value and value.adjusted() < -FINEST_DIGIT:
        return None
    ps = Fraction(value) * ps_per_unit
    return ps.numerator if ps.denominator == 1 else None


def in_us(ps: Fraction | int) -> Decimal:
    """``ps`` picoseconds in microseconds: exact as far as 28 digits go."""
    exact = Fraction(ps)
    return Decimal(exact.numerator) / Decimal(exact.denominator * PS_PER_US)


_SECTIONS = ("served_by", "combines", "takes", "costs", "machine", "not_applicable")
_CHOICE = ("value", "evidence", "source")


T = TypeVar("T", UnitCost, Parameter)


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """The costs of one machine by the names of ``COSTS``; others are unknown."""

    name: str
    title: str
    description: str
    sources: dict[str, str]
    costs: dict[str, UnitCost]
    not_applicable: dict[str, str]  # cost that this machine has no use for: why
    machine: dict[str, Parameter] = {}  # of a coherent host and its interface, by ``MACHINE``
    served_by: str = ServedBy.NIC.value  # who can serve ports: a NIC without firmware cannot
    served_by_origin: Origin | None = None  # None: the file does not say it
    combines: tuple[str, ...] = ()  # platforms of whose parts this one would be built


def platform_names() -> list[str]:
    """Names of the catalog's platforms, sorted."""
    return shelf_names("platforms")


@TrimmedTraceback()
def load_platform(name_or_path: str | Path | Platform) -> Platform:
    """Load a platform by catalog name or from a ``.toml`` file; returns a ``Platform`` as it is.

    With ``@WORD=VALUE,...`` behind it, other sizes and clocks of its machine: costs that go by a
    clock are scaled.  Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    if isinstance(name_or_path, Platform):
        return name_or_path
    before, at, changes = str(name_or_path).rpartition("@")
    if not at or "=" not in changes:
        return _load(name_or_path)
    platform = _load(Path(before) if isinstance(name_or_path, Path) else before)
    machine = platform.machine | read_changes(changes, str(name_or_path))
    costs = _at_clocks(platform, clocks_of(machine))
    return msgspec.structs.replace(platform, name=str(name_or_path), costs=costs, machine=machine)


def _load(name_or_path: str | Path) -> Platform:
    if isinstance(name_or_path, str) and not is_path(name_or_path) and name_or_path != STDIN:
        return _of_catalog(name_or_path, toml_files.CATALOG)
    return _read(name_or_path)


@functools.lru_cache(maxsize=64)
def _of_catalog(name: str, _catalog: Path) -> Platform:
    """A platform of the catalog, cached: it must not be modified.

    One that combines others is several files, and every cluster and many a refusal asks for it.
    """
    return _read(name)


def _read(name_or_path: str | Path) -> Platform:
    file = open_file("platforms", name_or_path, _SECTIONS)
    called, content, sources = file.called, file.content, file.sources
    absent = read_texts(content, "not_applicable", called, PlatformError)
    check_known_keys(absent, COSTS, f"{called}: not_applicable", PlatformError)
    parts = _read_parts(content, called)
    cells = content.get("costs", {})
    if not isinstance(cells, dict) or not (cells or parts):
        raise PlatformError(f"{called}: has no [costs]; state at least one")
    check_known_keys(cells, COSTS, f"{called}: costs", PlatformError)
    for key in absent:
        if key in cells:
            raise PlatformError(f"{called}: {key} has a cost and is not applicable; drop one")
    own = Platform(
        name=file.name,
        title=file.title,
        description=file.description,
        sources=sources,
        costs={
            key: _read_cost(key, cell, sources, f"{called}: costs.{key}")
            for key, cell in cells.items()
        },
        not_applicable=absent,
        machine=read_machine(content.get("machine", {}), sources, called),
        **_read_served_by(content, sources, called),
    )
    clocks = clocks_of(own.machine)
    parts = [
        msgspec.structs.replace(part, costs=_at_clocks(part, clocks_of(part.machine) | clocks))
        for part in parts
    ]
    return _completed(own, _parts_of_costs(content, parts, called), parts)


def _read_parts(content: Mapping[str, Any], called: str) -> list[Platform]:
    """Load the platforms that the file combines, if any."""
    names, known = content.get("combines", []), platform_names()
    if not isinstance(names, list) or not all(name in known for name in names):
        raise PlatformError(f"{called}: combines must be a list of platforms of the catalog")
    for name in names:
        if "combines" in open_shelf("platforms", name, PlatformError)[2]:
            raise PlatformError(f"{called}: combines {name!r}, which is combined itself")
    return [_load(name) for name in names]


def _parts_of_costs(
    content: Mapping[str, Any], parts: Sequence[Platform], called: str
) -> dict[str, Platform]:
    """The part that each cost listed under ``[takes]`` comes from."""
    lists, where = content.get("takes", {}), f"{called}: takes"
    if not isinstance(lists, dict) or not all(isinstance(one, list) for one in lists.values()):
        raise PlatformError(f"{where} must be a table of lists of costs, by platform")
    check_known_keys(lists, [part.name for part in parts], where, PlatformError)
    whose: dict[str, Platform] = {}
    for part in parts:
        for name in lists.get(part.name, []):
            if name not in part.costs and name not in part.not_applicable:
                raise PlatformError(f"{where}: {part.name!r} says nothing of {name!r}")
            if whose.setdefault(name, part) is not part:
                raise PlatformError(f"{where}: {name} is taken twice; keep one")
    return whose


def completed(own: Platform, part: Platform, names: Sequence[str]) -> Platform:
    """``own`` with the costs ``names`` that it does not state taken from ``part``."""
    said = {*own.costs, *own.not_applicable}
    wanted = [name for name in names if name not in said]
    only = msgspec.structs.replace(
        part,
        costs={name: part.costs[name] for name in wanted if name in part.costs},
        not_applicable={
            name: part.not_applicable[name] for name in wanted if name in part.not_applicable
        },
        machine={},
        served_by_origin=None,
    )
    return _completed(own, {}, [only])


def _completed(own: Platform, whose: Mapping[str, Platform], parts: Sequence[Platform]) -> Platform:
    """``own`` with unstated costs from the part that ``whose`` names, or the first of ``parts``.

    No such machine was ever built, so all of that is assumed here, with its source behind it.
    """
    costs, absent, machine = dict(own.costs), dict(own.not_applicable), dict(own.machine)
    served_by, origin = own.served_by, own.served_by_origin
    for part in parts:
        for name, why in part.not_applicable.items():
            if name not in costs and whose.get(name, part) is part:
                absent.setdefault(name, f"{part.name}: {why}")
        for name, cost in part.costs.items():
            if name not in absent and whose.get(name, part) is part:
                costs.setdefault(name, _assumed(cost, part))
        for name, parameter in part.machine.items():
            machine.setdefault(name, _assumed(parameter, part))
        if origin is None and part.served_by_origin is not None:
            served_by, origin = part.served_by, part.served_by_origin
    return msgspec.structs.replace(
        own,
        costs=costs,
        not_applicable=absent,
        machine=machine,
        served_by=served_by,
        served_by_origin=origin,
        combines=tuple(part.name for part in parts),
        sources={key: text for each in (*parts, own) for key, text in each.sources.items()},
    )


def _assumed(stated: T, part: Platform) -> T:
    """A number of ``part``, marked as assumed for another machine."""
    before = stated.origin
    source = before.source.removeprefix("assumed: ")
    origin = Origin(Evidence.ASSUMED, f"assumed: as {part.name} ({before.evidence}: {source})")
    return msgspec.structs.replace(stated, origin=origin)


def _read_served_by(
    content: Mapping[str, Any], sources: Mapping[str, str], called: str
) -> dict[str, Any]:
    if "served_by" not in content:
        return {}
    cell, where = content["served_by"], f"{called}: served_by"
    if not isinstance(cell, dict) or "value" not in cell:
        raise PlatformError(f"{where} must be a table of value, evidence and source")
    check_known_keys(cell, _CHOICE, where, PlatformError)
    names = [one.value for one in ServedBy]
    if cell["value"] not in names:
        raise PlatformError(
            f"{where}: no {cell['value']!r}{did_you_mean(str(cell['value']), names)}"
        )
    origin = read_origin(cell, sources, where, PlatformError)
    return {"served_by": cell["value"], "served_by_origin": origin}


def _read_cost(key: str, cell: Any, sources: Mapping[str, str], where: str) -> UnitCost:
    if isinstance(cell, str):
        return msgspec.structs.replace(read_cost(key, cell, where), origin=_WITHOUT_SOURCE)
    units = PER_BYTE_UNITS if COSTS[key].by_byte else TIME_UNITS
    unit, origin = _read_cell(cell, ("at", "value"), units, sources, where)
    if "value" not in cell:
        raise PlatformError(f"{where} has no value")
    value = cell["value"]
    times = [
        read_ps(one, unit, units[unit], where)
        for one in (value if isinstance(value, list) else [value])
    ]
    if "at" in cell and COSTS[key].size_of is None:
        raise PlatformError(f"{where} does not depend on a size; drop 'at'")
    is_scalar = not isinstance(value, list) and "at" not in cell
    if COSTS[key].size_of is not None and not is_scalar:
        points = _read_points(cell.get("at"), times, COSTS[key].size_of, where)
        if len(points) > 1:
            return UnitCost(name=key, unit=unit, origin=origin, points=points)
        value = times[0]  # of a table of one row
    if isinstance(value, list) and (len(times) != 2 or times[0] > times[1]):
        raise PlatformError(f"{where}: a range must be [low, high], got {_shown(value)}")
    return UnitCost(name=key, unit=unit, origin=origin, low_ps=times[0], high_ps=times[-1])


def read_ps(value: Any, unit: str, ps_per_unit: int, where: str) -> int:
    """``value`` units in whole picoseconds; errors: ``PlatformError`` beginning with ``where``."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PlatformError(f"{where}: value must be a number, got {value!r}")
    exact = Decimal(value)
    if not exact.is_finite() or not 0 <= exact <= LONGEST_PS // ps_per_unit:
        raise PlatformError(f"{where}: value must be from 0 to {LONGEST_PS} ps, got {value} {unit}")
    ps = whole_ps(exact, ps_per_unit)
    if ps is None:
        raise PlatformError(f"{where}: {value} {unit} is not a whole number of picoseconds")
    return ps


def _read_points(
    sizes: Any, times: list[int], size_of: str | None, where: str
) -> tuple[tuple[int, int], ...]:
    if not isinstance(sizes, list) or len(sizes) != len(times) or not sizes:
        raise PlatformError(
            f"{where} is a table: give numbers of {size_of} as 'at', and as many values; or one "
            "value for all"
        )
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        raise PlatformError(f"{where}: 'at' must hold whole numbers, got {_shown(sizes)}")
    if sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise PlatformError(f"{where}: 'at' must rise from 1 or more, got {_shown(sizes)}")
    return tuple(zip(sizes, times, strict=True))


def _shown(values: list[Any]) -> str:
    return f"[{', '.join(str(value) for value in values)}]"


PREFIX = "costs."
_TIME = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z/]+)")


def read_cost(key: str, text: str, where: str) -> UnitCost:
    """The cost ``key`` (a name of ``COSTS``) as ``text`` spells it, the same for every size.

    A time with its unit, such as ``0.3us`` or ``13.5ns/B``.  Errors: ``PlatformError`` beginning
    with ``where`` if there is no such cost, or the text is no time.
    """
    if key not in COSTS:
        raise PlatformError(f"{where}: no cost {key!r}{did_you_mean(key, COSTS)}")
    units = PER_BYTE_UNITS if COSTS[key].by_byte else TIME_UNITS
    split = _TIME.fullmatch(text)
    if split is None or split[2] not in units:
        example = "'13.5ns/B'" if COSTS[key].by_byte else "'0.3us'"
        raise PlatformError(
            f"{where}: {PREFIX}{key} must be a time in {', '.join(units)}, such as {example}, "
            f"got {text!r}"
        )
    ps = read_ps(Decimal(split[1]), split[2], units[split[2]], where)
    return UnitCost(
        name=key, unit=split[2], origin=Origin(Evidence.ASSUMED, where), low_ps=ps, high_ps=ps
    )


def with_cost(platform: Platform, cost: UnitCost) -> Platform:
    """``platform`` with ``cost`` added or replaced."""
    absent = {key: why for key, why in platform.not_applicable.items() if key != cost.name}
    return msgspec.structs.replace(
        platform, costs=platform.costs | {cost.name: cost}, not_applicable=absent
    )


def delivery_costs(platform: Platform) -> dict[str, int]:
    """Picoseconds (per byte, where the name says so) of every cost in ``DELIVERY_COSTS``.

    For a NIC whose firmware is priced action by action, as Trapeze's is.  Errors:
    ``PlatformError`` naming the costs that the platform does not state, or those of the firmware
    if it holds them to be part of others: such a NIC would deliver for nothing.
    """
    costs = transfer_costs(platform)
    inside = [name for name in FIRMWARE_COSTS if name in platform.not_applicable]
    if inside:
        raise PlatformError(
            f"platform {platform.name!r} prices {', '.join(inside)} as part of other steps: "
            "delivery cannot be simulated on it alone; `nicscope platforms` lists those on which "
            "it can"
        )
    unused = [name for name in BURSTS if name in platform.not_applicable]
    if unused:
        raise PlatformError(
            f"platform {platform.name!r} has no control messages that a processor writes and "
            f"reads ({unused[0]}: {platform.not_applicable[unused[0]]}); `nicscope platforms` "
            "lists those that have"
        )
    return costs


def _absent(platform: Platform) -> list[str]:
    """The costs of delivery that ``platform`` would have to state for one, and does not."""
    stated = {*platform.costs, *platform.not_applicable, *MAY_BE_PART}
    return [name for name in DELIVERY_COSTS if name not in stated]


def transfer_costs(platform: Platform) -> dict[str, int]:
    """Delivery costs of a NIC whose per-message work may be priced by ``program_costs``.

    With them ``CELL_WORDS``, in bytes.  What does not apply is 0.  Errors: ``PlatformError`` naming
    the costs that the platform does not state, or what makes no cells.
    """
    absent = _absent(platform)
    if absent:
        able = [name for name in platform_names() if not _absent(load_platform(name))]
        more = f" and {len(absent) - 4} more" if len(absent) > 4 else ""
        raise PlatformError(
            f"platform {platform.name!r} states no {', '.join(absent[:4])}{more}, so delivery "
            f"cannot be simulated on it; it can on {', '.join(able)}"
        )
    cells = {
        word: platform.machine[word].value if word in platform.machine else 0 for word in CELL_WORDS
    }
    if any(cells.values()) and (not all(cells.values()) or cells["trailer_bytes"] < LEAST_TRAILER):
        raise PlatformError(
            f"platform {platform.name!r}: a link of cells states both {' and '.join(CELL_WORDS)}, "
            f"and a trailer has {LEAST_TRAILER} bytes or more, for a length and a CRC; got "
            f"{' and '.join(str(value) for value in cells.values())}"
        )
    stated = platform.costs
    costs = {name: stated[name].high_ps if name in stated else 0 for name in DELIVERY_COSTS}
    return costs | cells


def shadow_costs(platform: Platform) -> dict[str, int]:
    """``delivery_costs`` when control messages pass through a shadow buffer in host memory.

    Each costs a pass through the memory, at either end, and crosses the bus in bursts where the
    platform has them.  Source: Trapeze, 2.3.
    """
    costs = delivery_costs(platform)
    memory_pass = CONTROL_BYTES * costs["block_copy_per_byte"]
    for name, burst in BURSTS.items():
        if burst in platform.costs:
            costs[name] = platform.costs[burst].high_ps
    costs["send_call"] += memory_pass
    costs["pio_read"] += memory_pass
    return costs


def missing_machine_words(platform: Platform, beside: Sequence[str] = ()) -> list[str]:
    """Times and parameters of a coherent host and its interface missing in ``platform``.

    ``beside``: names of ``MACHINE`` that are asked for as well, such as ``OF_VIA``.
    """
    times = [name for name in MACHINE_TIMES if name not in platform.costs]
    words = [name for name in MACHINE if name not in (*OF_VIA, *OF_ANY)] + [*beside]
    return times + [name for name in words if name not in platform.machine]


WORD = "nic_memory_bytes"  # of ``[machine]``


def excess_of(parts: Mapping[str, int], platform: Platform) -> str | None:
    """What exceeds NIC memory, in words, and by how much; None if all fits or no size is stated.

    ``parts``: bytes of each structure, queue and buffer on the NIC.
    """
    stated = platform.machine.get(WORD)
    total = sum(parts.values())
    if stated is None or total <= stated.value:
        return None
    largest = sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    listed = ", ".join(f"{name} {size:,}" for name, size in largest if size)
    return (
        f"the NIC would have to hold {total:,} bytes ({listed}), and that of platform "
        f"{platform.name!r} has {stated.value:,} ({stated.origin.source}): "
        f"{total - stated.value:,} too many"
    )
