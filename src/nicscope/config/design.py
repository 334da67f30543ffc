"""A design: a translation scheme with settings, and delivery, transport, way and interface."""

from __future__ import annotations

import operator
import re
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.costs import Evidence, Origin, check_known_keys, read_origin
from nicscope.config.quantities import read_bytes
from nicscope.config.toml_files import beside, open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import DesignError, NicscopeError, did_you_mean
from nicscope.memory.replacement import Replacement
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


# The word, and the interface's name as its papers and every report have it.
INTERFACE_NAMES = {
    "unet": "U-Net",
    "vmmc": "VMMC",
    "mini": "miNI",
    "via": "VIA",
    "trapeze": "Trapeze",
}


def read_interface(given: object, where: str, error: type[NicscopeError]) -> str:
    """Parse an interface, by its word or its name.

    Errors: ``error``, beginning with ``where``, with the nearest word.
    """
    if isinstance(given, str):
        for word, name in INTERFACE_NAMES.items():
            if given.lower() in (word, name.lower()):
                return word
    raise error(f"{where}: no interface {given!r}{did_you_mean(str(given), INTERFACE_NAMES)}")


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how lost packets are retransmitted."""

    reliable: bool = True
    window: int = 32  # packets on the way between two nodes
    time_out_ps: int = 1_000_000_000
    most_retries: int = 12
    ack_delay_ps: int = 20_000_000
    # Of so many packets in a row one asks for an acknowledgement; so does the last of a message.
    ack_every: int = 1
    # Numbered, acknowledged and retransmitted by: two nodes together, or each connection by itself.
    by_connection: bool = False
    # When retries have been to no avail, routes that are alive are looked for by probes (UTLB 4.1).
    remaps: bool = True
    # Assumed: how long the answer to a probe is waited for; none is printed.
    probe_time_out_ps: int = 100_000_000


# A design's word: what of a transport it says.
TRANSPORTS: dict[str, dict[str, bool]] = {
    "reliable": {"reliable": True},
    "unreliable": {"reliable": False},
    "reliable-connections": {"reliable": True, "by_connection": True},
}


def chosen_transport(word: str | None, own: Transport) -> Transport:
    """The design's transport word for an interface's ``own``; None leaves it open."""
    return own if word is None else msgspec.structs.replace(own, **TRANSPORTS[word])


CONTROL_BYTES = 128  # Trapeze, 2.1: a control message, always sent whole
# Where DMA of a payload can begin: at a word of the 32-bit bus (Trapeze, 1).  The eight transfers
# whose bytes section 3.4 prints are all whole words of 4, and four of them no whole words of 8.
PAYLOAD_ALIGNMENT = 4  # bytes

# A platform on which delivery can be simulated states all of these but those of ``MAY_BE_PART``;
# what does not apply is 0.
DELIVERY_COSTS = (
    "send_call",
    "pio_write",
    "pio_read",
    "pci_read_start",
    "pci_read_per_byte",
    "pci_read_contended_per_byte",
    "pci_write_start",
    "pci_write_per_byte",
    "pci_write_contended_per_byte",
    "link_start",
    "link_per_byte",
    "link_watchdog",
    "switch_hop",
    "nic_memory_per_byte",
    "firmware_start",
    "firmware_finish",
    "firmware_accept",
    "firmware_log",
    "block_copy_per_byte",
    "block_copy_contended_per_byte",
)
# Words of ``[machine]`` of a link of cells; on others, which state neither, a packet goes whole.
CELL_WORDS = ("cell_bytes", "trailer_bytes")
# Where it is not stated, it is part of ``firmware_start``.
MAY_BE_PART = ("firmware_accept",)
# What the firmware does for each transfer; a platform may price it as a whole (send_queue) instead.
FIRMWARE_COSTS = ("firmware_start", "firmware_finish")
# A control message in bursts; stated where the bridge can.
BURSTS = {"pio_write": "pio_write_burst", "pio_read": "pio_read_burst"}


class Policy(IntEnum):
    """When bytes in NIC memory are forwarded to the sink."""

    STORE_AND_FORWARD = 0
    CUT_THROUGH = 1


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A NIC's delivery settings: Trapeze's parts, each of which can be set."""

    policy: Policy = Policy.CUT_THROUGH
    eager: bool = True
    minpulse_send: int = 128  # bytes
    minpulse_receive: int = 128
    send_buffers: int = 4
    receive_buffers: int = 4
    send_ring: int = 64  # entries
    receive_ring: int = 64
    max_payload: int = 8192  # bytes
    logging: bool = False
    control_bytes: int = CONTROL_BYTES  # of a packet, before its payload
    by_message: bool = False  # a message's first packet waits until its last is on the NIC

    @TrimmedTraceback()
    def __post_init__(self) -> None:
        """Check the settings; errors: ``DesignError``."""
        for name in ("send_buffers", "receive_buffers", "send_ring", "receive_ring", "max_payload"):
            if getattr(self, name) < 1:
                raise DesignError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("minpulse_send", "minpulse_receive"):
            value = getattr(self, name)
            if not 1 <= value <= self.max_payload:
                raise DesignError(
                    f"{name} must be from 1 to the largest payload, {self.max_payload}, got {value}"
                )


