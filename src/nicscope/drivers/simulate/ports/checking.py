"""Checks on packets and transfers: corrupted bytes, and translations that no longer hold."""

from __future__ import annotations

from nicscope.drivers.simulate.machine import PCI_READS
from nicscope.fabric.faults import CORRUPTED, flip
from nicscope.kernel.decorators import distant
from nicscope.memory.paging.pins import may_transfer, may_transfer_into
from nicscope.nic.crc import crc32
from nicscope.nic.delivery import place_in


@distant
def is_sound(machine, d, slot):
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
    sent = crc32(held, 0)
    flip(held, ports.faults[0], packet.sender, packet.number, 0)
    return crc32(held, 0) == sent


@distant
def is_sound_on_nic(machine, d, slot):
    """The same, while the payload is still in the NIC's memory, where it stays as it is."""
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    if head.fate & CORRUPTED == 0 or packet.payload == 0:
        return True
    held = machine.store.receive_buffers[d, packet.buffer, : packet.payload]
    sent = crc32(held, 0)
    flip(held, ports.faults[0], packet.sender, packet.number, 0)
    found = crc32(held, 0)
    flip(held, ports.faults[0], packet.sender, packet.number, 0)  # back: it is one bit
    return found == sent


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
