"""The book of a piece: why each lookup missed, after all that NIC and host did in it."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.translation.book import MISSED, NOT_DONE, add_misses, kind_of_lookup
from nicscope.jit import kernel


@kernel
def note_lookups(case, count):
    """Note ``count`` lookups, whose outcomes are written down, in the order of issue."""
    book = case.book
    misses = np.int64(0)
    received = np.int64(0)
    compulsory = np.int64(0)
    compulsory_received = np.int64(0)
    invalidated = np.int64(0)
    conflict = np.int64(0)
    for i in range(count):
        outcome = np.int64(case.outcome[i])
        if outcome == NOT_DONE:
            continue
        receive = np.int64(case.receive[i])
        first, dropped, crowded = kind_of_lookup(book, np.int64(case.key[i]), outcome)
        misses += outcome & MISSED
        received += outcome & MISSED & receive
        compulsory += first
        compulsory_received += first & receive
        invalidated += dropped
        conflict += crowded
    add_misses(book, misses, received, compulsory, compulsory_received, invalidated, conflict)
