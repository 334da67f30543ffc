"""What a simulation keeps of its buses: caches, requests, moves, costs, sizes."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.config.platform import MACHINE, Platform, load_platform, missing_machine_words
from nicscope.drivers.simulate.agenda import Agenda, earliest, new_agenda, put
from nicscope.drivers.simulate.records import BUS, BUS_KINDS, CPU, ENGINE, KINDS, PCI, REPORTING
from nicscope.errors import PlatformError, SimulationError
from nicscope.kernel.decorators import routine, step
from nicscope.kernel.records import records, without_rows
from nicscope.memory.coherence.bus import (
    AGENT,
    ASK,
    COPY,
    ENGINE_IN,
    ENGINE_OUT,
    FAR,
    MASTERS,
    PROCESSOR,
    READS_AT_ONCE,
    agent_requests_at,
    first_requester,
    host_of,
    ordered_at,
    watcher_of,
)
from nicscope.memory.coherence.layout import HOST_PARAMETERS, LINE, Host, host_settings
from nicscope.memory.coherence.processor import new_accesses
from nicscope.nic.coherent import NIC_PARAMETERS, TAG, nic_settings
from nicscope.nic.ways.state import (
    DMA,
    EDT,
    INTERVENING,
    MOVE,
    RETRYING,
    Ways,
    new_at_buses,
    new_ways,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@routine
def schedule(machine, n):
    """Schedules the bus of ``n`` for when its first request is ordered."""
    ways = machine.bus.ways
    asks = ways.asks[n]
    asks[AGENT].at = agent_requests_at(watcher_of(ways.agents, n))
    at = asks[first_requester(asks)].at
    when = NEVER if at == FAR else ordered_at(host_of(machine.bus.hosts, n), at)
    put(machine.bus.agenda, n * BUS_KINDS + BUS, when)


@step
def wake(machine, n, master, when):
    """Resumes the move of ``master`` at ``when``; never if that is ``NEVER``."""
    if master == ENGINE_OUT:
        put(machine.agenda, n * KINDS + PCI, when)
    elif master == PROCESSOR:
        put(machine.agenda, n * KINDS + CPU, when)
    else:
        kind = ENGINE if master == ENGINE_IN else REPORTING
        put(machine.bus.agenda, n * BUS_KINDS + kind, when)


@step
def next_time(machine):
    """The time of the earliest event of all."""
    agenda = machine.bus.agenda
    return min(machine.agenda.times[earliest(machine.agenda)], agenda.times[earliest(agenda)])


UNFITTED = "edt-table1"  # what the paper prints, and assumptions: nothing chosen by a result
ON_NIC = "nic_"  # before a parameter of the interface that a host has as well


class Parameters(NamedTuple):
    """Values by the names of ``HOST_PARAMETERS`` and of ``NIC_PARAMETERS``: ps, bytes, cycles."""

    host: dict[str, int]
    nic: dict[str, int]


def machine_parameters(platform: Platform) -> Parameters:
    """What ``platform`` states of them.  Errors: ``PlatformError`` naming what it does not."""
    absent = missing_machine_words(platform)
    if absent:
        raise PlatformError(
            f"platform {platform.name!r} states no {', '.join(absent)}: it is no coherent host "
            f"with an interface; {UNFITTED!r} states all of them"
        )
    return Parameters(
        {name: _value(platform, name) for name in HOST_PARAMETERS},
        {name: _value(platform, word_of(name)) for name in NIC_PARAMETERS},
    )


def word_of(name: str) -> str:
    """What a platform calls the interface's parameter ``name``."""
    return ON_NIC + name if ON_NIC + name in MACHINE else name


@cache
def unfitted() -> Parameters:
    """The parameters of ``UNFITTED``; not to be changed."""
    return machine_parameters(load_platform(UNFITTED))


def _value(platform: Platform, name: str) -> int:
    return platform.machine[name].value if name in MACHINE else platform.costs[name].high_ps


HOME_BYTES = 4  # of where a block of the host, or of the NIC, stands
NODE_BYTES = 1 << 16  # of registers, queues, and of the firmware's tables
PAGE, PAGE_BYTES = 4096, 64  # of a page that a program may allocate


