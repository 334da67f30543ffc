"""One page, one request at a time under any scheme, for drivers in which time passes between.

``scheme`` is a number of ``codes``, ``page`` and ``first`` are page numbers of the process's
address space.  The driver lets ``admit_request`` come first, then asks page by page; after a
``MISS`` it serves the page when the host has had its time, and carries out the pin actions.
"""

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.numbering import NONE, find, process_of, unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import frame_of, further_ways
from nicscope.nic.layout import FRAME_BITS
from nicscope.nic.translate import utlb
from nicscope.nic.translate.book import (
    ADMITTED,
    HANDLE,
    INTERRUPT,
    MISS,
    REFUSED,
    REJECTED,
    RNIC,
    STATIC,
    UNET_MM,
    UNKNOWN,
    UTLB,
    UTLB_PROCESS,
    UTLB_SHARED,
    note_interrupts,
)
from nicscope.nic.translate.handle import ask_handle, serve_handle
from nicscope.nic.translate.interrupt import ask_interrupt, serve_interrupt
from nicscope.nic.translate.rnic import ask_rnic, serve_rnic
from nicscope.nic.translate.state import Request, entry_of, tag_of
from nicscope.nic.translate.static import ask_static, begin_registering, serve_static
from nicscope.nic.translate.unet_mm import ask_unet_mm, serve_unet_mm
from nicscope.nic.victim import ABSENT, find_victim


@routine
def key_of_page(host, book, process, page):
    """The number by which ``page`` is held, pinned and filled, or ``UNKNOWN``."""
    bits = book.orders[0].line_bits
    if page < 0 or page > book.orders[0].last_page:
        return np.int64(UNKNOWN)
    unit = find(host.numbering, process, page >> bits)
    if unit == NONE:
        return np.int64(UNKNOWN)
    return unit << bits | (page & ((1 << bits) - 1))


@step
def page_of_key(host, book, key):
    """The process and the page that number ``key`` names."""
    bits = book.orders[0].line_bits
    unit = key >> bits
    page = unit_of(host.numbering, unit) << bits | (key & ((1 << bits) - 1))
    return process_of(host.numbering, unit), page


@routine
def ask(scheme, nic, host, book, process, page, receive):
    """Frame of ``page`` if the NIC has its translation, else ``MISS``.

    ``UNKNOWN`` if the page has no number; ``REJECTED`` under a user library that has not pinned
    it: the table has no entry then.
    """
    key = key_of_page(host, book, process, page)
    if key == UNKNOWN:
        return key
    if scheme >= UTLB and host.pinning.state[key] & PINNED == 0:
        return np.int64(REJECTED)
    if scheme == UTLB:
        return utlb.ask_utlb(nic, book, process, page, key, receive)
    if scheme == UTLB_SHARED:
        return utlb.ask_utlb_shared(nic, host, book, process, key, receive)
    if scheme == UTLB_PROCESS:
        return utlb.ask_utlb_process(nic, host, process, key)
    if scheme == INTERRUPT:
        return ask_interrupt(nic, host, book, process, page, key, receive)
    if scheme == UNET_MM:
        return ask_unet_mm(nic, book, page, key, receive)
    if scheme == STATIC:
        return ask_static(nic, host, key)
    if scheme == RNIC:
        return ask_rnic(nic, host, book, process, page, key)
    bits = book.orders[0].line_bits
    entry = ask_handle(nic, book, page >> bits, key >> bits, receive)
    if entry == MISS:
        return np.int64(MISS)
    return frame_of(nic, entry, page & ((1 << bits) - 1))


@routine
def ways_to_check(scheme, nic, host, book, process, page):
    """How many further ways ``ask`` would check, as the cache stands; nothing is noted."""
    if not book.orders[0].cached or nic.config[0].ways == 1:
        return np.int64(0)
    key = key_of_page(host, book, process, page)
    if key == UNKNOWN or (scheme >= UTLB and host.pinning.state[key] & PINNED == 0):
        return np.int64(0)
    row, tag = tag_of(nic, host, book, process, page, key)
    return further_ways(nic, row, tag)


