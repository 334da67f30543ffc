"""Replaying miNI's dynamic handle lookup, line by line.

The host has no say in which lines the NIC holds: it comes after all lookups of a piece.  One lookup
serves all pages of a request in a line: further ones hit whatever the first does, and leave
everything as it is.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel
from nicscope.memory.numbering import process_of
from nicscope.nic.translate.handle import bring_line, unpin_surplus


@kernel
def bring_missed(case, _begin, _end, _count):
    """Fetches every line that missed from the host."""
    _, host, book = timeless(case)
    for place in range(case.found[0]):
        key = np.int64(case.number[case.missed[place]])
        process = process_of(host.numbering, key)
        bring_line(host, book, process, key, np.int64(case.evicted[place]))
        if book.orders[0].high_water >= 0:
            unpin_surplus(host, book)
