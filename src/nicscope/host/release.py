"""What is given back: ports that close, registrations, pages that nobody wants any more.

Tables pin pages as they enter them and unpin them as they leave; a static one is on the NIC and
full some time, an RDMA NIC's is in host memory.
"""

import numpy as np

from nicscope.fabric.faults import is_dead
from nicscope.host.calls import apply_pin_actions, free_port_buffers
from nicscope.host.pages import lock_tables, unlock_tables
from nicscope.kernel.decorators import distant, step
from nicscope.memory.pinning import PINNED
from nicscope.nic.handles import EXPORT_HANDLE, IMPORT_HANDLE, PROCESS_HANDLE
from nicscope.nic.ports import layout
from nicscope.nic.ports.calls import (
    abandon_message,
    discard_receives,
    end_descriptor,
    invalidate_handle,
    keep_pages,
    release,
    report_sent,
)
from nicscope.nic.ports.lookup import caches_handles, key_of
from nicscope.nic.ports.streams import NO_ENTRY, destination_port_of, stream_to
from nicscope.nic.translate.book import INTERRUPT, RNIC, STATIC, UNET_MM, UTLB, unpin_page
from nicscope.nic.translate.interrupt import evict_interrupt
from nicscope.nic.translate.requests import page_of_key
from nicscope.nic.translate.rnic import deregister_rnic, register_rnic
from nicscope.nic.translate.state import levels_of, translation_of
from nicscope.nic.translate.static import free_entry, serve_freed_entry, serve_static
from nicscope.nic.translate.unet_mm import evict_unet_mm
from nicscope.nic.translate.utlb import forget


@step
def enter_table(machine, n, space, page, key):
    """Pin ``page`` and enter it in the table; false if the table is full.

    ``apply_pin_actions`` must follow.
    """
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    if ports.rules[0].scheme == RNIC:
        register_rnic(nic, host, book, space, page, key)
        return True
    if serve_freed_entry(nic, host, book, space, page, key):
        return True
    return serve_static(nic, host, book, space, page, key) >= 0


@step
def leave_table(machine, n, space, page, key):
    """Unpin a registered page that nothing needs; no cache has its translation any more."""
    ports = machine.ports
    nic, host, book = translation_of(ports.translations, n)
    if ports.rules[0].scheme == RNIC:
        levels = levels_of(ports.translations, n)
        deregister_rnic(nic, levels, host, book, space, page, key)
        apply_pin_actions(machine, n, 0)
        return
    unpin_page(host, book, space, key)
    apply_pin_actions(machine, n, 0)
    free_entry(nic, host, key)


@distant
def close_port(machine, n, p):
    """Whether nothing uses port ``p`` any more, which is to close; if so it has closed.

    From the first call on the firmware takes nothing of the port and lets nothing in, and its
    exports and imports are gone.  What has begun ends first, so the caller comes again until it
    has: each packet is acknowledged, rejected, or its peer dead at some time.
    """
    ports = machine.ports
    port = ports.table[n, p]
    _revoke_names(machine, n, p)
    port.open = 0
    if ports.nodes[n].missing == 1 and ports.nodes[n].miss_for == p:
        return False
    if port.busy == 1:
        end_descriptor(machine, n, p, layout.CLOSED)
    while port.taken < port.posted:
        slot = port.taken % ports.rules[0].ring
        port.taken += 1
        report_sent(machine, n, p, slot, layout.CLOSED)
    if _has_pending(machine, n, p) or _is_moving(machine, n, p) or _answers_for(machine, n, p):
        return False
    _release_buffers(machine, n, p)
    if machine.ports.rules[0].rooms == 1:
        free_port_buffers(machine, n, p)
    _cancel_kernel_requests(machine, n, p)
    _unpin_last_used(machine, n, p)
    return True