MESSAGE_STORE_AND_FORWARD = "message-store-and-forward"
# The published policies, as parts.  Pure cut-through is eager with one buffer on each side
# (Trapeze, 3.3); store-and-forward is double buffered (3.3); adaptive has several buffers (3.4).
# SONIC-VIA has a message on the NIC before it goes out (EDT, 3); its buffers are messages' rooms.
POLICIES: dict[str, Delivery] = {
    "store-and-forward": Delivery(
        policy=Policy.STORE_AND_FORWARD, send_buffers=2, receive_buffers=2
    ),
    "cut-through": Delivery(send_buffers=1, receive_buffers=1),
    "cut-through-minpulse": Delivery(eager=False, send_buffers=1, receive_buffers=1),
    "adaptive": Delivery(),
    MESSAGE_STORE_AND_FORWARD: Delivery(
        policy=Policy.STORE_AND_FORWARD, send_buffers=8, receive_buffers=8, by_message=True
    ),
}


def policy_name(delivery: Delivery) -> str:
    """The name in ``POLICIES``; for custom settings, what kind it is."""
    for name, each in POLICIES.items():
        if each == delivery:
            return name
    return f"own {delivery.policy.name.lower().replace('_', '-')}"


class ServedBy(StrEnum):
    """Who serves a process's queues: takes descriptors and delivers what arrives."""

    NIC = "nic"
    KERNEL = "kernel"  # of the host, in a trap of the process and in an interrupt handler


class Way(StrEnum):
    """How descriptors and bytes cross between a host and its NIC."""

    PCI = "pci"  # the NIC's DMA over an I/O bus, as a flow with a rate
    PIO = "pio"  # the processor moves words, uncached
    PIO_COMBINED = "pio-combined"  # the same through write-combining buffers
    DMA = "dma"  # software flushes the caches, the engine sees memory alone
    CC_DMA_RETRY = "cc-dma-retry"  # the engine retries until dirty blocks are written back
    CC_DMA_INTERVENTION = "cc-dma-intervention"  # the cache supplies dirty blocks
    CNI = "cni"  # cacheable queues
    EDT = "edt"  # the NIC reads registered blocks as they are written


class Part(msgspec.Struct, frozen=True):
    """A part of a design: its choices by name, and the default."""

    meaning: str
    choices: tuple[str, ...]
    default: str | None = None
    unsaid: str = "nicscope's default"  # who decides then, or why so


PARTS: dict[str, Part] = {
    "served_by": Part(
        "who serves a process's queues",
        tuple(one.value for one in ServedBy),
        None,
        "the platform: its NIC, unless it runs no firmware",
    ),
    "delivery": Part("when bytes in NIC memory go on", tuple(POLICIES), "adaptive"),
    "transport": Part(
        "whether what is lost comes again", tuple(TRANSPORTS), None, "the interface's own"
    ),
    "way": Part(
        "how bytes cross between host and NIC", tuple(one.value for one in Way), Way.PCI.value
    ),
}


def read_part(key: str, given: Any, where: str) -> str:
    """The choice of part ``key`` that ``given`` names.

    Errors: ``DesignError`` beginning with ``where``, with the nearest name.
    """
    choices = PARTS[key].choices
    if not isinstance(given, str) or given not in choices:
        raise DesignError(f"{where}: no {key} {given!r}{did_you_mean(str(given), choices)}")
    return given


