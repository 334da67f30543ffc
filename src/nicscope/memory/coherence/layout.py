"""The arrays of a host: both cache levels, memory, the bus and its counters; lines of the caches.

Addresses are physical bytes of the host's memory, times integer picoseconds.  A *block* is a line
of the second level, the unit of coherence on the bus.  Nothing here takes time.  Inclusion: what
the first level holds, the second holds.  A line that is MODIFIED in the first level is MODIFIED in
the second, whose bytes may then be older.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import copy_bytes, step
from nicscope.kernel.records import records, without_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


# States of a line.  The first level has no EXCLUSIVE: it asks the second before its first write.
INVALID = 0
SHARED = 1
EXCLUSIVE = 2
MODIFIED = 3

# Masters of the bus.
CPU = 0
DEVICE = 1
MASTERS = 2

# Bus transactions.  An intervention is no transaction of its own: it tells which reads a cache
# answered.
READ = 0
READ_EXCLUSIVE = 1
UPGRADE = 2  # invalidates other copies; no data
WRITE_BACK = 3
WRITE = 4  # a device writes bytes to memory; host copies go
RETRY = 5  # an address phase that is to be tried again
UNCACHED_READ = 6
UNCACHED_WRITE = 7
COMBINED_WRITE = 8
INTERVENTION = 9
KINDS = 10
KIND_NAMES = (
    "read",
    "read-exclusive",
    "upgrade",
    "write-back",
    "write",
    "retry",
    "uncached-read",
    "uncached-write",
    "combined-write",
    "intervention",
)

EMPTY = -1
MOST_BACKGROUND = 99  # percent of the bus's time; of all of it nobody would get any

# What a host is like: times in ps, sizes in bytes, phases of the bus in its cycles.
HOST_PARAMETERS = (
    "memory_bytes",
    "l1_bytes",
    "l1_line",
    "l1_ways",
    "l2_bytes",
    "l2_line",
    "l2_ways",
    "word",
    "l1_latency",
    "l2_latency",
    "bus_cycle",
    "bus_bytes",
    "arbitration",
    "address_phase",
    "snoop",
    "memory_latency",
    "cache_supply",
    "retry_delay",
    "flush_instruction",
    "device_latency",
    "combine_buffers",
    "combine_bytes",
    "fill_then_invalidate",
    "background_percent",
    "background_bytes",
)

CONFIG = np.dtype(
    [(name, "i8") for name in HOST_PARAMETERS]
    + [
        ("l1_shift", "i8"),
        ("l1_mask", "i8"),  # sets - 1
        ("l2_shift", "i8"),
        ("l2_mask", "i8"),
    ],
    align=True,
)

LINE = np.dtype(
    [
        ("tag", "i8"),  # address >> shift, or EMPTY
        ("used", "i8"),  # registers.clock at its last use
        ("state", "i8"),
    ],
    align=True,
)

REGISTERS = np.dtype(
    [
        ("clock", "i8"),  # uses of lines so far
        ("address_free", "i8"),  # ps: the address part of the bus is free from here on
        ("data_free", "i8"),
        ("cpu_reads", "i8"),
        ("cpu_writes", "i8"),
        ("l1_misses", "i8"),  # times that the second level was asked, for data or for a right
        ("l2_misses", "i8"),
        ("evictions", "i8"),  # of blocks
    ],
    align=True,
)

BUFFER = np.dtype([("start", "i8"), ("mask", "i8"), ("used", "i8")], align=True)


class Host(NamedTuple):
    """One host; of several hosts each array has one more axis in front."""

    config: NDArray[Any]  # CONFIG, shape (1,)
    registers: NDArray[Any]  # REGISTERS, shape (1,)
    counts: NDArray[np.int64]  # shape (MASTERS, KINDS)
    l1: NDArray[Any]  # LINE, shape (sets * ways,)
    l1_data: NDArray[np.uint8]  # shape (sets * ways * line,)
    l2: NDArray[Any]
    l2_data: NDArray[np.uint8]
    memory: NDArray[np.uint8]
    buffers: NDArray[Any]  # BUFFER: of the CPU, for combining writes
    buffer_data: NDArray[np.uint8]  # shape (buffers * combine_bytes,)


def host_settings(given: Mapping[str, int]) -> dict[str, int]:
    """Every parameter's value.  Errors: ValueError for one that is wrong, or is not given."""
    for name in given:
        if name not in HOST_PARAMETERS:
            raise ValueError(f"no parameter {name!r} of a host")
    for name in HOST_PARAMETERS:
        if name not in given:
            raise ValueError(f"a host needs {name}")
    values = dict(given)
    _check(values)
    return values


def _check(values: Mapping[str, int]) -> None:
    powers = ("memory_bytes", "l1_bytes", "l1_line", "l1_ways", "l2_bytes", "l2_line", "l2_ways")
    for name in (*powers, "word", "bus_bytes", "combine_bytes"):
        value = values[name]
        if value < 1 or value & (value - 1):
            raise ValueError(f"{name} must be a power of two, got {value!r}")
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"{name} must not be negative, got {value!r}")
    # Upper limits: a uncached access has at most 8 bytes, a mask of a buffer 63 bits.
    for below, above in (("word", 8), ("combine_bytes", 32)):
        if values[below] > above:
            raise ValueError(f"{below} must be at most {above}, got {values[below]!r}")
    order = ("word", "l1_line", "l2_line")
    for small, large in pairwise(order):
        if values[small] > values[large]:
            raise ValueError(f"{small} must not exceed {large}, got {values[small]!r}")
    for level in ("l1", "l2"):
        if values[f"{level}_bytes"] < values[f"{level}_line"] * values[f"{level}_ways"]:
            raise ValueError(f"{level}_bytes is less than one set, got {values[f'{level}_bytes']}")
    if values["l2_ways"] < 1 or values["memory_bytes"] < values["l2_line"]:
        raise ValueError(f"memory_bytes is less than a block, got {values['memory_bytes']!r}")
    for name in (
        "bus_cycle",
        "arbitration",
        "address_phase",
        "combine_buffers",
        "retry_delay",
        "l1_latency",
    ):
        if values[name] < 1:
            raise ValueError(f"{name} must be at least 1, got {values[name]!r}")
    if values["background_percent"] > MOST_BACKGROUND:
        raise ValueError(
            f"background_percent must be at most {MOST_BACKGROUND}, got "
            f"{values['background_percent']!r}"
        )