@step
def _revoke_names(machine, n, p):
    """Revoke the names of the process's memory, and those that it has of others'."""
    ports = machine.ports
    cached = caches_handles(machine)
    for number in range(ports.shared.exports.shape[1]):
        export = ports.shared.exports[n, number]
        if export.port == p and export.valid == 1:
            export.valid = 0
            export.epoch += 1
            if cached:
                invalidate_handle(machine, n, EXPORT_HANDLE, number)
    for number in range(ports.shared.imports.shape[1]):
        if ports.shared.imports[n, number].port == p:
            ports.shared.imports[n, number].port = layout.NOBODY
            if cached:
                invalidate_handle(machine, n, IMPORT_HANDLE, number)
    if cached and ports.table[n, p].open == 1:
        # Once: what comes for the port is rejected only if the kernel's answer stays on the NIC.
        invalidate_handle(machine, n, PROCESS_HANDLE, p)


@step
def _has_pending(machine, n, p):
    """Whether a descriptor, or a packet of one that was cut short, waits for its peer."""
    ports = machine.ports
    for slot in range(ports.rules[0].ring):
        if ports.pending[n, p, slot].busy == 1:
            return True
    for tag in range(ports.channels.shape[1]):
        if ports.channels[n, tag].port == p and ports.channels[n, tag].cut != 0:
            return True
    for d in range(ports.stream_of.shape[1]):
        entry = stream_to(ports, n, d).oldest_kept
        while entry != NO_ENTRY:
            if _is_from(machine, n, p, ports.pools.heads[entry]):
                return True
            entry = ports.pools.behind[entry]
    return False


@step
def _is_from(machine, n, p, head):
    """Whether the packet of ``head`` is of port ``p``, or an answer from its process's memory."""
    if head.from_port == layout.OWN_PORT:
        return head.space == machine.ports.table[n, p].space
    return head.from_port == p


@step
def _is_moving(machine, n, p):
    """Whether a packet to or from the port is under way here."""
    ports = machine.ports
    endpoint = machine.endpoints[n]
    for i in range(endpoint.finished, endpoint.written):
        if _is_from(machine, n, p, ports.send_heads[n, i % endpoint.send_ring]):
            return True
    begin = endpoint.completed if ports.rules[0].serves == 1 else ports.nodes[n].taken_in
    for i in range(begin, endpoint.accepted):
        if _owner_of(machine, n, ports.arrival_heads[n, i % endpoint.receive_ring]) == p:
            return True
    return False


@step
def _owner_of(machine, n, head):
    """The port that the packet of ``head`` is for, as far as its bytes go to memory."""
    ports = machine.ports
    whose = stream_to(ports, n, head.peer).port
    if whose != layout.OWN_PORT:
        return whose
    if head.kind == layout.SEND and 0 <= head.name < ports.channels.shape[1]:
        return np.int64(destination_port_of(ports, n, head))
    if head.kind == layout.WRITE and 0 <= head.name < ports.shared.exports.shape[1]:
        return ports.shared.exports[n, head.name].port
    return np.int64(layout.NOBODY)


@step
def _answers_for(machine, n, p):
    """Whether an answer from memory of the port's process is yet to be read there."""
    ports = machine.ports
    own = ports.table[n, layout.OWN_PORT]
    space = ports.table[n, p].space
    if own.busy == 1 and own.reply_space == space:
        return True
    for i in range(own.taken, own.posted):
        slot = ports.answer_slots[n, i % ports.rules[0].ring]
        request = ports.requests[n, layout.OWN_PORT, slot]
        if request.segments > 0 and request.space == space:
            return True
    return False


@step
def _release_buffers(machine, n, p):
    ports = machine.ports
    port = ports.table[n, p]
    bits = ports.rules[0].page_bits
    while port.free_taken < port.free_posted:
        address = ports.provided[n, p, port.free_taken % ports.rules[0].ring]
        port.free_taken += 1
        if address >= 0 and address < ports.rules[0].space_bytes:
            keep_pages(machine, n, port.space, address >> bits, 1, 0)
    while port.ready_out < port.ready_in:
        buffer = ports.ready[n, p, port.ready_out % ports.ready.shape[2]]
        port.ready_out += 1
        if buffer.frame >= 0:
            release(machine, n, buffer.key)
    if port.takes == layout.WORK_QUEUE:
        discard_receives(machine, n, p)
    for tag in range(ports.channels.shape[1]):
        channel = ports.channels[n, tag]
        if channel.port == p:
            for i in range(channel.buffers):
                release(machine, n, ports.filling[n, tag, i].key)
            port.reserved -= channel.placed >= 0
            channel.buffers = 0
            channel.placed = -1
            channel.port = layout.NOBODY
    port.filling = 0


