"""An RDMA NIC's regions and pages: tables in host memory, cached in two levels, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records
from nicscope.memory.pinning import PINNED
from nicscope.nic.cache import REFUSED as NO_WAY_FREE
from nicscope.nic.cache import drop, fill, find, frame_of, renew
from nicscope.nic.layout import EMPTY, Nic, new_cache
from nicscope.nic.translate.book import (
    DROP,
    MISS,
    REFUSED,
    REJECTED,
    fill_frame,
    note_fill,
    note_hit,
    note_invalidation,
    note_miss,
    pin_page,
    protect_if_used,
    record_pin_action,
    unpin_page,
)
from nicscope.nic.translate.state import Rnic, set_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Bytes of the structures in host memory, which caches hold as they are: rdma-core,
# providers/mlx5/mlx5_ifc.h (mlx5_ifc_mkc_bits, mlx5_ifc_mtt_bits); an entry of an indirect region:
# Linux, drivers/infiniband/hw/mlx5/mr.c (get_mkc_octo_size).
MPT_BYTES = 64
MTT_BYTES = 8
KLM_BYTES = 16
TAG_BYTES = 4  # of a cache's entry, as everywhere in ``nic.layout``

# Where a lookup was answered.
LEVEL_0 = 0
LEVEL_1 = 1
FETCHED = 2

RULES = np.dtype(
    [
        ("line_bits", "i8"),  # log2 of the pages whose entries are fetched together
        ("mtu", "i8"),  # bytes of a packet; 0: regions are looked up once per request
        ("is_indirect", "i8"),
        ("pool_pages", "i8"),  # registered per process; 0: what it touches
        ("by_region", "i8"),  # 1: whose requests are is a region's number; 0 is no region's
    ],
    align=True,
)


def new_rnic(
    pages: tuple[int, int], regions: tuple[int, int], further: tuple[int, int], own: tuple[int, int]
) -> Rnic:
    """Caches of so many (lines, ways): of pages and regions, and their second levels.

    0 lines: there is no such cache.  ``own`` is the second level of regions alone.
    """
    return Rnic(*(_new_level(*each) for each in (pages, regions, further, own)))


def _new_level(lines: int, ways: int) -> Nic:
    """Tags alone: where no byte moves nobody reads an entry."""
    cache = new_cache(lines or 1, ways if lines else 1)
    cache.config[0]["entries"] = lines
    return cache._replace(frames=cache.frames[:0], places=cache.places[:0])


@step
def look_up(cache, further, number, tag, tag_1):
    """Look ``tag`` up in both levels, in the sets of ``number``, and fill what does not have it.

    Where it was found: ``LEVEL_0``, ``LEVEL_1``, or ``FETCHED`` from host memory.
    """
    ways = cache.config[0].ways
    depth, _ = renew(cache, number & (cache.config[0].sets - 1), tag, ways)
    if depth < ways:
        return np.int64(LEVEL_0)
    return look_up_second_level(further, number, tag_1)


@step
def look_up_second_level(further, number, tag_1):
    """Look ``tag_1`` up in a second level, if there is one, and fill what does not have it."""
    if further.config[0].entries == 0:
        return np.int64(FETCHED)
    ways = further.config[0].ways
    depth, _ = renew(further, number & (further.config[0].sets - 1), tag_1, ways)
    return np.int64(LEVEL_1) if depth < ways else np.int64(FETCHED)


@step
def ask_line(rnic, book, key, number):
    """Look up the line ``number`` of pages that ``key`` names; whether it came from the host."""
    counts = book.counts[0]
    found = look_up(rnic.pages, rnic.pages_1, number, key + 1, (key + 1) << 1)
    if found == LEVEL_0:
        return np.int64(0)
    return count_second_level(rnic, counts, found)


@step
def count_second_level(rnic, counts, found):
    """Count a line that level 0 did not have and that was ``found``; whether in the host."""
    counts.mtt_l0_misses += 1
    if rnic.pages_1.config[0].entries > 0:
        counts.mtt_l1_hits += found == LEVEL_1
        counts.mtt_l1_misses += found == FETCHED
    counts.icm_fetches += found == FETCHED
    return np.int64(found == FETCHED)


@step
def ask_part(rnic, book, process, key, number):
    """Look up an indirect region of ``process``, then its part ``number``, which ``key`` names."""
    _ask_entry(rnic, book, process, (process + 1) << 1)
    _ask_entry(rnic, book, number, key << 1 | 1)
    book.counts[0].indirect_lookups += 1


@step
def _ask_entry(rnic, book, number, tag):
    counts = book.counts[0]
    found = look_up(rnic.regions, rnic.regions_1, number, tag, tag << 1 | 1)
    counts.mpt_lookups += 1
    if found == LEVEL_0:
        counts.mpt_l0_hits += 1
        return
    counts.mpt_l0_misses += 1
    if rnic.regions_1.config[0].entries > 0:
        counts.mpt_l1_hits += found == LEVEL_1
        counts.mpt_l1_misses += found == FETCHED
    counts.icm_fetches += found == FETCHED


@step
def invalidate_line(rnic, book, key, number):
    """Drop the line ``number`` that ``key`` names from the caches: its region is deregistered."""
    invalidate_tag(rnic.pages, book, number, key + 1)
    invalidate_tag(rnic.pages_1, book, number, (key + 1) << 1)


@step
def invalidate_region(rnic, book, process):
    """Drop the entry of the region of ``process``, which is deregistered, from the caches."""
    tag = (process + 1) << 1
    invalidate_tag(rnic.regions, book, process, tag)
    invalidate_tag(rnic.regions_1, book, process, tag << 1 | 1)


@step
def invalidate_tag(cache, book, number, tag):
    """Drop ``tag`` from a cache, if there is one; 1 if it was there, and counted then."""
    was_there = np.int64(0)
    if cache.config[0].entries > 0:
        was_there = np.int64(drop(cache, number & (cache.config[0].sets - 1), tag))
        book.counts[0].entries_invalidated += was_there
    return was_there


@step
def packets_of(rules, length):
    """How many packets ``length`` bytes are, of those that have their region looked up."""
    return np.int64(1) if rules.mtu == 0 else (length + rules.mtu - 1) // rules.mtu


@step
def ask_regions(rnic, book, process, packets):
    """Look up the region of ``process`` for each packet: none but the first can miss."""
    _ask_entry(rnic, book, process, (process + 1) << 1)  # the region
    book.counts[0].mpt_lookups += packets - 1
    book.counts[0].mpt_l0_hits += packets - 1


@step
def is_outside(rules, first_of_pool, first, pages):
    """Whether a request for ``pages`` pages from ``first`` leaves what its process registered."""
    if rules.pool_pages == 0:
        return False
    return first < first_of_pool or first + pages > first_of_pool + rules.pool_pages


def new_rules(
    line_bits: int, mtu: int | None, is_indirect: bool, pool_pages: int, by_region: bool = False
) -> NDArray[Any]:
    """RULES of a NIC, shape (1,)."""
    rules = records(1, RULES)
    rules[0] = (line_bits, mtu or 0, is_indirect, pool_pages, by_region)
    return rules


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
    found = look_up_second_level(levels.pages_1, page >> bits, (unit + 1) << 1)
    if count_second_level(levels, book.counts[0], found):
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
    """Fill in the line of ``page``, which is not there, with its unused entries."""
    bits = book.orders[0].line_bits
    unit = key >> bits
    entry = fill(nic, set_of(nic, book, process, page >> bits), unit + 1)
    if entry == NO_WAY_FREE:
        return np.int64(REFUSED)
    if nic.registers[0].evicted != EMPTY:
        record_pin_action(host, DROP, (np.int64(nic.registers[0].evicted) - 1) << bits, -1)
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
    dropped = invalidate_tag(nic, book, row, unit + 1)
    dropped += invalidate_tag(levels.pages_1, book, page >> bits, (unit + 1) << 1)
    if dropped > 0:
        note_invalidation(book, unit)
        record_pin_action(host, DROP, unit << bits, -1)
    unpin_page(host, book, process, key)
