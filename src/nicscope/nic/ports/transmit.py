"""What the firmware serves next, and serving it: a descriptor, its next page, a packet."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import calls, descriptor, layout, lookup, streams, window
from nicscope.nic.ports.remote_memory import (
    answer_without_data,
    bring_answer_forward,
    next_answer,
    put_answer_aside,
)
from nicscope.nic.ports.traffic import BYTES_OUT, MESSAGES_OUT
from nicscope.nic.translate.requests import page_of_key
from nicscope.nic.translate.state import translation_of

# A source is a kind and an index; 0 is none.
PORT = 1  # a port's descriptor
AHEAD = 2  # a buffer of its free queue, to be translated ahead
RETRANSMIT = 3  # to a peer
ACK = 4
MESSAGE_ABORT = 5  # a tag, whose message is to be aborted
DESCRIPTOR = 6  # a port's, to be fetched from the memory of the host
OVERRUN = 7  # a port, whose completion queue was full
INDEX_BITS = 20
NO_SOURCE = 0


@step
def source_of(kind, index):
    """The source as one number, of kind and index."""
    return (kind << INDEX_BITS) + index


@step
def kind_of(source):
    """The kind of a source."""
    return source >> INDEX_BITS


@step
def index_of(source):
    """The index of a source: a port, a peer or a tag."""
    return source & ((1 << INDEX_BITS) - 1)


@distant
def choose_source(nics, n):
    """The source that SERVE at ``n`` would serve next, or ``NO_SOURCE``."""
    ports = nics.ports
    serving = ports.nodes[n]
    if serving.acks > 0 or serving.retransmits > 0 or serving.cuts > 0:
        source = _choose_peer(nics, n)
        if source != NO_SOURCE:
            return source
    if serving.attention == 0 or ports.rules[0].serves == 0:
        return np.int64(NO_SOURCE)
    p = serving.turn
    for _ in range(serving.last_port + 1):
        p = p + 1 if p < serving.last_port else 0
        source = ready_at_port(nics, n, p)
        if source != NO_SOURCE:
            return source
    serving.attention = 0
    return np.int64(NO_SOURCE)


@step
def _choose_peer(nics, n):
    ports = nics.ports
    end = ports.nodes[n].last_marked + 1
    d = streams.next_marked(ports.due_marks, n, 0, end)
    while d < end:
        stream = streams.stream_to(ports, n, d)
        if stream.urgent == 1:
            return source_of(ACK, d)
        if stream.retransmitting == 1:
            return source_of(RETRANSMIT, d)
        streams.unmark(ports.due_marks, n, d)
        d = streams.next_marked(ports.due_marks, n, d + 1, end)
    if ports.nodes[n].cuts > 0:
        for p in range(ports.table.shape[1]):
            if ports.table[n, p].overrun == 1:
                return source_of(OVERRUN, p)
        for tag in range(ports.channels.shape[1]):
            channel = ports.channels[n, tag]
            if channel.cut != 0 and window.may_send_to(nics, n, streams.peer_of(channel)):
                return source_of(MESSAGE_ABORT, tag)
    return np.int64(NO_SOURCE)


@step
def ready_at_port(nics, n, p):
    """The work that port ``p`` is ready for, or ``NO_SOURCE``."""
    ports = nics.ports
    port = ports.table[n, p]
    if port.open == 0 or port.blocked != layout.FREE_TO_GO:
        return np.int64(NO_SOURCE)
    if (
        port.free_taken < port.free_posted
        and port.ahead_waits == layout.FREE_TO_GO
        and _wants_ready_buffer(nics, n, p)
    ):
        return source_of(AHEAD, p)
    if port.busy == 0:
        if port.taken == port.posted:
            return np.int64(NO_SOURCE)
        if p == layout.OWN_PORT and next_answer(ports, n) == layout.NOBODY:
            return np.int64(NO_SOURCE)
        return _next_work(ports, n, p) if port.takes == layout.WORK_QUEUE else source_of(PORT, p)
    return source_of(PORT, p) if may_send_packet(nics, n, p) else np.int64(NO_SOURCE)


@step
def may_send_packet(nics, n, p):
    """Whether port ``p`` may make the next packet of its current descriptor now."""
    return window.may_send_to(
        nics, n, destination_of(nics, n, p)
    ) and not streams.is_datagram_blocked(nics, n, p)


@step
def _next_work(ports, n, p):
    """The source for the next descriptor of port ``p``, which has work queues."""
    if next_token(ports, n, p) != 0:
        bringing = ports.nodes[n].bringing != layout.NOBODY
        return np.int64(NO_SOURCE) if bringing else source_of(DESCRIPTOR, p)
    port = ports.table[n, p]
    request = ports.requests[n, p, place_in(port.taken, ports.rules[0].ring)]
    if port.reading > 0 and request.options & layout.FENCED:
        return np.int64(NO_SOURCE)
    return source_of(PORT, p)


@step
def next_token(ports, n, p):
    """Token of the next descriptor of port ``p``, in host memory; 0 if it is on the NIC.

    The port has work queues.
    """
    return ports.work.tokens[n, p, place_in(ports.table[n, p].taken, ports.rules[0].ring)]


@step
def _wants_ready_buffer(nics, n, p):
    """Whether port ``p`` may have one more translated buffer, counting those being filled."""
    ports = nics.ports
    port = ports.table[n, p]
    waiting = port.ready_in - port.ready_out
    return waiting < ports.rules[0].ready and waiting + port.filling < ports.ready.shape[2]


@step
def destination_of(nics, n, p):
    """The peer to which the descriptor under way at port ``p`` goes."""
    ports = nics.ports
    port = ports.table[n, p]
    if port.takes == layout.WORK_QUEUE:
        return (
            port.offset if port.datagrams == 1 else streams.peer_of(ports.channels[n, port.channel])
        )
    if port.operation == layout.SEND:
        return streams.peer_of(ports.channels[n, port.name])
    if port.reply_port >= 0:
        return port.name
    return streams.peer_of(ports.shared.imports[n, port.name])


@step
def owning_port(nics, n, p):
    """The connected port that port ``p`` sends or answers for; ``OWN_PORT`` if there is none."""
    ports = nics.ports
    whose = (
        streams.stream_to(ports, n, ports.table[n, p].name).port
        if p == layout.OWN_PORT
        else np.int64(p)
    )
    return whose if ports.table[n, whose].takes == layout.WORK_QUEUE else np.int64(layout.OWN_PORT)


@step
def needs_next_page(nics, n, p):
    """Whether the next packet of port ``p`` awaits a page not yet translated.

    It comes from that page; or, as a read's request, it asks for bytes that go there.
    """
    port = nics.ports.table[n, p]
    if port.options & layout.INLINE or port.segment >= port.segments:
        return False
    if port.operation == layout.FETCH and (
        not lookup.is_read_translated_ahead(nics, n, p) or port.segment_done >= port.total
    ):
        return False
    address = nics.ports.current[n, p, port.segment].address + port.segment_done
    return lookup.page_at(nics, address) != port.page


@distant
def serve(nics, n):
    """Do what SERVE at ``n`` was begun for; the processor has spent its time."""
    serving = nics.ports.nodes[n]
    kind = kind_of(serving.source)
    index = index_of(serving.source)
    serving.source = NO_SOURCE
    if kind == ACK:
        if streams.stream_to(nics.ports, n, index).urgent == 1:
            calls.send_bare_acknowledgement(nics, n, index)
    elif kind == RETRANSMIT:
        calls.retransmit_next(nics, n, index)
    elif kind == MESSAGE_ABORT:
        window.send_message_abort(nics, n, index)
    elif kind == AHEAD:
        serving.turn = index
        calls.translate_buffer(nics, n, index)
    elif kind == DESCRIPTOR:
        serving.turn = index
        lookup.request_descriptor(nics, n, index)
    elif kind == OVERRUN:
        calls.break_overrun_connection(nics, n, index)
    else:
        serving.turn = index
        serve_port(nics, n, index)


@step
def serve_port(nics, n, p):
    """Serve port ``p``: the next packet of its current descriptor, or its next descriptor."""
    port = nics.ports.table[n, p]
    if port.open == 0 or (port.busy == 0 and port.taken == port.posted):
        return
    if port.busy == 0:
        if port.takes == layout.WORK_QUEUE and next_token(nics.ports, n, p) != 0:
            return  # another is posted by now than this task began for, which is not here yet
        handles_known = not lookup.caches_handles(nics) or p == layout.OWN_PORT
        if not handles_known and not lookup.has_request_handles(nics, n, p):
            return
        if p == layout.OWN_PORT:
            turn = next_answer(nics.ports, n)
            if turn == layout.NOBODY:
                return
            bring_answer_forward(nics.ports, n, turn)
        descriptor.copy_descriptor(nics, n, p)
        status = descriptor.check_descriptor(nics, n, p)
        if status != layout.DONE:
            calls.end_descriptor(nics, n, p, status)
            return
        if port.busy == 0:
            return  # it needed no packet
    d = destination_of(nics, n, p)
    if streams.stream_to(nics.ports, n, d).dead == 1:
        calls.end_descriptor(nics, n, p, layout.PEER_DEAD)
        return
    if not may_send_packet(nics, n, p):
        return
    if needs_next_page(nics, n, p):
        release_send_page(nics, n, p)  # or it might occupy the only way of the next one's set
        address = nics.ports.current[n, p, port.segment].address + port.segment_done
        page = lookup.page_at(nics, address)
        space = space_of(nics, n, p)
        frame = _look_up(nics, n, p, space, page)
        if frame == layout.MISSED:
            port.missed = page
            lookup.request_page(nics, n, p, space, page, _is_written(port, p), 0)
            if p == layout.OWN_PORT and nics.ports.rules[0].service == layout.THREAD:
                put_answer_aside(nics, n)
            return
        if frame == layout.NOT_THERE:
            calls.end_descriptor(nics, n, p, layout.NO_RIGHTS)
            return
        calls.set_send_page(nics, n, p, page, frame)
    if port.operation == layout.FETCH and lookup.is_read_translated_ahead(nics, n, p):
        address = nics.ports.current[n, p, 0].address + port.segment_done
        port.segment_done += lookup.bytes_in_page(nics, address, port.total - port.segment_done)
        if port.segment_done < port.total:
            return  # the request waits for the other pages of its destination
    calls.next_packet(nics, n, p)


@step
def _is_written(port, p):
    """1 if the page that port ``p`` looks up is to be written, 0 if it is sent from."""
    return np.int64(port.operation == layout.FETCH or descriptor.is_atomic_answer(port, p))


@step
def _look_up(nics, n, p, space, page):
    """Frame of ``page``, ``MISSED`` or ``NOT_THERE``; a page that missed is not counted twice."""
    if space == layout.NOBODY:
        return np.int64(GARBAGE_FRAME)  # the NIC's own memory, of which no bytes are kept
    port = nics.ports.table[n, p]
    receive = _is_written(port, p)
    if port.missed != page:
        return calls.ask_page(nics, n, p, space, page, receive)
    nics.ports.nodes[n].repeated += 1
    return calls.translated_frame(nics, n, space, page, receive)


@step
def space_of(nics, n, p):
    """The address space of the current descriptor of port ``p``."""
    port = nics.ports.table[n, p]
    return port.reply_space if p == layout.OWN_PORT else port.space


@distant
def set_send_page(nics, n, p, page, frame):
    """Hold the translated page that port ``p`` sends from until it moves to the next one."""
    port = nics.ports.table[n, p]
    if port.busy == 0:
        return  # its connection has ended meanwhile, and the descriptor with it
    release_send_page(nics, n, p)
    port.page = page
    port.frame = frame
    port.missed = descriptor.NO_PAGE
    port.until = 0
    space = space_of(nics, n, p)
    if space != layout.NOBODY:
        port.key = lookup.key_of(nics, n, space, page)
        calls.hold(nics, n, port.key)
        nics.ports.owners[n, port.key] = p if p != layout.OWN_PORT else port.reply_owner


@step
def release_send_page(nics, n, p):
    """Release the page that port ``p`` sends from."""
    port = nics.ports.table[n, p]
    calls.release(nics, n, port.key)
    port.key = lookup.NO_KEY
    port.page = descriptor.NO_PAGE


@distant
def end_descriptor(nics, n, p, status):
    """End the current descriptor of port ``p``; after ``DONE`` its last packet completes it."""
    port = nics.ports.table[n, p]
    if port.busy == 0:
        return  # it has ended meanwhile
    release_send_page(nics, n, p)
    streams.end_datagram(nics, n, p)
    port.busy = 0
    if status == layout.DONE:
        return
    if port.takes == layout.WORK_QUEUE:
        calls.end_work_request(nics, n, p, status)
        return
    if port.operation == layout.SEND and port.done > 0 and status != layout.PEER_DEAD:
        window.abort_message(nics, n, np.int64(port.name), port.message)
    if p == layout.OWN_PORT:
        if status != layout.PEER_DEAD:
            answer_without_data(nics, n, status)
    else:
        calls.report_sent(nics, n, p, port.slot, status)


@distant
def next_packet(nics, n, p):
    """Make the next packet of port ``p``'s current descriptor, whose page is translated."""
    ports = nics.ports
    port = ports.table[n, p]
    packet = ports.blank[0]
    head = ports.blank_head[0]
    _address(nics, n, p, packet, head)
    d = destination_of(nics, n, p)
    length = np.int64(0)
    if port.options & layout.INLINE == 0 and port.operation != layout.FETCH and port.total > 0:
        length = _next_payload_bytes(nics, n, p)
        if _is_source_gone(nics, n, p, head, length):
            return
        offset = (ports.current[n, p, port.segment].address + port.segment_done) & (
            (1 << ports.rules[0].page_bits) - 1
        )
        packet.address = (port.frame << ports.rules[0].page_bits) + offset
        if ports.rules[0].burst > 0:
            head.into = (offset - port.done) & ((1 << ports.rules[0].page_bits) - 1)
        head.key = port.key
        head.space = space_of(nics, n, p)
        head.frame = port.frame
        head.generation = lookup.generation_of(nics, n, port.frame)
        port.segment_done += length
        if port.segment_done == ports.current[n, p, port.segment].length:
            port.segment += 1
            port.segment_done = 0
    packet.payload = length
    descriptor.perform_atomic(nics, n, p, packet, head)
    head.offset += port.done
    if length > 0 and ports.rules[0].burst > 0:
        head.further = streams.packets_of(nics, n, d, head, np.int64(port.done), length) - 1
    port.done += length
    moves_all = length == 0 or port.done == port.total
    _count_out(nics, n, p, length, moves_all)
    head.last = 1 if moves_all else 0
    head.unasked = 0 if moves_all and _awaits_end(port) else 1
    if streams.is_reliable(ports, streams.stream_to(ports, n, d)):
        window.send_numbered(nics, n, d, packet, head, ports.carried[n, p])
    else:
        window.send_once(nics, n, d, packet, head, ports.carried[n, p])
    if moves_all:
        calls.end_descriptor(nics, n, p, layout.DONE)