@step
def _cancel_kernel_requests(machine, n, p):
    """Cancel what the kernel thread was to bring for the port."""
    serving = machine.ports.nodes[n]
    for i in range(serving.handled, serving.queued):
        event = machine.ports.events[n, i % machine.ports.events.shape[1]]
        if event.port == p:
            event.port = layout.ABANDONED
    port = machine.ports.table[n, p]
    port.blocked = layout.FREE_TO_GO
    port.ahead_waits = layout.FREE_TO_GO
    port.polled_again = 0


@step
def _used_last(machine, n, p, key):
    """Whether port ``p`` used the page last, or none did and its process's library pinned it."""
    ports = machine.ports
    owner = ports.owners[n, key]
    if owner != layout.NOBODY or ports.rules[0].scheme < UTLB:
        return owner == p
    _, host, book = translation_of(ports.translations, n)
    if host.pinning.state[key] & PINNED == 0:
        return False
    space, _ = page_of_key(host, book, key)
    return space == ports.table[n, p].space


@step
def _unpin_last_used(machine, n, p):
    """Unpin the pages that this port used last and evict their translations.

    So are those that were pinned ahead, or for buffers, and that no port has used.
    What was registered for good stays so, and what a cache of lines has pinned stays until the
    high water asks for it.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    if scheme < UTLB and scheme != UNET_MM and scheme != INTERRUPT:
        return
    nic, host, book = translation_of(ports.translations, n)
    unpinned = book.counts[0].unpins
    for key in range(ports.owners.shape[1]):
        if not _used_last(machine, n, p, key):
            continue
        if host.in_use[key] != 0 or host.pinning.held[key] != 0:
            continue
        ports.owners[n, key] = layout.NOBODY
        space, page = page_of_key(host, book, key)
        if scheme == UNET_MM:
            evict_unet_mm(nic, host, book, space, page, key)
            apply_pin_actions(machine, n, 0)
        elif scheme == INTERRUPT:
            evict_interrupt(nic, host, book, space, page, key)
            apply_pin_actions(machine, n, 0)
        elif host.pinning.state[key] & PINNED:
            if lock_tables(machine, n, space, page, page) < 0:
                continue  # no frame for the table: what it names stays pinned
            forget(nic, host, book, space, key)
            unpin_page(host, book, space, key)
            apply_pin_actions(machine, n, 0)
            unlock_tables(machine, n, space)
    if scheme >= UTLB and book.counts[0].unpins != unpinned:
        book.counts[0].unpin_calls += 1


@distant
def drop_page(machine, n, space, page):
    """Have no NIC know a page of ``space`` any more: 1, or 0 while a transfer or a region needs it.

    Where a cache of lines keeps pins until its high water, those stay.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    nic, host, book = translation_of(ports.translations, n)
    key = key_of(machine, n, space, page)
    if key < 0 or host.pinning.state[key] & PINNED == 0:
        return np.int64(1)
    if host.in_use[key >> book.orders[0].line_bits] != 0 or host.pinning.held[key] != 0:
        return np.int64(0)
    if scheme == UNET_MM:
        evict_unet_mm(nic, host, book, space, page, key)
        apply_pin_actions(machine, n, 0)
    elif scheme == INTERRUPT:
        evict_interrupt(nic, host, book, space, page, key)
        apply_pin_actions(machine, n, 0)
    elif scheme in (STATIC, RNIC):
        leave_table(machine, n, space, page, key)
    elif scheme >= UTLB:
        if lock_tables(machine, n, space, page, page) < 0:
            return np.int64(0)
        forget(nic, host, book, space, key)
        unpin_page(host, book, space, key)
        apply_pin_actions(machine, n, 0)
        unlock_tables(machine, n, space)
    return np.int64(host.pinning.state[key] & PINNED == 0)


