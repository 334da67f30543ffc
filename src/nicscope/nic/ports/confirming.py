"""Packets are confirmed: each when it is completed, or already when it is whole on the NIC.

Which of both a connection's level says: RECEPTION promises that a message is in the other's memory,
DELIVERY that it is on the other's NIC, which has it by then whatever becomes of it there.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports.arrivals import TAKEN
from nicscope.nic.ports.calls import is_sound_on_nic
from nicscope.nic.ports.layout import DELIVERY
from nicscope.nic.ports.reservation import keep_promise
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.window import mind_acknowledgement
from nicscope.nic.reception import confirm, may_confirm


@step
def confirm_packet(nics, d, head, reject):
    """Have the packet of ``head`` acknowledged; its sender learns too if it was a ``reject``."""
    stream = stream_to(nics.ports, d, head.peer)
    confirm(stream, head.sequence)
    keep_promise(nics, d, head.peer, head.sequence)
    stream.rejects = stream.rejects << np.uint64(1) | reject


@step
def confirms_on_nic(nics, d, slot):
    """Whether the packet in ``slot`` is of a connection that confirms what is on the NIC."""
    ports = nics.ports
    return stream_to(ports, d, ports.arrival_heads[d, slot].peer).level == DELIVERY


@distant
def note_on_nic(nics, d, slot, now):
    """All of the packet in ``slot`` is on the NIC: it is confirmed, if it came as it was sent.

    One before it that has not been confirmed yet has it wait until it is completed, and so does a
    kernel that takes packets from its NIC, and may have no room for them.
    """
    if nics.ports.rules[0].serves == 0:
        return
    head = nics.ports.arrival_heads[d, slot]
    stream = stream_to(nics.ports, d, head.peer)
    if head.status != TAKEN or not may_confirm(stream, head.sequence):
        return
    if is_sound_on_nic(nics, d, slot):
        confirm_packet(nics, d, head, np.uint64(0))
        mind_acknowledgement(nics, d, head.peer, now)
