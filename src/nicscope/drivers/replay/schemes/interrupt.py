"""Replaying the interrupt-based baseline.

Without a limit the host has no say in what the NIC holds: it comes after all lookups of a piece.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.drivers.translation.book import INVALIDATED, MISSED
from nicscope.drivers.translation.codes import MISS
from nicscope.drivers.translation.deeds import pin_page, unpin_page
from nicscope.drivers.translation.interrupt import serve_interrupt
from nicscope.jit import kernel, step
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import use
from nicscope.nic.cache import lookup, renew
from nicscope.nic.layout import EMPTY, SEARCHED_WAYS


@kernel
def replay_interrupt(case, _begin, _end, count):
    """Replay ``count`` lookups, each page on its own."""
    nic, host, book = timeless(case)
    if host.pinning.rules[0].ordered:
        _replay_with_limit(case, nic, host, book, count)
        return
    found = renew_all(case, nic, book, count)
    for place in range(found):
        key = np.int64(case.number[case.chosen[place]])
        book.counts[0].interrupts += 1
        evicted = np.int64(case.evicted[place])
        if evicted != EMPTY:
            unpin_page(host, book, process_of(host.numbering, evicted - 1), evicted - 1)
        pin_page(host, book, process_of(host.numbering, key), key, 1)


@step
def _replay_with_limit(case, nic, host, book, count):
    last_set = nic.config[0].sets - 1
    for i in range(count):
        key = np.int64(case.number[i])
        process = process_of(host.numbering, key)
        entry = lookup(nic, np.int64(case.index[i]) & last_set, key + 1, book.counts)
        if entry != MISS:
            case.outcome[i] = 0
            use(host.pinning, process, key)
        else:
            case.outcome[i] = MISSED | (np.int64(book.past[key]) & INVALIDATED)
            serve_interrupt(nic, host, book, process, unit_of(host.numbering, key), key)


@step
def renew_all(case, nic, book, count):
    """Look up and on a miss fill ``count`` units; how many missed, and are chosen for the host."""
    last_set = nic.config[0].sets - 1
    ways = nic.config[0].ways
    found = np.int64(0)
    further = np.int64(0)
    for i in range(count):
        tag = np.int64(case.number[i]) + 1
        depth, evicted = renew(nic, np.int64(case.index[i]) & last_set, tag)
        missed = np.int64(depth == ways)
        case.outcome[i] = missed
        case.chosen[found] = i
        case.evicted[found] = evicted
        found += missed
        further += depth - missed
    book.counts[0].further_ways += further * np.int64(ways <= SEARCHED_WAYS)
    return found
