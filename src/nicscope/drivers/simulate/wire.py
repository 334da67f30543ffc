"""Propagation delay: packets that have left their senders and have not reached their receivers.

The far end of the wires to node d sends to d what has come to it, in order, as a NIC would: it is
row ``nodes + d`` of all that is kept by sender.  Without a delay there are no such rows, and a
sender's bytes go straight into its receiver.  ``docs/virtual-time.md``, Propagation delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.records import FLIGHTS, HEADING, KINDS, LINK, LINK_IDLE, STARTING
from nicscope.drivers.simulate.store import has_bytes
from nicscope.kernel.decorators import copy_bytes, step
from nicscope.kernel.layout import Growing, renew
from nicscope.kernel.records import longer, records
from nicscope.memory_limit import check_memory
from nicscope.nic.delivery import CONTROL_BYTES, PACKET, place_in
from nicscope.nic.ports.layout import HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIRE = np.dtype(
    [
        ("delay", "i8"),  # ps
        ("nodes", "i8"),
        ("used", "i8"),  # packets in flight
        ("unused", "i8"),  # the first place without one, of a chain
    ],
    align=True,
)
# One packet in flight.
FLIGHT = np.dtype(
    [
        ("header", "i8"),  # bytes before its payload
        ("framing", "i8"),  # bytes of padding and trailer behind its last
        ("per_byte", "i8"),  # ps, of its sender's link
        ("path", "i8"),  # that it took
        ("header_at", "i8"),  # ps: when the last byte of its header comes, and of the whole
        ("whole_at", "i8"),
        ("behind", "i8"),  # the packet that comes next to the same node, or NO_FLIGHT
    ],
    align=True,
)
NO_FLIGHT = -1
FIRST = 64  # places to begin with, and one for each node


class Wire(Growing):
    """Packets in flight by place, with their headers and bytes; those to each node in a chain."""

    summary: NDArray[Any]  # WIRE, shape (1,)
    flights: NDArray[Any]  # FLIGHT, shape (places,)
    packets: NDArray[Any]  # PACKET, likewise
    heads: NDArray[Any]  # HEAD, likewise
    control: NDArray[np.uint8]  # shape (places, CONTROL_BYTES)
    payloads: NDArray[np.uint8]  # shape (places, max_payload); no bytes where none are carried
    first: NDArray[np.int64]  # shape (nodes,): the packet that comes next to each, or NO_FLIGHT
    last: NDArray[np.int64]
    header_left: NDArray[np.int64]  # shape (nodes,): ps at which each sender's last header had left


_BY_PLACE = ("flights", "packets", "heads", "control", "payloads")


def new_wire(nodes: int, delay_ps: int, payload_bytes: int) -> Wire:
    """Idle wires of ``nodes`` nodes; ``payload_bytes`` of a packet are carried at most."""
    places = FIRST + nodes if delay_ps else 0
    wire = Wire(
        {
            "summary": records(1, WIRE),
            "flights": records(places, FLIGHT),
            "packets": records(places, PACKET),
            "heads": records(places, HEAD),
            "control": np.zeros((places, CONTROL_BYTES), np.uint8),
            "payloads": np.zeros((places, payload_bytes), np.uint8),
            "first": np.full(nodes, NO_FLIGHT, np.int64),
            "last": np.full(nodes, NO_FLIGHT, np.int64),
            "header_left": np.zeros(nodes, np.int64),
        }
    )
    wire.summary["nodes"] = nodes
    wire.summary["delay"] = delay_ps
    wire.summary["unused"] = NO_FLIGHT
    _chain(wire, 0)
    return wire


def _chain(wire: Wire, begin: int) -> None:
    """Chains the places from ``begin`` on, which hold nothing: the lowest is used first."""
    places = len(wire.flights)
    if begin < places:
        wire.flights["behind"][begin:] = np.arange(begin + 1, places + 1)
        wire.flights["behind"][places - 1] = wire.summary[0]["unused"]
        wire.summary["unused"] = begin


def grow_wire(wire: Wire) -> None:
    """Doubles the places for packets in flight.  Errors: ``RoomError``."""
    places = len(wire.flights)
    arrays = {name: getattr(wire, name) for name in _BY_PLACE}
    check_memory(
        2 * sum(array.nbytes for array in arrays.values()),
        "the packets in flight of this cluster",
        "ask for a shorter delay, fewer nodes or a smaller window",
    )
    for name, array in arrays.items():
        setattr(wire, name, longer(array, 2 * places))
    _chain(wire, places)
    renew(wire)


@step
def leaves_by_wire(machine, s):
    """Whether what ``s`` sends propagates for a while before it reaches its receiver."""
    wire = machine.wire.summary[0]
    return wire.delay > 0 and s < wire.nodes


@step
def is_far_end(machine, s):
    """Whether ``s`` is no node but the far end of the wires to one."""
    return s >= machine.wire.summary[0].nodes


@step
def node_behind(machine, s):
    """The node that ``s`` is, or that it is the far end of the wires to."""
    nodes = machine.wire.summary[0].nodes
    return s - nodes if s >= nodes else s


@step
def arriving_flight(machine, s):
    """The place of the packet that the far end ``s`` sends to its node."""
    return machine.wire.first[s - machine.wire.summary[0].nodes]


@step
def want_flight(machine):
    """Has room made for packets in flight, if each sender could not add one to them."""
    wire = machine.wire.summary[0]
    if machine.wire.flights.size - wire.used < wire.nodes:
        machine.tally[0].wants |= FLIGHTS


@step
def enter_wire(machine, s, header_bytes, now):
    """Puts the packet of ``s``, whose last byte leaves now, on the wire to its destination.

    What a node sends to itself goes over no wire, but waits its turn at the far end as the rest.
    """
    wire, endpoint = machine.wire, machine.endpoints[s]
    summary = wire.summary[0]
    place = place_in(endpoint.sent, endpoint.send_ring)
    packet = machine.sends[s, place]
    entry = summary.unused
    flight = wire.flights[entry]
    summary.unused = flight.behind
    summary.used += 1
    delay = summary.delay if packet.destination != s else np.int64(0)
    flight.header = header_bytes
    flight.framing = machine.nodes[s].link_framing
    flight.per_byte = machine.costs[s].link_per_byte
    flight.path = machine.paths.path[s]
    flight.header_at = wire.header_left[s] + delay
    flight.whole_at = now + delay
    wire.packets[entry] = packet
    if machine.ports.send_heads.size > 0:
        wire.heads[entry] = machine.ports.send_heads[s, place]
    if has_bytes(machine.store):
        copy_bytes(wire.control[entry], 0, machine.store.send_ring[s, place], 0, CONTROL_BYTES)
        if packet.payload > 0:
            payload = machine.store.send_buffers[s, packet.buffer]
            copy_bytes(wire.payloads[entry], 0, payload, 0, packet.payload)
    _queue(machine, packet.destination, entry, now)


@step
def _queue(machine, d, entry, now):
    """Queues a flight behind those that are at ``d`` no later."""
    wire = machine.wire
    far = wire.summary[0].nodes + d
    whole_at = wire.flights[entry].whole_at
    before = wire.last[d]
    if before != NO_FLIGHT and wire.flights[before].whole_at > whole_at:
        before = np.int64(NO_FLIGHT)  # a node's own, which overtakes those that are still far
        after = wire.first[d]
        if machine.nodes[far].link != HEADING:
            before, after = after, wire.flights[after].behind
        while after != NO_FLIGHT and wire.flights[after].whole_at <= whole_at:
            before, after = after, wire.flights[after].behind
        wire.flights[entry].behind = after
    else:
        wire.flights[entry].behind = NO_FLIGHT
        wire.last[d] = entry
    if before == NO_FLIGHT:
        wire.first[d] = entry
        begin_arrival(machine, far, now)
    else:
        wire.flights[before].behind = entry


@step
def begin_arrival(machine, far, now):
    """Has the header of the next packet come to the node behind ``far``, when it is there."""
    entry = arriving_flight(machine, far)
    flight = machine.wire.flights[entry]
    node = machine.nodes[far]
    machine.costs[far].link_per_byte = flight.per_byte
    machine.paths.path[far] = flight.path
    node.link = HEADING
    node.link_control = 1
    node.link_bytes = flight.header
    node.link_framing = flight.framing if machine.wire.packets[entry].payload == 0 else 0
    takes = (node.link_bytes + node.link_framing) * flight.per_byte
    put(machine.agenda, far * KINDS + LINK, max(now, flight.header_at - takes))


@step
def begin_payload_arrival(machine, far, now):
    """Has the payload follow the header that the far end ``far`` has sent to its node."""
    entry = arriving_flight(machine, far)
    flight = machine.wire.flights[entry]
    node = machine.nodes[far]
    node.link = STARTING
    node.link_control = 0
    node.link_bytes = machine.wire.packets[entry].payload
    node.link_framing = flight.framing
    machine.endpoints[far].sunk = node.link_bytes
    takes = (node.link_bytes + node.link_framing) * flight.per_byte
    put(machine.agenda, far * KINDS + LINK, max(now, flight.whole_at - takes))


@step
def end_arrival(machine, far, now):
    """Takes the packet that has come off the wires to the node behind ``far``; the next comes."""
    wire = machine.wire
    summary = wire.summary[0]
    d = far - summary.nodes
    entry = wire.first[d]
    wire.first[d] = wire.flights[entry].behind
    wire.flights[entry].behind = summary.unused
    summary.unused = entry
    summary.used -= 1
    machine.nodes[far].link = LINK_IDLE
    if wire.first[d] == NO_FLIGHT:
        wire.last[d] = NO_FLIGHT
    else:
        begin_arrival(machine, far, now)
