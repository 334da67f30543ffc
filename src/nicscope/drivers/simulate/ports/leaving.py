"""At the sending end: what is served next, and what becomes of a packet that has left."""

from __future__ import annotations

from nicscope.fabric.faults import DUPLICATED, LOST, REORDERED, fate, is_dead
from nicscope.kernel.decorators import distant, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.arbitrate import NO_SOURCE
from nicscope.nic.ports.calls import choose_source
from nicscope.nic.ports.streams import is_reliable, stream_to
from nicscope.nic.ports.tallies import tally_left
from nicscope.nic.ports.traffic import COPIED
from nicscope.nic.ports.transmit import packet_left
from nicscope.nic.ports.window import push


@step
def choose_work(machine, n, now):
    """Say what SERVE would be begun for, if there is room for a packet."""
    endpoint = machine.endpoints[n]
    endpoint.to_serve = NO_SOURCE
    if endpoint.written - endpoint.finished < endpoint.send_ring:
        serving = machine.ports.nodes[n]
        waiting = serving.acks + serving.resends + serving.cuts + serving.attention
        if waiting == 0:
            return  # as ``choose_source`` would find
        if machine.ports.rules[0].faults == 1 and is_dead(machine.ports.deaths.nodes, n, now):
            return
        endpoint.to_serve = choose_source(machine, n)


@distant
def leave_packet(machine, n, place, now):
    """The last byte of the packet at ``place`` of the send ring of ``n`` has left."""
    ports = machine.ports
    packet = machine.sends[n, place]
    head = ports.send_heads[n, place]
    tally_left(machine, n, packet, head)
    if ports.rules[0].faults == 1 and head.copied == 0:
        _copy(machine, n, packet, head)
    tells = False
    if not is_reliable(ports, stream_to(ports, n, head.own)):
        if head.copied == 1:
            tells = head.tells == 1
        else:
            tells = head.last == 1 and not _is_told_later(machine, n, head)
    packet_left(machine, n, place, tells, now)


@step
def _is_told_later(machine, n, head):
    """Whether copies of the request's packets are still to leave: they read its memory again."""
    if machine.ports.rules[0].faults == 0:
        return False
    endpoint = machine.endpoints[n]
    for i in range(endpoint.written - 1, endpoint.finished, -1):
        other = machine.ports.send_heads[n, place_in(i, endpoint.send_ring)]
        same = other.from_port == head.from_port and other.cookie == head.cookie
        if other.copied == 1 and same:
            other.tells = 1
            return True
    return False


@step
def _copy(machine, n, packet, head):
    """What the network sends twice, or late, goes out once more behind what waits already."""
    ports = machine.ports
    endpoint = machine.endpoints[n]
    what = fate(ports.faults[0], n, packet.number, 0)
    if what & (DUPLICATED | REORDERED) == 0 or what & LOST:
        return
    if endpoint.written - endpoint.finished == endpoint.send_ring:
        return
    ports.copies[0] = head
    ports.copies[0].copied = 1
    ports.copies[0].tells = 0
    place = place_in(endpoint.finished, endpoint.send_ring)
    push(machine, n, packet, ports.copies[0], machine.store.send_ring[n, place], COPIED)
