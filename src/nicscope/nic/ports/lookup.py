"""What the firmware looks up before it serves: pages, handles; what it holds meanwhile."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic import handles
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import calls, layout
from nicscope.nic.ports.calls import has_handle
from nicscope.nic.ports.regions import is_descriptor_readable
from nicscope.nic.ports.streams import is_reliable, stream_to
from nicscope.nic.ports.traffic import NO_HANDLE, count_handle, port_of_arrival
from nicscope.nic.translate.book import INTERRUPT, PINNED_AREA, UNET_MM
from nicscope.nic.translate.requests import key_of_page, page_of_key, ways_to_check
from nicscope.nic.translate.state import (
    hold_key,
    keep_page,
    release_key,
    release_page,
    set_of,
    translation_of,
)
from nicscope.nic.translate.unet_mm import is_at_cap


@step
def page_at(nics, address):
    """Page number of a 64-bit virtual address."""
    bits = nics.ports.rules[0].page_bits
    return (address >> bits) & ((np.int64(1) << (64 - bits)) - 1)


@step
def bytes_in_page(nics, address, count):
    """How many of the ``count`` bytes at ``address`` lie in its page."""
    page = np.int64(1) << nics.ports.rules[0].page_bits
    return min(count, page - (address & (page - 1)))


@step
def key_of(nics, n, space, page):
    """Dense number of ``page``, by which its state is indexed."""
    _, host, book = translation_of(nics.ports.translations, n)
    return key_of_page(host, book, space, page)


@step
def generation_of(nics, n, frame):
    """Generation of ``frame``, which shows later whether a translation is still valid."""
    return nics.ports.memory.frames[n, frame].generation


@routine
def further_ways(nics, n, space, page):
    """How many ways after the first a lookup of ``page`` checks, as the NIC has its set now."""
    ports = nics.ports
    nic, host, book = translation_of(ports.translations, n)
    return ways_to_check(ports.rules[0].scheme, nic, host, book, space, page)


NO_KEY = -1


@step
def holds_entries(nics):
    """Whether evicting an entry unpins its page, so that its users must hold the entry.

    Elsewhere a pin is enough.  Two nodes whose packets wait for each other's acknowledgement must
    not keep the entries that these packets need at the other end.
    """
    scheme = nics.ports.rules[0].scheme
    return scheme in (INTERRUPT, UNET_MM)


@step
def share_set(nics, n, owner, other, space, page):
    """Whether page ``other`` of space ``owner`` has its entry where one of ``page`` could be.

    That is its set; and any set, where no more entries may be valid.
    """
    nic, _, book = translation_of(nics.ports.translations, n)
    if nics.ports.rules[0].scheme == UNET_MM:
        return is_at_cap(book) or (other ^ page) & (nic.config[0].sets - 1) == 0
    return set_of(nic, book, owner, other) == set_of(nic, book, space, page)


@distant
def hold(nics, n, key):
    """Count one more user of the page of ``key``."""
    if key >= 0 and nics.ports.rules[0].scheme != PINNED_AREA:
        nic, host, book = translation_of(nics.ports.translations, n)
        if not holds_entries(nics):
            keep_page(host, book, key)
            return
        space, page = page_of_key(host, book, key)
        hold_key(nic, host, book, space, page, key)


@distant
def release(nics, n, key):
    """Count one user less of the page of ``key``; wake ports that wait for that."""
    if key < 0 or nics.ports.rules[0].scheme == PINNED_AREA:
        return
    nic, host, book = translation_of(nics.ports.translations, n)
    space, page = page_of_key(host, book, key)
    if holds_entries(nics):
        release_key(nic, host, book, space, page, key)
    else:
        release_page(nic, host, book, space, page, key)
    if nics.ports.nodes[n].use_blocked > 0:
        wake_blocked_ports(nics, n)


@step
def wake_blocked_ports(nics, n):
    """Wake the ports that wait for a transfer to release an entry."""
    ports = nics.ports
    for p in range(ports.table.shape[1]):
        if ports.table[n, p].blocked == layout.AWAITS_USE:
            ports.table[n, p].blocked = layout.FREE_TO_GO
        if ports.table[n, p].ahead_waits == layout.AWAITS_USE:
            ports.table[n, p].ahead_waits = layout.FREE_TO_GO
    ports.nodes[n].use_blocked = 0
    ports.nodes[n].attention = 1


@step
def hold_packet_page(nics, n, head):
    """Hold the page of ``head`` for one more packet."""
    if head.lone == 1:
        calls.add_frame_pin(nics, n, head.frame)
    else:
        calls.hold(nics, n, head.key)


@step
def release_packet_page(nics, n, head):
    """Release the page of the packet of ``head``."""
    if head.lone == 1:
        calls.drop_frame_pin(nics, n, np.int64(head.space), np.int64(head.frame))
        head.lone = 0
    calls.release(nics, n, head.key)
    head.key = NO_KEY


@step
def note_drop_time(nics, d, sender, sequence):
    """Note when the packet of ``sender`` was first dropped for what it misses."""
    stream = stream_to(nics.ports, d, sender)
    if stream.waits != sequence:
        stream.waits = sequence
        stream.since = nics.tally[0].now


@step
def is_entry_reserved(nics, n):
    """Whether an entry is reserved for a dropped packet."""
    return nics.ports.nodes[n].reserved_for != layout.NOBODY


@step
def peer_timeout(nics):
    """Time (ps) until a peer counts as dead, and until a reservation ends."""
    rules = nics.ports.rules[0]
    return (rules.most_retries + 1) * rules.time_out


@routine
def reserve_entry(nics, n, sender, space, page, now):
    """Reserve the entry of ``page``, or of a handle, for the packet of ``sender``; if it could.

    It fails if another packet holds the reservation.
    """
    ports = nics.ports
    serving = ports.nodes[n]
    if ports.rules[0].service != layout.THREAD:
        return False
    if not is_reliable(ports, stream_to(ports, n, sender)):
        return False
    if is_entry_reserved(nics, n) and serving.reserved_for != sender:
        return False
    serving.reserved_for = sender
    serving.reserved_until = now + peer_timeout(nics)
    if space == handles.PROCESS_HANDLE:
        serving.reserved_process = page
        handles.hold_handle(nics, n, space, page)
    elif handles.is_handle(space):
        serving.reserved_export = page
        handles.hold_handle(nics, n, space, page)
    else:
        _release_reserved_page(nics, n)
        serving.reserved_space = space
        serving.reserved_page = page
        nic, host, book = translation_of(ports.translations, n)
        hold_key(nic, host, book, space, page, key_of(nics, n, space, page))
    return True


@routine
def yield_reservation(nics, n, sender):
    """Cancel the reservation if the packet of ``sender`` was dropped before its holder."""
    ports = nics.ports
    holder = ports.nodes[n].reserved_for
    if holder == layout.NOBODY:
        return
    if stream_to(ports, n, sender).since < stream_to(ports, n, holder).since:
        cancel_reservation(nics, n)


@step
def complete_reservation(nics, n, sender, sequence):
    """Complete the reservation if the packet of ``sender`` that is complete holds it."""
    ports = nics.ports
    if ports.nodes[n].reserved_for == sender and stream_to(ports, n, sender).waits == sequence:
        cancel_reservation(nics, n)


@routine
def cancel_reservation(nics, n):
    """Cancel the reservation and wake who waits for its entries; whether there was one."""
    serving = nics.ports.nodes[n]
    if serving.reserved_for == layout.NOBODY:
        return False
    serving.reserved_for = layout.NOBODY
    _release_reserved_page(nics, n)
    if serving.reserved_process != layout.NOBODY:
        handles.release_handle(nics, n, handles.PROCESS_HANDLE, serving.reserved_process)
        serving.reserved_process = layout.NOBODY
    if serving.reserved_export != layout.NOBODY:
        handles.release_handle(nics, n, handles.EXPORT_HANDLE, serving.reserved_export)
        serving.reserved_export = layout.NOBODY
    if serving.use_blocked > 0:
        wake_blocked_ports(nics, n)
    return True


@step
def _release_reserved_page(nics, n):
    serving = nics.ports.nodes[n]
    space, page = serving.reserved_space, serving.reserved_page
    if page != layout.NOBODY:
        nic, host, book = translation_of(nics.ports.translations, n)
        release_key(nic, host, book, space, page, key_of(nics, n, space, page))
        serving.reserved_page = layout.NOBODY


@step
def request_page(nics, n, who, space, page, receive, ahead):
    """Request ``page`` on behalf of ``who``: the task ends with a miss."""
    serving = nics.ports.nodes[n]
    serving.outcome = layout.PAGE_MISS
    serving.miss_for = who
    serving.miss_space = space
    serving.miss_page = page
    serving.miss_receive = receive
    serving.miss_ahead = ahead


@step
def request_descriptor(nics, n, p):
    """Request the DMA fetch of the next descriptor of port ``p``; the firmware goes on.

    Unless what was posted has ended since this task began.  One that is not in registered memory is
    not read: it is refused when it is taken.
    """
    ports = nics.ports
    port = ports.table[n, p]
    slot = place_in(port.taken, ports.rules[0].ring)
    if port.open == 0 or port.busy == 1 or port.taken == port.posted:
        return
    if is_descriptor_readable(nics, n, p, slot):
        nics.ports.nodes[n].outcome = layout.DESCRIPTOR_MISS
        nics.ports.nodes[n].bringing = p
        nics.ports.nodes[n].wanted = port.taken
    else:
        ports.work.tokens[n, p, slot] = 0


@step
def request_handle(nics, n, who, kind, number):
    """Request a handle from the host; nothing on the NIC waits for it."""
    request_page(nics, n, who, kind, number, 0, 0)
    nics.ports.nodes[n].outcome = layout.HANDLE_MISS


# Lookups of one request or packet; when it comes again, those up to the missed one are repeated.
FIRST = 1
SECOND = 2
OWN = -1  # in place of a port: a packet misses, and nobody here waits


@step
def caches_handles(nics):
    """Whether the NIC caches the handles of buffers and processes."""
    return nics.ports.rules[0].handles == 1


@step
def is_read_translated_ahead(nics, n, p):
    """Whether port ``p`` looks the destination of a read up before its request goes out.

    miNI's request names the destination (IV.B: its VMH has been posted when the operation was
    issued), so a miss holds the descriptor back and drops no answer.  What has left the cache when
    the answer comes is looked up once more.  Not so of a trace of requests, each page of which is
    looked up once, as a replay counts.
    """
    rules = nics.ports.rules[0]
    is_posted = rules.by_request == 0 and nics.ports.table[n, p].takes != layout.WORK_QUEUE
    return rules.service == layout.THREAD and is_posted


@routine
def has_request_handles(nics, n, p):
    """Whether the NIC has the handles that the next request of port ``p`` needs.

    If not, a miss is on its way to the kernel and the port waits.
    """
    ports = nics.ports
    port = ports.table[n, p]
    again = port.polled_again
    if not _has(nics, n, p, handles.PROCESS_HANDLE, p, again >= FIRST, p):
        port.polled_again = max(again, FIRST)
        return False
    request = ports.requests[n, p, place_in(port.taken, ports.rules[0].ring)]
    is_remote = request.operation == layout.WRITE or request.operation == layout.FETCH
    if is_remote and port.takes != layout.WORK_QUEUE:
        number = request.name
        is_one = number >= 0 and number < ports.shared.imports.shape[1]
        if is_one and not _has(nics, n, p, handles.IMPORT_HANDLE, number, again >= SECOND, p):
            port.polled_again = SECOND
            return False
    port.polled_again = 0
    return True


@step
def _has(nics, n, who, kind, number, again, p):
    found = has_handle(nics, n, kind, number, np.int64(again))
    if not again:
        count_handle(nics, n, p, np.int64(0 if found else 1))
    if found:
        return True
    request_handle(nics, n, who, kind, number)
    return False


@routine
def has_export_handle(nics, d, head):
    """Whether the NIC has the handle of the export of ``head``, copied to ``Ports.shown``."""
    ports = nics.ports
    number = head.name
    if not caches_handles(nics):
        ports.shown[d] = ports.shared.exports[d, number]
        return True
    again = _missed_at(nics, d, head) >= FIRST
    if not _has(nics, d, OWN, handles.EXPORT_HANDLE, number, again, port_of_arrival(nics, d, head)):
        _note_miss(nics, d, head, FIRST)
        return False
    owner = ports.shown[d].port
    if ports.shown[d].valid == 0 or owner == layout.NOBODY:
        return True
    return has_process_handle(nics, d, head, owner)


@routine
def has_process_handle(nics, d, head, p):
    """Whether the NIC has the handle of the process that ``head`` is for."""
    if not caches_handles(nics):
        return True
    again = _missed_at(nics, d, head) >= SECOND
    if _has(nics, d, OWN, handles.PROCESS_HANDLE, p, again, p):
        return True
    _note_miss(nics, d, head, SECOND)
    return False


@step
def _missed_at(nics, d, head):
    """The lookup that this packet missed at its last arrival, or 0."""
    stream = stream_to(nics.ports, d, head.peer)
    if head.sequence < 0:
        return np.int64(0)
    if head.sequence == stream.missed:
        return np.int64(SECOND)  # its page
    return np.int64(stream.missed_at) if head.sequence == stream.missed_handle else np.int64(0)


@step
def _note_miss(nics, d, head, which):
    stream = stream_to(nics.ports, d, head.peer)
    before = _missed_at(nics, d, head)
    stream.missed_handle = head.sequence
    stream.missed_at = max(before, which)
    head.why = NO_HANDLE
    note_drop_time(nics, d, head.peer, head.sequence)
