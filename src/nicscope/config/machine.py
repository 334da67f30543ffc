"""The ``[machine]`` table: a coherent host and its interface; checks of NIC memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.costs import Evidence, Origin, check_known_keys, read_origin, read_unit
from nicscope.config.quantities import read_bytes
from nicscope.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Mapping


BYTES = "bytes"
SIZES = {BYTES: 1, "KiB": 1 << 10, "MiB": 1 << 20}
SWITCH = "0 or 1"
_CELL = ("value", "unit", "evidence", "source")
_MOST = 2**62
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
OF_ANY = ("processors", *CLOCKS)  # what any host may state: one that has no bus here too
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
        key: _read(key, cell, sources, f"{called}: machine.{key}") for key, cell in cells.items()
    }


def _read(key: str, cell: Any, sources: Mapping[str, str], where: str) -> Parameter:
    if isinstance(cell, int | str) and not isinstance(cell, bool):  # bare, as in a design
        number = read_number(key, str(cell))
        if number is None:
            raise PlatformError(f"{where}: must be a number of {MACHINE[key].unit}, got {cell!r}")
        origin = Origin(Evidence.ASSUMED, "without a source")
        cell = {"value": number, "unit": MACHINE[key].unit, **origin.to_json()}
    if not isinstance(cell, dict):
        raise PlatformError(f"{where} must be a table of value, unit, evidence and source")
    check_known_keys(cell, _CELL, where, PlatformError)
    origin = read_origin(cell, sources, where, PlatformError)
    own = MACHINE[key].unit
    units = SIZES if own == BYTES else {own: 1}
    unit = read_unit(cell, units, where)
    value = cell.get("value")
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlatformError(f"{where}: value must be a whole number, got {value!r}")
    if not 0 <= value <= _MOST // units[unit]:
        raise PlatformError(f"{where}: value must be from 0 to {_MOST // units[unit]}, got {value}")
    if key in CLOCKS and value == 0:
        raise PlatformError(f"{where}: a clock must be 1 MHz or more, got 0")
    if own in (SWITCH, "1 or 2") and str(value) not in own.split(" or "):
        raise PlatformError(f"{where}: value must be {own}, got {value}")
    return Parameter(key, value * units[unit], unit, origin)
