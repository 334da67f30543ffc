"""The network under ports: packets leave, are lost or arrive, and are checked."""

import numpy as np

from nicscope.drivers.simulate.link import is_cut_off
from nicscope.drivers.simulate.records import PATHS, PCI_READS
from nicscope.drivers.simulate.wire import is_far_end
from nicscope.fabric.faults import (
    CORRUPTED,
    DUPLICATED,
    LOST,
    REORDERED,
    damaged_bit,
    fate,
    invert,
    is_dead,
)
from nicscope.fabric.paths import set_path
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.frames import may_transfer, may_transfer_into
from nicscope.nic import aal5
from nicscope.nic.aal5 import framing_of
from nicscope.nic.crc import crc32
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import traffic
from nicscope.nic.ports.arrivals import classify_packet, record_header
from nicscope.nic.ports.calls import choose_source
from nicscope.nic.ports.cells import pdu_bytes
from nicscope.nic.ports.layout import VOIDED
from nicscope.nic.ports.streams import is_reliable, stream_to
from nicscope.nic.ports.traffic import COPIED, DELIVERED, tally_packet_out
from nicscope.nic.ports.transmit import NO_SOURCE, on_packet_sent
from nicscope.nic.ports.window import push


@distant
def receive_header(machine, d, sender, place, now):
    """Handles the header of a packet from ``sender`` at ``place`` of its ring, if it arrives.

    Or from the far end of a wire, at ``place`` of what is in flight.
    """
    if is_far_end(machine, sender):
        slot = record_header(machine, d, machine.wire.heads[place])
    else:
        slot = record_header(machine, d, machine.ports.send_heads[sender, place])
    head = machine.ports.arrival_heads[d, slot]
    if machine.ports.rules[0].faults == 1:
        _apply_faults(machine, d, machine.arrivals[d, slot], head, now)
    if head.kind & VOIDED == 0:
        classify_packet(machine, d, head)


@step
def _apply_faults(machine, d, packet, head, now):
    """Applies the network's faults to the packet."""
    ports = machine.ports
    if head.kind & VOIDED:
        return
    if is_cut_off(machine, packet.sender, d, now):
        head.kind |= VOIDED
        head.why = traffic.CUT_OFF
        return
    if head.copied == 1:
        return
    head.fate = fate(ports.faults[0], packet.sender, packet.number, 0)
    if head.fate & LOST:
        head.why = traffic.LOST
    elif head.fate & REORDERED:
        head.why = traffic.OVERTAKEN
    elif head.fate & CORRUPTED and packet.payload == 0:
        head.why = traffic.CORRUPTED
    if head.why != DELIVERED:
        head.kind |= VOIDED


@distant
def set_route(machine, n, d, path):
    """Route what node ``n`` sends to ``d`` over ``path`` from now on."""
    set_path(machine.paths, n, d, path)


@distant
def search_route(machine, n, now):
    """Node ``n`` begins to look for routes to and from its ``searching``, by a probe on its link.

    What the probes come to is found outside (``mapping``), before anything else happens.
    """
    serving = machine.ports.nodes[n]
    serving.search_asked = 1
    serving.search_there = 0
    serving.search_back = 0
    serving.search_until = now + max(np.int64(1), 2 * machine.costs[n].link_start)
    machine.tally[0].wants |= PATHS


@distant
def abort_transmission(machine, n, d):
    """Aborts what node ``n`` is sending to ``d``."""
    if machine.nodes[d].source == n and machine.endpoints[n].control_sent == 1:
        there = machine.endpoints[d]
        machine.arrivals[d, (there.accepted - 1) % there.receive_ring].broken = 1


@distant
def has_valid_checksum(machine, d, slot):
    """Whether the payload of the packet in ``slot`` has the checksum that it was sent with.

    Summed only where the network corrupts packets: everywhere else the sums are equal.
    """
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    if head.fate & CORRUPTED == 0 or packet.payload == 0:
        return True
    begin = packet.address
    end = begin + packet.payload
    held = machine.store.host[d, begin:end]
    if head.runs > 0:  # what has gone to several places is summed where it came from
        held = machine.store.receive_buffers[d, packet.buffer, : packet.payload]
    return _survives_damage(machine, held, packet, head)


