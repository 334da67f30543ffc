"""Where an arriving packet's bytes go: its header is judged, its place found and translated."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import PAYLOAD
from nicscope.nic.ports.calls import (
    ask_page,
    give_up_message,
    go_back,
    hold,
    needed_for,
    skip_unready,
    translated_frame,
)
from nicscope.nic.ports.free_queue import (
    has_fitting,
    has_report,
    keep_with_packet,
    take_ready,
)
from nicscope.nic.ports.handle_lookup import export_for, process_for
from nicscope.nic.ports.holding import NO_KEY, hold_for
from nicscope.nic.ports.layout import (
    ACKNOWLEDGEMENT,
    ARRIVAL,
    BARRED,
    BUFFERS,
    DONE,
    MISSED,
    NOBODY,
    NOT_THERE,
    OWN_PORT,
    REPLY,
    SEND,
    THREAD,
    WRITE,
    check_export,
)
from nicscope.nic.ports.lookup import generation_of, key_of, page_at
from nicscope.nic.ports.outcome import ask_for_page
from nicscope.nic.ports.reservation import note_dropped
from nicscope.nic.ports.streams import open_stream, stream_to
from nicscope.nic.ports.traffic import (
    DELIVERED,
    DUPLICATE,
    INCOMPLETE,
    NO_BUFFER,
    NO_ENTRY,
    NO_REPORT,
    NO_TRANSLATION,
    OUT_OF_TURN,
    TAKEN_BACK,
    VOID,
)
from nicscope.nic.reception import DUPLICATE as HAD_BEFORE
from nicscope.nic.reception import WANTED, judge, judge_unreliable, refuse

# What is known of an arriving packet (``head.status``).
UNJUDGED = 0
TAKEN = 1  # the transport wants it, and nothing speaks against it yet
DROPPED = 2  # the transport wants it, but it cannot be taken now: it must come again
REFUSED_FOR_GOOD = 3  # it is taken, and its sender learns that it was rejected
PASSED_BY = 4  # nobody wants it
NO_PLACE = 5  # as REFUSED_FOR_GOOD, but for want of an entry or a frame


@step
def last_arrival(nics, d):
    """Place in the rings of what node ``d`` accepted last."""
    endpoint = nics.endpoints[d]
    return (endpoint.accepted - 1) % endpoint.receive_ring


@step
def judge_header(nics, d, sender, head):
    """Say what is to become of the packet of ``head``, which has reached node ``d`` unharmed."""
    stream = open_stream(nics, d, sender)
    if head.kind == ACKNOWLEDGEMENT:
        return
    head.status = TAKEN
    if nics.ports.rules[0].reliable == 1:
        found = judge(stream, head.sequence)
    else:
        found = judge_unreliable(stream, head.sequence)
    if found != WANTED:
        head.status = PASSED_BY
        head.why = DUPLICATE if found == HAD_BEFORE else OUT_OF_TURN


@step
def note_header(nics, d, sender, place):
    """Copy the header at ``place`` of the sender's ring for the packet that came last; its slot."""
    ports = nics.ports
    slot = last_arrival(nics, d)
    ports.arrival_heads[d, slot] = ports.send_heads[sender, place]
    head = ports.arrival_heads[d, slot]
    head.key = NO_KEY
    head.lone = 0
    head.filled = -1
    head.status = UNJUDGED
    head.fate = 0
    head.why = VOID if head.kind == BARRED else DELIVERED
    return slot


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
    if head.kind == SEND:
        place_message(nics, d, packet, head, slot)
        return False
    if head.kind == WRITE:
        return _place_store(nics, d, packet, head)
    return _place_answer(nics, d, packet, head)


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
    if head.offset == 0:
        if channel.placed >= 0:
            give_up_message(nics, d, head.name)
        # Buffers that come back have the places of their reports before the message has its own.
        skip_unready(nics, d, channel.port)
        has_fitting(nics, d, channel.port, channel.unit)
    if head.offset == 0 and not begin_message(nics, d, head):
        head.why = NO_REPORT
        pass_by(packet, head, without_room(nics, d, packet, head))
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
    if within == 0:
        skip_unready(nics, d, channel.port)
        if not has_fitting(nics, d, channel.port, unit):
            head.why = NO_BUFFER
            ports.table[d, channel.port].dropped += 1
            pass_by(packet, head, without_room(nics, d, packet, head))
            if ports.rules[0].reliable == 0 or head.status == REFUSED_FOR_GOOD:
                give_up_message(nics, d, head.name)
            return
        take_ready(nics, d, channel.port, ports.filling[d, head.name, place])
        channel.buffers += 1
    buffer = ports.filling[d, head.name, place]
    page = np.int64(1) << ports.rules[0].page_bits
    packet.address = buffer.frame * page + (buffer.address & (page - 1)) + within
    head.frame = buffer.frame
    head.generation = generation_of(nics, d, buffer.frame)
    channel.placed += packet.payload
    head.filled = 0
    if head.last == 1:
        keep_with_packet(nics, d, slot)


