"""Replaying the three UTLBs: the user library admits a request, then the NIC looks up its pages.

Without a limit nothing is ever unpinned, and without prefetching nobody asks for a page that is not
pinned yet: then it makes no difference to the NIC when a page is pinned, and the user library comes
after the NIC, for what that never saw before (``admit_first``), or before it where the NIC knows
pages by indices that the library gives (``admit_new``).  With a limit alone the library needs
nothing of the NIC either: it comes first, and lists what has to leave the NIC before each request
(``admit_within_limit``).  Else they take turns, request by request.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import laid_out, request_of, timeless
from nicscope.hashing import LOW
from nicscope.kernel.decorators import kernel, step
from nicscope.memory.indices import hand_on_index
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import PINNED, use, use_or_exchange, victim_of
from nicscope.memory.replacement import Replacement
from nicscope.nic.cache import FOUR, drop_in, renew
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS
from nicscope.nic.recency import drop_held, keep_uses, renew_held, uses_of
from nicscope.nic.translate.book import INVALIDATED, NOT_DONE, unpin_page
from nicscope.nic.translate.state import set_of
from nicscope.nic.translate.utlb import (
    admit,
    leave_table,
    pin_in_table,
    pin_runs,
    prefetch_indices,
    prefetch_pages,
    use_pinned,
)


@kernel
def admit_new(case, begin, end, count):
    """Admit the requests of which a page is not pinned; all others need nothing of the library.

    They are ``begin..end`` and have ``count`` lookups.
    """
    state = case.host.pinning.state
    found = np.int64(0)
    for lookup in range(count):
        case.evicted[found] = lookup
        found += np.int64(state[case.number[lookup]] & PINNED == 0)
    _admit_listed(case, begin, end, found)


@kernel
def admit_first(case, begin, end, _count):
    """As ``admit_new``, after the lookups: never pinned pages are among those never seen before."""
    state = case.host.pinning.state
    found = np.int64(0)
    for place in range(case.found[0]):
        lookup = case.missed[place]
        case.evicted[found] = lookup
        found += np.int64(state[case.number[lookup]] & PINNED == 0)
    _admit_listed(case, begin, end, found)


@step
def _admit_listed(case, begin, end, found):
    """Admit the requests of the lookups that the first ``found`` places of ``evicted`` name.

    A request that has further pages of a unit that was looked up, and pinned, for the one before it
    has them pinned by a call of its own.
    """
    if found == 0 and case.fresh[0] == 0:
        return
    if _has_one_lookup_each(case, begin, end):
        _admit_single(case, begin, end, found)
        return
    nic, host, book = timeless(case)
    state = host.pinning.state
    fresh, calls = case.fresh[0], np.int64(0)
    at, place = np.int64(0), np.int64(0)
    for row in range(begin, end):
        shared = fresh & np.int64(case.opened[row])
        after = at + np.int64(case.laid[row])
        if place < found and np.int64(case.evicted[place]) < after:
            while place < found and np.int64(case.evicted[place]) < after:
                place += 1
            shared &= np.int64(state[case.number[at]] & PINNED != 0)  # else one call has both
            fresh = np.int64(state[case.number[after - 1]] & PINNED == 0)
            admit(nic, host, book, case.number, laid_out(case, row, at))
        elif after > at:
            fresh = np.int64(0)
        calls += shared
        at = after
    case.fresh[0] = fresh
    book.counts[0].pin_calls += calls


@step
def _has_one_lookup_each(case, begin, end):
    """Whether each of the requests ``begin..end`` has one lookup and no further pages of another.

    Then the lookups are in the order of the requests, and nobody need count through these.
    """
    others = np.int64(0)
    for row in range(begin, end):
        others |= np.int64(case.laid[row] ^ 1) | np.int64(case.opened[row])
    return others == 0


@step
def _admit_single(case, begin, end, found):
    """As ``_admit_listed``, of requests of one lookup each."""
    nic, host, book = timeless(case)
    state = host.pinning.state
    fresh = np.int64(0)
    for place in range(found):
        at = np.int64(case.evicted[place])
        is_last = np.int64(begin + at == end - 1)
        fresh = is_last & np.int64(state[case.number[at]] & PINNED == 0)
        admit(nic, host, book, case.number, laid_out(case, begin + at, at))
    case.fresh[0] = fresh


@kernel
def find_indices(case, _begin, _end, count):
    """Finds the table indices by which the cache knows ``count`` pinned pages."""
    indices = case.host.indices
    for i in range(count):
        case.key[i] = indices.key_of[case.number[i]]
    _find_sets(case, count)


@step
def _find_sets(case, count):
    """Find the sets of the entries that are known by their indices in their processes' tables."""
    keys, each = case.host.indices.keys, case.book.orders[0].offset_step
    for i in range(count):
        key = np.int64(case.key[i])
        case.set_index[i] = (unit_of(keys, key) + process_of(keys, key) * each) & LOW