_SWITCH = {"true": True, "false": False}
NONE = "none"


def known_setting(scheme: Scheme, key: str, where: str) -> Setting:
    """The entry of ``SETTINGS`` for ``key``, checked to be used by ``scheme``.

    Errors: ``DesignError`` if there is none of that name, or the scheme does not use it.
    """
    if key not in SETTINGS:
        raise DesignError(
            f"{where}: unknown key {key!r}{did_you_mean(key, ['scheme', *SETTINGS, *PARTS])}"
        )
    if key not in SCHEMES[scheme].uses:
        raise DesignError(
            f"{where}: scheme {scheme.value!r} does not use {key!r}; "
            f"it uses {', '.join(SCHEMES[scheme].uses)}"
        )
    return SETTINGS[key]


def read_scheme(given: object, where: str) -> Scheme:
    """Parse a scheme; errors: ``DesignError`` with the nearest name."""
    names = [scheme.value for scheme in Scheme]
    if given not in names:
        raise DesignError(f"{where}: no scheme {given!r}{did_you_mean(str(given), names)}")
    return Scheme(given)


def read_setting(scheme: Scheme, key: str, given: Any, where: str) -> Value:
    """``given`` (a TOML value, or text) as the value of ``key``; None where "none" removes it.

    Errors: ``DesignError``, beginning with ``where``, if it is no such value or out of range.
    """
    setting = known_setting(scheme, key, where)
    if given == NONE:
        if setting.optional:
            return None
        raise DesignError(f"{where}: {key} is needed by scheme {scheme.value!r}; give it a value")
    if setting.kind is Kind.SWITCH:
        return _switch(key, given, where)
    if setting.kind is Kind.POLICY:
        return _policy(key, given, where)
    number = _count(key, given, where, in_bytes=setting.kind is Kind.BYTES)
    if not setting.low <= number <= setting.high:
        raise DesignError(
            f"{where}: {key} must be from {setting.low} to {setting.high}, got {number}"
        )
    is_table = key == "entries" and SCHEMES[scheme].holds is Holds.TABLE
    if setting.power_of_two and not is_table and number & (number - 1):
        raise DesignError(f"{where}: {key} must be a power of two, got {number}")
    return number


def _switch(key: str, given: Any, where: str) -> bool:
    if isinstance(given, str):
        given = _SWITCH.get(given.lower(), given)
    if not isinstance(given, bool):
        raise DesignError(f"{where}: {key} must be true or false, got {given!r}")
    return given


def _policy(key: str, given: Any, where: str) -> Replacement:
    names = [policy.name.lower() for policy in Replacement]
    if not isinstance(given, str) or given.lower() not in names:
        raise DesignError(f"{where}: no {key} {given!r}{did_you_mean(str(given), names)}")
    return Replacement[given.upper()]


def _count(key: str, given: Any, where: str, *, in_bytes: bool) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    if isinstance(given, str):
        text = given.strip().replace("_", "")
        if re.fullmatch(r"-?[0-9]{1,20}", text):
            return int(text)
        if in_bytes and (size := read_bytes(text)) is not None:
            return size
    what = "a whole number of bytes, such as 65536 or '64KiB'" if in_bytes else "a whole number"
    shown = given if isinstance(given, Decimal) else repr(given)
    raise DesignError(f"{where}: {key} must be {what}, got {shown}")


class Scheme(StrEnum):
    """How a network interface obtains its translations."""

    PINNED = "pinned"
    STATIC = "static"
    INTERRUPT = "interrupt"
    UNET_MM = "unet-mm"
    UTLB = "utlb"
    UTLB_SHARED = "utlb-shared"
    UTLB_PROCESS = "utlb-process"
    HANDLE = "handle"
    RNIC = "rnic"


class Kind(Enum):
    """The type of a setting's value."""

    COUNT = auto()
    BYTES = auto()  # a count of bytes; text may carry a unit, as in "64KiB"
    SWITCH = auto()
    POLICY = auto()


Value = int | bool | Replacement | None


