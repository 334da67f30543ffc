"""Delivery firmware: which transfer a NIC starts next, from what its rings and counters show.

The firmware knows no time.  The driver reads the engines' byte counters for it, calls
``next_task`` whenever the processor is free, and makes the task's effect happen when the
processor has spent its time.  Packets are numbered in order on each side, so a ring or a chain of
buffers is two or three counters.  Source: Trapeze, 2.1 and 3; ``docs/virtual-time.md``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.recency import lowest_bit

CONTROL_BYTES = 128  # Trapeze, 2.1: always sent whole

# Tasks, in the order in which the firmware looks.
POST_CONTROL = 0
POST_PAYLOAD = 1
HOST_RCV = 2
COMPLETE = 3
NET_TX = 4
FINISH = 5
HOST_TX = 6
SERVE = 7  # of a NIC that serves ports
TASKS = 8  # a power of two
NO_TASK = -1
MISSING = 8  # not looked for: a translation is on its way, and the processor waits for it

# What netRcv waits for.
NOTHING = 0
CONTROL = 1
PAYLOAD = 2

STORE_AND_FORWARD = 0

ENDPOINT = np.dtype(
    [
        # configuration
        ("policy", "i8"),
        ("eager", "i8"),
        ("minpulse_send", "i8"),  # bytes
        ("minpulse_receive", "i8"),
        ("burst_pulse", "i8"),  # the least of either for payloads longer than this; 0: none
        ("send_buffers", "i8"),
        ("receive_buffers", "i8"),
        ("send_ring", "i8"),  # entries
        ("receive_ring", "i8"),
        ("logging", "i8"),
        ("control_bytes", "i8"),  # of a packet, before its payload
        ("by_message", "i8"),  # 1: a message goes on when its last packet is on the NIC
        ("tags", "i8"),  # entries of the incoming payload table
        # send side; packets finished <= sent <= taken <= written
        ("next_number", "i8"),  # of a packet
        ("written", "i8"),
        ("held", "i8"),  # the last of them, which nobody has asked the NIC to look at
        ("taken", "i8"),
        ("sent", "i8"),
        ("finished", "i8"),
        ("send_used", "i8"),  # buffers
        ("send_buffer", "i8"),  # the one to be taken next
        ("control_sent", "i8"),  # of packet ``sent``
        ("sunk", "i8"),  # its payload bytes that netTx has taken
        # receive side; packets completed <= drained <= accepted
        ("accepted", "i8"),  # control message in
        ("drained", "i8"),
        ("completed", "i8"),
        ("dropped", "i8"),
        ("shown", "i8"),  # messages that the host could see
        ("read", "i8"),  # and has read
        ("receive_used", "i8"),  # buffers
        ("receive_buffer", "i8"),  # the one to be taken next
        ("attached", "i8"),  # payload buffers of the host that the receive ring has left
        ("posted", "i8"),  # NOTHING, CONTROL or PAYLOAD
        ("awaited", "i8"),  # 1: the last packet accepted has a payload and no receive for it yet
        ("mapped", "i8"),  # 1: the incoming payload table says where its payload goes
        ("open", "i8"),  # 1: its payload is not all there
        ("arrived", "i8"),  # its payload bytes of transfers that have ended
        ("drain_sunk", "i8"),  # payload bytes of packet ``drained`` that hostRcv has taken
        ("draining", "i8"),  # 1: hostRcv moves some of them
        # 1: packet ``sent``, or ``drained``, waits for the rest of its message (``ports.arrivals``)
        ("holds_sent", "i8"),
        ("holds_drained", "i8"),
        ("to_serve", "i8"),  # what SERVE would be begun for; 0: nothing
        ("task_turn", "i8"),  # where the firmware looks first
    ],
    align=True,
)

# A message in the send ring, arriving, or in the receive ring.
PACKET = np.dtype(
    [
        ("sender", "i8"),
        ("number", "i8"),  # by sender, from 0
        ("destination", "i8"),
        ("payload", "i8"),  # bytes
        ("tag", "i8"),
        ("address", "i8"),  # of the payload in the host's memory: source, or where it goes
        ("buffer", "i8"),  # the NIC buffer that holds the payload; -1: none yet
        ("own", "i8"),  # 1: the host's buffer came off the receive ring; 0: by the tag, or none
        ("broken", "i8"),  # the network gave it up, or damaged it
        ("fate", "i8"),  # what of ``fabric.faults`` befell it, where no port minds that
        ("posted_at", "i8"),  # for the observer
    ],
    align=True,
)


class Engines(NamedTuple):
    """What the firmware reads off its engines' status bits and byte counters."""

    pci_idle: Any
    fetching: Any  # the packet that hostTx is moving, or -1
    link_idle: Any
    fetched_bytes: Any  # of that packet: payload bytes in NIC memory
    accepted_bytes: Any  # of the last packet accepted, likewise


@step
def next_task(endpoint, sends, arrivals, engines):
    """The task that the firmware begins now, or ``NO_TASK``; moves its turn on."""
    ready = _ready_tasks(endpoint, sends, arrivals, engines)
    if ready == 0:
        return NO_TASK
    turn = endpoint.task_turn
    # Not a loop over tasks: a processor cannot guess when that ends.
    waiting = np.uint64((ready | ready << TASKS) >> turn)
    task = (turn + lowest_bit(waiting)) & (TASKS - 1)
    endpoint.task_turn = (task + 1) & (TASKS - 1)
    return task