@distant
def has_valid_checksum_on_nic(machine, d, slot):
    """Whether the payload in ``slot``, still in NIC memory, has the checksum it was sent with."""
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    if head.fate & CORRUPTED == 0 or packet.payload == 0:
        return True
    held = machine.store.receive_buffers[d, packet.buffer, : packet.payload]
    valid = _survives_damage(machine, held, packet, head)
    place = _place_of_damage(machine, packet, head)
    if place < 8 * packet.payload:
        invert(held, place)  # back: it is one bit
    return valid


@step
def _survives_damage(machine, held, packet, head):
    """Whether the packet's payload ``held`` has its checksum still once a bit of it is inverted.

    In cells it may be one of the padding and trailer behind it.
    """
    framing = _framing_behind(machine, packet, head)
    place = _place_of_damage(machine, packet, head)
    if framing == 0:
        sent = crc32(held, 0)
        invert(held, place)
        return crc32(held, 0) == sent
    sent = aal5.checksum(held, head.total, framing, aal5.INTACT)
    damaged = place - 8 * packet.payload
    if damaged < 0:
        invert(held, place)
        damaged = np.int64(aal5.INTACT)
    return aal5.is_whole(held, head.total, framing, sent, damaged)


@step
def _place_of_damage(machine, packet, head):
    """Which bit the network inverts of a packet's payload and of what is framed behind it."""
    size = packet.payload + _framing_behind(machine, packet, head)
    return damaged_bit(machine.ports.faults[0], packet.sender, packet.number, 0, size)


@step
def _framing_behind(machine, packet, head):
    """Bytes of padding and trailer behind an arrived packet: 0 where there are no cells."""
    s = packet.sender
    costs = machine.costs[s]
    if costs.cell_bytes == 0:
        return np.int64(0)
    others = machine.endpoints[s].control_bytes
    data = pdu_bytes(machine.ports, s, head, packet.payload, others)
    if data < 0:
        return np.int64(0)
    return framing_of(data, costs.cell_bytes, costs.trailer_bytes)


@distant
def check_transfer(machine, n):
    """Count the PCI transfer of ``n`` if the translation that it uses no longer holds.

    Called when one begins and when it ends: a page may not go meanwhile.
    """
    ports = machine.ports
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if node.pci == PCI_READS:
        head = ports.send_heads[n, place_in(node.fetching, endpoint.send_ring)]
        holds = may_transfer(ports.memory, n, head.frame, head.generation)
    else:
        head = ports.arrival_heads[n, place_in(endpoint.drained, endpoint.receive_ring)]
        holds = may_transfer_into(ports.memory, n, head.frame, head.generation)
    if not holds:
        ports.nodes[n].stale += 1


@step
def choose_work(machine, n, now):
    """Determines what SERVE would be begun for, if there is room for a packet."""
    endpoint = machine.endpoints[n]
    endpoint.to_serve = NO_SOURCE
    if endpoint.written - endpoint.finished < endpoint.send_ring:
        serving = machine.ports.nodes[n]
        waiting = serving.acks + serving.retransmits + serving.cuts + serving.attention
        if waiting == 0:
            return  # as ``choose_source`` would find
        if machine.ports.rules[0].faults == 1 and is_dead(machine.ports.deaths.nodes, n, now):
            return
        endpoint.to_serve = choose_source(machine, n)


@distant
def end_packet_send(machine, n, place, now):
    """Handles the last byte leaving of the packet at ``place`` of the send ring of ``n``."""
    ports = machine.ports
    packet = machine.sends[n, place]
    head = ports.send_heads[n, place]
    tally_packet_out(machine, n, packet, head)
    if ports.rules[0].faults == 1 and head.copied == 0:
        _copy(machine, n, packet, head)
    tells = False
    if not is_reliable(ports, stream_to(ports, n, head.own)):
        if head.copied == 1:
            tells = head.tells == 1
        else:
            tells = head.last == 1 and not _has_copies_pending(machine, n, head)
    on_packet_sent(machine, n, place, tells, now)


@step
def _has_copies_pending(machine, n, head):
    """Whether copies of the request's packets are still to leave, which read its memory again."""
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
    """Queues a packet that the network duplicates or delays behind what waits already."""
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