class Setting(msgspec.Struct, frozen=True):
    """A setting of design files and ``--set``: its type, range (inclusive) and default.

    ``optional`` settings may be absent; the others without a default must be given.
    """

    meaning: str
    kind: Kind
    low: int = 0
    high: int = 2**26
    power_of_two: bool = False
    default: Value = None
    optional: bool = False


_power = partial(Setting, kind=Kind.COUNT, low=1, power_of_two=True)
_optional = partial(Setting, kind=Kind.BYTES, optional=True)

SETTINGS: dict[str, Setting] = {
    "area_bytes": Setting("pinned buffer area per process", Kind.BYTES, low=1, high=2**48),
    "entries": _power("translations in all"),
    "ways": _power("associativity", default=1),
    "line": _power("translations per line", default=1),
    "victim_entries": Setting("entries of the victim cache", Kind.COUNT, default=0),
    "most_valid": Setting(
        "valid entries at most, so pinned pages of a node", Kind.COUNT, low=1, optional=True
    ),
    "index_offset": Setting("processes spread over the sets", Kind.SWITCH, default=True),
    "prefetch": Setting("entries fetched per miss", Kind.COUNT, low=1, high=1024, default=1),
    "prepin": Setting("pages pinned per check miss", Kind.COUNT, low=1, default=1),
    "pin_limit": Setting("pinned pages per process", Kind.COUNT, low=1, high=2**40, optional=True),
    "replacement": Setting("victim among the pinned pages", Kind.POLICY, default=Replacement.LRU),
    "high_water": Setting(
        "pinned pages per node that start unpinning", Kind.COUNT, high=2**40, optional=True
    ),
    "mpt_entries": _power("regions that the NIC has at hand"),
    "mpt_ways": _power("associativity of the regions", default=1),
    "l1_entries": _power("translations of a second level on the NIC", optional=True),
    "l1_ways": _power("associativity of the second level", default=1),
    "l1_shared": Setting("regions have lines of the second level too", Kind.SWITCH, default=False),
    "mpt_l1_entries": _power("regions of a second level of their own", optional=True),
    "mpt_l1_ways": _power("associativity of that level", default=1),
    "mtu": _optional(
        "bytes of a packet, each of which has its region looked up", low=1, high=2**32
    ),
    "indirect": _optional(
        "bytes of each region that an indirect region is made of",
        low=512,
        high=2**48,
        power_of_two=True,
    ),
    "registered": _optional(
        "bytes that each process registers, from its lowest address on", low=1, high=2**60
    ),
    "seed": Setting("seed of random replacement", Kind.COUNT, high=2**62, default=0),
    "page_size": _optional(
        "bytes per page; absent: the trace's", low=512, high=2**30, power_of_two=True
    ),
}

_HOST = ("prepin", "pin_limit", "replacement", "seed")
_UTLB = ("entries", "ways", "index_offset", "prefetch", *_HOST)


class Holds(Enum):
    """What a NIC has of its translations."""

    AREA = auto()  # addresses of pinned areas, which are not looked up
    TABLE = auto()  # all: a plain table that nothing is hashed into, of any length
    CACHE = auto()  # some of them


class Pins(Enum):
    """When a page is pinned."""

    NEVER = auto()  # but for the area, when a process begins
    FIRST = auto()  # by the program's library or by registering, before a descriptor is posted
    AT_MISS = auto()  # by the host, when the NIC asks for it


class MissServer(Enum):
    """Who gives the NIC a translation that it lacks."""

    NO_ONE = auto()  # there is none that could be given: the page is not registered
    NIC = auto()  # it fetches the entry from a table in the host's memory
    KERNEL = auto()  # in an interrupt handler
    THREAD = auto()  # of the kernel, which the interrupt handler wakes


class SchemeRule(msgspec.Struct, frozen=True):
    """What sets a scheme apart, beside its kernels (``nic.translate``) and its costs."""

    holds: Holds
    pins: Pins
    misses: MissServer
    uses: tuple[str, ...]  # names of ``SETTINGS``


