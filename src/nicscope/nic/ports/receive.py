"""Where an arriving packet's bytes go: its header is judged, its place found and translated."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.arrivals import (
    NO_PLACE,
    PASSED_BY,
    REFUSED_FOR_GOOD,
    SWALLOWED,
    TAKEN,
    UNJUDGED,
    is_for_port,
    last_arrival,
    pass_by,
    takes_receive,
    without_room,
)
from nicscope.nic.ports.calls import (
    give_up_message,
    go_back,
    place_by_key,
    place_in_receive,
    place_scattered_answer,
    skip_unready,
)
from nicscope.nic.ports.free_queue import (
    has_fitting,
    has_report,
    keep_with_packet,
    take_ready,
)
from nicscope.nic.ports.holding import hold_for
from nicscope.nic.ports.layout import (
    BUFFERS,
    SEND,
    WRITE,
)
from nicscope.nic.ports.lookup import generation_of
from nicscope.nic.ports.remote_memory import place_answer, place_store
from nicscope.nic.ports.streams import is_of_work, is_reliable, stream_to
from nicscope.nic.ports.traffic import (
    INCOMPLETE,
    NO_BUFFER,
    NO_REPORT,
    TAKEN_BACK,
)


@distant
def place_arrival(nics, d):
    """Find where the payload of the last packet goes; whether the processor waits for it."""
    ports = nics.ports
    slot = last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.status != TAKEN:
        packet.broken = 1
        return False
    if ports.rules[0].serves == 0:
        _place_in_kernel(nics, d, slot)
        return False
    if takes_receive(nics, d, head):
        return place_in_receive(nics, d)
    if head.kind == SEND:
        place_message(nics, d, packet, head, slot)
        return False
    if is_of_work(nics, d, head):
        return place_by_key(nics, d) if head.kind == WRITE else place_scattered_answer(nics, d)
    if head.kind == WRITE:
        return place_store(nics, d, packet, head)
    return place_answer(nics, d, packet, head)


@step
def _place_in_kernel(nics, d, slot):
    """The controller knows no ports: packets go to the kernel's buffers one after the other."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.kind != SEND:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    head.frame = ports.kernel_frames[d, slot]
    head.generation = generation_of(nics, d, head.frame)
    packet.address = head.frame << ports.rules[0].page_bits


@routine
def place_message(nics, d, packet, head, slot):
    """Find the buffer that a packet of a message goes to: the next one, or the one begun."""
    ports = nics.ports
    if not is_for_port(nics, d, packet, head):
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    channel = ports.channels[d, head.name]
    if head.offset == 0 and not begin_message(nics, d, head):
        head.why = NO_REPORT
        pass_by(packet, head, without_room(nics, d, head))
        return
    unit = channel.unit
    place = head.offset // unit
    within = head.offset % unit
    if channel.placed != head.offset or channel.message != head.message:
        # Reliable packets come in order and all: an earlier one of this message was refused.
        head.why = INCOMPLETE
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    if place >= BUFFERS or within + packet.payload > unit:
        give_up_message(nics, d, head.name)
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    if within == 0 and not _has_next_buffer(nics, d, packet, head, place):
        return
    buffer = ports.filling[d, head.name, place]
    page = np.int64(1) << ports.rules[0].page_bits
    packet.address = buffer.frame * page + (buffer.address & (page - 1)) + within
    head.frame = buffer.frame
    head.generation = generation_of(nics, d, buffer.frame)
    channel.placed += packet.payload
    head.filled = 0
    if head.last == 1:
        keep_with_packet(nics, d, slot)


@step
def _has_next_buffer(nics, d, packet, head, place):
    """Whether the message of ``head`` gets its buffer ``place``; else its packet is passed by."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    skip_unready(nics, d, channel.port)
    if has_fitting(nics, d, channel.port, channel.unit):
        take_ready(nics, d, channel.port, ports.filling[d, head.name, place])
        channel.buffers += 1
        return True
    head.why = NO_BUFFER
    ports.table[d, channel.port].dropped += 1
    pass_by(packet, head, without_room(nics, d, head))
    is_lost = not is_reliable(ports, stream_to(ports, d, head.peer))
    if is_lost or head.status == REFUSED_FOR_GOOD:
        give_up_message(nics, d, head.name)
    return False


@routine
def begin_message(nics, d, head):
    """Have a new message come by its tag; whether a report of it will have its place."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    port = ports.table[d, channel.port]
    if channel.placed >= 0:
        give_up_message(nics, d, head.name)
    # Buffers that come back have the places of their reports before the message has its own.
    skip_unready(nics, d, channel.port)
    has_fitting(nics, d, channel.port, channel.unit)
    if not has_report(nics, d, channel.port):
        port.dropped += 1
        return False
    port.reserved += 1
    channel.message = head.message
    channel.placed = 0
    channel.buffers = 0
    return True


@step
def take_back(nics, d, peer):
    """Of what ``peer`` sent, what is placed and not completed will come again."""
    endpoint = nics.endpoints[d]
    for place in range(endpoint.accepted - 1, endpoint.completed - 1, -1):
        slot = place_in(place, endpoint.receive_ring)
        head = nics.ports.arrival_heads[d, slot]
        if head.peer == peer and head.status != UNJUDGED:
            takes = head.kind == SEND or head.receive >= 0
            if takes and head.status in (TAKEN, SWALLOWED):
                _stop(nics, d, place, slot)
                go_back(nics, d, slot)
            if head.status in (TAKEN, REFUSED_FOR_GOOD, NO_PLACE, SWALLOWED):
                head.why = TAKEN_BACK
            head.status = PASSED_BY


@step
def _stop(nics, d, place, slot):
    """No more of the payload goes to its buffer, which is for others now.

    The page of what is on its way there stays pinned for the packet until that is completed, as
    those of runs do in any case.
    """
    nics.arrivals[d, slot].broken = 1
    head = nics.ports.arrival_heads[d, slot]
    moving = nics.endpoints[d].draining == 1 and nics.endpoints[d].drained == place
    if head.runs > 0:
        return
    if moving and nics.ports.rules[0].serves == 1 and head.frame > GARBAGE_FRAME:
        head.lone = 1
        hold_for(nics, d, head)