@kernel
def fetch_missed(case, _begin, _end, _count):
    """Counts one entry fetched by the NIC for every lookup that missed."""
    case.book.counts[0].entries_fetched += case.found[0]


@kernel
def admit_within_limit(case, begin, end, _count):
    """Admit requests ``begin..end``, and list the tags of the pages that each has unpinned.

    They stand in ``evicted`` at the request's lookups: no more of them go than pages come.
    """
    if _has_one_lookup_each(case, begin, end):
        _admit_single_within_limit(case, begin, end)
    else:
        _admit_many(case, begin, end)


@step
def _admit_single_within_limit(case, begin, end):
    """The same for requests of one page each, by a loop that is compiled for the policy."""
    policy = case.host.pinning.rules[0].policy
    if policy == Replacement.LRU:
        _admit_single_pages(case, begin, end, Replacement.LRU)
    elif policy == Replacement.MRU:
        _admit_single_pages(case, begin, end, Replacement.MRU)
    elif policy == Replacement.LFU:
        _admit_single_pages(case, begin, end, Replacement.LFU)
    elif policy == Replacement.MFU:
        _admit_single_pages(case, begin, end, Replacement.MFU)
    else:
        _admit_single_pages(case, begin, end, Replacement.RANDOM)


@step
def _admit_many(case, begin, end):
    """``admit_within_limit`` for requests of any number of pages."""
    nic, host, book = timeless(case)
    rules = host.pinning.rules[0]
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        for i in range(request.at, at):
            case.evicted[i] = EMPTY
            case.key[i] = case.number[i]
        if request.pages > rules.limit:
            book.counts[0].rejected += 1
            continue
        fresh = use_pinned(host, case.number, request)
        if fresh > 0:
            book.counts[0].check_misses += fresh
            last = request.first + request.pages - 1
            _list_unpinned(case, host, book, request, last, fresh)
            pin_runs(nic, host, book, case.number, request, fresh, last)
        if host.indices.tables.size > 0:
            for i in range(request.at, at):
                case.key[i] = host.indices.key_of[case.number[i]]


@step
def _list_unpinned(case, host, book, request, last, fresh):
    """As ``make_room``, but what leaves the NIC for it is listed."""
    owner = host.pinning.processes[request.process]
    at = request.at
    while owner.pinned + fresh > host.pinning.rules[0].limit:
        page = victim_of(host.pinning, host.numbering, request.process, request.first, last)
        case.evicted[at] = leave_table(host, request.process, page) + 1
        unpin_page(host, book, request.process, page)
        book.counts[0].unpin_calls += 1
        at += 1


