"""The three UTLBs: a user library that pins before it asks, and the NIC's tables (UTLB 3, 6.5)."""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.indices import free_index, take_index
from nicscope.memory.numbering import NONE, find, unit_of
from nicscope.memory.pinning import PINNED, can_give_up, use, victim_of
from nicscope.nic.cache import REFUSED as NO_WAY_FREE
from nicscope.nic.cache import drop, fill, lookup
from nicscope.nic.cache import find as find_entry
from nicscope.nic.layout import EMPTY, FRAME_BITS
from nicscope.nic.translate.book import (
    DROP,
    MISS,
    REFUSED,
    fill_frame,
    note_fill,
    note_hit,
    note_invalidation,
    note_miss,
    pin_page,
    protect_if_used,
    record_pin_action,
    unpin_page,
)
from nicscope.nic.translate.state import set_of

SECOND_LEVEL = 1024  # entries of a second-level table (UTLB 3.3)


@step
def ask_utlb(nic, book, process, page, key, receive):
    """Frame of ``page``, or ``MISS``."""
    entry = lookup(nic, set_of(nic, book, process, page), key + 1, book.counts)
    if entry == MISS:
        note_miss(book, key, receive)
        return np.int64(MISS)
    note_hit(book, key)
    return np.int64(nic.frames[entry] & FRAME_BITS)


@step
def serve_utlb(nic, host, book, process, page, key):
    """Install what was read of the table: the entry of ``page`` and those after it."""
    entry = install(nic, host, book, set_of(nic, book, process, page), key, key)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    book.counts[0].entries_fetched += 1
    if book.orders[0].prefetch > 1:
        prefetch_pages(nic, host, book, process, page)
    return np.int64(key)


@step
def last_fetched(book, number):
    """The last of the table's entries that come with ``number``, to the end of its table."""
    return min(number + book.orders[0].prefetch - 1, number | (SECOND_LEVEL - 1))


@step
def prefetch_pages(nic, host, book, process, page):
    """Bring the table's entries after ``page`` to the NIC too."""
    last = last_fetched(book, page)
    book.counts[0].entries_fetched += last - page
    for unit in range(page + 1, last + 1):
        key = find(host.numbering, process, unit)
        if key != NONE and host.pinning.state[key] & PINNED:
            fill_unless_present(nic, host, book, set_of(nic, book, process, unit), key, key)


@step
def fill_unless_present(nic, host, book, row, key, page):
    """Insert the entry of ``key`` in set ``row`` unless it is there or none may leave."""
    if find_entry(nic, row, key + 1) == MISS:
        install(nic, host, book, row, key, page)


@step
def install(nic, host, book, row, key, page):
    """Fill in the entry of ``key``, which is not there; the entry, or ``NO_WAY_FREE``."""
    entry = fill(nic, row, key + 1)
    if entry == NO_WAY_FREE:
        return entry
    if nic.registers[0].evicted != EMPTY:
        evicted = nic.registers[0].evicted - 1
        record_pin_action(host, DROP, page_under(host, evicted), -1)
    note_fill(book, key)
    fill_frame(nic, host, entry, page)
    protect_if_used(nic, host.in_use, entry, page)
    return entry


@step
def page_under(host, key):
    """The page whose entry the cache knows as ``key``."""
    if host.indices.tables.size > 0:
        return np.int64(host.indices.page_of[key]) - 1
    return np.int64(key)


@step
def ask_utlb_shared(nic, host, book, process, key, receive):
    """Frame of ``page``, or ``MISS``; the cache is keyed by table index, not page (UTLB 3.2)."""
    index_key = host.indices.key_of[key]
    index = unit_of(host.indices.keys, index_key)
    entry = lookup(nic, set_of(nic, book, process, index), index_key + 1, book.counts)
    if entry == MISS:
        note_miss(book, index_key, receive)
        return np.int64(MISS)
    note_hit(book, index_key)
    return np.int64(nic.frames[entry] & FRAME_BITS)