@step
def _ready_tasks(endpoint, sends, arrivals, engines):
    """A bit for each task that could begin.

    Each is asked for in its own place, not in a loop over tasks: a processor guesses what becomes
    of a branch by where it stands.
    """
    ready = 0
    if endpoint.posted == NOTHING and endpoint.awaited == 0 and has_ring_entry(endpoint):
        ready |= 1 << POST_CONTROL
    if (
        endpoint.awaited == 1
        and endpoint.receive_used < endpoint.receive_buffers
        and (endpoint.mapped == 1 or endpoint.attached > 0)
    ):
        ready |= 1 << POST_PAYLOAD
    if engines.pci_idle and can_drain(endpoint, arrivals, engines):
        ready |= 1 << HOST_RCV
    if endpoint.completed < endpoint.drained:
        ready |= 1 << COMPLETE
    if engines.link_idle and can_send(endpoint, sends, engines):
        ready |= 1 << NET_TX
    if endpoint.finished < endpoint.sent and endpoint.finished != engines.fetching:
        ready |= 1 << FINISH
    if can_take(endpoint, sends, engines):
        ready |= 1 << HOST_TX
    if endpoint.to_serve != 0:
        ready |= 1 << SERVE
    return ready


@step
def place_in(number, ring):
    """Where entry ``number``, from -1 on, lies in a ring of ``ring`` entries.

    Most rings are powers of two, and a processor divides slowly.
    """
    if ring & (ring - 1) == 0:
        return number & (ring - 1)
    return number % ring


@step
def has_ring_entry(endpoint):
    """Whether the receive ring has a free entry."""
    return endpoint.accepted - endpoint.read - endpoint.dropped < endpoint.receive_ring


@step
def can_take(endpoint, sends, engines):
    """Whether HOST_TX may take the next message of the send ring."""
    if endpoint.taken == endpoint.written - endpoint.held:
        return False
    if sends[place_in(endpoint.taken, endpoint.send_ring)].payload == 0:
        return True
    return engines.pci_idle and endpoint.send_used < endpoint.send_buffers


@step
def can_send(endpoint, sends, engines):
    """Whether the oldest packet not yet sent has something for netTx."""
    if endpoint.sent == endpoint.taken or endpoint.holds_sent == 1:
        return False
    payload = sends[place_in(endpoint.sent, endpoint.send_ring)].payload
    deposited = engines.fetched_bytes if endpoint.sent == engines.fetching else payload
    ended = deposited == payload
    if endpoint.control_sent == 0:
        return ended or endpoint.policy != STORE_AND_FORWARD
    pulse = pulse_of(endpoint, endpoint.minpulse_send, payload)
    return _is_enough(endpoint, pulse, deposited, endpoint.sunk, ended)


@step
def can_drain(endpoint, arrivals, engines):
    """Whether the oldest packet not yet drained has something for hostRcv."""
    if endpoint.drained == endpoint.accepted or endpoint.holds_drained == 1:
        return False
    packet = arrivals[place_in(endpoint.drained, endpoint.receive_ring)]
    if packet.broken == 1:
        return False
    open_ = endpoint.open == 1 and endpoint.drained == endpoint.accepted - 1
    deposited = engines.accepted_bytes if open_ else packet.payload
    ended = deposited == packet.payload
    pulse = pulse_of(endpoint, endpoint.minpulse_receive, packet.payload)
    return _is_enough(endpoint, pulse, deposited, endpoint.drain_sunk, ended)


@step
def pulse_of(endpoint, minpulse, payload):
    """The minpulse for a packet of so many bytes: at least ``burst_pulse`` if it is longer."""
    return max(minpulse, endpoint.burst_pulse) if payload > endpoint.burst_pulse else minpulse


@step
def _is_enough(endpoint, minpulse, deposited, sunk, ended):
    """Trapeze 3.1: cut-through goes on when more than ``minpulse`` bytes wait, or the last ones."""
    if endpoint.policy == STORE_AND_FORWARD:
        return ended and deposited > sunk
    return deposited - sunk > minpulse or (ended and deposited > sunk)


@step
def enough(endpoint, minpulse, sunk, payload):
    """How many bytes must be deposited before a transfer to the sink may take some."""
    if endpoint.policy == STORE_AND_FORWARD:
        return payload
    return min(payload, sunk + minpulse + 1)


@step
def bytes_to_move(endpoint, minpulse, deposited, sunk):
    """Bytes that a transfer to the sink takes: all, if eager, else at most ``minpulse``."""
    there = deposited - sunk
    if endpoint.policy == STORE_AND_FORWARD or endpoint.eager == 1:
        return there
    return min(minpulse, there)


@step
def settle(endpoint, arrivals, host_rcv):
    """Count packets as drained that have nothing left to drain.

    ``host_rcv``: a transfer to the host is under way; it belongs to packet ``drained``.
    """
    while endpoint.drained < endpoint.accepted and not host_rcv:
        packet = arrivals[place_in(endpoint.drained, endpoint.receive_ring)]
        if packet.broken == 0 and endpoint.drain_sunk < packet.payload:
            break
        endpoint.drained += 1
        endpoint.drain_sunk = 0