@step
def _admit_single_pages(case, begin, end, policy):
    nic, host, book = timeless(case)
    pinning = host.pinning
    limit = pinning.rules[0].limit
    by_index = host.indices.tables.size > 0
    pinned, exchanged = np.int64(0), np.int64(0)
    for row in range(begin, end):
        i = row - begin
        process, page = np.int64(case.stream.process[row]), np.int64(case.number[i])
        tag = np.int64(EMPTY)
        if pinning.processes[process].pinned < limit:
            if pinning.state[page] & PINNED != 0:
                use(pinning, process, page)
            else:
                pin_in_table(nic, host, book, process, page)
                pinned += 1
            if by_index:
                case.key[i] = host.indices.key_of[page]
        else:
            tag = use_or_exchange(pinning, process, page, policy)
            gone = np.int64(tag != EMPTY)
            exchanged += gone
            if by_index:
                before = tag - 1 if gone else page
                key = hand_on_index(host.indices, process, before, page)
                case.key[i] = host.indices.key_of[page]
                tag = (key + 1) * gone
        case.evicted[i] = tag
    counts = book.counts[0]
    counts.check_misses += pinned + exchanged
    counts.pin_calls += pinned + exchanged
    counts.pins += exchanged
    counts.unpins += exchanged
    counts.unpin_calls += exchanged


@kernel
def look_up_unpinning(case, begin, end, count):
    """Look up ``count`` pages; before each request's, what was unpinned for it leaves the NIC."""
    _look_up_unpinning_by_ways(case, case.host.numbering, begin, end, count)


@kernel
def look_up_unpinning_shared(case, begin, end, count):
    """The same with the cache keyed by table index."""
    _find_sets(case, count)
    _look_up_unpinning_by_ways(case, case.host.indices.keys, begin, end, count)


@step
def _look_up_unpinning_by_ways(case, keys, begin, end, count):
    ways = case.nic.config[0].ways
    if ways == 1:
        _look_up_unpinning(case, keys, begin, end, count, 1)
    elif ways == FOUR:
        _look_up_unpinning(case, keys, begin, end, count, FOUR)
    else:
        _look_up_unpinning(case, keys, begin, end, count, ways)


@step
def _look_up_unpinning(case, keys, begin, end, count, ways):
    nic, _, book = timeless(case)
    limit, last_set = case.host.pinning.rules[0].limit, nic.config[0].sets - 1
    misses, further = np.int64(0), np.int64(0)
    if _has_one_lookup_each(case, begin, end):
        for i in range(count):
            _drop_unpinned(case, nic, book, keys, i, ways)
            row = np.int64(case.set_index[i]) & last_set
            depth, missed = _look_up(case, nic, book, i, row, np.int64(case.key[i]), ways)
            misses += missed
            further += depth - missed
    else:
        at = np.int64(0)
        for row in range(begin, end):
            before, at = at, at + np.int64(case.laid[row])
            if at - before > limit:
                _mark_rejected_lookups(case, before, at)
                continue
            for i in range(before, at):
                _drop_unpinned(case, nic, book, keys, i, ways)
            for i in range(before, at):
                chosen = np.int64(case.set_index[i]) & last_set
                depth, missed = _look_up(case, nic, book, i, chosen, np.int64(case.key[i]), ways)
                misses += missed
                further += depth - missed
    _add_fetched(nic, book, misses, further)


@step
def _drop_unpinned(case, nic, book, keys, i, ways):
    """The entry listed at lookup ``i``, if there is one, leaves the NIC if it is there."""
    tag = np.int64(case.evicted[i])
    if tag != EMPTY:
        key = tag - 1
        row = set_of(nic, book, process_of(keys, key), unit_of(keys, key))
        book.past[key] |= INVALIDATED * np.int64(drop_in(nic, row, tag, ways))