@routine
def begin_message(nics, d, head):
    """Have a new message come by its tag; whether a report of it will have its place."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    port = ports.table[d, channel.port]
    if not has_report(nics, d, channel.port):
        port.dropped += 1
        return False
    port.reserved += 1
    channel.message = head.message
    channel.placed = 0
    channel.buffers = 0
    return True


@routine
def is_for_port(nics, d, packet, head):
    """Whether the tag of the packet is registered here, for this sender and its tag."""
    ports = nics.ports
    if head.name < 0 or head.name >= ports.channels.shape[1]:
        return False
    channel = ports.channels[d, head.name]
    if channel.port == NOBODY or channel.node != packet.sender or channel.tag != head.from_name:
        return False
    return ports.table[d, channel.port].open == 1


@step
def pass_by(packet, head, status):
    """The payload goes nowhere."""
    packet.broken = 1
    head.status = status


@step
def turn_away(nics, d, packet, head):
    """The packet cannot be taken now: it must come again, and so must all that follow it."""
    pass_by(packet, head, DROPPED)
    refuse_packet(nics, d, packet, head)


@step
def refuse_packet(nics, d, packet, head):
    """Have the transport take the packet's acceptance back; its sender gets a sign of life."""
    if nics.ports.rules[0].reliable == 1:
        stream = stream_to(nics.ports, d, packet.sender)
        refuse(stream, head.sequence)
        stream.ack_due = 1


@step
def without_room(nics, d, packet, head):
    """What becomes of a packet for which its port has no buffer, or no place for a report.

    It comes again, but not for ever: one port that takes nothing must not keep two nodes apart.
    """
    ports = nics.ports
    if ports.rules[0].reliable == 0:
        return np.int64(DROPPED)
    if is_too_often_unwanted(nics, d, packet.sender, head.sequence):
        return np.int64(REFUSED_FOR_GOOD)
    refuse_packet(nics, d, packet, head)
    return np.int64(DROPPED)


@routine
def is_too_often_unwanted(nics, d, sender, sequence):
    """Note that a packet finds no place; whether it has come in vain often enough."""
    stream = stream_to(nics.ports, d, sender)
    if stream.unwanted != sequence:
        stream.unwanted = sequence
        stream.unwanted_times = 0
    stream.unwanted_times += 1
    if stream.unwanted_times <= nics.ports.rules[0].most_retries:
        return False
    stream.unwanted = -1
    return True


@step
def take_back(nics, d, sender):
    """Of what ``sender`` sent, what is placed and not completed will come again."""
    endpoint = nics.endpoints[d]
    for place in range(endpoint.accepted - 1, endpoint.completed - 1, -1):
        slot = place % endpoint.receive_ring
        head = nics.ports.arrival_heads[d, slot]
        if nics.arrivals[d, slot].sender == sender and head.status != UNJUDGED:
            if head.kind == SEND and head.status == TAKEN:
                _stop(nics, d, place, slot)
                go_back(nics, d, slot)
            if head.status in (TAKEN, REFUSED_FOR_GOOD, NO_PLACE):
                head.why = TAKEN_BACK
            head.status = PASSED_BY


@step
def _stop(nics, d, place, slot):
    """No more of the payload goes to its buffer, which is for others now.

    The page of what is on its way there stays pinned for the packet until that is completed.
    """
    nics.arrivals[d, slot].broken = 1
    head = nics.ports.arrival_heads[d, slot]
    moving = nics.endpoints[d].draining == 1 and nics.endpoints[d].drained == place
    if moving and nics.ports.rules[0].serves == 1 and head.frame > GARBAGE_FRAME:
        head.lone = 1
        hold_for(nics, d, head)


@step
def _place_store(nics, d, packet, head):
    ports = nics.ports
    if head.name < 0 or head.name >= ports.exports.shape[1]:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    if not export_for(nics, d, packet, head):
        turn_away(nics, d, packet, head)
        return False
    export = ports.shown[d]
    # The header's length is the message's; of this packet, what it carries.
    head.length = packet.payload
    if check_export(export, head, packet.sender) != DONE:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    start = export.start if export.redirect < 0 else export.redirect
    if export.space == NOBODY:
        _sink(nics, packet, head, start + head.offset)
        return False
    return _translate(nics, d, packet, head, export.space, start + head.offset)


@step
def _sink(nics, packet, head, address):
    """The payload stays in the NIC's own memory, for which the garbage page stands."""
    page = np.int64(1) << nics.ports.rules[0].page_bits
    packet.address = GARBAGE_FRAME * page + (address & (page - 1))
    head.frame = GARBAGE_FRAME
    head.generation = 0


