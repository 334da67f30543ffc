"""The firmware's task SERVE: a descriptor is taken, its next page translated, a packet made."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.ports import calls
from nicscope.nic.ports.accounts import BYTES_OUT, MESSAGES_OUT
from nicscope.nic.ports.arbitrate import (
    ACK,
    AHEAD,
    CUT_SHORT,
    DESCRIPTOR,
    NO_SOURCE,
    OVERRUN,
    RESEND,
    destination_of,
    index_of,
    kind_of,
    may_go,
    next_token,
    whose_work,
)
from nicscope.nic.ports.atomics import changes_memory, exchange
from nicscope.nic.ports.calls import (
    ask_page,
    begin_reading,
    end_overrun,
    end_work,
    hold,
    release,
    report_sent,
    send_again,
    send_bare_acknowledgement,
    take_buffer,
    translated_frame,
)
from nicscope.nic.ports.cutting import cut_short, tell_of_cut
from nicscope.nic.ports.datagrams import address_datagram, leave_way
from nicscope.nic.ports.descriptor import NO_PAGE, check_taken, take_request
from nicscope.nic.ports.handle_lookup import knows_request, looks_up_handles
from nicscope.nic.ports.holding import NO_KEY, let_go
from nicscope.nic.ports.layout import (
    DONE,
    FETCH,
    INLINE,
    MISSED,
    NO_RIGHTS,
    NOBODY,
    NOT_THERE,
    ONE,
    OWN_PORT,
    PEER_DEAD,
    PROTECTION,
    REPLY,
    SEND,
    WRITE,
)
from nicscope.nic.ports.lookup import generation_of, key_of, page_at
from nicscope.nic.ports.outcome import ask_for_descriptor, ask_for_page
from nicscope.nic.ports.remote_memory import answer_without_data
from nicscope.nic.ports.sources import end_without_source, is_gone, note_source
from nicscope.nic.ports.streams import is_reliable, open_stream, peer_of, stream_to
from nicscope.nic.ports.window import clear, note_left, send_numbered, send_once


@step
def enters_page(nics, n, p):
    """Whether the next packet of port ``p`` comes from a page not yet translated."""
    port = nics.ports.table[n, p]
    if port.options & INLINE or port.operation == FETCH or port.segment >= port.segments:
        return False
    address = nics.ports.current[n, p, port.segment].address + port.segment_done
    return page_at(nics, address) != port.page


@distant
def serve(nics, n):
    """Effect of SERVE, whose time the processor of ``n`` has spent."""
    serving = nics.ports.nodes[n]
    kind = kind_of(serving.source)
    index = index_of(serving.source)
    serving.source = NO_SOURCE
    if kind == ACK:
        if stream_to(nics.ports, n, index).urgent == 1:
            send_bare_acknowledgement(nics, n, index)
    elif kind == RESEND:
        send_again(nics, n, index)
    elif kind == CUT_SHORT:
        tell_of_cut(nics, n, index)
    elif kind == AHEAD:
        serving.turn = index
        take_buffer(nics, n, index)
    elif kind == DESCRIPTOR:
        serving.turn = index
        ask_for_descriptor(nics, n, index)
    elif kind == OVERRUN:
        end_overrun(nics, n, index)
    else:
        serving.turn = index
        serve_port(nics, n, index)


@step
def serve_port(nics, n, p):
    """Go on with the descriptor of port ``p``, or take its next one."""
    port = nics.ports.table[n, p]
    if port.open == 0 or (port.busy == 0 and port.taken == port.posted):
        return
    if port.busy == 0:
        if port.takes == ONE and next_token(nics.ports, n, p) != 0:
            return  # another is posted by now than this task began for, which is not here yet
        handles_known = not looks_up_handles(nics) or p == OWN_PORT
        if not handles_known and not knows_request(nics, n, p):
            return
        take_request(nics, n, p)
        status = check_taken(nics, n, p)
        if status != DONE:
            calls.end_request(nics, n, p, status)
            return
        if port.busy == 0:
            return  # it needed no packet
    d = destination_of(nics, n, p)
    if stream_to(nics.ports, n, d).dead == 1:
        calls.end_request(nics, n, p, PEER_DEAD)
        return
    if not may_go(nics, n, p):
        return
    if enters_page(nics, n, p):
        leave_page(nics, n, p)  # or it might occupy the only way of the next one's set
        address = nics.ports.current[n, p, port.segment].address + port.segment_done
        page = page_at(nics, address)
        space = space_of(nics, n, p)
        frame = _look_up(nics, n, p, space, page)
        if frame == MISSED:
            port.missed = page
            ask_for_page(nics, n, p, space, page, np.int64(changes_memory(port, p)), 0)
            return
        if frame == NOT_THERE:
            calls.end_request(nics, n, p, NO_RIGHTS)
            return
        calls.enter_page(nics, n, p, page, frame)
    calls.next_packet(nics, n, p)


@step
def _look_up(nics, n, p, space, page):
    """Frame of ``page``, ``MISSED`` or ``NOT_THERE``; one that missed is not looked up twice."""
    if space == NOBODY:
        return np.int64(GARBAGE_FRAME)  # the NIC's own memory, of which no bytes are kept
    port = nics.ports.table[n, p]
    receive = np.int64(changes_memory(port, p))
    if port.missed != page:
        return ask_page(nics, n, p, space, page, receive)
    nics.ports.nodes[n].repeated += 1
    return translated_frame(nics, n, space, page, receive)


@step
def space_of(nics, n, p):
    """Whose addresses the descriptor under way names."""
    port = nics.ports.table[n, p]
    return port.reply_space if p == OWN_PORT else port.space


@distant
def enter_page(nics, n, p, page, frame):
    """The page that port ``p`` sends from is translated; it is held until the next one."""
    port = nics.ports.table[n, p]
    if port.busy == 0:
        return  # its connection has ended meanwhile, and the descriptor with it
    leave_page(nics, n, p)
    port.page = page
    port.frame = frame
    port.missed = NO_PAGE
    port.until = 0
    space = space_of(nics, n, p)
    if space != NOBODY:
        port.key = key_of(nics, n, space, page)
        hold(nics, n, port.key)
        nics.ports.owners[n, port.key] = p if p != OWN_PORT else port.reply_owner


@step
def leave_page(nics, n, p):
    """Port ``p`` has done with the page that it sends from."""
    port = nics.ports.table[n, p]
    release(nics, n, port.key)
    port.key = NO_KEY
    port.page = NO_PAGE


@distant
def end_request(nics, n, p, status):
    """The descriptor under way at port ``p`` goes no further; with ``DONE`` a packet tells."""
    port = nics.ports.table[n, p]
    if port.busy == 0:
        return  # as above
    leave_page(nics, n, p)
    leave_way(nics, n, p)
    port.busy = 0
    if status == DONE:
        return
    if port.takes == ONE:
        end_work(nics, n, p, status)
        return
    if port.operation == SEND and port.done > 0 and status != PEER_DEAD:
        cut_short(nics, n, np.int64(port.name), port.message)
    if p == OWN_PORT:
        if status != PEER_DEAD:
            answer_without_data(nics, n, status)
    else:
        report_sent(nics, n, p, port.slot, status)


@distant
def next_packet(nics, n, p):
    """Make the next packet of the descriptor under way at port ``p``; its page is translated."""
    ports = nics.ports
    port = ports.table[n, p]
    packet = ports.blank[0]
    head = ports.blank_head[0]
    _address(nics, n, p, packet, head)
    d = destination_of(nics, n, p)
    length = np.int64(0)
    if port.options & INLINE == 0 and port.operation != FETCH and port.total > 0:
        length = _piece(nics, n, p)
        if _lacks_source(nics, n, p, head, length):
            return
        offset = (ports.current[n, p, port.segment].address + port.segment_done) & (
            (1 << ports.rules[0].page_bits) - 1
        )
        packet.address = (port.frame << ports.rules[0].page_bits) + offset
        head.key = port.key
        head.space = space_of(nics, n, p)
        head.frame = port.frame
        head.generation = generation_of(nics, n, port.frame)
        port.segment_done += length
        if port.segment_done == ports.current[n, p, port.segment].length:
            port.segment += 1
            port.segment_done = 0
    packet.payload = length
    exchange(nics, n, p, packet, head)
    head.offset += port.done
    port.done += length
    moves_all = length == 0 or port.done == port.total
    _count_out(nics, n, p, length, moves_all)
    head.last = 1 if moves_all else 0
    if is_reliable(ports, stream_to(ports, n, d)):
        send_numbered(nics, n, d, packet, head, ports.carried[n, p])
    else:
        send_once(nics, n, d, packet, head, ports.carried[n, p])
    if moves_all:
        calls.end_request(nics, n, p, DONE)


@step
def _lacks_source(nics, n, p, head, length):
    """Whether what the next packet would come from is not there any more; then its work ends."""
    whose = whose_work(nics, n, p) if p == OWN_PORT else np.int64(p)
    note_source(nics, n, p, whose, head)
    if not is_gone(nics, n, head, length):
        return False
    if p == OWN_PORT:
        end_without_source(nics, n, whose, head)
    calls.end_request(nics, n, p, PEER_DEAD if p == OWN_PORT else PROTECTION)
    return True


@step
def _count_out(nics, n, p, length, moves_all):
    """A packet of ``length`` bytes leaves port ``p``; ``moves_all``: its message with it."""
    port = nics.ports.table[n, p]
    serving = nics.ports.nodes[n]
    account = nics.ports.accounts[n, p]
    count = length
    if moves_all and p != OWN_PORT:
        serving.messages_out += 1
        account[MESSAGES_OUT] += 1
        if port.options & INLINE:
            count += port.length
    serving.bytes_out += count
    account[BYTES_OUT] += count


@step
def _address(nics, n, p, packet, head):
    """Fill in what does not depend on the piece."""
    ports = nics.ports
    port = ports.table[n, p]
    clear(packet, head)
    packet.posted_at = nics.tally[0].now
    head.kind = port.operation
    head.from_port = p
    head.cookie = port.taken - 1
    head.slot = port.slot
    head.options = port.options
    head.total = port.total
    head.length = port.total
    head.offset = port.offset
    if port.takes == ONE:
        _address_to_peer(nics, n, p, head)
    elif port.operation == SEND:
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
        imported = ports.shared.imports[n, port.name]
        head.name = imported.export
        head.epoch = imported.epoch
        head.message = port.taken
        if port.operation == FETCH:
            _await_answer(nics, n, p, head)


@step
def _address_to_peer(nics, n, p, head):
    """Fill in what goes to the one peer of a connected port."""
    port = nics.ports.table[n, p]
    head.name = nics.ports.channels[n, port.channel].tag
    head.from_name = port.channel
    head.message = port.message
    head.offset = 0
    head.immediate = port.immediate
    head.swap = port.swap
    head.atomic = port.atomic
    head.remote = port.offset + port.done
    head.remote_key = port.name
    if port.datagrams == 1:
        address_datagram(nics, n, p, head)
    elif port.operation == FETCH:
        begin_reading(nics, n, p)


@step
def _await_answer(nics, n, p, head):
    ports = nics.ports
    port = ports.table[n, p]
    fetch = ports.fetches[n, p, port.slot]
    fetch.peer = peer_of(ports.shared.imports[n, port.name])
    fetch.address = ports.current[n, p, 0].address
    fetch.length = port.total
    fetch.arrived = 0
    fetch.failure = DONE
    fetch.cookie = port.cookie
    open_stream(nics, n, fetch.peer).fetching += 1
    head.into = fetch.address & ((1 << ports.rules[0].page_bits) - 1)


@step
def _piece(nics, n, p):
    """Bytes that the next packet carries: no page is crossed, here or there."""
    ports = nics.ports
    port = ports.table[n, p]
    page = np.int64(1) << ports.rules[0].page_bits
    segment = ports.current[n, p, port.segment]
    address = segment.address + port.segment_done
    length = min(segment.length - port.segment_done, page - (address & (page - 1)))
    there = port.offset + port.done
    whose = whose_work(nics, n, p)
    if port.operation == SEND or whose != OWN_PORT:
        name = ports.table[n, whose].channel if whose != OWN_PORT else port.name
        unit = ports.channels[n, name].unit
        length = min(length, unit - port.done % unit)
        return min(length, page - (there & (page - 1))) if port.operation == WRITE else length
    if port.operation != REPLY:
        there += ports.shared.imports[n, port.name].start
    return min(length, page - (there & (page - 1)))


@step
def packet_left(nics, n, place, tells, now):
    """The last byte of the packet at ``place`` of the send ring of ``n`` has left.

    ``tells``: over an unreliable transport its request has left with it, and ends.
    """
    head = nics.ports.send_heads[n, place]
    let_go(nics, n, head)
    if is_reliable(nics.ports, stream_to(nics.ports, n, head.own)):
        note_left(nics, n, head, head.own, now)
    elif tells and head.kind in (SEND, WRITE):
        report_sent(nics, n, head.from_port, head.slot, DONE)