@step
def _awaits_end(port):
    """Whether the end of the current message is awaited: by its program, or by an idle queue."""
    return port.options & layout.UNSIGNALLED == 0 or port.taken == port.posted


@step
def _is_source_gone(nics, n, p, head, length):
    """Whether the source of the next packet has been deregistered; its work fails then."""
    whose = owning_port(nics, n, p) if p == layout.OWN_PORT else np.int64(p)
    window.note_source(nics, n, p, whose, head)
    if not window.is_source_deregistered(nics, n, head, length):
        return False
    if p == layout.OWN_PORT:
        window.fail_without_source(nics, n, whose, head)
    calls.end_descriptor(
        nics, n, p, layout.PEER_DEAD if p == layout.OWN_PORT else layout.PROTECTION
    )
    return True


@step
def _count_out(nics, n, p, length, moves_all):
    """Count a packet of ``length`` bytes of port ``p``; ``moves_all``: its message is complete."""
    port = nics.ports.table[n, p]
    serving = nics.ports.nodes[n]
    account = nics.ports.accounts[n, p]
    count = length
    if moves_all and p != layout.OWN_PORT:
        serving.messages_out += 1
        account[MESSAGES_OUT] += 1
        if port.options & layout.INLINE:
            count += port.length
    serving.bytes_out += count
    account[BYTES_OUT] += count


