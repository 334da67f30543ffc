"""The book of a piece: why lookups missed, after all that NIC and host did in it.

In passes, each of which counts one thing in its own variables and adds it to the book in the end.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.translate.book import (
    MISSED,
    NOT_DONE,
    SEEN,
    add_misses,
    renew_shadow,
)


@kernel
def note_lookups(case, _begin, _end, count):
    """Note ``count`` lookups, whose outcomes are written down, in the order of issue."""
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
    """Note which keys were looked up; how many misses were the first lookup of theirs."""
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
    """Look all up in the shadow cache too; how many misses would have been hits there.

    A key's first lookup is not among them, nor are those whose entry was invalidated.
    """
    book, orders = case.book, case.book.orders[0]
    left = orders.shadow_capacity - orders.shadow_count
    conflict = np.int64(0)
    oldest, newest = np.int64(book.shadow[0].newer), np.int64(book.shadow[0].older)
    for i in range(count):
        outcome = np.int64(case.outcome[i])
        if outcome == NOT_DONE:
            continue
        key = np.int64(case.key[i])
        present, oldest, newest = renew_shadow(book, key, oldest, newest, left)
        left -= np.int64(left > 0) & (1 - present)
        conflict += present & outcome & (1 - (outcome >> 1))
    orders.shadow_count = orders.shadow_capacity - left
    book.shadow[0].newer = oldest
    book.shadow[0].older = newest
    return conflict