@kernel
def look_up_single_set_unpinning(case, begin, end, _count):
    """As ``look_up_unpinning``, of a cache of one set, which holds the latest keys looked up."""
    held, past = case.held, case.book.past
    limit = case.host.pinning.rules[0].limit
    now, oldest, word, left = uses_of(held)
    misses, at = np.int64(0), np.int64(0)
    for row in range(begin, end):
        before, at = at, at + np.int64(case.laid[row])
        if at - before > limit:
            _mark_rejected_lookups(case, before, at)
            continue
        for i in range(before, at):
            key = np.int64(case.evicted[i]) - 1
            if key >= 0:
                gone, word, left = drop_held(held, key, oldest, word, left)
                past[key] |= INVALIDATED * gone
        for i in range(before, at):
            key = np.int64(case.key[i])
            present, _, now, oldest, word, left = renew_held(held, key, now, oldest, word, left)
            _write_outcome(case, past, i, key, 1 - present)
            misses += 1 - present
    keep_uses(held, now, oldest, left)
    case.book.counts[0].entries_fetched += misses


@kernel
def replay_utlb(case, begin, end, _count):
    """Replay requests ``begin..end`` with the cache keyed by page."""
    nic, host, book = timeless(case)
    prefetches = book.orders[0].prefetch > 1
    at, misses, further = np.int64(0), np.int64(0), np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if not admit(nic, host, book, case.number, request):
            _mark_rejected_lookups(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(case.number[i])
            page = request.first + i - request.at
            chosen = set_of(nic, book, request.process, page)
            depth, missed = _look_up(case, nic, book, i, chosen, key, nic.config[0].ways)
            misses += missed
            further += depth - missed
            if prefetches and missed:
                prefetch_pages(nic, host, book, request.process, page)
    _add_fetched(nic, book, misses, further)


@kernel
def replay_utlb_shared(case, begin, end, _count):
    """Replay requests ``begin..end`` with the cache keyed by table index (UTLB 3.2)."""
    nic, host, book = timeless(case)
    prefetches = book.orders[0].prefetch > 1
    at, misses, further = np.int64(0), np.int64(0), np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if not admit(nic, host, book, case.number, request):
            _mark_rejected_lookups(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(host.indices.key_of[case.number[i]])
            index = unit_of(host.indices.keys, key)
            chosen = set_of(nic, book, request.process, index)
            depth, missed = _look_up(case, nic, book, i, chosen, key, nic.config[0].ways)
            misses += missed
            further += depth - missed
            if prefetches and missed:
                prefetch_indices(nic, host, book, request.process, index)
    _add_fetched(nic, book, misses, further)


@kernel
def replay_utlb_process(case, begin, end, _count):
    """Replay through tables that hold every pinned page on the NIC (UTLB 3.1): none misses."""
    nic, host, book = timeless(case)
    if book.orders[0].prepin == 1 and _has_one_lookup_each(case, begin, end):
        _admit_single_within_limit(case, begin, end)
        return
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        admit(nic, host, book, case.number, request)


@step
def _mark_rejected_lookups(case, begin, end):
    """Marks the lookups of a rejected request as skipped."""
    for i in range(begin, end):
        case.key[i] = case.number[i]
        case.outcome[i] = NOT_DONE


@step
def _look_up(case, nic, book, i, row, key, ways):
    """Look up ``key`` in set ``row``, and fetch its entry if it is not there.

    Returns how deep in its set it was found, and 1 if it was not.
    """
    depth, _ = renew(nic, row, key + 1, ways)
    missed = np.int64(depth == ways)
    case.key[i] = key
    _write_outcome(case, book.past, i, key, missed)
    return depth, missed


@step
def _write_outcome(case, seen, i, key, missed):
    """Write down whether lookup ``i`` of ``key`` missed, and if it did for an unpinned page."""
    past = np.int64(seen[key])
    case.outcome[i] = missed | (past & INVALIDATED & -missed)
    seen[key] = past & ~INVALIDATED  # it is there now


@step
def _add_fetched(nic, book, misses, further):
    counts = book.counts[0]
    counts.entries_fetched += misses
    counts.further_ways += further * np.int64(nic.config[0].ways <= SEARCHED_WAYS)
