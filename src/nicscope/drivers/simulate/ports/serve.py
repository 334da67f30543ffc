"""The firmware's task SERVE: a descriptor is taken, its next page translated, a packet made."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports import calls
from nicscope.drivers.simulate.ports.calls import (
    ask_page,
    begin_miss,
    hold,
    release,
    report_sent,
    send_again,
    send_bare_acknowledgement,
    take_buffer,
    translated_frame,
)
from nicscope.drivers.simulate.ports.choose import (
    ACK,
    AHEAD,
    CUT_SHORT,
    RESEND,
    destination_of,
    index_of,
    kind_of,
)
from nicscope.drivers.simulate.ports.holding import NO_KEY
from nicscope.drivers.simulate.ports.knowing import knows_request, looks_up_handles
from nicscope.drivers.simulate.ports.reliable import clear, may_send_to, push, send_numbered
from nicscope.drivers.simulate.ports.streams import open_stream, stream_to
from nicscope.drivers.simulate.ports.traffic import FIRST
from nicscope.drivers.simulate.ports.translating import (
    MISSED,
    NOT_THERE,
    generation_of,
    key_of,
    page_at,
)
from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.ports import (
    BAD_DESCRIPTOR,
    BAD_HANDLE,
    BAD_TAG,
    CUT,
    DONE,
    FETCH,
    INLINE,
    INLINE_BYTES,
    MAY_FETCH,
    MAY_WRITE,
    NO_RIGHTS,
    NOBODY,
    OUT_OF_BOUNDS,
    OWN_PORT,
    PEER_DEAD,
    REPLY,
    SEGMENTS,
    SEND,
    check_request,
)
from nicscope.nic.transport import number_unreliable

NO_PAGE = -1


@step
def enters_page(machine, n, p):
    """Whether the next packet of port ``p`` comes from a page not yet translated."""
    port = machine.ports.table[n, p]
    if port.options & INLINE or port.operation == FETCH or port.segment >= port.segments:
        return False
    address = machine.ports.current[n, p, port.segment].address + port.segment_done
    return page_at(machine, address) != port.page


@distant
def serve(machine, n, now):
    """Effect of SERVE, whose time the processor of ``n`` has spent."""
    serving = machine.ports.nodes[n]
    kind = kind_of(serving.source)
    index = index_of(serving.source)
    if kind == ACK:
        if stream_to(machine.ports, n, index).urgent == 1:
            send_bare_acknowledgement(machine, n, index)
    elif kind == RESEND:
        send_again(machine, n, index)
    elif kind == CUT_SHORT:
        _tell_of_cut(machine, n, index)
    elif kind == AHEAD:
        serving.turn = index
        take_buffer(machine, n, index, now)
    else:
        serving.turn = index
        serve_port(machine, n, index, now)


@step
def serve_port(machine, n, p, now):
    """Go on with the descriptor of port ``p``, or take its next one."""
    port = machine.ports.table[n, p]
    if port.open == 0 or (port.busy == 0 and port.taken == port.posted):
        return
    if port.busy == 0:
        handles_known = not looks_up_handles(machine) or p == OWN_PORT
        if not handles_known and not knows_request(machine, n, p, now):
            return
        _take_request(machine, n, p)
        status = _check(machine, n, p)
        if status != DONE:
            calls.end_request(machine, n, p, status)
            return
    d = destination_of(machine, n, p)
    if stream_to(machine.ports, n, d).dead == 1:
        calls.end_request(machine, n, p, PEER_DEAD)
        return
    if not may_send_to(machine, n, d):
        return
    if enters_page(machine, n, p):
        leave_page(machine, n, p)  # or it might occupy the only way of the next one's set
        address = machine.ports.current[n, p, port.segment].address + port.segment_done
        page = page_at(machine, address)
        space = space_of(machine, n, p)
        frame = _look_up(machine, n, p, space, page)
        if frame == MISSED:
            port.missed = page
            begin_miss(machine, n, p, space, page, 0, 0, now)
            return
        if frame == NOT_THERE:
            calls.end_request(machine, n, p, NO_RIGHTS)
            return
        calls.enter_page(machine, n, p, page, frame)
    calls.next_packet(machine, n, p)


@step
def _look_up(machine, n, p, space, page):
    """Frame of ``page``, ``MISSED`` or ``NOT_THERE``; one that missed is not looked up twice."""
    if space == NOBODY:
        return np.int64(GARBAGE_FRAME)  # the NIC's own memory, of which no bytes are kept
    if machine.ports.table[n, p].missed != page:
        return ask_page(machine, n, space, page, 0)
    machine.ports.nodes[n].repeated += 1
    return translated_frame(machine, n, space, page, 0)


@step
def space_of(machine, n, p):
    """Whose addresses the descriptor under way names."""
    port = machine.ports.table[n, p]
    return port.reply_space if p == OWN_PORT else port.space


@distant
def enter_page(machine, n, p, page, frame):
    """The page that port ``p`` sends from is translated; it is held until the next one."""
    port = machine.ports.table[n, p]
    leave_page(machine, n, p)
    port.page = page
    port.frame = frame
    port.missed = NO_PAGE
    port.until = 0
    space = space_of(machine, n, p)
    if space != NOBODY:
        port.key = key_of(machine, n, space, page)
        hold(machine, n, port.key)
        machine.ports.owners[n, port.key] = p if p != OWN_PORT else port.reply_owner


@step
def leave_page(machine, n, p):
    """Port ``p`` has done with the page that it sends from."""
    port = machine.ports.table[n, p]
    release(machine, n, port.key)
    port.key = NO_KEY
    port.page = NO_PAGE


@step
def _take_request(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    slot = port.taken % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    port.taken += 1
    port.busy = 1
    port.slot = slot
    port.operation = request.operation
    port.name = request.name
    port.offset = request.offset
    port.segments = request.segments
    port.options = request.options
    port.cookie = request.cookie
    port.length = request.length
    port.reply_port = NOBODY
    if p == OWN_PORT:
        port.reply_space = request.space
        port.reply_port = request.port
        port.reply_owner = request.owner
    for i in range(SEGMENTS):
        ports.current[n, p, i] = ports.segments[n, p, slot, i]
    if port.options & INLINE:
        copy_bytes(ports.carried[n, p], 0, ports.inline[n, p, slot], 0, INLINE_BYTES)
    port.done = 0
    port.segment = 0
    port.segment_done = 0
    port.page = NO_PAGE
    port.missed = NO_PAGE
    port.until = 0
    port.key = NO_KEY


@step
def _check(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    if p == OWN_PORT:
        port.total = ports.current[n, p, 0].length if port.segments > 0 else 0
        return DONE
    if ports.rules[0].sparse == 0:  # a trace was checked when it was read
        status = check_request(port, ports.current[n, p], ports.rules[0].space_bytes)
        if status != DONE:
            return status
        if port.operation != SEND and ports.rules[0].serves == 0:
            return BAD_DESCRIPTOR  # U-Net has no remote memory, and no handler for it
    port.total = _total(ports.current[n, p], port)
    if port.operation == SEND:
        return _check_channel(machine, n, p)
    return _check_import(machine, n, p)


@step
def _total(segments, port):
    if port.options & INLINE:
        return port.length
    total = np.int64(0)
    for i in range(port.segments):
        total += segments[i].length
    return total


@step
def _check_channel(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    if port.name < 0 or port.name >= ports.channels.shape[1]:
        return BAD_TAG
    channel = ports.channels[n, port.name]
    if channel.port != p:
        return BAD_TAG
    if port.total > channel.most:
        return OUT_OF_BOUNDS
    if stream_to(ports, n, channel.node).dead == 1:
        return PEER_DEAD
    channel.sent += 1
    port.message = channel.sent
    return DONE


@step
def _check_import(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    if port.name < 0 or port.name >= ports.imports.shape[1]:
        return BAD_HANDLE
    imported = ports.imports[n, port.name]
    if imported.port != p:
        return BAD_HANDLE
    if port.options & INLINE or ports.rules[0].serves == 0:
        return BAD_DESCRIPTOR  # a controller that knows no ports knows no memory of others either
    if port.operation == FETCH and ports.rules[0].reliable == 0:
        return BAD_DESCRIPTOR  # nobody would learn that the question or its answer is lost
    if port.offset < 0 or port.offset > imported.length - port.total:
        return OUT_OF_BOUNDS
    needed = MAY_FETCH if port.operation == FETCH else MAY_WRITE
    if imported.rights & needed == 0:
        return NO_RIGHTS
    if stream_to(ports, n, imported.node).dead == 1:
        return PEER_DEAD
    return DONE


@distant
def end_request(machine, n, p, status):
    """The descriptor under way at port ``p`` goes no further; with ``DONE`` a packet tells."""
    port = machine.ports.table[n, p]
    leave_page(machine, n, p)
    port.busy = 0
    if status == DONE:
        return
    if port.operation == SEND and port.done > 0 and status != PEER_DEAD:
        _cut_short(machine, n, p)
    if p == OWN_PORT:
        if status != PEER_DEAD:
            _answer_without_data(machine, n, status)
    else:
        report_sent(machine, n, p, port.slot, status)


@step
def _cut_short(machine, n, p):
    """A part of the message under way has gone: its receiver is to be told that no more will come.

    Or the buffers that it fills would wait for the rest until another message comes by the tag.
    """
    port = machine.ports.table[n, p]
    channel = machine.ports.channels[n, port.name]
    machine.ports.nodes[n].cuts += channel.cut == 0
    channel.cut = port.message


@step
def _tell_of_cut(machine, n, tag):
    """Tell the peer of ``tag`` that the rest of a message will not come."""
    ports = machine.ports
    channel = ports.channels[n, tag]
    if channel.cut == 0 or not may_send_to(machine, n, channel.node):
        return
    packet = ports.blank[0]
    head = ports.blank_head[0]
    clear(packet, head)
    packet.destination = channel.node
    head.kind = CUT
    head.name = channel.tag
    head.from_name = tag
    head.message = channel.cut
    channel.cut = 0
    ports.nodes[n].cuts -= 1
    if stream_to(ports, n, channel.node).dead == 1:
        return
    if ports.rules[0].reliable == 1:
        send_numbered(machine, n, packet, head, ports.blank_bytes)
    else:
        head.sequence = number_unreliable(open_stream(machine, n, packet.destination))
        push(machine, n, packet, head, ports.blank_bytes, FIRST)


@step
def _answer_without_data(machine, n, status):
    """Tell who asked that there will be no answer: a descriptor without segments does."""
    ports = machine.ports
    port = ports.table[n, OWN_PORT]
    request = ports.requests[n, OWN_PORT, port.posted % ports.rules[0].ring]
    request.operation = REPLY
    request.name = port.name
    request.port = port.reply_port
    request.cookie = port.cookie
    request.offset = 0
    request.segments = 0
    request.space = NOBODY  # nothing is looked up for it
    request.options = 0
    request.length = status
    port.posted += 1
    ports.nodes[n].attention = 1


@distant
def next_packet(machine, n, p):
    """Make the next packet of the descriptor under way at port ``p``; its page is translated."""
    ports = machine.ports
    port = ports.table[n, p]
    packet = ports.blank[0]
    head = ports.blank_head[0]
    _address(machine, n, p, packet, head)
    length = np.int64(0)
    if port.options & INLINE == 0 and port.operation != FETCH and port.total > 0:
        length = _piece(machine, n, p)
        offset = (ports.current[n, p, port.segment].address + port.segment_done) & (
            (1 << ports.rules[0].page_bits) - 1
        )
        packet.address = (port.frame << ports.rules[0].page_bits) + offset
        head.key = port.key
        head.space = space_of(machine, n, p)
        head.frame = port.frame
        head.generation = generation_of(machine, n, port.frame)
        port.segment_done += length
        if port.segment_done == ports.current[n, p, port.segment].length:
            port.segment += 1
            port.segment_done = 0
    packet.payload = length
    head.offset += port.done
    port.done += length
    moves_all = length == 0 or port.done == port.total
    serving = ports.nodes[n]
    serving.bytes_out += length
    if moves_all and p != OWN_PORT:
        serving.messages_out += 1
        if port.options & INLINE:
            serving.bytes_out += port.length
    head.last = 1 if moves_all else 0
    if ports.rules[0].reliable == 1:
        send_numbered(machine, n, packet, head, ports.carried[n, p])
    else:
        head.sequence = number_unreliable(open_stream(machine, n, packet.destination))
        push(machine, n, packet, head, ports.carried[n, p], FIRST)
    if moves_all:
        calls.end_request(machine, n, p, DONE)


@step
def _address(machine, n, p, packet, head):
    """Fill in what does not depend on the piece."""
    ports = machine.ports
    port = ports.table[n, p]
    clear(packet, head)
    packet.destination = destination_of(machine, n, p)
    packet.posted_at = machine.tally[0].now
    head.kind = port.operation
    head.from_port = p
    head.cookie = port.taken - 1
    head.slot = port.slot
    head.options = port.options
    head.total = port.total
    head.length = port.total
    head.offset = port.offset
    if port.operation == SEND:
        channel = ports.channels[n, port.name]
        head.name = channel.tag
        head.from_name = port.name
        head.message = port.message
        head.offset = 0
    elif port.operation == REPLY:
        head.name = port.reply_port
        head.slot = port.cookie
        head.options = port.length  # a status
        head.offset = 0
    else:
        imported = ports.imports[n, port.name]
        head.name = imported.export
        head.epoch = imported.epoch
        head.message = port.taken
        if port.operation == FETCH:
            _await_answer(machine, n, p, head)


@step
def _await_answer(machine, n, p, head):
    ports = machine.ports
    port = ports.table[n, p]
    fetch = ports.fetches[n, p, port.slot]
    fetch.node = ports.imports[n, port.name].node
    fetch.address = ports.current[n, p, 0].address
    fetch.length = port.total
    fetch.arrived = 0
    fetch.failure = DONE
    fetch.cookie = port.cookie
    open_stream(machine, n, fetch.node).fetching += 1
    head.into = fetch.address & ((1 << ports.rules[0].page_bits) - 1)


@step
def _piece(machine, n, p):
    """Bytes that the next packet carries: no page is crossed, here or there."""
    ports = machine.ports
    port = ports.table[n, p]
    page = np.int64(1) << ports.rules[0].page_bits
    segment = ports.current[n, p, port.segment]
    address = segment.address + port.segment_done
    length = min(segment.length - port.segment_done, page - (address & (page - 1)))
    if port.operation == SEND:
        unit = ports.channels[n, port.name].unit
        return min(length, unit - port.done % unit)
    there = port.offset + port.done
    if port.operation != REPLY:
        there += ports.imports[n, port.name].start
    return min(length, page - (there & (page - 1)))
