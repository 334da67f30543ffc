"""Where an arriving packet's bytes go: its header is judged, its place found and translated."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.machine import PCI_WRITES
from nicscope.drivers.simulate.ports import traffic
from nicscope.drivers.simulate.ports.ahead import (
    has_fitting,
    has_report,
    keep_with_packet,
    take_ready,
)
from nicscope.drivers.simulate.ports.calls import (
    ask_page,
    begin_miss,
    give_up_message,
    go_back,
    hold,
    needed_for,
    skip_unready,
    translated_frame,
)
from nicscope.drivers.simulate.ports.holding import NO_KEY, hold_for
from nicscope.drivers.simulate.ports.knowing import export_for, process_for
from nicscope.drivers.simulate.ports.misses import ARRIVAL
from nicscope.drivers.simulate.ports.promising import note_dropped
from nicscope.drivers.simulate.ports.state import THREAD
from nicscope.drivers.simulate.ports.streams import open_stream, stream_to
from nicscope.drivers.simulate.ports.traffic import (
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
from nicscope.drivers.simulate.ports.translating import (
    MISSED,
    NOT_THERE,
    generation_of,
    key_of,
    page_at,
)
from nicscope.fabric.faults import CORRUPTED, LOST, REORDERED, fate, is_dead
from nicscope.fabric.paths import link_of, path_length
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import PAYLOAD
from nicscope.nic.ports import (
    ACKNOWLEDGEMENT,
    BARRED,
    BUFFERS,
    DONE,
    NOBODY,
    OWN_PORT,
    REPLY,
    SEND,
    WRITE,
    check_export,
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
def last_arrival(machine, d):
    """Place in the rings of what node ``d`` accepted last."""
    endpoint = machine.endpoints[d]
    return (endpoint.accepted - 1) % endpoint.receive_ring


@distant
def meet_packet(machine, d, sender, place, now):
    """The header of a packet from ``sender``, at ``place`` of its ring, is in: judge it."""
    ports = machine.ports
    slot = last_arrival(machine, d)
    ports.arrival_heads[d, slot] = ports.send_heads[sender, place]
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    head.key = NO_KEY
    head.lone = 0
    head.filled = -1
    head.status = UNJUDGED
    head.fate = 0
    head.why = VOID if head.kind == BARRED else DELIVERED
    if ports.rules[0].faults == 1:
        _suffer(machine, d, packet, head, now)
    if head.kind == BARRED:
        return
    stream = open_stream(machine, d, sender)
    if head.kind == ACKNOWLEDGEMENT:
        return
    head.status = TAKEN
    if ports.rules[0].reliable == 1:
        found = judge(stream, head.sequence)
    else:
        found = judge_unreliable(stream, head.sequence)
    if found != WANTED:
        head.status = PASSED_BY
        head.why = DUPLICATE if found == HAD_BEFORE else OUT_OF_TURN


@step
def _suffer(machine, d, packet, head, now):
    """What the network does to the packet."""
    ports = machine.ports
    if head.kind == BARRED:
        return
    if is_cut_off(machine, packet.sender, d, now):
        head.kind = BARRED
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
        head.kind = BARRED


@distant
def is_cut_off(machine, s, d, now):
    """Whether a node or a link between ``s`` and ``d`` is dead."""
    deaths = machine.ports.deaths
    if is_dead(deaths.nodes, s, now) or is_dead(deaths.nodes, d, now):
        return True
    for place in range(path_length(machine.paths, s)):  # that the packet is on
        if is_dead(deaths.links, link_of(machine.paths, s, place), now):
            return True
    return False


@distant
def place_arrival(machine, d, now):
    """Find where the payload of the last packet goes; whether the processor waits for it."""
    ports = machine.ports
    slot = last_arrival(machine, d)
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    if head.status != TAKEN:
        packet.broken = 1
        return False
    if ports.rules[0].serves == 0:
        _place_in_kernel(machine, d, slot)
        return False
    if head.kind == SEND:
        _place_message(machine, d, packet, head, slot)
        return False
    if head.kind == WRITE:
        return _place_store(machine, d, packet, head, now)
    return _place_answer(machine, d, packet, head, now)


@step
def _place_in_kernel(machine, d, slot):
    """The controller knows no ports: packets go to the kernel's buffers one after the other."""
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    if head.kind != SEND:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    head.frame = ports.kernel_frames[d, slot]
    head.generation = generation_of(machine, d, head.frame)
    packet.address = head.frame << ports.rules[0].page_bits


