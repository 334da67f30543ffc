"""The cache pass that all schemes share, and the counts of a piece: why lookups missed."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel, step
from nicscope.nic.cache import FOUR, renew
from nicscope.nic.layout import SEARCHED_WAYS
from nicscope.nic.recency import keep_uses, renew_held, uses_of
from nicscope.nic.translate.book import (
    MISSED,
    NOT_DONE,
    SEEN,
    add_misses,
)


@kernel
def note_lookups(case, _begin, _end, count):
    """Counts ``count`` lookups, whose outcomes are written down, in the order of issue."""
    book = case.book
    compulsory, compulsory_received = _note_firsts(case, count)
    conflict = np.int64(0)
    if book.orders[0].kinds:
        conflict = _note_in_shadow(case, count)
    misses = np.int64(0)
    received = np.int64(0)
    invalidated = np.int64(0)
    for i in range(count):
        outcome = np.int64(case.outcome[i])
        misses += outcome & MISSED
        received += outcome & MISSED & np.int64(case.receive[i])
        invalidated += outcome & outcome >> 1 & MISSED
    add_misses(book, misses, received, compulsory, compulsory_received, invalidated, conflict)


@step
def _note_firsts(case, count):
    """Marks the keys looked up; returns how many misses were the first lookup of their key."""
    past = case.book.past
    misses = np.int64(0)
    received = np.int64(0)
    for i in range(count):
        key = case.key[i]
        if past[key] & SEEN == 0 and case.outcome[i] != NOT_DONE:
            missed = np.int64(case.outcome[i]) & MISSED
            past[key] |= SEEN
            case.outcome[i] = missed  # fetched ahead and dropped before, it is compulsory still
            misses += missed
            received += missed & np.int64(case.receive[i])
    return misses, received


@step
def _note_in_shadow(case, count):
    """Looks all up in the shadow cache too; returns how many misses would have hit there.

    A key's first lookup is not among them, nor are those whose entry was invalidated.
    """
    shadow = case.book.shadow
    now, oldest, word, left = uses_of(shadow)
    conflict = np.int64(0)
    for i in range(count):
        outcome = np.int64(case.outcome[i])
        if outcome == NOT_DONE:
            continue
        key = np.int64(case.key[i])
        present, _, now, oldest, word, left = renew_held(shadow, key, now, oldest, word, left)
        conflict += present & outcome & (1 - (outcome >> 1))
    keep_uses(shadow, now, oldest, left)
    return conflict


@kernel
def note_missed(case, _begin, _end, count):
    """Note ``count`` lookups of which those that missed are listed, where nothing is invalidated.

    A key's first lookup is among them, as nothing is fetched ahead.  Only these stay in the list.
    """
    book, past = case.book, case.book.past
    tells = book.orders[0].kinds
    if tells:
        _find_in_shadow(case, count)
    misses = np.int64(case.found[0])
    received, compulsory, conflict = np.int64(0), np.int64(0), np.int64(0)
    compulsory_received = np.int64(0)
    if tells:
        for place in range(misses):
            conflict += np.int64(case.outcome[case.missed[place]])
    for place in range(misses):
        i = case.missed[place]
        key = case.key[i]
        first = np.int64(past[key] & SEEN == 0)
        past[key] |= SEEN
        receive = np.int64(case.receive[i])
        received += receive
        case.missed[compulsory] = i
        compulsory += first
        compulsory_received += first & receive
    case.found[0] = compulsory
    add_misses(book, misses, received, compulsory, compulsory_received, 0, conflict)


@step
def _find_in_shadow(case, count):
    """Look all up in the shadow cache too; the outcome of each is 1 if it was there."""
    shadow = case.book.shadow
    now, oldest, word, left = uses_of(shadow)
    for i in range(count):
        key = np.int64(case.key[i])
        present, _, now, oldest, word, left = renew_held(shadow, key, now, oldest, word, left)
        case.outcome[i] = present
    keep_uses(shadow, now, oldest, left)


MORE = SEARCHED_WAYS + 1  # how many more makes no difference to the loop


@kernel
def look_up_all(case, _begin, _end, count):
    """Look up ``count`` units: lists which missed, and what left for each, for later passes."""
    _look_up_by_ways(case, count, True)


@kernel
def look_up_listing_misses(case, _begin, _end, count):
    """Look up ``count`` units: lists which missed; what they evicted, no later pass asks."""
    _look_up_by_ways(case, count, False)


@step
def _look_up_by_ways(case, count, lists_evicted):
    """Look up ``count`` units by a loop that is compiled for the cache's number of ways."""
    nic, _, book = timeless(case)
    ways = nic.config[0].ways
    if ways == 1:
        _look_up_each(case, nic, book, count, 1, lists_evicted)
    elif ways == FOUR:
        _look_up_each(case, nic, book, count, FOUR, lists_evicted)
    elif ways > SEARCHED_WAYS:
        _look_up_each(case, nic, book, count, MORE, lists_evicted)
    else:
        _look_up_each(case, nic, book, count, ways, lists_evicted)


@step
def _look_up_each(case, nic, book, count, ways, lists_evicted):
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
def look_up_single_set(case, _begin, _end, count):
    """As ``look_up_all``, of a cache of one set, which holds the latest keys looked up."""
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
