"""The observer's records: transfers, actions, host operations; where a node's time went."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.records import IDLE, INTERRUPTED, LINK_IDLE, PCI_IDLE
from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import MISSING, NO_TASK, POST_PAYLOAD, SERVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class Engine(IntEnum):
    """Who was busy; the four bands of a packet flow graph are HOST_TX to HOST_RCV."""

    HOST_WRITE = 0  # CPU: send call and PIO to the send ring
    HOST_TX = 1  # PCI: host memory to NIC
    NET_TX = 2
    NET_RCV = 3
    HOST_RCV = 4  # PCI: NIC to host memory
    HOST_READ = 5  # CPU: PIO from the receive ring
    FIRMWARE = 6  # the NIC's processor
    CPU = 7  # whatever else it does for programs, or in its kernel
    TABLE = 8  # PCI: the NIC reads entries of its host's translation table
    DESCRIPTOR = 9  # the NIC reads a descriptor in its host's memory
    REPORT = 10  # the NIC's write of a completion, where it is at its host's bus


class Task(IntEnum):
    """What the firmware can do, in the order in which it looks (docs/virtual-time.md)."""

    POST_CONTROL = 0
    POST_PAYLOAD = 1
    HOST_RCV = 2
    COMPLETE = 3
    NET_TX = 4
    FINISH = 5
    HOST_TX = 6
    SERVE = 7
    MISSING = 8


# Times in ps.  ``packet`` counts from 0 per sender; -1 where the firmware acts for no packet yet
# (a receive of a control message is posted before it is known whose).
LOG = np.dtype(
    [
        ("packet", "i8"),
        ("sender", "i8"),  # of a CPU record: the process that it worked for, or -1
        ("node", "i8"),  # where it happened
        ("engine", "i8"),  # Engine
        ("task", "i8"),  # Task of a FIRMWARE record; what a CPU did (``machine``); else -1
        ("control", "i8"),  # 1: the control message; 0: the payload
        ("start", "i8"),
        ("end", "i8"),
        ("bytes", "i8"),
        ("lookup", "i8"),  # ps of a FIRMWARE record, its last, in which pages were looked up
    ],
    align=True,
)

# One per message, in order of ``read`` (or of being dropped), ties by node.
MESSAGE = np.dtype(
    [
        ("sender", "i8"),
        ("packet", "i8"),
        ("destination", "i8"),
        ("payload", "i8"),  # bytes
        ("posted", "i8"),  # ps: start of the send call
        ("read", "i8"),  # ps: end of pio_read; -1: aborted by the watchdog
    ],
    align=True,
)


HOST_WRITE = int(Engine.HOST_WRITE)
HOST_TX = int(Engine.HOST_TX)
NET_TX = int(Engine.NET_TX)
NET_RCV = int(Engine.NET_RCV)
HOST_RCV = int(Engine.HOST_RCV)
HOST_READ = int(Engine.HOST_READ)
FIRMWARE = int(Engine.FIRMWARE)
CPU_WORK = int(Engine.CPU)
TABLE = int(Engine.TABLE)
DESCRIPTOR = int(Engine.DESCRIPTOR)
REPORT = int(Engine.REPORT)


@step
def log_transfer(machine, engine, node, sender, packet, control, start, end, byte_count):
    """Keep one record of a transfer or a host operation."""
    if machine.tally[0].log < machine.log.size:
        _append_record(machine, engine, node, sender, packet, control, start, end, byte_count)
    machine.tally[0].log += 1


@routine
def _append_record(machine, engine, node, sender, packet, control, start, end, byte_count):
    record = machine.log[machine.tally[0].log]
    record.packet = packet
    record.sender = sender
    record.node = node
    record.engine = engine
    record.task = -1
    record.control = control
    record.start = start
    record.end = end
    record.bytes = byte_count
    record.lookup = 0


@step
def log_action(machine, node, task, sender, packet, start, end):
    """Keep one record of an action of the firmware."""
    log_transfer(machine, FIRMWARE, node, sender, packet, 0, start, end, 0)
    if machine.tally[0].log <= machine.log.size:
        record = machine.log[machine.tally[0].log - 1]
        record.task = task
        if task in (SERVE, POST_PAYLOAD) and machine.ports.nodes.size > 0:
            record.lookup = machine.ports.nodes[node].looking


@step
def log_work(machine, n, what, now, byte_count=0):
    """Keep one record of ``what`` the CPU of ``n`` has done until now, if that took time.

    ``byte_count``: that a program has loaded or stored.
    """
    node = machine.nodes[n]
    if now > node.cpu_since:
        process = -1 if what == INTERRUPTED else node.cpu_process
        log_transfer(machine, CPU_WORK, n, process, -1, 0, node.cpu_since, now, byte_count)
        if machine.tally[0].log <= machine.log.size:
            machine.log[machine.tally[0].log - 1].task = what


@step
def keep_message(machine, packet, read):
    """Keep one message that was read at ``read``, or dropped if that is -1."""
    tally = machine.tally[0]
    if tally.messages < machine.messages.size:
        record = machine.messages[tally.messages]
        record.sender = packet.sender
        record.packet = packet.number
        record.destination = packet.destination
        record.payload = packet.payload
        record.posted = packet.posted_at
        record.read = read
    tally.messages += 1


@step
def count_arrival(node, packet):
    """Count one message that the host has read."""
    node.received += 1
    node.received_bytes += packet.payload


LIBRARY = 0  # on the CPU: posts, checks, pins, polls, copies
LOOKUP = 1  # a translation is looked up
MISS = 2  # a translation is on its way
QUEUES = 3  # the processor minds descriptors, packets, reports
DMA = 4  # bytes cross the node's PCI, and it has nothing else to wait for
NETWORK = 5
PEER = 6  # the other NIC works
WAITING = 7  # for a time-out, or for the time of the next request
ACCOUNTS = 8
ACCOUNT_NAMES = ("library", "lookup", "miss", "queues", "dma", "network", "peer", "waiting")


@routine
def account_time(machine, since, now):
    """Adds the time from ``since`` to ``now``, in which no event fired, to its account."""
    spent = now - since
    if spent == 0:
        return
    node = machine.nodes[0]
    looking = machine.ports.nodes[0]
    if _works(node.cpu) or _works(node.other):
        machine.account[LIBRARY] += spent
        if node.task in (SERVE, POST_PAYLOAD):
            looking.looking -= min(spent, looking.looking)
    elif node.task == MISSING or looking.thread != 0:
        machine.account[MISS] += spent
    elif node.task in (SERVE, POST_PAYLOAD):
        lookup = min(spent, looking.looking)
        looking.looking -= lookup
        machine.account[LOOKUP] += lookup
        machine.account[QUEUES] += spent - lookup
    elif node.task != NO_TASK:
        machine.account[QUEUES] += spent
    elif node.pci != PCI_IDLE:
        machine.account[DMA] += spent
    else:
        machine.account[_activity_elsewhere(machine)] += spent


@step
def _works(doing):
    return doing != IDLE and doing != INTERRUPTED


@step
def _activity_elsewhere(machine):
    busy = WAITING
    for n in range(machine.nodes.size):
        node = machine.nodes[n]
        if node.link != LINK_IDLE:
            return NETWORK
        if node.task != NO_TASK or node.pci != PCI_IDLE:
            busy = PEER
    return busy


class Stop(NamedTuple):
    """A point that a packet's arrow touches: an engine, of any node or of one side alone."""

    engine: Engine
    of_sender: bool | None = None


class RunLog(NamedTuple):
    """A run's records, and what their numbers are called."""

    records: NDArray[Any]  # LOG, by ``end``
    total: int  # records that there would have been with room for all
    actions: Mapping[Engine, Mapping[int, str]]  # what a processor did, by ``task``
    packets: Mapping[tuple[int, int], str]  # what a packet carries, by sender and number
    way: Sequence[Stop]  # of a packet's arrow, in this order
