"""Replaying the three UTLBs: the user library admits a request, then the NIC looks up its pages.

Without a limit nothing is ever unpinned, and without prefetching nobody asks for a page that is not
pinned yet: then it makes no difference to the NIC when a page is pinned, and the user library comes
after the NIC, for what that never saw before (``admit_first``), or before it where the NIC knows
pages by indices that the library gives (``admit_new``).  Else they take turns, request by request.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import laid_out, request_of, timeless
from nicscope.hashing import LOW
from nicscope.kernel.decorators import kernel, step
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import renew
from nicscope.nic.layout import SEARCHED_WAYS
from nicscope.nic.translate.book import INVALIDATED, NOT_DONE
from nicscope.nic.translate.state import set_of
from nicscope.nic.translate.utlb import admit, prefetch_indices, prefetch_pages


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
    """The same after the lookups: a page that was never pinned is among those never seen before."""
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
    """Find what the cache knows ``count`` pinned pages by: their indices in the process's table."""
    indices, each = case.host.indices, case.book.orders[0].offset_step
    for i in range(count):
        key = np.int64(indices.key_of[case.number[i]])
        case.key[i] = key
        number, process = unit_of(indices.keys, key), process_of(indices.keys, key)
        case.set_index[i] = (number + process * each) & LOW


@kernel
def fetch_missed(case, _begin, _end, _count):
    """The NIC has read an entry for every lookup that missed."""
    case.book.counts[0].entries_fetched += case.found[0]


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
            _pass_over(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(case.number[i])
            page = request.first + i - request.at
            depth, missed = _look_up(case, nic, book, i, request.process, page, key)
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
            _pass_over(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(host.indices.key_of[case.number[i]])
            index = unit_of(host.indices.keys, key)
            depth, missed = _look_up(case, nic, book, i, request.process, index, key)
            misses += missed
            further += depth - missed
            if prefetches and missed:
                prefetch_indices(nic, host, book, request.process, index)
    _add_fetched(nic, book, misses, further)


@kernel
def replay_utlb_process(case, begin, end, _count):
    """Replay through tables that hold every pinned page on the NIC (UTLB 3.1): none misses."""
    nic, host, book = timeless(case)
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        admit(nic, host, book, case.number, request)


@step
def _pass_over(case, begin, end):
    """Nothing is asked of the NIC for a request that was rejected."""
    for i in range(begin, end):
        case.key[i] = case.number[i]
        case.outcome[i] = NOT_DONE


@step
def _look_up(case, nic, book, i, process, number, key):
    """Look up ``key``, and fetch its entry if it is not there.

    Returns how deep in its set it was found, and 1 if it was not.
    """
    ways = nic.config[0].ways
    depth, _ = renew(nic, set_of(nic, book, process, number), key + 1, ways)
    missed = np.int64(depth == ways)
    past = np.int64(book.past[key])
    case.key[i] = key
    case.outcome[i] = missed | (past & INVALIDATED & -missed)
    book.past[key] = past & ~INVALIDATED  # it is there now
    return depth, missed


@step
def _add_fetched(nic, book, misses, further):
    counts = book.counts[0]
    counts.entries_fetched += misses
    counts.further_ways += further * np.int64(nic.config[0].ways <= SEARCHED_WAYS)