@step
def _address(nics, n, p, packet, head):
    """Fill in the header fields that do not depend on the payload."""
    ports = nics.ports
    port = ports.table[n, p]
    window.clear(packet, head)
    packet.posted_at = nics.tally[0].now
    head.kind = port.operation
    head.from_port = p
    head.cookie = port.taken - 1
    head.slot = port.slot
    head.options = port.options
    head.total = port.total
    head.length = port.total
    head.offset = port.offset
    if port.takes == layout.WORK_QUEUE:
        _address_to_peer(nics, n, p, head)
    elif port.operation == layout.SEND:
        channel = ports.channels[n, port.name]
        head.name = channel.tag
        head.from_name = port.name
        head.message = port.message
        head.offset = 0
    elif port.operation == layout.REPLY:
        head.name = port.reply_port
        head.slot = port.cookie
        head.options = port.length  # a status
        head.offset = 0
    else:
        imported = ports.shared.imports[n, port.name]
        head.name = imported.export
        head.epoch = imported.epoch
        head.message = port.taken
        if port.operation == layout.FETCH:
            _expect_answer(nics, n, p, head)


@step
def _address_to_peer(nics, n, p, head):
    """Fill in the header fields for the peer of a connected port."""
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
        streams.address_datagram(nics, n, p, head)
    elif port.operation == layout.FETCH:
        calls.start_remote_read(nics, n, p)


