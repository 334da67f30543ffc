"""The pass that all caches have in common: look up every unit of a piece, and fill what misses.

For schemes whose host has no say in what the NIC holds, as long as nothing is fetched ahead.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel, step
from nicscope.nic.cache import FOUR, renew
from nicscope.nic.layout import SEARCHED_WAYS
from nicscope.nic.recency import keep_uses, renew_held, uses_of

MORE = SEARCHED_WAYS + 1  # how many more makes no difference to the loop


@kernel
def renew_lookups(case, _begin, _end, count):
    """Look up ``count`` units: lists which missed, and what left for each, for later passes."""
    _renew_by_ways(case, count, True)


@kernel
def renew_listing_misses(case, _begin, _end, count):
    """Look up ``count`` units: lists which missed; what they evicted, no later pass asks."""
    _renew_by_ways(case, count, False)


@step
def _renew_by_ways(case, count, lists_evicted):
    """Look up ``count`` units by a loop that is compiled for the cache's number of ways."""
    nic, _, book = timeless(case)
    ways = nic.config[0].ways
    if ways == 1:
        _renew_all(case, nic, book, count, 1, lists_evicted)
    elif ways == FOUR:
        _renew_all(case, nic, book, count, FOUR, lists_evicted)
    elif ways > SEARCHED_WAYS:
        _renew_all(case, nic, book, count, MORE, lists_evicted)
    else:
        _renew_all(case, nic, book, count, ways, lists_evicted)


@step
def _renew_all(case, nic, book, count, ways, lists_evicted):
    last_set = nic.config[0].sets - 1
    found = np.int64(0)
    further = np.int64(0)
    for i in range(count):
        tag = np.int64(case.key[i]) + 1
        depth, evicted = renew(nic, np.int64(case.set_index[i]) & last_set, tag, ways)
        missed = np.int64(depth == ways)
        case.missed[found] = i
        if lists_evicted:
            case.evicted[found] = evicted
        found += missed
        further += depth - missed
    case.found[0] = found
    book.counts[0].further_ways += further * np.int64(ways <= SEARCHED_WAYS)


@kernel
def renew_lone_set(case, _begin, _end, count):
    """As ``renew_lookups``, of a cache that is one set, which holds what was looked up last."""
    held = case.held
    now, oldest, word, left = uses_of(held)
    found = np.int64(0)
    for i in range(count):
        key = np.int64(case.key[i])
        present, evicted, now, oldest, word, left = renew_held(held, key, now, oldest, word, left)
        case.missed[found] = i
        case.evicted[found] = evicted
        found += 1 - present
    keep_uses(held, now, oldest, left)
    case.found[0] = found