SCHEMES: dict[Scheme, SchemeRule] = {
    Scheme.PINNED: SchemeRule(
        Holds.AREA, Pins.NEVER, MissServer.NO_ONE, ("area_bytes", "page_size")
    ),
    Scheme.STATIC: SchemeRule(Holds.TABLE, Pins.FIRST, MissServer.NO_ONE, ("entries", "page_size")),
    Scheme.INTERRUPT: SchemeRule(
        Holds.CACHE,
        Pins.AT_MISS,
        MissServer.KERNEL,
        ("entries", "ways", "index_offset", "pin_limit", "page_size"),
    ),
    Scheme.UNET_MM: SchemeRule(
        Holds.CACHE,
        Pins.AT_MISS,
        MissServer.KERNEL,
        ("entries", "victim_entries", "most_valid", "page_size"),
    ),
    Scheme.UTLB: SchemeRule(Holds.CACHE, Pins.FIRST, MissServer.NIC, (*_UTLB, "page_size")),
    Scheme.UTLB_SHARED: SchemeRule(Holds.CACHE, Pins.FIRST, MissServer.NIC, (*_UTLB, "page_size")),
    Scheme.UTLB_PROCESS: SchemeRule(
        Holds.TABLE,
        Pins.FIRST,
        MissServer.NO_ONE,
        ("entries", "prepin", "replacement", "seed", "page_size"),
    ),
    Scheme.HANDLE: SchemeRule(
        Holds.CACHE,
        Pins.AT_MISS,
        MissServer.THREAD,
        ("entries", "ways", "line", "high_water", "page_size"),
    ),
    Scheme.RNIC: SchemeRule(
        Holds.CACHE,
        Pins.FIRST,
        MissServer.NIC,
        (
            *("entries", "ways", "line", "mpt_entries", "mpt_ways"),
            *("l1_entries", "l1_ways", "l1_shared", "mpt_l1_entries", "mpt_l1_ways"),
            *("mtu", "indirect", "registered", "page_size"),
        ),
    ),
}


__all__ = [
    "Design",
    "Replacement",
    "Scheme",
    "chosen_design",
    "design_names",
    "load_design",
    "with_settings",
    "with_values",
]

_BOOKKEEPING = ("scheme", "title", "description", "platform", "interface", "sources")
_CELL = ("value", "unit", "evidence", "source")
# Of ``rnic``, besides ``entries``: their sizes, ways, and whether they have lines.
_FURTHER_CACHES = (
    ("mpt_entries", "mpt_ways", False),
    ("l1_entries", "l1_ways", True),
    ("mpt_l1_entries", "mpt_l1_ways", False),
)
_DEFAULT = Origin(Evidence.ASSUMED, "nicscope's default")


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface as parts; a field that its scheme does not use is None.

    ``page_size`` is None where the trace's is to hold (``at_page_size`` settles it).
    ``origins`` holds the evidence of every setting in use.
    """

    name: str
    title: str
    scheme: Scheme
    description: str = ""
    platform: str | None = None  # the platform that its paper measured on
    interface: str | None = None  # what programs on it call; None: as its scheme has it
    sources: dict[str, str] = {}  # citation keys of the origins
    origins: dict[str, Origin] = {}
    area_bytes: int | None = None
    entries: int | None = None
    ways: int | None = None
    line: int | None = None
    victim_entries: int | None = None
    most_valid: int | None = None  # entries; None: as many as there are
    index_offset: bool | None = None
    prefetch: int | None = None
    prepin: int | None = None
    pin_limit: int | None = None  # pages per process; None: no limit
    replacement: Replacement | None = None
    high_water: int | None = None  # pages per node; None: never unpin
    mpt_entries: int | None = None
    mpt_ways: int | None = None
    l1_entries: int | None = None  # None: there is one level
    l1_ways: int | None = None
    l1_shared: bool | None = None
    mpt_l1_entries: int | None = None  # None: regions have no second level of their own
    mpt_l1_ways: int | None = None
    mtu: int | None = None  # bytes; None: a region is looked up once per request
    indirect: int | None = None  # bytes; None: regions are of pages
    registered: int | None = None  # bytes per process; None: what it touches
    seed: int | None = None
    page_size: int | None = None  # bytes
    served_by: str | None = None  # None: as the platform's NIC allows
    delivery: str = PARTS["delivery"].default or ""
    transport: str | None = None  # None: the interface's own
    way: str = PARTS["way"].default or ""

    def settings(self) -> dict[str, Value]:
        """Every setting that the scheme uses, by name."""
        return {key: getattr(self, key) for key in SCHEMES[self.scheme].uses}

    def parts(self) -> dict[str, str | None]:
        """Every part beside the translation, by the names of ``PARTS``; None: others decide."""
        return {key: getattr(self, key) for key in PARTS}

    def part_origins(self) -> dict[str, Origin]:
        """The evidence of each part; for one left open, who decides it."""
        return {
            key: self.origins.get(key, Origin(Evidence.ASSUMED, part.unsaid))
            for key, part in PARTS.items()
        }

    def at_page_size(self, page_size: int) -> Design:
        """The design with ``page_size`` bytes per page, unless it states its own.

        Errors: ``DesignError`` if an indirect region's parts do not have whole lines of such pages.
        """
        settled = self
        if self.page_size is None:
            settled = msgspec.structs.replace(self, page_size=page_size)
        check_indirect(settled)
        return settled

    def to_json(self) -> dict[str, Any]:
        """Name, scheme and the settings it uses, flat; an absent limit is None."""
        plain = {
            key: value.name.lower() if isinstance(value, Replacement) else value
            for key, value in self.settings().items()
        }
        return {"name": self.name, "scheme": self.scheme.value, **plain}


def design_names() -> list[str]:
    """Names of the catalog's designs, sorted."""
    return shelf_names("designs")


