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
        reach = reach_of_calls(host, book, numbers, request, fresh)
        if rules.ordered:
            make_room(nic, host, book, request, reach, fresh)
        pin_runs(nic, host, book, numbers, request, fresh, reach)
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
    while reach > last and not _can_give_up(host, request, reach, fresh):
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
    while ahead > 0 and not _can_give_up(host, request, reach, fresh + ahead):
        page = find(host.numbering, request.process, last)
        ahead -= host.pinning.state[page] & PINNED == 0
        last -= 1
    make_room(nic, host, book, request, reach, fresh + ahead)
    return last


@step
def _can_give_up(host, request, last, fresh):
    """Whether ``fresh`` pages may be pinned: where transfers hold pages not all others can go."""
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