@step
def _place_answer(nics, d, packet, head):
    ports = nics.ports
    if head.kind != REPLY or not is_awaited(nics, d, packet, head):
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    if not process_for(nics, d, packet, head, head.name):
        turn_away(nics, d, packet, head)
        return False
    fetch = ports.fetches[d, head.name, head.slot]
    space = ports.table[d, head.name].space
    return _translate(nics, d, packet, head, space, fetch.address + head.offset)


@routine
def is_awaited(nics, d, packet, head):
    """Whether the answer belongs to a question of this node to its sender."""
    ports = nics.ports
    if head.name <= OWN_PORT or head.name >= ports.table.shape[1]:
        return False
    if head.slot < 0 or head.slot >= ports.rules[0].ring:
        return False
    fetch = ports.fetches[d, head.name, head.slot]
    if fetch.node != packet.sender:
        return False
    return head.offset >= 0 and head.offset + packet.payload <= fetch.length


@step
def _translate(nics, d, packet, head, space, address):
    ports = nics.ports
    page = page_at(nics, address)
    packet.address = address & ((np.int64(1) << ports.rules[0].page_bits) - 1)
    if packet.address + packet.payload > np.int64(1) << ports.rules[0].page_bits:
        # It was cut for another place in a page than it goes to.
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    head.space = space
    head.page = page
    if packet.address + packet.payload > np.int64(1) << ports.rules[0].page_bits:
        pass_by(packet, head, REFUSED_FOR_GOOD)  # what is redirected lies otherwise in its page
        return False
    stream = stream_to(ports, d, packet.sender)
    if stream.missed == head.sequence and head.sequence >= 0:
        # It has been looked up before, missed, and comes again.
        ports.nodes[d].repeated += 1
        stream.missed = -1
        frame = translated_frame(nics, d, space, page, 1)
        if frame != MISSED:
            stream.hopeless = -1
            _settle(nics, d, frame)
            return False
        if stream.hopeless == head.sequence:
            stream.hopeless = -1
            pass_by(packet, head, NO_PLACE)
            return False
        if is_barred(nics, d, space, page):
            pass_by(packet, head, REFUSED_FOR_GOOD)
            return False
        ask_for_page(nics, d, ARRIVAL, space, page, 1, 0)
        return True
    frame = ask_page(nics, d, space, page, 1)
    if frame == MISSED:
        ask_for_page(nics, d, ARRIVAL, space, page, 1, 0)
        return True
    if frame == NOT_THERE:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    _settle(nics, d, frame)
    return False


@step
def is_barred(nics, d, space, page):
    """Whether the kernel thread has found that the process has no such page to be written."""
    return nics.ports.rules[0].service == THREAD and needed_for(nics, d, space, page, 1) < 0


@step
def _settle(nics, d, frame):
    ports = nics.ports
    slot = last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    head.frame = frame
    head.generation = generation_of(nics, d, frame)
    head.key = key_of(nics, d, head.space, head.page)
    hold(nics, d, head.key)
    p = head.name if head.kind == REPLY else ports.exports[d, head.name].port
    ports.owners[d, head.key] = p
    packet.address += frame << ports.rules[0].page_bits


@step
def _post(nics, d):
    """NetRcv may take the payload, unless the network has given the packet up meanwhile."""
    endpoint = nics.endpoints[d]
    if endpoint.awaited == 1:
        endpoint.awaited = 0
        endpoint.posted = PAYLOAD


@distant
def settle_arrival(nics, d, frame):
    """The page of the last packet is translated: its payload may come."""
    _settle(nics, d, frame)
    _post(nics, d)


@distant
def drop_arrival(nics, d):
    """The last packet cannot be taken now; its payload is let pass."""
    ports = nics.ports
    slot = last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    stream_to(ports, d, nics.arrivals[d, slot].sender).missed = head.sequence
    head.why = NO_TRANSLATION
    note_dropped(nics, d, nics.arrivals[d, slot].sender, head.sequence)
    turn_away(nics, d, nics.arrivals[d, slot], head)
    _post(nics, d)


@distant
def turn_away_arrival(nics, d):
    """Transfers leave no entry for the last packet's page: it comes again, but not for ever.

    What it waits for may itself wait for this node, whose packets the other side turns away.
    """
    ports = nics.ports
    slot = last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if without_room(nics, d, packet, head) == REFUSED_FOR_GOOD:
        pass_by(packet, head, NO_PLACE)
        _post(nics, d)
    else:
        drop_arrival(nics, d)
        head.why = NO_ENTRY


@distant
def reject_arrival(nics, d):
    """The last packet may not go where it should."""
    slot = last_arrival(nics, d)
    pass_by(nics.arrivals[d, slot], nics.ports.arrival_heads[d, slot], REFUSED_FOR_GOOD)
    _post(nics, d)