@step
def serve_utlb_shared(nic, host, book, process, key):
    """Install what was read of the table: the entry of ``page`` and those after it."""
    index_key = host.indices.key_of[key]
    index = unit_of(host.indices.keys, index_key)
    entry = install(nic, host, book, set_of(nic, book, process, index), index_key, key)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    book.counts[0].entries_fetched += 1
    if book.orders[0].prefetch > 1:
        prefetch_indices(nic, host, book, process, index)
    return np.int64(key)


@step
def prefetch_indices(nic, host, book, process, index):
    """Bring the table's entries after ``index`` to the NIC too."""
    last = last_fetched(book, index)
    book.counts[0].entries_fetched += last - index
    for unit in range(index + 1, last + 1):
        key = find(host.indices.keys, process, unit)
        if key != NONE and host.indices.page_of[key] != 0:
            page = host.indices.page_of[key] - 1
            fill_unless_present(nic, host, book, set_of(nic, book, process, unit), key, page)


@step
def ask_utlb_process(nic, host, process, key):
    """Frame of ``page``, which the user library has entered in the process's table (UTLB 3.1)."""
    return np.int64(nic.frames[place_in_table(host, process, key)] & FRAME_BITS)


@step
def place_in_table(host, process, page):
    """Where the frame of ``page``, which is pinned, stands in the NIC's tables."""
    index = unit_of(host.indices.keys, np.int64(host.indices.key_of[page]))
    return process * host.pinning.rules[0].limit + index


@step
def admit(nic, host, book, numbers, request):
    """Pin every page of ``request``; False if that exceeds the limit."""
    rules = host.pinning.rules[0]
    if rules.ordered and request.pages > rules.limit:
        book.counts[0].rejected += 1
        return False
    fresh = use_pinned(host, numbers, request)
    if fresh > 0:
        book.counts[0].check_misses += fresh
        reach = reach_of_calls(host, book, numbers, request, fresh)
        if rules.ordered:
            make_room(nic, host, book, request, reach, fresh)
        pin_runs(nic, host, book, numbers, request, fresh, reach)
    return True


@step
def use_pinned(host, numbers, request):
    """Note the use of the pages of ``request`` that are pinned; returns how many are not."""
    fresh = 0
    for at in range(request.at, request.at + request.pages):
        page = numbers[at]
        if host.pinning.state[page] & PINNED == 0:
            fresh += 1
        elif host.pinning.rules[0].ordered:
            use(host.pinning, request.process, page)
    return fresh


@step
def can_make_room(host, numbers, request):
    """Whether pages that nobody holds suffice to make room; a request too long needs none."""
    rules = host.pinning.rules[0]
    if not rules.ordered or request.pages > rules.limit:
        return True
    fresh = 0
    for at in range(request.at, request.at + request.pages):
        fresh += host.pinning.state[numbers[at]] & PINNED == 0
    if fresh == 0:
        return True
    wanted = host.pinning.processes[request.process].pinned + fresh - rules.limit
    last = request.first + request.pages - 1
    return wanted <= 0 or can_give_up(
        host.pinning, host.numbering, request.process, request.first, last, wanted
    )


@step
def make_room(nic, host, book, request, last, fresh):
    """Unpin pages outside units ``request.first`` to ``last`` until ``fresh`` more have room."""
    owner = host.pinning.processes[request.process]
    while owner.pinned + fresh > host.pinning.rules[0].limit:
        page = victim_of(host.pinning, host.numbering, request.process, request.first, last)
        forget(nic, host, book, request.process, page)
        unpin_page(host, book, request.process, page)
        book.counts[0].unpin_calls += 1


@step
def forget(nic, host, book, process, page):
    """The translation of a page to unpin leaves the table and, if it is there, the NIC."""
    key = leave_table(host, process, page)
    entry_number = number_under(host, key)
    if not book.orders[0].cached:
        record_pin_action(host, DROP, page, -1)
    elif drop(nic, set_of(nic, book, process, entry_number), key + 1):
        note_invalidation(book, key)
        record_pin_action(host, DROP, page, -1)


@step
def leave_table(host, process, page):
    """The translation of ``page`` leaves the process's table; returns what the NIC knows it by."""
    if host.indices.tables.size > 0:
        return free_index(host.indices, process, page)
    return np.int64(page)


@step
def number_under(host, key):
    """The number of the page, or of the entry in its table, that the cache knows as ``key``."""
    if host.indices.tables.size > 0:
        return unit_of(host.indices.keys, key)
    return unit_of(host.numbering, key)