@step
def _expect_answer(nics, n, p, head):
    ports = nics.ports
    port = ports.table[n, p]
    fetch = ports.fetches[n, p, port.slot]
    fetch.peer = streams.peer_of(ports.shared.imports[n, port.name])
    fetch.address = ports.current[n, p, 0].address
    fetch.length = port.total
    fetch.arrived = 0
    fetch.failure = layout.DONE
    fetch.cookie = port.cookie
    streams.open_stream(nics, n, fetch.peer).fetching += 1
    head.into = fetch.address & ((1 << ports.rules[0].page_bits) - 1)


@step
def _next_payload_bytes(nics, n, p):
    """Payload bytes of the next packet, which crosses no page boundary, or those of a burst."""
    ports = nics.ports
    port = ports.table[n, p]
    if ports.rules[0].burst > 0 and port.datagrams == 0:
        return _burst_bytes(nics, n, p)
    page = np.int64(1) << ports.rules[0].page_bits
    segment = ports.current[n, p, port.segment]
    address = segment.address + port.segment_done
    length = min(segment.length - port.segment_done, page - (address & (page - 1)))
    there = port.offset + port.done
    whose = owning_port(nics, n, p)
    if port.operation == layout.SEND or whose != layout.OWN_PORT:
        name = ports.table[n, whose].channel if whose != layout.OWN_PORT else port.name
        unit = ports.channels[n, name].unit
        length = min(length, unit - port.done % unit)
        return (
            min(length, page - (there & (page - 1))) if port.operation == layout.WRITE else length
        )
    if port.operation != layout.REPLY:
        there += ports.shared.imports[n, port.name].start
    return min(length, page - (there & (page - 1)))