@routine
def serve(scheme, nic, host, book, process, page):
    """Serve a miss of ``page``: at least 0 if its translation is on the NIC, now or before.

    Filled in now, it is a stand-in until the pin actions are carried out: the real frame is the
    one that the FILL of this page writes.  Entries prefetched after it may already have
    displaced it in a small cache; the NIC has read it all the same.
    ``REFUSED`` if transfers use all that would have to go: nothing has changed, try again.
    ``REJECTED`` if the table is full (static), or if nobody pinned the page (user libraries).
    """
    key = key_of_page(host, book, process, page)
    if key == UNKNOWN:
        return key
    if scheme >= UTLB and host.pinning.state[key] & PINNED == 0:
        return np.int64(REJECTED)
    frame = frame_on_nic(nic, host, book, process, page, key)
    if frame != MISS:
        count_late_service(host, book, scheme, page, key)
        return frame
    if scheme == UTLB:
        return utlb.serve_utlb(nic, host, book, process, page, key)
    if scheme == UTLB_SHARED:
        return utlb.serve_utlb_shared(nic, host, book, process, key)
    if scheme == INTERRUPT:
        return serve_interrupt(nic, host, book, process, page, key)
    if scheme == UNET_MM:
        return serve_unet_mm(nic, host, book, process, page, key)
    if scheme == STATIC:
        return serve_static(nic, host, book, process, page, key)
    if scheme == RNIC:
        return serve_rnic(nic, host, book, process, page, key)
    bits = book.orders[0].line_bits
    entry = serve_handle(nic, host, book, process, page >> bits, key >> bits)
    if entry < 0:
        return entry
    return frame_of(nic, entry, page & ((1 << bits) - 1))


@step
def frame_on_nic(nic, host, book, process, page, key):
    """Frame of ``page`` if its translation is on the NIC, else ``MISS``; nothing is noted."""
    if book.orders[0].cached:
        entry = entry_of(nic, host, book, process, page, key)
        if entry != MISS:
            return frame_of(nic, entry, page & ((1 << book.orders[0].line_bits) - 1))
        place = find_victim(nic, key + 1)
        if place != ABSENT:
            return np.int64(nic.victims[place].frame & FRAME_BITS)
        return np.int64(MISS)
    if host.pinning.state[key] & PINNED == 0:
        return np.int64(MISS)
    if host.indices.tables.size > 0:
        return utlb.ask_utlb_process(nic, host, process, key)
    return ask_static(nic, host, key)


@step
def count_late_service(host, book, scheme, page, key):
    """Count a service whose translation had been filled meanwhile: it took its time, too."""
    counts = book.counts[0]
    if scheme in (INTERRUPT, UNET_MM):
        note_interrupts(book, 1)
    elif scheme == HANDLE:
        counts.interrupts += 1
        counts.dropped += 1
    elif scheme == RNIC:
        counts.entries_fetched += 1 << book.orders[0].line_bits
    elif scheme == UTLB:
        counts.entries_fetched += utlb.last_fetched(book, page) - page + 1
    elif scheme == UTLB_SHARED:
        index = unit_of(host.indices.keys, np.int64(host.indices.key_of[key]))
        counts.entries_fetched += utlb.last_fetched(book, index) - index + 1


@routine
def admit_request(scheme, nic, host, book, process, first, pages):
    """Admit a request for ``pages`` (at least 1) pages from ``first``: pin them, if need be.

    ``ADMITTED``; ``REJECTED`` if they are more than may be pinned; ``UNKNOWN`` if one has no
    number; ``REFUSED`` if pages that are held would have to be unpinned: nothing has changed.
    The caller sees to it that ``pages`` does not exceed the longest request of the cluster.
    """
    if scheme in (STATIC, RNIC):
        begin_registering(host, process)
    if scheme < UTLB:
        return np.int64(ADMITTED)
    if not write_numbers(host, book, process, first, pages):
        return np.int64(UNKNOWN)
    request = Request(process, first, pages, 0, 0)
    if not utlb.can_make_room(host, host.numbers, request):
        return np.int64(REFUSED)
    if not utlb.admit(nic, host, book, host.numbers, request):
        return np.int64(REJECTED)
    return np.int64(ADMITTED)


@routine
def could_admit(scheme, host, book, process, first, pages):
    """Whether ``admit_request`` would succeed now."""
    if scheme < UTLB or not write_numbers(host, book, process, first, pages):
        return True
    return utlb.can_make_room(host, host.numbers, Request(process, first, pages, 0, 0))


@step
def write_numbers(host, book, process, first, pages):
    """Write the numbers of a request's pages to ``host.numbers``; False if one has none."""
    for place in range(pages):
        key = key_of_page(host, book, process, first + place)
        if key == UNKNOWN:
            return False
        host.numbers[place] = key
    return True
