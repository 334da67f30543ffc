"""Hierarchical-UTLB with the shared NIC cache, and UTLB with per-process tables.

The NIC looks up each page in its cache and on a miss reads entries of the process's table in
host memory by DMA, without an interrupt (UTLB 3.1-3.3).  The user library has pinned the page
before (``user_library``).
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.numbering import NONE, find, unit_of
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import REFUSED as NO_WAY_FREE
from nicscope.nic.cache import fill, lookup
from nicscope.nic.cache import find as find_entry
from nicscope.nic.layout import EMPTY, FRAME_BITS
from nicscope.nic.translate.book import note_fill, note_hit, note_miss
from nicscope.nic.translate.codes import MISS, REFUSED
from nicscope.nic.translate.deeds import DROP, fill_frame, note_deed, protect_if_used
from nicscope.nic.translate.state import set_of

SECOND_LEVEL = 1024  # entries of a second-level table (UTLB 3.3)


@step
def ask_utlb(nic, book, process, page, key, receive):
    """Frame of ``page``, or ``MISS``."""
    entry = lookup(nic, set_of(nic, book, process, page), key + 1, book.counts)
    if entry == MISS:
        note_miss(book, key, receive)
        return np.int64(MISS)
    note_hit(book, key)
    return np.int64(nic.frames[entry] & FRAME_BITS)


@step
def serve_utlb(nic, host, book, process, page, key):
    """Install what was read of the table: the entry of ``page`` and those after it."""
    entry = install(nic, host, book, set_of(nic, book, process, page), key, key)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    book.counts[0].entries_fetched += 1
    if book.orders[0].prefetch > 1:
        prefetch_pages(nic, host, book, process, page)
    return np.int64(key)


@step
def last_fetched(book, number):
    """The last of the table's entries that come with ``number``, to the end of its table."""
    return min(number + book.orders[0].prefetch - 1, number | (SECOND_LEVEL - 1))


@step
def prefetch_pages(nic, host, book, process, page):
    """Bring the table's entries after ``page`` to the NIC too."""
    last = last_fetched(book, page)
    book.counts[0].entries_fetched += last - page
    for unit in range(page + 1, last + 1):
        key = find(host.numbering, process, unit)
        if key != NONE and host.pinning.state[key] & PINNED:
            bring_in(nic, host, book, set_of(nic, book, process, unit), key, key)


@step
def bring_in(nic, host, book, row, key, page):
    """Insert the entry of ``key`` in set ``row`` unless it is there or none may leave."""
    if find_entry(nic, row, key + 1) == MISS:
        install(nic, host, book, row, key, page)


@step
def install(nic, host, book, row, key, page):
    """Fill in the entry of ``key``, which is not there; the entry, or ``NO_WAY_FREE``."""
    entry = fill(nic, row, key + 1)
    if entry == NO_WAY_FREE:
        return entry
    if nic.registers[0].evicted != EMPTY:
        evicted = nic.registers[0].evicted - 1
        note_deed(host, DROP, page_under(host, evicted), -1)
    note_fill(book, key)
    fill_frame(nic, host, entry, page)
    protect_if_used(nic, host.in_use, entry, page)
    return entry


@step
def page_under(host, key):
    """The page whose entry the cache knows as ``key``."""
    if host.indices.tables.size > 0:
        return np.int64(host.indices.page_of[key]) - 1
    return np.int64(key)


@step
def ask_utlb_shared(nic, host, book, process, key, receive):
    """Frame of ``page``, or ``MISS``; the cache is keyed by table index, not page (UTLB 3.2)."""
    index_key = host.indices.key_of[key]
    index = unit_of(host.indices.keys, index_key)
    entry = lookup(nic, set_of(nic, book, process, index), index_key + 1, book.counts)
    if entry == MISS:
        note_miss(book, index_key, receive)
        return np.int64(MISS)
    note_hit(book, index_key)
    return np.int64(nic.frames[entry] & FRAME_BITS)


@step
def serve_utlb_shared(nic, host, book, process, key):
    """Install what was read of the table: the entry of ``page`` and those after it."""
    index_key = host.indices.key_of[key]
    index = unit_of(host.indices.keys, index_key)
    entry = install(nic, host, book, set_of(nic, book, process, index), index_key, key)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    book.counts[0].entries_fetched += 1
    if book.orders[0].prefetch > 1:
        prefetch_indices(nic, host, book, process, index)
    return np.int64(key)


@step
def prefetch_indices(nic, host, book, process, index):
    """Bring the table's entries after ``index`` to the NIC too."""
    last = last_fetched(book, index)
    book.counts[0].entries_fetched += last - index
    for unit in range(index + 1, last + 1):
        key = find(host.indices.keys, process, unit)
        if key != NONE and host.indices.page_of[key] != 0:
            page = host.indices.page_of[key] - 1
            bring_in(nic, host, book, set_of(nic, book, process, unit), key, page)


@step
def ask_utlb_process(nic, host, process, key):
    """Frame of ``page``, which the user library has entered in the process's table (UTLB 3.1)."""
    return np.int64(nic.frames[place_in_table(host, process, key)] & FRAME_BITS)


@step
def place_in_table(host, process, page):
    """Where the frame of ``page``, which is pinned, stands in the NIC's tables."""
    index = unit_of(host.indices.keys, np.int64(host.indices.key_of[page]))
    return process * host.pinning.rules[0].limit + index
