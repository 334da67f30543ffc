"""An RDMA NIC's pages where time passes: its first level holds frames, line by line.

Registration pins pages and writes their entries to the table in host memory; what the first level
does not have comes from the second, or by DMA from that table.  Entries of a line that is cached
are kept as the table has them (Linux, drivers/infiniband/hw/mlx5/umr.c: the NIC itself writes
them), and a line leaves both levels when one of its pages is deregistered.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import REFUSED as NO_WAY_FREE
from nicscope.nic.cache import fill, find, frame_of, renew
from nicscope.nic.layout import EMPTY
from nicscope.nic.translate.book import note_fill, note_hit, note_invalidation, note_miss
from nicscope.nic.translate.codes import MISS, REFUSED, REJECTED
from nicscope.nic.translate.deeds import (
    DROP,
    fill_frame,
    note_deed,
    pin_page,
    protect_if_used,
    unpin_page,
)
from nicscope.nic.translate.rnic import count_beyond, forget_in, look_further
from nicscope.nic.translate.state import set_of


@step
def ask_rnic(nic, host, book, process, page, key):
    """Frame of ``page``, ``REJECTED`` if not registered, or ``MISS``: ``ask_level_1`` is next."""
    if host.pinning.state[key] & PINNED == 0:
        return np.int64(REJECTED)
    bits = book.orders[0].line_bits
    unit = key >> bits
    row = set_of(nic, book, process, page >> bits)
    entry = find(nic, row, unit + 1)
    if entry == MISS:
        return np.int64(MISS)
    renew(nic, row, unit + 1, nic.config[0].ways)
    book.counts[0].mtt_l0_hits += 1
    note_hit(book, unit)
    return frame_of(nic, entry, page & ((1 << bits) - 1))


@step
def ask_level_1(levels, book, page, key, receive):
    """Whether the second level has the line of ``page``, which the first has not.

    If not, the table in host memory is to be read, and the second level has the line then.
    """
    bits = book.orders[0].line_bits
    unit = key >> bits
    found = look_further(levels.pages_1, page >> bits, (unit + 1) << 1)
    if count_beyond(levels, book.counts[0], found):
        note_miss(book, unit, receive)
        return False
    note_hit(book, unit)
    return True


@step
def serve_rnic(nic, host, book, process, page, key):
    """Install the line of ``page`` as it was read of the table; ``REJECTED`` if it is gone."""
    if host.pinning.state[key] & PINNED == 0:
        return np.int64(REJECTED)
    book.counts[0].entries_fetched += nic.config[0].line
    return put_line(nic, host, book, process, page, key)


@step
def put_line(nic, host, book, process, page, key):
    """Fill in the line of ``page``, which is not there; entries that are nobody's are so too."""
    bits = book.orders[0].line_bits
    unit = key >> bits
    entry = fill(nic, set_of(nic, book, process, page >> bits), unit + 1)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    if nic.registers[0].evicted != EMPTY:
        note_deed(host, DROP, (np.int64(nic.registers[0].evicted) - 1) << bits, -1)
    note_fill(book, unit)
    for place in range(1 << bits):
        fill_frame(nic, host, (entry << bits) + place, (unit << bits) + place)
    protect_if_used(nic, host.in_use, entry, unit)
    return np.int64(key)


@step
def register_rnic(nic, host, book, process, page, key):
    """Pin ``page`` and enter it in the table; neighbours of one request take one call."""
    if host.run_ends[process] != page:
        book.counts[0].pin_calls += 1
    host.run_ends[process] = page + 1
    pin_page(host, book, process, key, 1)
    bits = book.orders[0].line_bits
    entry = find(nic, set_of(nic, book, process, page >> bits), (key >> bits) + 1)
    if entry != MISS:
        fill_frame(nic, host, (entry << bits) + (page & ((1 << bits) - 1)), key)


@step
def deregister_rnic(nic, levels, host, book, process, page, key):
    """Unpin ``page``, and have its line leave the caches."""
    bits = book.orders[0].line_bits
    unit = key >> bits
    row = set_of(nic, book, process, page >> bits)
    dropped = forget_in(nic, book, row, unit + 1)
    dropped += forget_in(levels.pages_1, book, page >> bits, (unit + 1) << 1)
    if dropped > 0:
        note_invalidation(book, unit)
        note_deed(host, DROP, unit << bits, -1)
    unpin_page(host, book, process, key)
