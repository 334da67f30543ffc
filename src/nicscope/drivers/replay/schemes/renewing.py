"""The pass that all caches have in common: look up every unit of a piece, and fill what misses.

For schemes whose host has no say in what the NIC holds, as long as nothing is fetched ahead.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel, step
from nicscope.nic.cache import FOUR, renew
from nicscope.nic.layout import SEARCHED_WAYS

MORE = SEARCHED_WAYS + 1  # how many more makes no difference to the loop


@kernel
def renew_lookups(case, _begin, _end, count):
    """Look up ``count`` units: notes how each ended, and which of them missed, for later passes."""
    nic, _, book = timeless(case)
    ways = nic.config[0].ways
    if ways == 1:
        _renew_all(case, nic, book, count, 1)
    elif ways == FOUR:
        _renew_all(case, nic, book, count, FOUR)
    elif ways > SEARCHED_WAYS:
        _renew_all(case, nic, book, count, MORE)
    else:
        _renew_all(case, nic, book, count, ways)


@step
def _renew_all(case, nic, book, count, ways):
    last_set = nic.config[0].sets - 1
    found = np.int64(0)
    further = np.int64(0)
    for i in range(count):
        tag = np.int64(case.key[i]) + 1
        depth, evicted = renew(nic, np.int64(case.set_index[i]) & last_set, tag, ways)
        missed = np.int64(depth == ways)
        case.outcome[i] = missed
        case.missed[found] = i
        case.evicted[found] = evicted
        found += missed
        further += depth - missed
    case.found[0] = found
    book.counts[0].further_ways += further * np.int64(ways <= SEARCHED_WAYS)
