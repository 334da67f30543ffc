"""Replaying the three UTLBs: the user library admits a request, then the NIC looks up its pages.

Without a limit nothing is ever unpinned, and without prefetching nobody asks for a page that is not
pinned yet: then it makes no difference to the NIC when a page is pinned, and the user library is
done with a piece before the NIC begins (``admit_new``).  Else they take turns, request by request.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import request_of, timeless
from nicscope.drivers.translation.book import INVALIDATED, NOT_DONE, note_eviction
from nicscope.drivers.translation.state import set_of
from nicscope.drivers.translation.user_library import admit
from nicscope.drivers.translation.utlb import prefetch_indices, prefetch_pages
from nicscope.jit import kernel, step
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import renew
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS


@kernel
def admit_new(case, begin, _end, count):
    """Admit the requests of which a page is not pinned; all others need nothing of the library.

    They begin with request ``begin`` and have ``count`` lookups.
    """
    nic, host, book = timeless(case)
    state = host.pinning.state
    found = np.int64(0)
    for i in range(count):
        case.missed[found] = i
        found += np.int64(state[case.number[i]] & PINNED == 0)
    row = np.int64(begin)
    at = np.int64(0)
    for place in range(found):
        i = np.int64(case.missed[place])
        while at + case.stream.pages[row] <= i:
            at += case.stream.pages[row]
            row += 1
        if state[case.number[i]] & PINNED == 0:
            admit(nic, host, book, case.number, request_of(case, row, at))


@kernel
def find_indices(case, _begin, _end, count):
    """Find what the cache knows ``count`` pinned pages by: their indices in the process's table."""
    indices, each = case.host.indices, case.book.orders[0].offset_step
    for i in range(count):
        key = np.int64(indices.key_of[case.number[i]])
        case.key[i] = key
        case.index[i] = unit_of(indices.keys, key) + process_of(indices.keys, key) * each


@kernel
def fetch_missed(case, _begin, _end, _count):
    """The NIC has read an entry for every lookup that missed."""
    case.book.counts[0].entries_fetched += case.found[0]


@kernel
def replay_utlb(case, begin, end, _count):
    """Replay requests ``begin..end`` with the cache keyed by page."""
    nic, host, book = timeless(case)
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if not admit(nic, host, book, case.number, request):
            _pass_over(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(case.number[i])
            page = request.first + i - request.at
            where = set_of(nic, book, request.process, page)
            if _look_up(case, nic, book, i, where, key) and book.orders[0].prefetch > 1:
                prefetch_pages(nic, host, book, request.process, page)


@kernel
def replay_utlb_shared(case, begin, end, _count):
    """Replay requests ``begin..end`` with the cache keyed by table index (UTLB 3.2)."""
    nic, host, book = timeless(case)
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if not admit(nic, host, book, case.number, request):
            _pass_over(case, request.at, at)
            continue
        for i in range(request.at, at):
            key = np.int64(host.indices.key_of[case.number[i]])
            index = unit_of(host.indices.keys, key)
            where = set_of(nic, book, request.process, index)
            if _look_up(case, nic, book, i, where, key) and book.orders[0].prefetch > 1:
                prefetch_indices(nic, host, book, request.process, index)


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
def _look_up(case, nic, book, i, where, key):
    """Look up ``key`` in set ``where``, and fetch its entry if it is not there: 1 if so."""
    ways = nic.config[0].ways
    counts = book.counts[0]
    case.key[i] = key
    depth, evicted = renew(nic, where, key + 1, ways)
    missed = np.int64(depth == ways)
    case.outcome[i] = missed | (np.int64(book.past[key]) & INVALIDATED & -missed)
    counts.entries_fetched += missed
    counts.further_ways += (depth - missed) * np.int64(ways <= SEARCHED_WAYS)
    if evicted != EMPTY:
        note_eviction(book, evicted - 1)
    return missed