@TrimmedTraceback()
def load_design(name_or_path: str | Path | Design) -> Design:
    """Load a design by catalog name or from a ``.toml`` file; a ``Design`` is returned as it is.

    Errors: ``DesignError`` naming the file and the key that is wrong.
    """
    if isinstance(name_or_path, Design):
        return name_or_path
    name, called, content = open_shelf("designs", name_or_path, DesignError)
    if "scheme" not in content:
        raise DesignError(f"{called}: has no scheme{did_you_mean('', list(Scheme))}")
    scheme = read_scheme(content["scheme"], called)
    sources = read_texts(content, "sources", called, DesignError)
    values: dict[str, Value | str] = {}
    origins: dict[str, Origin] = {}
    for key, given in content.items():
        if key in _BOOKKEEPING:
            continue
        if key not in PARTS:
            known_setting(scheme, key, called)
        value, origin = _cell(given, sources, called, key)
        values[key] = _read(scheme, key, value, called)
        origins[key] = origin
    bookkeeping = {
        "title": read_text(content, "title", name, called, DesignError),
        "description": read_text(content, "description", "", called, DesignError),
        "platform": beside(name_or_path, read_text(content, "platform", "", called, DesignError))
        or None,
        "interface": _interface(content, called),
    }
    return _assemble(
        {"name": name, "scheme": scheme, "sources": sources, **bookkeeping}, values, origins, called
    )


def _interface(content: Mapping[str, Any], called: str) -> str | None:
    given = read_text(content, "interface", "", called, DesignError)
    return read_interface(given, called, DesignError) if given else None


def with_settings(design: Design, assignments: Sequence[str]) -> Design:
    """``design`` with every ``key=value`` of ``assignments`` set, checked as a file's would be.

    ``scheme=NAME`` changes the scheme, wherever it stands: settings that both schemes use stay,
    the rest take their defaults.  ``none`` removes a limit.  Errors: ``DesignError``.
    """
    return _changed(design, [_split(assignment) for assignment in assignments], "--set ")


def with_values(design: Design, values: Mapping[str, object]) -> Design:
    """``design`` with ``values`` by setting name, as Python objects.

    As ``with_settings``; None removes a limit.  Errors: ``DesignError`` naming what was given.
    """
    pairs = [(key, _plain(value)) for key, value in values.items()]
    return _changed(design, pairs, "") if pairs else design


def chosen_design(given: str | Path | Design, values: Mapping[str, object]) -> Design:
    """The design given or named, with ``values``.  Errors: ``DesignError``."""
    design = given if isinstance(given, Design) else load_design(given)
    return with_values(design, values)


def _plain(value: object) -> object:
    """A Python value as a design file states it."""
    if value is None:
        return NONE
    if isinstance(value, Replacement):
        return value.name.lower()
    if isinstance(value, bool | str):
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type]  # also NumPy's whole numbers
    except TypeError:
        return value