@step
def _burst_bytes(nics, n, p):
    """Payload bytes of the next burst: of pages that lie one behind the other in memory.

    A page that is elsewhere, or has to be brought, is the first of another burst.
    """
    ports = nics.ports
    port = ports.table[n, p]
    page = np.int64(1) << ports.rules[0].page_bits
    segment = ports.current[n, p, port.segment]
    begin = segment.address + port.segment_done
    at = begin - (begin & (page - 1)) + page
    end = min(begin + segment.length - port.segment_done, at - page + ports.rules[0].burst)
    frame = np.int64(port.frame)
    while at < end:
        frame += 1
        number = lookup.page_at(nics, at)
        if calls.ask_page(nics, n, p, space_of(nics, n, p), number, np.int64(0)) != frame:
            port.missed = number  # it has been counted
            return at - begin
        at += page
    return end - begin


@step
def on_packet_sent(nics, n, place, tells, now):
    """Release a packet of ``n`` at ``place`` of its send ring: its last byte has left.

    ``tells``: over an unreliable transport its request has left with it, and ends.
    """
    head = nics.ports.send_heads[n, place]
    lookup.release_packet_page(nics, n, head)
    if streams.is_reliable(nics.ports, streams.stream_to(nics.ports, n, head.own)):
        window.start_retransmit_timer(nics, n, head, head.own, now)
    elif tells and head.kind in (layout.SEND, layout.WRITE):
        calls.report_sent(nics, n, head.from_port, head.slot, layout.DONE)


@routine
def release_idle_entries(nics, n, space, page):
    """Release entries in the set of ``page`` that waiting packets and ports hold; if any did.

    A packet that goes again finds its page where it was: its frame has a pin for that packet.  A
    port looks the page that it sends from up again.
    """
    ports = nics.ports
    if not lookup.holds_entries(nics) or ports.rules[0].by_request == 1:
        return False
    given = False
    for d in range(ports.stream_of.shape[1]):
        entry = streams.stream_to(ports, n, d).oldest_kept
        while entry != streams.NO_ENTRY:
            head = ports.pools.heads[entry]
            entry = ports.pools.behind[entry]
            if _shares_set_with(nics, n, head.key, space, page):
                key = head.key
                head.space, _ = _page_of(nics, n, key)
                head.key = lookup.NO_KEY
                head.lone = 1
                lookup.hold_packet_page(nics, n, head)
                calls.release(nics, n, key)
                given = True
    for p in range(ports.table.shape[1]):
        key = ports.table[n, p].key
        if _shares_set_with(nics, n, key, space, page) and _waits_for_peer(nics, n, p):
            release_send_page(nics, n, p)
            given = True
    return given


@step
def _waits_for_peer(nics, n, p):
    """Whether port ``p``, which holds a page, may have to wait for its peer's acknowledgement."""
    ports = nics.ports
    return streams.is_reliable(ports, streams.stream_to(ports, n, destination_of(nics, n, p)))


@step
def _page_of(nics, n, key):
    _, host, book = translation_of(nics.ports.translations, n)
    return page_of_key(host, book, key)


@step
def _shares_set_with(nics, n, key, space, page):
    if key < 0:
        return False
    owner, other = _page_of(nics, n, key)
    return lookup.share_set(nics, n, owner, other, space, page)
