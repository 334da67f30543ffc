"""Replaying the three UTLBs: the user library admits a request, then the NIC looks up its pages.

Without a limit nothing is ever unpinned, and without prefetching nobody asks for a page that is not
pinned yet: then it makes no difference to the NIC when a page is pinned, and the user library is
done with a piece before the NIC begins.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import request_of, timeless
from nicscope.drivers.translation.book import INVALIDATED, MISSED, NOT_DONE, note_eviction
from nicscope.drivers.translation.user_library import admit
from nicscope.drivers.translation.utlb import prefetch_indices, prefetch_pages
from nicscope.jit import kernel, step
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import renew
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS


@kernel
def replay_utlb(case, begin, end, count):
    """Replay requests ``begin..end``, of ``count`` lookups, with the cache keyed by page."""
    nic, host, book = timeless(case)
    if _may_admit_ahead(host, book):
        _admit_new(case, nic, host, book, begin, end, count)
        _look_up_pages(case, nic, host, book, 0, count)
        return
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if admit(nic, host, book, case.number, request):
            _look_up_pages(case, nic, host, book, request.at, at)
        else:
            _pass_over(case, request.at, at)


@kernel
def replay_utlb_shared(case, begin, end, count):
    """As ``replay_utlb``, with the cache keyed by table index instead of page (UTLB 3.2)."""
    nic, host, book = timeless(case)
    if _may_admit_ahead(host, book):
        _admit_new(case, nic, host, book, begin, end, count)
        _look_up_indices(case, nic, host, book, 0, count)
        return
    at = np.int64(0)
    for row in range(begin, end):
        request = request_of(case, row, at)
        at += request.pages
        if admit(nic, host, book, case.number, request):
            _look_up_indices(case, nic, host, book, request.at, at)
        else:
            _pass_over(case, request.at, at)


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
def _may_admit_ahead(host, book):
    return not host.pinning.rules[0].ordered and book.orders[0].prefetch == 1


@step
def _admit_new(case, nic, host, book, begin, end, count):
    """Admit the requests of which a page is not pinned; all others need nothing of the library."""
    found = np.int64(0)
    state = host.pinning.state
    for i in range(count):
        case.chosen[found] = i
        found += np.int64(state[case.number[i]] & PINNED == 0)
    row = np.int64(begin)
    at = np.int64(0)
    for place in range(found):
        i = np.int64(case.chosen[place])
        while at + case.stream.pages[row] <= i:
            at += case.stream.pages[row]
            row += 1
        if state[case.number[i]] & PINNED == 0:
            admit(nic, host, book, case.number, request_of(case, row, at))


@step
def _pass_over(case, begin, end):
    """Nothing is asked of the NIC for a request that was rejected."""
    for i in range(begin, end):
        case.key[i] = case.number[i]
        case.outcome[i] = NOT_DONE


@step
def _look_up_pages(case, nic, host, book, begin, end):
    """Look up pages ``begin..end`` and fetch those that miss, with what is read besides."""
    last_set = nic.config[0].sets - 1
    ways = nic.config[0].ways
    prefetches = book.orders[0].prefetch > 1
    is_ordered = host.pinning.rules[0].ordered
    misses = np.int64(0)
    further = np.int64(0)
    for i in range(begin, end):
        key = np.int64(case.number[i])
        depth, evicted = renew(nic, np.int64(case.index[i]) & last_set, key + 1)
        missed = np.int64(depth == ways)
        outcome = missed
        if is_ordered:
            outcome |= np.int64(book.past[key]) & INVALIDATED
        case.outcome[i] = outcome
        misses += missed
        further += depth - missed
        if is_ordered | prefetches and missed:
            if evicted != EMPTY:
                note_eviction(book, evicted - 1)
            if prefetches:
                process, page = process_of(host.numbering, key), unit_of(host.numbering, key)
                prefetch_pages(nic, host, book, process, page)
    book.counts[0].entries_fetched += misses
    book.counts[0].further_ways += further * np.int64(ways <= SEARCHED_WAYS)


@step
def _look_up_indices(case, nic, host, book, begin, end):
    """As ``_look_up_pages`` by the pages' indices in the process's table."""
    last_set = nic.config[0].sets - 1
    ways = nic.config[0].ways
    step_of_process = book.orders[0].offset_step
    prefetches = book.orders[0].prefetch > 1
    is_ordered = host.pinning.rules[0].ordered
    misses = np.int64(0)
    further = np.int64(0)
    for i in range(begin, end):
        key = np.int64(host.indices.key_of[case.number[i]])
        index, process = unit_of(host.indices.keys, key), process_of(host.indices.keys, key)
        depth, evicted = renew(nic, (index + process * step_of_process) & last_set, key + 1)
        missed = np.int64(depth == ways)
        outcome = missed
        if is_ordered:
            outcome |= np.int64(book.past[key]) & INVALIDATED
        case.key[i] = key
        case.outcome[i] = outcome
        misses += missed
        further += depth - missed
        if is_ordered | prefetches and missed:
            if evicted != EMPTY:
                note_eviction(book, evicted - 1)
            if prefetches:
                prefetch_indices(nic, host, book, process, index)
    book.counts[0].entries_fetched += misses
    book.counts[0].further_ways += further * np.int64(ways <= SEARCHED_WAYS)