def _changed(design: Design, pairs: Sequence[tuple[str, object]], said: str) -> Design:
    """``design`` with ``pairs`` applied; ``said``: the option or file, for errors and origins."""
    scheme = design.scheme
    for key, given in pairs:
        if key == "scheme":
            scheme = read_scheme(given, f"{said}scheme={given}")
    kept = [key for key in (*SCHEMES[scheme].uses, *PARTS) if key in design.origins]
    values = {key: getattr(design, key) for key in kept}
    origins = {key: design.origins[key] for key in kept}
    for key, given in pairs:
        if key == "scheme":
            continue
        values[key] = _read(scheme, key, given, f"{said}{key}={given}")
        origins[key] = Origin(Evidence.ASSUMED, f"{said}{key}={given}")
    bookkeeping = {key: getattr(design, key) for key in ("name", *_BOOKKEEPING)}
    bookkeeping["scheme"] = scheme
    return _assemble(bookkeeping, values, origins, f"design {design.name!r} as set")


def _read(scheme: Scheme, key: str, given: Any, where: str) -> Value | str:
    return read_part(key, given, where) if key in PARTS else read_setting(scheme, key, given, where)


def _assemble(
    bookkeeping: Mapping[str, Any],
    values: Mapping[str, Value | str],
    origins: Mapping[str, Origin],
    called: str,
) -> Design:
    """A design with defaults filled in and its sizes checked for consistency."""
    scheme: Scheme = bookkeeping["scheme"]
    filled: dict[str, Any] = {**bookkeeping, **values}
    traced = dict(origins)
    for key in SCHEMES[scheme].uses:
        if key in filled:
            continue
        setting = SETTINGS[key]
        if setting.default is None and not setting.optional:
            raise DesignError(f"{called}: scheme {scheme.value!r} needs {key}; give it a value")
        if setting.default is not None:
            filled[key] = setting.default
            traced[key] = _DEFAULT
    design = Design(**filled, origins=traced)
    _check_geometry(design, called)
    return design


def _check_geometry(design: Design, called: str) -> None:
    if design.entries is None:
        return
    ways, line = design.ways or 1, design.line or 1
    if ways * line > design.entries:
        what = f"ways ({ways})" if design.line is None else f"line ({line}) times ways ({ways})"
        raise DesignError(f"{called}: {what} must not exceed entries ({design.entries})")

    for entries_of, ways_of, each in _FURTHER_CACHES:
        entries, ways = getattr(design, entries_of), getattr(design, ways_of) or 1
        if entries is not None and ways * (line if each else 1) > entries:
            raise DesignError(
                f"{called}: {ways_of} ({ways}){f' times line ({line})' if each else ''} must not "
                f"exceed {entries_of} ({entries})"
            )
    if design.l1_shared and design.l1_entries is None:
        raise DesignError(f"{called}: l1_shared needs l1_entries, the level that is shared")
    if design.l1_shared and design.mpt_l1_entries is not None:
        raise DesignError(
            f"{called}: regions have lines of the shared level or mpt_l1_entries of their own; "
            "leave one out"
        )
    if design.page_size is not None:
        check_indirect(design)


def check_indirect(design: Design) -> None:
    """Check that the parts of an indirect region have whole lines of pages.

    Errors: ``DesignError``.
    """
    least = (design.line or 1) * (design.page_size or 1)
    if design.indirect is not None and design.indirect < least:
        raise DesignError(
            f"design {design.name!r}: indirect ({design.indirect}) must be at least a line of "
            f"pages ({least} bytes); take larger parts, smaller pages or a shorter line"
        )


def _cell(given: Any, sources: Mapping[str, str], called: str, key: str) -> tuple[Any, Origin]:
    if not isinstance(given, dict):
        return given, Origin(Evidence.ASSUMED, f"{called}, without a source")
    check_known_keys(given, _CELL, f"{called}: {key}", DesignError)
    if "value" not in given:
        raise DesignError(f"{called}: {key} has no value")
    return given["value"], read_origin(given, sources, f"{called}: {key}", DesignError)


def _split(assignment: str) -> tuple[str, str]:
    key, sign, text = assignment.partition("=")
    if not sign or not key.strip() or not text.strip():
        raise DesignError(f"--set {assignment}: write it as KEY=VALUE, for instance entries=1024")
    return key.strip(), text.strip()