@step
def reach_of_calls(host, book, numbers, request, fresh):
    """The last unit that the calls for ``request`` are to see pinned: no page up to it may go.

    It lies ``prepin`` units from the beginning of the last run of unpinned pages, and ends with the
    address space, where the pages from the request on are as many as the limit, and where, with
    pages that transfers hold, the others do not make room for the ``fresh`` ones of the request.
    """
    last = request.first + request.pages - 1
    if book.orders[0].prepin == 1:
        return last
    at = request.at + request.pages - 1
    while host.pinning.state[numbers[at]] & PINNED:
        at -= 1
    while at > request.at and host.pinning.state[numbers[at - 1]] & PINNED == 0:
        at -= 1
    start = request.first + at - request.at
    reach = min(start + book.orders[0].prepin - 1, book.orders[0].last_page)
    if host.pinning.rules[0].ordered:
        reach = min(reach, request.first + host.pinning.rules[0].limit - 1)
    for unit in range(last + 1, reach + 1):
        if find(host.numbering, request.process, unit) == NONE:
            reach = unit - 1
            break
    reach = max(reach, last)
    while reach > last and not _can_unpin(host, request, reach, fresh):
        reach -= 1
    return reach


@step
def pin_runs(nic, host, book, numbers, request, fresh, reach):
    """Pin each maximal run of unpinned pages, and ``prepin`` pages from its start, by one call.

    What is pinned ahead needs room as well, which is made before its call.
    """
    end = request.at + request.pages
    at = request.at
    while fresh > 0:
        while host.pinning.state[numbers[at]] & PINNED:
            at += 1
        begin = at
        while at < end and host.pinning.state[numbers[at]] & PINNED == 0:
            at += 1
        last = min(request.first + begin - request.at + book.orders[0].prepin - 1, reach)
        if last >= request.first + request.pages:
            last = make_room_ahead(nic, host, book, request, last, reach, fresh)
        for place in range(begin, at):
            pin_in_table(nic, host, book, request.process, numbers[place])
        fresh -= at - begin
        book.counts[0].pin_calls += 1
        pin_ahead(nic, host, book, request, last)


@step
def make_room_ahead(nic, host, book, request, last, reach, fresh):
    """Make room for what is unpinned behind the request up to unit ``last``; up to where there is.

    ``fresh`` pages of the request are not pinned yet.
    """
    if not host.pinning.rules[0].ordered:
        return last
    ahead = 0
    for unit in range(request.first + request.pages, last + 1):
        page = find(host.numbering, request.process, unit)
        ahead += host.pinning.state[page] & PINNED == 0
    while ahead > 0 and not _can_unpin(host, request, reach, fresh + ahead):
        page = find(host.numbering, request.process, last)
        ahead -= host.pinning.state[page] & PINNED == 0
        last -= 1
    make_room(nic, host, book, request, reach, fresh + ahead)
    return last


@step
def _can_unpin(host, request, last, fresh):
    """Whether ``fresh`` pages may be pinned: pages held by transfers cannot be unpinned."""
    if host.pinning.held is None:
        return True
    wanted = host.pinning.processes[request.process].pinned + fresh - host.pinning.rules[0].limit
    if not host.pinning.rules[0].ordered or wanted <= 0:
        return True
    return can_give_up(host.pinning, host.numbering, request.process, request.first, last, wanted)


@step
def pin_ahead(nic, host, book, request, last):
    """Pin what is unpinned behind the request, up to unit ``last``."""
    for unit in range(request.first + request.pages, last + 1):
        page = find(host.numbering, request.process, unit)
        if host.pinning.state[page] & PINNED == 0:
            pin_in_table(nic, host, book, request.process, page)


@step
def pin_in_table(nic, host, book, process, page):
    """Pin one page, which counts as used by that, and enter it in the process's table."""
    pin_page(host, book, process, page, 1)
    if host.indices.tables.size > 0:
        take_index(host.indices, process, page)
        # A table that lies on the NIC itself; replay has no need of it.
        if not book.orders[0].cached:
            fill_frame(nic, host, place_in_table(host, process, page), page)
