"""The interrupt-based baseline: the host pins on a miss and unpins on an eviction (UTLB 6.2)."""

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.numbering import process_of, unit_of
from nicscope.memory.pinning import NOBODY, use, victim_of
from nicscope.nic.cache import drop, fill, lookup
from nicscope.nic.layout import EMPTY, FRAME_BITS
from nicscope.nic.translate.book import (
    DROP,
    MISS,
    REFUSED,
    fill_frame,
    note_fill,
    note_hit,
    note_interrupts,
    note_invalidation,
    note_miss,
    pin_page,
    protect_if_used,
    record_pin_action,
    unpin_page,
)
from nicscope.nic.translate.state import has_room, set_of

NO_UNIT = -1


@step
def ask_interrupt(nic, host, book, process, page, key, receive):
    """Frame of ``page``, or ``MISS``."""
    entry = lookup(nic, set_of(nic, book, process, page), key + 1, book.counts)
    if entry == MISS:
        note_miss(book, key, receive)
        return np.int64(MISS)
    note_hit(book, key)
    if host.pinning.rules[0].ordered:
        use(host.pinning, process, key)
    return np.int64(nic.frames[entry] & FRAME_BITS)


@step
def serve_interrupt(nic, host, book, process, page, key):
    """The host makes room under the limit, installs the entry and pins the page."""
    row = set_of(nic, book, process, page)
    if not may_install(host.in_use, nic, host, process, row):
        return np.int64(REFUSED)
    note_interrupts(book, 1)
    if host.pinning.rules[0].ordered:
        while host.pinning.processes[process].pinned >= host.pinning.rules[0].limit:
            victim = victim_of(host.pinning, host.numbering, process, NO_UNIT, NO_UNIT)
            drop(nic, set_of(nic, book, process, unit_of(host.numbering, victim)), victim + 1)
            note_invalidation(book, victim)
            record_pin_action(host, DROP, victim, -1)
            unpin_page(host, book, process, victim)
    entry = fill(nic, row, key + 1)
    if nic.registers[0].evicted != EMPTY:
        victim = nic.registers[0].evicted - 1
        record_pin_action(host, DROP, victim, -1)
        unpin_page(host, book, process_of(host.numbering, victim), victim)
    pin_page(host, book, process, key, 1)
    note_fill(book, key)
    fill_frame(nic, host, entry, key)
    protect_if_used(nic, host.in_use, entry, key)
    return np.int64(key)


@step
def may_install(in_use, nic, host, process, row):
    """Whether transfers leave an entry of set ``row``, and a page to unpin if one has to be."""
    if in_use is None:
        return True
    if not has_room(nic, row):
        return False
    if not host.pinning.rules[0].ordered:
        return True
    if host.pinning.processes[process].pinned < host.pinning.rules[0].limit:
        return True
    return victim_of(host.pinning, host.numbering, process, NO_UNIT, NO_UNIT) != NOBODY


@step
def evict_interrupt(nic, host, book, process, page, key):
    """Evict and unpin a page of a port that closes."""
    if drop(nic, set_of(nic, book, process, page), key + 1):
        note_invalidation(book, key)
        record_pin_action(host, DROP, key, -1)
        unpin_page(host, book, process, key)