@distant
def take_from_kernel(machine, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    begin = packet.address
    _place_message(machine, d, packet, head, slot)
    if packet.broken == 0:
        host = machine.store.host
        for i in range(packet.payload):
            host[d, packet.address + i] = host[d, begin + i]
        ports.nodes[d].copied += packet.payload


@routine
def _place_message(machine, d, packet, head, slot):
    ports = machine.ports
    if not is_for_port(machine, d, packet, head):
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    channel = ports.channels[d, head.name]
    if head.offset == 0:
        if channel.placed >= 0:
            give_up_message(machine, d, head.name)
        # Buffers that come back have the places of their reports before the message has its own.
        skip_unready(machine, d, channel.port)
        has_fitting(machine, d, channel.port, channel.unit)
    if head.offset == 0 and not begin_message(machine, d, head):
        head.why = NO_REPORT
        pass_by(packet, head, without_room(machine, d, packet, head))
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
        give_up_message(machine, d, head.name)
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return
    if within == 0:
        skip_unready(machine, d, channel.port)
        if not has_fitting(machine, d, channel.port, unit):
            head.why = NO_BUFFER
            ports.table[d, channel.port].dropped += 1
            pass_by(packet, head, without_room(machine, d, packet, head))
            if ports.rules[0].reliable == 0 or head.status == REFUSED_FOR_GOOD:
                give_up_message(machine, d, head.name)
            return
        take_ready(machine, d, channel.port, ports.filling[d, head.name, place])
        channel.buffers += 1
    buffer = ports.filling[d, head.name, place]
    page = np.int64(1) << ports.rules[0].page_bits
    packet.address = buffer.frame * page + (buffer.address & (page - 1)) + within
    head.frame = buffer.frame
    head.generation = generation_of(machine, d, buffer.frame)
    channel.placed += packet.payload
    head.filled = 0
    if head.last == 1:
        keep_with_packet(machine, d, slot)


@routine
def begin_message(machine, d, head):
    """Have a new message come by its tag; whether a report of it will have its place."""
    ports = machine.ports
    channel = ports.channels[d, head.name]
    port = ports.table[d, channel.port]
    if not has_report(machine, d, channel.port):
        port.dropped += 1
        return False
    port.reserved += 1
    channel.message = head.message
    channel.placed = 0
    channel.buffers = 0
    return True


@routine
def is_for_port(machine, d, packet, head):
    """Whether the tag of the packet is registered here, for this sender and its tag."""
    ports = machine.ports
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
def turn_away(machine, d, packet, head):
    """The packet cannot be taken now: it must come again, and so must all that follow it."""
    pass_by(packet, head, DROPPED)
    refuse_packet(machine, d, packet, head)


@step
def refuse_packet(machine, d, packet, head):
    """Have the transport take the packet's acceptance back; its sender gets a sign of life."""
    if machine.ports.rules[0].reliable == 1:
        stream = stream_to(machine.ports, d, packet.sender)
        refuse(stream, head.sequence)
        stream.ack_due = 1


@step
def without_room(machine, d, packet, head):
    """What becomes of a packet for which its port has no buffer, or no place for a report.

    It comes again, but not for ever: one port that takes nothing must not keep two nodes apart.
    """
    ports = machine.ports
    if ports.rules[0].reliable == 0:
        return np.int64(DROPPED)
    if is_too_often_unwanted(machine, d, packet.sender, head.sequence):
        return np.int64(REFUSED_FOR_GOOD)
    refuse_packet(machine, d, packet, head)
    return np.int64(DROPPED)


@routine
def is_too_often_unwanted(machine, d, sender, sequence):
    """Note that a packet finds no place; whether it has come in vain often enough."""
    stream = stream_to(machine.ports, d, sender)
    if stream.unwanted != sequence:
        stream.unwanted = sequence
        stream.unwanted_times = 0
    stream.unwanted_times += 1
    if stream.unwanted_times <= machine.ports.rules[0].most_retries:
        return False
    stream.unwanted = -1
    return True


@step
def take_back(machine, d, sender):
    """Of what ``sender`` sent, what is placed and not completed will come again."""
    endpoint = machine.endpoints[d]
    for place in range(endpoint.accepted - 1, endpoint.completed - 1, -1):
        slot = place % endpoint.receive_ring
        head = machine.ports.arrival_heads[d, slot]
        if machine.arrivals[d, slot].sender == sender and head.status != UNJUDGED:
            if head.kind == SEND and head.status == TAKEN:
                _stop(machine, d, place, slot)
                go_back(machine, d, slot)
            if head.status in (TAKEN, REFUSED_FOR_GOOD, NO_PLACE):
                head.why = TAKEN_BACK
            head.status = PASSED_BY


@step
def _stop(machine, d, place, slot):
    """No more of the payload goes to its buffer, which is for others now.

    The page of what is on its way there stays pinned for the packet until that is completed.
    """
    machine.arrivals[d, slot].broken = 1
    head = machine.ports.arrival_heads[d, slot]
    moving = machine.nodes[d].pci == PCI_WRITES and machine.endpoints[d].drained == place
    if moving and machine.ports.rules[0].serves == 1 and head.frame > GARBAGE_FRAME:
        head.lone = 1
        hold_for(machine, d, head)


@step
def _place_store(machine, d, packet, head, now):
    ports = machine.ports
    if head.name < 0 or head.name >= ports.exports.shape[1]:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    if not export_for(machine, d, packet, head, now):
        turn_away(machine, d, packet, head)
        return False
    export = ports.shown[d]
    # The header's length is the message's; of this packet, what it carries.
    head.length = packet.payload
    if check_export(export, head, packet.sender) != DONE:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    start = export.start if export.redirect < 0 else export.redirect
    if export.space == NOBODY:
        _sink(machine, packet, head, start + head.offset)
        return False
    return _translate(machine, d, packet, head, export.space, start + head.offset, now)


@step
def _sink(machine, packet, head, address):
    """The payload stays in the NIC's own memory, for which the garbage page stands."""
    page = np.int64(1) << machine.ports.rules[0].page_bits
    packet.address = GARBAGE_FRAME * page + (address & (page - 1))
    head.frame = GARBAGE_FRAME
    head.generation = 0


@step
def _place_answer(machine, d, packet, head, now):
    ports = machine.ports
    if head.kind != REPLY or not is_awaited(machine, d, packet, head):
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    if not process_for(machine, d, packet, head, head.name, now):
        turn_away(machine, d, packet, head)
        return False
    fetch = ports.fetches[d, head.name, head.slot]
    space = ports.table[d, head.name].space
    return _translate(machine, d, packet, head, space, fetch.address + head.offset, now)


@routine
def is_awaited(machine, d, packet, head):
    """Whether the answer belongs to a question of this node to its sender."""
    ports = machine.ports
    if head.name <= OWN_PORT or head.name >= ports.table.shape[1]:
        return False
    if head.slot < 0 or head.slot >= ports.rules[0].ring:
        return False
    fetch = ports.fetches[d, head.name, head.slot]
    if fetch.node != packet.sender:
        return False
    return head.offset >= 0 and head.offset + packet.payload <= fetch.length


@step
def _translate(machine, d, packet, head, space, address, now):
    ports = machine.ports
    page = page_at(machine, address)
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
        frame = translated_frame(machine, d, space, page, 1)
        if frame != MISSED:
            stream.hopeless = -1
            _settle(machine, d, frame)
            return False
        if stream.hopeless == head.sequence:
            stream.hopeless = -1
            pass_by(packet, head, NO_PLACE)
            return False
        if is_barred(machine, d, space, page):
            pass_by(packet, head, REFUSED_FOR_GOOD)
            return False
        begin_miss(machine, d, ARRIVAL, space, page, 1, 0, now)
        return True
    frame = ask_page(machine, d, space, page, 1)
    if frame == MISSED:
        begin_miss(machine, d, ARRIVAL, space, page, 1, 0, now)
        return True
    if frame == NOT_THERE:
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    _settle(machine, d, frame)
    return False


@step
def is_barred(machine, d, space, page):
    """Whether the kernel thread has found that the process has no such page to be written."""
    return machine.ports.rules[0].service == THREAD and needed_for(machine, d, space, page, 1) < 0


@step
def _settle(machine, d, frame):
    ports = machine.ports
    slot = last_arrival(machine, d)
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    head.frame = frame
    head.generation = generation_of(machine, d, frame)
    head.key = key_of(machine, d, head.space, head.page)
    hold(machine, d, head.key)
    p = head.name if head.kind == REPLY else ports.exports[d, head.name].port
    ports.owners[d, head.key] = p
    packet.address += frame << ports.rules[0].page_bits


@step
def _post(machine, d, now):
    """NetRcv may take the payload, unless the network has given the packet up meanwhile."""
    endpoint = machine.endpoints[d]
    if endpoint.awaited == 1:
        endpoint.awaited = 0
        endpoint.posted = PAYLOAD
        machine.nodes[d].receive_begun = now


@distant
def settle_arrival(machine, d, frame, now):
    """The page of the last packet is translated: its payload may come."""
    _settle(machine, d, frame)
    _post(machine, d, now)


@distant
def drop_arrival(machine, d, now):
    """The last packet cannot be taken now; its payload is let pass."""
    ports = machine.ports
    slot = last_arrival(machine, d)
    head = ports.arrival_heads[d, slot]
    stream_to(ports, d, machine.arrivals[d, slot].sender).missed = head.sequence
    head.why = NO_TRANSLATION
    note_dropped(machine, d, machine.arrivals[d, slot].sender, head.sequence)
    turn_away(machine, d, machine.arrivals[d, slot], head)
    _post(machine, d, now)


@distant
def turn_away_arrival(machine, d, now):
    """Transfers leave no entry for the last packet's page: it comes again, but not for ever.

    What it waits for may itself wait for this node, whose packets the other side turns away.
    """
    ports = machine.ports
    slot = last_arrival(machine, d)
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    if without_room(machine, d, packet, head) == REFUSED_FOR_GOOD:
        pass_by(packet, head, NO_PLACE)
        _post(machine, d, now)
    else:
        drop_arrival(machine, d, now)
        head.why = NO_ENTRY


@distant
def reject_arrival(machine, d, now):
    """The last packet may not go where it should."""
    slot = last_arrival(machine, d)
    pass_by(machine.arrivals[d, slot], machine.ports.arrival_heads[d, slot], REFUSED_FOR_GOOD)
    _post(machine, d, now)
