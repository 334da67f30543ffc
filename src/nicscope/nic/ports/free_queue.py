"""Free queues: buffers are translated ahead and kept until a message comes (U-Net/MM 4.1)."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import calls, layout
from nicscope.nic.ports.lookup import holds_entries, key_of, request_page, share_set
from nicscope.nic.translate.requests import page_of_key
from nicscope.nic.translate.state import translation_of


@distant
def translate_buffer(nics, n, p):
    """Translate the next buffer of the free queue of port ``p``."""
    ports = nics.ports
    port = ports.table[n, p]
    if port.open == 0 or port.free_taken == port.free_posted:
        return
    # The queue is the process's to write to at any time: what is checked here is what is used.
    port.provided = ports.provided[n, p, place_in(port.free_taken, ports.rules[0].ring)]
    address = port.provided
    page = address >> ports.rules[0].page_bits
    if address < 0 or address >= ports.rules[0].space_bytes:
        return_buffer(nics, n, p, layout.NO_RIGHTS)
        return
    within = address & ((1 << ports.rules[0].page_bits) - 1)
    if within + ports.rules[0].buffer > 1 << ports.rules[0].page_bits:
        return_buffer(nics, n, p, layout.BAD_DESCRIPTOR)
        return
    frame = calls.ask_page(nics, n, p, port.space, page, 1)
    if frame == layout.MISSED:
        request_page(nics, n, p, port.space, page, 1, 1)
    elif frame == layout.NOT_THERE:
        return_buffer(nics, n, p, layout.NO_RIGHTS)
    else:
        accept_buffer(nics, n, p, frame)


@distant
def accept_buffer(nics, n, p, frame):
    """Take the translated buffer at the head of the free queue; messages may use it."""
    ports = nics.ports
    port = ports.table[n, p]
    address = port.provided
    port.free_taken += 1
    key = key_of(nics, n, port.space, address >> ports.rules[0].page_bits)
    _hold_buffer(nics, n, key)
    ports.owners[n, key] = p
    add_ready_buffer(nics, n, p, address, frame, key)


@step
def _hold_buffer(nics, n, key):
    """Hold the entry of a buffer that waits for a message, where its pin needs one.

    That is enough where pages stay pinned without an entry on the NIC: a buffer that nothing fills
    must not keep an entry that transfers need.
    """
    if holds_entries(nics):
        calls.hold(nics, n, key)


@distant
def add_ready_buffer(nics, n, p, address, frame, key):
    """Append a translated buffer to the ready buffers of port ``p``."""
    ports = nics.ports
    port = ports.table[n, p]
    buffer = ports.ready[n, p, port.ready_in % ports.ready.shape[2]]
    buffer.address = address
    buffer.frame = frame
    buffer.key = key
    port.ready_in += 1


@distant
def defer_buffer(nics, n, p):
    """Defer the buffer at the head of the free queue: its page is still to be brought in.

    It keeps its turn; those behind it are translated meanwhile (U-Net/MM 4.1).
    """
    ports = nics.ports
    port = ports.table[n, p]
    port.free_taken += 1
    add_ready_buffer(nics, n, p, port.provided, layout.AWAITED, layout.NOBODY)


@distant
def resolve_deferred_buffer(nics, n, p, page, frame):
    """Resolve a deferred buffer: its page has been brought in, or cannot be."""
    ports = nics.ports
    port = ports.table[n, p]
    for i in range(port.ready_out, port.ready_in):
        buffer = ports.ready[n, p, i % ports.ready.shape[2]]
        if buffer.frame == layout.AWAITED and buffer.address >> ports.rules[0].page_bits == page:
            buffer.frame = frame
            if frame >= 0:
                buffer.key = key_of(nics, n, port.space, page)
                _hold_buffer(nics, n, buffer.key)
                ports.owners[n, buffer.key] = p
            return


@distant
def return_unready_buffers(nics, n, p):
    """Return unfilled the buffers at the head whose pages are not in memory."""
    ports = nics.ports
    port = ports.table[n, p]
    while port.ready_in > port.ready_out and has_report_slot(nics, n, p):
        buffer = ports.ready[n, p, port.ready_out % ports.ready.shape[2]]
        if buffer.frame >= 0:
            return
        port.ready_out += 1
        ports.nodes[n].skipped += 1
        ports.nodes[n].attention = 1
        status = np.int64(layout.PAGE_OUT)
        if buffer.frame != layout.AWAITED:
            status = np.int64(
                layout.NO_RIGHTS if buffer.frame == layout.UNUSABLE else layout.NO_ROOM
            )
        _report_returned_buffer(nics, n, p, buffer.address, status)


@distant
def evict_waiting_buffers(nics, n, space, page):
    """Evict ready buffers whose entries block ``page``, which a transfer needs; if any did.

    Its translation may go: it would stay as long as no message comes.  Its turn passes, unless
    its process provides it again.
    """
    ports = nics.ports
    if not holds_entries(nics):
        return False
    _, host, book = translation_of(ports.translations, n)
    given = False
    for p in range(ports.table.shape[1]):
        port = ports.table[n, p]
        for i in range(port.ready_out, port.ready_in):
            buffer = ports.ready[n, p, i % ports.ready.shape[2]]
            if buffer.frame < 0:
                continue
            owner, other = page_of_key(host, book, buffer.key)
            if _blocks_entry_of(nics, n, owner, other, space, page):
                calls.release(nics, n, buffer.key)
                buffer.frame = layout.AWAITED
                buffer.key = layout.NOBODY
                given = True
    return given


@step
def _blocks_entry_of(nics, n, owner, other, space, page):
    """Whether evicting page ``other`` of space ``owner`` would make room for ``page``."""
    _, host, _ = translation_of(nics.ports.translations, n)
    if share_set(nics, n, owner, other, space, page):
        return True
    return bool(host.pinning.rules[0].ordered) and owner == space  # it may pin no more


@distant
def return_buffer(nics, n, p, status):
    """Return the buffer at the head of the free queue to its process, unfilled.

    If no report of it has its place, it waits there until its process has read one.
    """
    ports = nics.ports
    port = ports.table[n, p]
    if not has_report_slot(nics, n, p):
        port.ahead_waits = layout.AWAITS_READER
        return
    port.free_taken += 1
    if port.provided >= 0 and port.provided < ports.rules[0].space_bytes:
        calls.keep_pages(nics, n, port.space, port.provided >> ports.rules[0].page_bits, 1, 0)
    _report_returned_buffer(nics, n, p, port.provided, status)


@step
def has_report_slot(nics, n, p):
    """Whether port ``p`` has a free report for an arrival."""
    port = nics.ports.table[n, p]
    return port.reserved - port.read < nics.ports.rules[0].ring


@step
def _report_returned_buffer(nics, n, p, address, status):
    """Report a returned buffer to its process, for which a report is free."""
    ports = nics.ports
    port = ports.table[n, p]
    port.reserved += 1
    place = calls.report_received(nics, n, p, layout.RETURNED, layout.NOBODY, n, 0, 1, 0)
    ports.reports[n, p, layout.RECEIVED, place].status = status
    ports.report_buffers[n, p, place, 0] = address


@step
def has_ready_buffer(nics, n, p):
    """Whether port ``p`` has a buffer in its ready queue."""
    port = nics.ports.table[n, p]
    return port.ready_in > port.ready_out


@step
def has_fitting_buffer(nics, n, p, unit):
    """Whether port ``p`` has a translated buffer of ``unit`` bytes within its page.

    Those before it that are none go back to their process, once a report of them has its place: a
    message must not run into the frame behind.
    """
    ports = nics.ports
    port = ports.table[n, p]
    page = np.int64(1) << ports.rules[0].page_bits
    while has_ready_buffer(nics, n, p):
        buffer = ports.ready[n, p, port.ready_out % ports.ready.shape[2]]
        if buffer.frame >= 0 and (buffer.address & (page - 1)) + unit <= page:
            return True
        if buffer.frame < 0 or not has_report_slot(nics, n, p):
            return False
        port.ready_out += 1
        calls.release(nics, n, buffer.key)
        _report_returned_buffer(nics, n, p, buffer.address, layout.BAD_DESCRIPTOR)
        ports.nodes[n].rejected += 1
        ports.nodes[n].attention = 1
        return_unready_buffers(nics, n, p)
    return False


@step
def take_ready_buffer(nics, n, p, into):
    """Copy the next translated buffer of port ``p`` to ``into`` and remove it."""
    ports = nics.ports
    port = ports.table[n, p]
    buffer = ports.ready[n, p, port.ready_out % ports.ready.shape[2]]
    into.address = buffer.address
    into.frame = buffer.frame
    into.key = buffer.key
    port.ready_out += 1
    port.filling += 1
    ports.nodes[n].attention = 1


@distant
def abandon_message(nics, n, tag):
    """Abandon the message arriving by ``tag``: its buffers are ready for another."""
    ports = nics.ports
    channel = ports.channels[n, tag]
    if ports.table[n, channel.port].takes == layout.WORK_QUEUE:
        calls.abandon_receive(nics, n, tag)
        return
    for i in range(channel.buffers):
        return_to_ready(nics, n, channel.port, ports.filling[n, tag, i])
    if channel.placed >= 0:
        ports.table[n, channel.port].reserved -= 1
    channel.buffers = 0
    channel.placed = -1


@step
def return_to_ready(nics, n, p, buffer):
    """Return a buffer that was being filled to the ready buffers."""
    nics.ports.table[n, p].filling -= 1
    add_ready_buffer(nics, n, p, buffer.address, buffer.frame, buffer.key)


@step
def attach_buffers(nics, n, slot):
    """Attach the buffers of a placed message to its last packet; its tag is free."""
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    channel = ports.channels[n, head.name]
    for i in range(channel.buffers):
        ports.arrival_buffers[n, slot, i] = ports.filling[n, head.name, i]
    head.filled = channel.buffers
    channel.buffers = 0
    channel.placed = -1


@step
def release_buffers(nics, n, slot):
    """Release the buffers of the delivered message whose last packet is in ``slot``."""
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    port = ports.table[n, ports.channels[n, head.name].port]
    for i in range(head.filled):
        calls.release(nics, n, ports.arrival_buffers[n, slot, i].key)
    port.filling -= head.filled
    ports.nodes[n].attention = 1  # one that those were in the way of may be translated ahead


@step
def recycle_buffers(nics, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its buffers wait for another."""
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    p = ports.channels[n, head.name].port
    if head.receive >= 0:
        calls.repost_receive(nics, n, slot)
        return
    for i in range(head.filled):
        return_to_ready(nics, n, p, ports.arrival_buffers[n, slot, i])
    ports.table[n, p].reserved -= 1


@distant
def undo_placement(nics, n, slot):
    """Undo the placement of the packet in ``slot``, which will be retransmitted.

    The pieces of its tag that were placed later have gone back before.
    """
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    channel = ports.channels[n, head.name]
    if head.filled < 0:
        return
    if head.receive >= 0:
        calls.undo_receive_placement(nics, n, slot)
        return
    if head.last == 1:
        abandon_message(nics, n, head.name)
        for i in range(head.filled):
            ports.filling[n, head.name, i] = ports.arrival_buffers[n, slot, i]
        channel.buffers = head.filled
        channel.message = head.message
    elif channel.placed < 0 or channel.message != head.message:
        return  # given up meanwhile
    channel.placed = head.offset
    kept = (head.offset + channel.unit - 1) // channel.unit
    for i in range(kept, channel.buffers):
        return_to_ready(nics, n, channel.port, ports.filling[n, head.name, i])
    channel.buffers = min(channel.buffers, kept)
    if head.offset == 0:
        abandon_message(nics, n, head.name)