@distant
def deregister_pages(machine, n, p, address, length):
    """Unpin what is registered there, unless something needs it: posted, or registered again.

    Other schemes' libraries unpin by rules of their own.
    """
    ports = machine.ports
    scheme = ports.rules[0].scheme
    if scheme not in (STATIC, RNIC):
        return
    _, host, _ = translation_of(ports.translations, n)
    bits = ports.rules[0].page_bits
    space = ports.table[n, p].space
    for page in range(address >> bits, ((address + length - 1) >> bits) + 1):
        key = key_of(machine, n, space, page)
        if key < 0 or host.pinning.state[key] & PINNED == 0 or host.pinning.held[key] != 0:
            continue
        leave_table(machine, n, space, page, key)


@step
def is_tag_idle(machine, n, p, tag):
    """Whether nothing of node ``n`` names ``tag`` any more, which was port ``p``'s."""
    if is_dead(machine.ports.deaths.nodes, n, machine.tally[0].now):
        return True
    if _is_arriving(machine, n, tag, layout.SEND) or _is_arriving(machine, n, tag, layout.CUT):
        return False
    if machine.ports.channels[n, tag].port != p:
        return True  # the port has closed: what it posted has ended, and nobody reads its reports
    return not (
        _is_posted(machine, n, p, tag, layout.SEND) or _is_unread(machine, n, p, tag, layout.SEND)
    )


@step
def release_tag(machine, n, tag):
    """Release ``tag``; the buffers of a partial message return to the free queue."""
    ports = machine.ports
    channel = ports.channels[n, tag]
    if channel.port == layout.NOBODY:
        return
    abandon_message(machine, n, tag)
    if channel.cut != 0:
        channel.cut = 0
        ports.nodes[n].cuts -= 1
    channel.port = layout.NOBODY


@step
def is_export_idle(machine, n, p, number):
    """Whether no store to export ``number`` of ``n`` is arriving or waits to be reported."""
    if is_dead(machine.ports.deaths.nodes, n, machine.tally[0].now):
        return True
    if _is_arriving(machine, n, number, layout.WRITE):
        return False
    closed = machine.ports.table[n, p].open == 0  # which forgets what is unread if it opens again
    return closed or not _is_unread(machine, n, p, number, layout.WRITE)


@step
def is_import_idle(machine, n, p, number):
    """Whether no open descriptor of port ``p`` names import ``number``."""
    if is_dead(machine.ports.deaths.nodes, n, machine.tally[0].now):
        return True
    return not (
        _is_posted(machine, n, p, number, layout.WRITE)
        or _is_posted(machine, n, p, number, layout.FETCH)
    )


@step
def _is_posted(machine, n, p, name, operation):
    """Whether a descriptor of port ``p`` that has not ended names ``name``."""
    ports = machine.ports
    for slot in range(ports.rules[0].ring):
        request = ports.requests[n, p, slot]
        if ports.pending[n, p, slot].busy == 0:
            continue
        if request.operation == operation and request.name == name:
            return True
    return False


@step
def _is_arriving(machine, n, name, kind):
    """Whether a packet for ``name`` has come of which the bytes are not yet where they belong."""
    ports = machine.ports
    endpoint = machine.endpoints[n]
    begin = endpoint.completed if ports.rules[0].serves == 1 else ports.nodes[n].taken_in
    for i in range(begin, endpoint.accepted):
        head = ports.arrival_heads[n, i % endpoint.receive_ring]
        if head.kind == kind and head.name == name:
            return True
    return False


@step
def _is_unread(machine, n, p, name, operation):
    """Whether port ``p`` has a report of something for ``name`` that its process has not read."""
    ports = machine.ports
    port = ports.table[n, p]
    for i in range(port.read, port.received):
        report = ports.reports[n, p, layout.RECEIVED, i % ports.rules[0].ring]
        if report.name == name and report.operation == operation:
            return True
    return False
