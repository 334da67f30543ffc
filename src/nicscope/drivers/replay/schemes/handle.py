"""Replaying miNI's dynamic handle lookup, line by line.

The host has no say in which lines the NIC holds: it comes after all lookups of a piece.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.schemes.interrupt import renew_all
from nicscope.drivers.replay.state import timeless
from nicscope.drivers.translation.handle import bring_line, unpin_surplus
from nicscope.jit import kernel
from nicscope.memory.numbering import process_of


@kernel
def replay_handle(case, _begin, _end, count):
    """Replay ``count`` lookups of lines: one serves all pages of a request in a line.

    The line's further pages in a request hit whatever its first one does, and leave everything as
    it is.
    """
    nic, host, book = timeless(case)
    found = renew_all(case, nic, book, count)
    for place in range(found):
        key = np.int64(case.number[case.chosen[place]])
        process = process_of(host.numbering, key)
        bring_line(host, book, process, key, np.int64(case.evicted[place]))
        if book.orders[0].high_water >= 0:
            unpin_surplus(host, book)