def bytes_at_buses(nodes: int, host: Mapping[str, int], nic: Mapping[str, int], tags: int) -> int:
    """Bytes that so many of them take at most; 0 of what it refuses."""
    try:
        values = host_settings(unfitted().host | dict(host))
        settings = nic_settings(unfitted().nic | dict(nic))
    except ValueError:
        return 0
    block = values["l2_line"]
    caches = sum(
        values[f"{level}_bytes"]
        + values[f"{level}_bytes"] // values[f"{level}_line"] * LINE.itemsize
        for level in ("l1", "l2")
    )
    room, watched = values["memory_bytes"], settings["memory_bytes"]
    copies = watched // block * (COPY.itemsize + HOME_BYTES) + watched
    staging = settings["staging_bytes"] + 2 * block
    pages = room // PAGE * PAGE_BYTES
    small = tags * TAG.itemsize + NODE_BYTES
    return nodes * (caches + room + room // block * HOME_BYTES + copies + staging + pages + small)


# What a move waits for.
RESTING = 0
ASKING = 1  # the bus
PAUSING = 2  # a time
AWAITING = 3  # blocks that the interface is to read
ABOUT_TO_AWAIT = 4  # the end of its last transaction; then for blocks
IN_ACCESS = 5  # the CPU
AWAITING_BUS = 6  # that something crosses the bus
ENDING = 7  # the end of its last transaction
INTERRUPTING_HOST = 8  # the host's CPU, which is being interrupted for it
LINGERING = 9  # the host's CPU, which does its part still
AWAITING_ENGINE = 10  # of the CPU: the NIC's engine, which is to do its part

TIMING = np.dtype(
    [
        ("state", "i8"),
        ("since", "i8"),  # ps: from here on it may go on, but for its own transactions
        ("until", "i8"),  # ps: the end of the last of these
        ("transfers", "i8"),  # so far
        ("arrived", "i8"),  # ps: when the blocks that it awaits have all come
        ("next", "i8"),  # the first of these that has not
        ("seen", "i8"),  # ``crossings`` when its way was asked last
        ("ended", "i8"),
        ("asked", "i8"),  # 1: its move has asked for the bus
        ("operations", "i8"),  # moves that have, so far
    ],
    align=True,
)

PLAYING = np.dtype(
    [
        ("row", "i8"),  # the next one
        ("rows", "i8"),
        ("crossings", "i8"),  # requests that were granted on this bus so far
    ],
    align=True,
)


# Over which a NIC reaches its host's memory by itself.
FETCHING = (DMA, RETRYING, INTERVENING, EDT)
NO_WAY = -1  # of a node whose NIC reaches the host's memory over an I/O bus of its own

RULES = np.dtype(
    [
        ("way", "i8"),  # over which what ports send and receive crosses this bus, or NO_WAY
        ("receives", "i8"),  # where the NIC's memory has its first buffer for what arrives
        ("buffer", "i8"),  # bytes of a buffer
        ("reports", "i8"),  # where the host's memory has those of the NIC
        ("report", "i8"),  # where the NIC's memory has the one that is written
        ("descriptor", "i8"),  # where it has a descriptor that comes
        ("interrupt", "i8"),  # ps: from the NIC's call for the CPU until its handler runs
    ],
    align=True,
)

# What the handler of the NIC's interrupts does; the CPU's own work lies in ``kept`` meanwhile.
NO_HANDLER = 0
CALLED = 1  # it waits until the CPU can leave what it does
IN_HANDLER = 2  # it flushes blocks or moves bytes
AWAITING_END = 3  # it keeps the CPU until the engine is done

HELP = np.dtype(
    [
        ("state", "i8"),
        ("master", "i8"),  # the engine that it is for
        ("cpu", "i8"),  # what the CPU did
        ("process", "i8"),  # for whom
        ("left", "i8"),  # ps of that, if it takes a time that is known
        ("since", "i8"),  # ps: the handler runs
    ],
    align=True,
)

# Which part of an operation at a port the CPU is at, where that takes the bus.
CPU_TRANSACTION = np.dtype(
    [
        ("piece", "i8"),  # segment or buffer
        ("done", "i8"),  # bytes of it
        ("told", "i8"),  # bytes of the pieces before
        ("written", "i8"),  # bytes of the descriptor that are stored
        ("handed", "i8"),  # and that are flushed or moved
        ("rung", "i8"),  # 1: the doorbell
        ("moving", "i8"),  # 1: the CPU moves a piece whose other end the NIC's engine has
        ("work", "i8"),  # for the observer: COPYING pieces, else ACCESSING; -1: neither yet
    ],
    align=True,
)


# Where on a NIC the bytes of a descriptor wait that its process has moved there.
ROOM = np.dtype(
    [
        ("tag", "i8"),
        ("number", "i8"),  # of the descriptor, as packets know it; -1: none
        ("first", "i8"),  # the offset that its first byte goes to
        ("count", "i8"),  # bytes
    ],
    align=True,
)


# A NIC's reports on their way to the host's memory, one at a time.
# Written, and to be written, ever; for the observer since when the next one is being written.
TELLING = np.dtype([("told", "i8"), ("due", "i8"), ("since", "i8")], align=True)


class Kept(NamedTuple):
    """The CPU's state saved at an interrupt; the first axis is the node."""

    access: NDArray[Any]  # ACCESS, shape (nodes, 1)
    move: NDArray[Any]  # MOVE, shape (nodes, 1)
    timing: NDArray[Any]  # TIMING, shape (nodes, 1)
    scratch: NDArray[np.uint8]  # shape (nodes, block)


class Bus(NamedTuple):
    """Everything that is at the bus of each node; the first axis is the node."""

    hosts: Host  # ``memory`` is the bytes of the host, whoever else has them
    ways: Ways
    timing: NDArray[Any]  # TIMING, shape (nodes, MASTERS), beside ``ways.moves``
    ends: NDArray[np.int64]  # shape (nodes, MASTERS, WINDOW): of the last transactions, ps
    windows: NDArray[np.uint8]  # shape (processes, bytes): what a program holds in registers
    others: NDArray[np.uint8]  # memory of a device that is no interface
    script: NDArray[Any]  # ASK, shape (nodes, rows): what that device does
    playing: NDArray[Any]  # PLAYING, shape (nodes,)
    rules: NDArray[Any]  # RULES, shape (nodes,)
    helps: NDArray[Any]  # HELP, shape (nodes,)
    kept: Kept
    cpu_transactions: NDArray[Any]  # CPU_TRANSACTION, shape (nodes,): the CPU's operation at a port
    telling: NDArray[Any]  # TELLING, shape (nodes,)
    # Port and ring of each in turn, then queues, shape (nodes, reports and entries).
    due: NDArray[np.int64]
    shown: NDArray[np.int64]  # shape (nodes, ports, 2): reports that are in the host's memory
    rooms: NDArray[Any]  # ROOM, shape (nodes, ports, ring); of no length where no CPU moves bytes
    agenda: Agenda  # BUS_KINDS slots per node, beside those of the machine


@step
def has_bus(bus):
    """Whether the hosts of this simulation have caches and a bus."""
    return bus.playing.size > 0


@step
def crosses_bus(machine, n):
    """Whether what the ports of ``n`` send and receive goes over its bus, block by block."""
    return has_bus(machine.bus) and machine.bus.rules[n].way != NO_WAY


@step
def is_moving(machine, n, master):
    """Whether ``master`` has a move over the bus of ``n`` under way."""
    return has_bus(machine.bus) and machine.bus.timing[n, master].state != RESTING


def no_bus() -> Bus:
    """Of a simulation whose hosts are memory without caches."""
    room = {"memory_bytes": 1 << 16}  # for the smallest queues
    host = dict.fromkeys(HOST_PARAMETERS, 1) | room
    nic = dict.fromkeys(NIC_PARAMETERS, 1) | room | {"queue_blocks": 2}
    return without_rows(new_bus(1, 1, host, nic))


def new_bus(
    nodes: int,
    processes: int,
    host: Mapping[str, int],
    nic: Mapping[str, int],
    *,
    memory: NDArray[np.uint8] | None = None,
    window_bytes: int = 0,
    other_bytes: int = 0,
    rows: int = 0,
    tags: int = 64,
    queues: bool = True,
    rings: tuple[int, int] = (0, 0),
    entries: int = 0,
    rooms: bool = False,
) -> Bus:
    """Caches that are empty, interfaces that watch their queues alone, and nothing that moves.

    ``host`` and ``nic`` are what ``HOST_PARAMETERS`` and ``NIC_PARAMETERS`` name.
    ``memory``: the bytes of the hosts, shape (nodes, bytes), if a simulation has them elsewhere; a
    block's number is its physical address by the length of a block.  Without ``queues`` the
    interfaces watch nothing, and all of that memory is the hosts' own.  ``rings``: ports, and
    the length of their rings; ``entries``: of a node's completion queues; with ``rooms`` the bytes
    of descriptors may wait on the NIC.
    Errors: SimulationError.
    """
    try:
        hosts, agents, nics = new_at_buses(
            nodes, host, nic, tags=tags, memory=memory, queues=queues
        )
    except ValueError as error:
        raise SimulationError(str(error)) from error
    rules = records(nodes, RULES)
    rules["way"] = NO_WAY
    waiting = records((nodes, *(rings if rooms else (0, 0))), ROOM)
    waiting["number"] = -1
    ways = new_ways(nics, agents)
    return Bus(
        hosts=hosts,
        ways=ways,
        timing=records((nodes, MASTERS), TIMING),
        ends=np.zeros((nodes, MASTERS, READS_AT_ONCE), np.int64),
        windows=np.zeros((processes, window_bytes), np.uint8),
        others=np.zeros((nodes, other_bytes), np.uint8),
        script=records((nodes, rows), ASK),
        playing=records(nodes, PLAYING),
        rules=rules,
        helps=records(nodes, HELP),
        kept=Kept(
            access=new_accesses(nodes),
            move=records((nodes, 1), MOVE),
            timing=records((nodes, 1), TIMING),
            scratch=np.zeros_like(nics.scratch),
        ),
        cpu_transactions=records(nodes, CPU_TRANSACTION),
        telling=records(nodes, TELLING),
        due=np.zeros((nodes, 2 * math.prod(rings) + entries), np.int64),
        shown=np.zeros((nodes, rings[0], 2), np.int64),
        rooms=waiting,
        agenda=new_agenda(nodes * BUS_KINDS),
    )
