"""State of the ways: moves under way, requests to the driver, hosts on coherent buses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records
from nicscope.memory.coherence.bus import (
    MASTERS,
    NEVER,
    Watcher,
    new_bus_requests,
    new_watchers,
    watch_block,
)
from nicscope.memory.coherence.layout import INVALID, MODIFIED, SHARED, Host, new_hosts
from nicscope.memory.coherence.processor import new_accesses
from nicscope.nic import coherent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


# What a step needs next.
FINISHED = 0
ASK = 1  # the transaction that stands in ``asks``; of ``window`` at a time
ACCESS = 2  # that the CPU does what stands in ``access``
AWAIT = 3  # the interface's blocks ``first`` up to ``last``
PAUSE = 4  # the time of ``pause``
REFUSED = 5  # room, or bytes; it is called again when something has changed

# Calls of a way.
NO_CALL = 0
PUBLISH = 1  # CPU: what comes before the doorbell; for a receive, before it is posted
FETCH = 2  # engine: from the host's memory to the NIC's
DELIVER = 3  # engine: from the NIC's memory to the host's
COLLECT = 4  # CPU: what comes before the bytes are read
REPORT = 5  # a few bytes of a completion, to the host's memory

# Pauses.
SET_UP = 0  # of an engine
INTERRUPT = 1  # that tells of its end

PIO = int(coherent.Mechanism.PIO)
PIO_COMBINED = int(coherent.Mechanism.PIO_COMBINED)
DMA = int(coherent.Mechanism.DMA)
RETRYING = int(coherent.Mechanism.DMA_RETRY)
INTERVENING = int(coherent.Mechanism.DMA_INTERVENTION)
CNI = int(coherent.Mechanism.CNI)
EDT = int(coherent.Mechanism.EDT)
HELPED_BY_HOST = tuple(int(one) for one in coherent.HELPED_BY_HOST)

POINTERS_OF_NIC = (
    2 * coherent.SEND + 1,
    2 * coherent.RECEIVE,
)  # head of what it consumes, tail of what it produces

MOVE = np.dtype(
    [
        ("call", "i8"),
        ("way", "i8"),
        ("stage", "i8"),  # of the step; 0 when it begins
        ("address", "i8"),  # of the host's memory
        ("place", "i8"),  # of the NIC's
        ("count", "i8"),  # bytes
        ("done", "i8"),  # of these
        ("length", "i8"),  # of the part under way
        # What it needs.
        ("window", "i8"),  # transactions that may be under way; the next one follows their ends
        ("pause", "i8"),
        ("first", "i8"),  # blocks of the NIC
        ("last", "i8"),
        ("waited", "i8"),  # the block of the NIC that it waited for last, or NOWHERE
        ("told", "i8"),  # entries of a queue that its tail, as the other side sees it, counts
        ("void", "i8"),  # 1: what it asked for was no longer to be had
    ],
    align=True,
)


class Ways(NamedTuple):
    """The first axis of every array is the node."""

    nics: coherent.Interface
    agents: Watcher
    asks: NDArray[Any]  # ASK, shape (nodes, MASTERS)
    access: NDArray[Any]  # ACCESS, shape (nodes, 1)
    moves: NDArray[Any]  # MOVE, shape (nodes, MASTERS): by the master that moves


def new_ways(nics: coherent.Interface, agents: Watcher) -> Ways:
    """Nothing moves."""
    nodes = nics.config.shape[0]
    return Ways(
        nics, agents, new_bus_requests(nodes), new_accesses(nodes), records((nodes, MASTERS), MOVE)
    )


def watch_queues(agent: Watcher, nic: coherent.Interface) -> None:
    """Give one interface its cacheable queues and device registers: they watch their blocks."""
    config = nic.config[0]
    block, per_queue = int(config["block"]), int(config["queue_blocks"])
    first = int(config["queue_start"]) // block
    home = int(config["queue_address"]) // block
    for b in range(coherent.QUEUES * per_queue + coherent.POINTER_BLOCKS):
        noticed = b < per_queue or b == coherent.QUEUES * per_queue + 2 * coherent.SEND
        watch_block(agent, home + b, first + b, int(config["queue_poll"]) if noticed else NEVER)
        agent.copies[first + b]["state"] = SHARED
    for pointer in POINTERS_OF_NIC:
        agent.copies[first + coherent.QUEUES * per_queue + pointer]["state"] = MODIFIED


@step
def nic_of(nics, n):
    """Interface ``n``: the same arrays, seen without their first axis."""
    return coherent.Interface(
        nics.config[n],
        nics.registers[n],
        nics.tags[n],
        nics.queues[n],
        nics.scratch[n],
        nics.assembly[n],
    )


@step
def begin_move(m, way, call, address, place, count):
    """A way is to move these bytes next."""
    m.call = call
    m.way = way
    m.stage = 0
    m.address = address
    m.place = place
    m.count = count
    m.done = 0
    m.length = 0
    m.window = 1
    m.waited = coherent.NOWHERE
    m.told = 0
    m.void = 0


@step
def await_blocks(m, first, last):
    """Request these blocks of the NIC; the answer that says so."""
    m.first = first
    m.last = last
    return AWAIT


@step
def await_rest(ways, n, m, home):
    """What is needed before a part of the NIC's block is replaced; FINISHED if nothing.

    The rest of it must have come, not only be on its way.
    """
    if m.waited == home and ways.agents.copies[n, home].state != INVALID:
        return FINISHED
    m.waited = home
    return await_blocks(m, home, home + 1)


@step
def block_part(ways, n, address, left):
    """Bytes from ``address`` to the end of its block, at most ``left``."""
    block = ways.nics.config[n, 0].block
    return min(block - (address & (block - 1)), left)


@step
def request_bus(ways, n, master, kind, address, count, place, answer):
    """Request this bus transaction; the answer that says so."""
    ask = ways.asks[n, master]
    ask.kind = kind
    ask.address = address
    ask.count = count
    ask.place = place
    ask.rate = ways.nics.config[n, 0].dma_mbytes_s
    ask.answer = answer
    return ASK


class AtBuses(NamedTuple):
    """All nodes; the first axis of every array is the node."""

    hosts: Host
    agents: Watcher  # the interfaces' memories and block states, as the buses know them
    nics: coherent.Interface


def new_at_buses(
    nodes: int,
    host: Mapping[str, int],
    nic: Mapping[str, int],
    *,
    tags: int,
    memory: NDArray[np.uint8] | None = None,
    queues: bool = True,
) -> AtBuses:
    """``nodes`` equal nodes at rest; without ``queues`` their interfaces watch nothing.

    ``host`` and ``nic`` are what ``HOST_PARAMETERS`` and ``NIC_PARAMETERS`` name; ``memory`` is as
    ``new_hosts`` takes it.  Errors: ``ValueError``.
    """
    hosts = new_hosts(nodes, host, memory)
    settings = coherent.nic_settings(nic)
    block, room = int(hosts.config[0]["l2_line"][0]), hosts.memory.shape[1]
    if settings["memory_bytes"] % block or room % block:
        raise ValueError(f"memory_bytes is no multiple of a block of {block} bytes")
    nics = coherent.new_interfaces(nodes, nic, block, room, tags)
    agents = new_watchers(
        nodes,
        room // block,
        settings["memory_bytes"] // block,
        block,
        settings["read_window"],
        settings["dma_mbytes_s"],
    )
    for n in range(nodes if queues else 0):
        agent = Watcher(*(array[n] for array in agents))
        watch_queues(agent, coherent.Interface(*(array[n] for array in nics)))
    return AtBuses(hosts, agents, nics)
