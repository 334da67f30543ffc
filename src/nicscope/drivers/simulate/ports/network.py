"""The network under ports: what becomes of a packet on its way, and which way it takes."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.hazards import is_cut_off
from nicscope.drivers.simulate.machine import PATHS
from nicscope.fabric.faults import CORRUPTED, LOST, REORDERED, fate
from nicscope.fabric.paths import take_path
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import traffic
from nicscope.nic.ports.arrivals import judge_header, note_header
from nicscope.nic.ports.layout import BARRED
from nicscope.nic.ports.traffic import DELIVERED


@distant
def meet_packet(machine, d, sender, place, now):
    """The header of a packet from ``sender``, at ``place`` of its ring, is in, if it arrives."""
    slot = note_header(machine, d, sender, place)
    head = machine.ports.arrival_heads[d, slot]
    if machine.ports.rules[0].faults == 1:
        _suffer(machine, d, machine.arrivals[d, slot], head, now)
    if head.kind & BARRED == 0:
        judge_header(machine, d, head)


@step
def _suffer(machine, d, packet, head, now):
    """What the network does to the packet."""
    ports = machine.ports
    if head.kind & BARRED:
        return
    if is_cut_off(machine, packet.sender, d, now):
        head.kind |= BARRED
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
        head.kind |= BARRED


@distant
def take_route(machine, n, d, path):
    """What node ``n`` sends to ``d`` goes by that path from now on."""
    take_path(machine.paths, n, d, path)


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
def break_off(machine, n, d):
    """What node ``n`` is putting on the network for ``d`` ends where it is."""
    if machine.nodes[d].source == n and machine.endpoints[n].control_sent == 1:
        there = machine.endpoints[d]
        machine.arrivals[d, (there.accepted - 1) % there.receive_ring].broken = 1
