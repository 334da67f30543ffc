"""The host side of the three UTLBs: a user library that pins before it asks (UTLB 3, 3.4, 6.5).

Once per request it checks which pages are pinned, makes room under the limit by unpinning what
the replacement policy names, and pins each run of missing pages with one call.  ``numbers`` are
those of the stream's units, of which the request's begin at ``request.at``.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.memory.indices import give_back_index, take_index
from nicscope.memory.numbering import NONE, find, unit_of
from nicscope.memory.pinning import PINNED, can_give_up, use, victim_of
from nicscope.nic.cache import drop
from nicscope.nic.translate.book import note_invalidation
from nicscope.nic.translate.deeds import DROP, fill_frame, note_deed, pin_page, unpin_page
from nicscope.nic.translate.state import set_of
from nicscope.nic.translate.utlb import place_in_table


@step
def admit(nic, host, book, numbers, request):
    """See to it that every page of ``request`` is pinned; False if that is more than the limit."""
    rules = host.pinning.rules[0]
    if rules.ordered and request.pages > rules.limit:
        book.counts[0].rejected += 1
        return False
    fresh = 0
    for at in range(request.at, request.at + request.pages):
        page = numbers[at]
        if host.pinning.state[page] & PINNED == 0:
            fresh += 1
        elif rules.ordered:
            use(host.pinning, request.process, page)
    if fresh > 0:
        book.counts[0].check_misses += fresh
        if rules.ordered:
            make_room(nic, host, book, request, fresh)
        pin_runs(nic, host, book, numbers, request, fresh)
    return True


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
def make_room(nic, host, book, request, fresh):
    """Unpin pages outside ``request`` until ``fresh`` more fit under the limit."""
    owner = host.pinning.processes[request.process]
    last = request.first + request.pages - 1
    while owner.pinned + fresh > host.pinning.rules[0].limit:
        page = victim_of(host.pinning, host.numbering, request.process, request.first, last)
        forget(nic, host, book, request.process, page)
        unpin_page(host, book, request.process, page)
        book.counts[0].unpin_calls += 1


@step
def forget(nic, host, book, process, page):
    """The translation of a page to unpin leaves the table and, if it is there, the NIC."""
    key = page
    entry_number = unit_of(host.numbering, page)
    if host.indices.tables.size > 0:
        key = give_back_index(host.indices, process, page)
        entry_number = unit_of(host.indices.keys, key)
    if not book.orders[0].cached:
        note_deed(host, DROP, page, -1)
    elif drop(nic, set_of(nic, book, process, entry_number), key + 1):
        note_invalidation(book, key)
        note_deed(host, DROP, page, -1)


@step
def pin_runs(nic, host, book, numbers, request, fresh):
    """Pin each maximal run of unpinned pages, and ``prepin`` pages from its start, by one call."""
    end = request.at + request.pages
    at = request.at
    while fresh > 0:
        while host.pinning.state[numbers[at]] & PINNED:
            at += 1
        begin = at
        while at < end and host.pinning.state[numbers[at]] & PINNED == 0:
            pin_in_table(nic, host, book, request.process, numbers[at], 1)
            at += 1
        fresh -= at - begin
        book.counts[0].pin_calls += 1
        if book.orders[0].prepin > at - begin:
            pin_ahead(nic, host, book, request, request.first + begin - request.at, fresh)


@step
def pin_ahead(nic, host, book, request, start, fresh):
    """Pin what is unpinned of the ``prepin`` pages from ``start`` beyond the request.

    Only as far as the limit leaves room once ``fresh`` more pages of the request are pinned.
    """
    rules = host.pinning.rules[0]
    owner = host.pinning.processes[request.process]
    last = min(start + book.orders[0].prepin - 1, book.orders[0].last_page)
    for unit in range(request.first + request.pages, last + 1):
        if rules.ordered and owner.pinned + fresh >= rules.limit:
            return
        page = find(host.numbering, request.process, unit)
        if page == NONE:
            return
        if host.pinning.state[page] & PINNED == 0:
            pin_in_table(nic, host, book, request.process, page, 0)


@step
def pin_in_table(nic, host, book, process, page, uses):
    """Pin one page and enter it in the process's table."""
    pin_page(host, book, process, page, uses)
    if host.indices.tables.size > 0:
        take_index(host.indices, process, page)
        # A table that lies on the NIC itself; replay has no need of it.
        if not book.orders[0].cached:
            fill_frame(nic, host, place_in_table(host, process, page), page)
