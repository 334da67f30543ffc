"""What goes wrong with a packet on its way: by chance, or because a node or a link has died."""

from __future__ import annotations

from nicscope.fabric.faults import CORRUPTED, LOST, fate, is_dead
from nicscope.fabric.paths import link_of, path_length
from nicscope.kernel.decorators import step

CUT_OFF = 16  # beside what ``fabric.faults`` names


@step
def is_cut_off(machine, s, d, now):
    """Whether a node or a link between ``s``, whose packet is on its path, and ``d`` is dead."""
    deaths = machine.ports.deaths
    if is_dead(deaths.nodes, s, now) or is_dead(deaths.nodes, d, now):
        return True
    if s == d:
        return False  # it goes over no link
    for place in range(path_length(machine.paths, s)):  # that the packet is on
        if is_dead(deaths.links, link_of(machine.paths, s, place), now):
            return True
    return False


@step
def judge_header(machine, packet, arrival, now):
    """What becomes of a packet that no port minds is settled when its header is in."""
    if is_cut_off(machine, packet.sender, packet.destination, now):
        arrival.fate = CUT_OFF
        return
    befell = fate(machine.ports.faults[0], packet.sender, packet.number, 0)
    if befell & LOST:
        arrival.fate = LOST
    elif befell & CORRUPTED:
        arrival.fate = CORRUPTED


@step
def count_broken(node, packet):
    """The firmware drops a packet that the network has broken: why, for the observer."""
    node.lost += packet.fate == LOST
    node.corrupted += packet.fate == CORRUPTED
    node.cut_off += packet.fate == CUT_OFF
