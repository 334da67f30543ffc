"""Replaying the interrupt-based baseline.

Without a limit the host has no say in what the NIC holds: it comes after all lookups of a piece.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.replay.state import timeless
from nicscope.kernel.decorators import kernel
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import pin, unpin, use
from nicscope.nic.cache import lookup
from nicscope.nic.layout import EMPTY
from nicscope.nic.translate.book import (
    INVALIDATED,
    MISS,
    MISSED,
    note_changes,
    note_interrupts,
)
from nicscope.nic.translate.interrupt import serve_interrupt


@kernel
def interrupt_missed(case, _begin, _end, _count):
    """Interrupt the host for every lookup that missed: it unpins what left, and pins the page."""
    _, host, book = timeless(case)
    unpinned, most = np.int64(0), np.int64(0)
    for place in range(case.found[0]):
        key = np.int64(case.number[case.missed[place]])
        evicted = np.int64(case.evicted[place])
        if evicted != EMPTY:
            unpin(host.pinning, process_of(host.numbering, evicted - 1), evicted - 1)
            unpinned += 1
        pin(host.pinning, process_of(host.numbering, key), key, 1)
        most = max(most, place + 1 - unpinned)
    note_changes(book, case.found[0], unpinned, most)
    note_interrupts(book, case.found[0])


@kernel
def replay_interrupt(case, _begin, _end, count):
    """Replay ``count`` lookups, each page on its own, under a limit."""
    nic, host, book = timeless(case)
    last_set = nic.config[0].sets - 1
    for i in range(count):
        key = np.int64(case.number[i])
        process = process_of(host.numbering, key)
        entry = lookup(nic, np.int64(case.set_index[i]) & last_set, key + 1, book.counts)
        if entry != MISS:
            case.outcome[i] = 0
            use(host.pinning, process, key)
        else:
            case.outcome[i] = MISSED | (np.int64(book.past[key]) & INVALIDATED)
            serve_interrupt(nic, host, book, process, unit_of(host.numbering, key), key)