def new_hosts(
    nodes: int, given: Mapping[str, int], memory: NDArray[np.uint8] | None = None
) -> Host:
    """``nodes`` equal hosts with empty caches and memories of zeros, or before ``memory``."""
    values = host_settings(given)
    lines = {level: values[f"{level}_bytes"] // values[f"{level}_line"] for level in ("l1", "l2")}
    config = records((nodes, 1), CONFIG)
    for name, value in values.items():
        config[name] = value
    for level, count in lines.items():
        config[f"{level}_shift"] = values[f"{level}_line"].bit_length() - 1
        config[f"{level}_mask"] = count // values[f"{level}_ways"] - 1
    return Host(
        config=config,
        registers=records((nodes, 1), REGISTERS),
        counts=np.zeros((nodes, MASTERS, KINDS), np.int64),
        l1=_empty_lines(nodes, lines["l1"]),
        l1_data=np.zeros((nodes, values["l1_bytes"]), np.uint8),
        l2=_empty_lines(nodes, lines["l2"]),
        l2_data=np.zeros((nodes, values["l2_bytes"]), np.uint8),
        memory=np.zeros((nodes, values["memory_bytes"]), np.uint8) if memory is None else memory,
        buffers=_empty_buffers(nodes, values["combine_buffers"]),
        buffer_data=np.zeros(
            (nodes, values["combine_buffers"] * values["combine_bytes"]), np.uint8
        ),
    )


def no_hosts() -> Host:
    """No host: of a memory without caches."""
    return without_rows(new_hosts(1, dict.fromkeys(HOST_PARAMETERS, 1)))


def _empty_lines(nodes: int, count: int) -> NDArray[Any]:
    lines = records((nodes, count), LINE)
    lines["tag"] = EMPTY
    return lines


def _empty_buffers(nodes: int, count: int) -> NDArray[Any]:
    buffers = records((nodes, count), BUFFER)
    buffers["start"] = EMPTY
    return buffers


@step
def find_l1(host, address):
    """The line of the first level that holds ``address``, or ``EMPTY``."""
    config = host.config[0]
    tag = address >> config.l1_shift
    first = (tag & config.l1_mask) * config.l1_ways
    for line in range(first, first + config.l1_ways):
        if host.l1[line].tag == tag:
            return line
    return np.int64(EMPTY)


@step
def find_l2(host, block):
    """The line of the second level that holds ``block``, or ``EMPTY``."""
    config = host.config[0]
    first = (block & config.l2_mask) * config.l2_ways
    for line in range(first, first + config.l2_ways):
        if host.l2[line].tag == block:
            return line
    return np.int64(EMPTY)


@step
def victim(lines, first, ways):
    """The line of the set at ``first`` to be replaced: a free one, else the least recently used."""
    found = first
    for line in range(first, first + ways):
        if lines[line].tag == EMPTY:
            return line
        if lines[line].used < lines[found].used:
            found = line
    return found


@step
def note_use(host, lines, line):
    """``line`` is now the most recently used."""
    host.registers[0].clock += 1
    lines[line].used = host.registers[0].clock


@step
def l1_to_l2(host, line, l2_line):
    """Bring the second level's bytes up to a line of the first."""
    config = host.config[0]
    width = np.int64(1) << config.l1_shift
    address = host.l1[line].tag << config.l1_shift
    within = address & ((np.int64(1) << config.l2_shift) - 1)
    copy_bytes(
        host.l2_data, (l2_line << config.l2_shift) + within, host.l1_data, line * width, width
    )


@step
def gather(host, l2_line, keep):
    """Bring the second level's bytes up to date; its lines above become SHARED, or go.

    With ``keep`` 0 the lines of the first level leave it (inclusion).
    """
    config = host.config[0]
    start = host.l2[l2_line].tag << config.l2_shift
    for address in range(
        start, start + (np.int64(1) << config.l2_shift), np.int64(1) << config.l1_shift
    ):
        line = find_l1(host, address)
        if line != EMPTY:
            if host.l1[line].state == MODIFIED:
                l1_to_l2(host, line, l2_line)
                host.l1[line].state = SHARED
            if keep == 0:
                host.l1[line].tag = EMPTY
                host.l1[line].state = INVALID


@step
def l2_to_memory(host, l2_line):
    """Bring memory's bytes up to a block of the second level."""
    shift = host.config[0].l2_shift
    copy_bytes(
        host.memory,
        host.l2[l2_line].tag << shift,
        host.l2_data,
        l2_line << shift,
        np.int64(1) << shift,
    )


@step
def clean(host, l2_line):
    """The block's bytes go to memory if they are MODIFIED; it stays, as SHARED."""
    if host.l2[l2_line].state == MODIFIED:
        gather(host, l2_line, 1)
        l2_to_memory(host, l2_line)
    host.l2[l2_line].state = SHARED


@step
def discard(host, l2_line):
    """The block leaves both levels; its bytes are lost unless they were brought up before."""
    gather(host, l2_line, 0)
    host.l2[l2_line].tag = EMPTY
    host.l2[l2_line].state = INVALID
