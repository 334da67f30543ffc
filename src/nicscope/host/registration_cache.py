"""A library's cache of registered regions: what is registered already is not registered again.

Regions of a process never overlap.  An address range that one of them covers is a hit.  A miss
registers the range, widened to its alignment; regions that it overlaps are dropped (libfabric) or
become part of it (UCX).  Where there are limits, those used least lately are deregistered first.

They stand in a skip list by address, whose row 0 is its head, and in a ring by use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE_BITS = 12  # of a host's page
HEAD = 0  # of the list, and between the newest and the oldest of the ring
LEVELS = 11  # a quarter of the regions of each level stands in the next: enough for 4**11

COUNTS = np.dtype(
    [
        (name, "i8")
        for name in (
            "lookups",
            "hits",
            "registrations",
            "registered_bytes",  # of all registrations
            "registered_pages",  # of the host, those that a region has a part of
            "evicted",  # regions deregistered for room
            "overlapped",  # regions deregistered as a new one overlapped them
            "uncached",  # ranges larger than all that may be cached: deregistered after their use
            "deregistered_bytes",
            "deregistered_pages",
            "regions",  # now
            "bytes",  # now
            "most_regions",
            "most_bytes",
        )
    ],
    align=True,
)
RULES = np.dtype(
    [
        ("alignment", "i8"),  # bytes; a power of two
        ("merges", "i8"),
        ("most_regions", "i8"),
        ("most_bytes", "i8"),
    ],
    align=True,
)


class RegistrationCache(NamedTuple):
    """The cache of one process; rows are regions, the first of them ``HEAD``."""

    begin: NDArray[np.int64]  # address
    end: NDArray[np.int64]
    following: NDArray[np.int32]  # shape (LEVELS, rows): the next by address; HEAD: none
    newer: NDArray[np.int32]
    older: NDArray[np.int32]
    path: NDArray[np.int32]  # shape (LEVELS,): the rows before the one that was looked for
    free: NDArray[np.int64]  # shape (2,): first free row, chained by ``newer``; state of a lottery
    rules: NDArray[Any]  # RULES, shape (1,)
    counts: NDArray[Any]  # COUNTS, shape (1,)


def new_registration_cache(
    regions: int, *, alignment: int, merges: bool, most_regions: int, most_bytes: int
) -> RegistrationCache:
    """An empty cache with rows for ``regions``; the rest is as in ``RULES``."""
    rows = regions + 1
    rules = records(1, RULES)
    rules[0] = (alignment, merges, most_regions, most_bytes)
    cache = RegistrationCache(
        begin=np.full(rows, -1, np.int64),
        end=np.full(rows, -1, np.int64),
        following=np.zeros((LEVELS, rows), np.int32),
        newer=np.zeros(rows, np.int32),
        older=np.zeros(rows, np.int32),
        path=np.zeros(LEVELS, np.int32),
        free=np.array([1, 1], np.int64),
        rules=rules,
        counts=records(1, COUNTS),
    )
    cache.newer[1:-1] = np.arange(2, rows)
    return cache


def grown_registration_cache(old: RegistrationCache, regions: int) -> RegistrationCache:
    """The same regions with rows for ``regions``, which are more."""
    rows, before = regions + 1, len(old.begin)
    wider = {
        name: np.pad(
            getattr(old, name), [*[(0, 0)] * (getattr(old, name).ndim - 1), (0, rows - before)]
        )
        for name in ("begin", "end", "following", "newer", "older")
    }
    wider["newer"][before : rows - 1] = np.arange(before + 1, rows)
    wider["newer"][rows - 1] = old.free[0]
    cache = old._replace(**wider)
    cache.free[0] = before
    return cache


@step
def last_before(cache, address):
    """The last region that begins before ``address``, HEAD if none does; fills ``path``."""
    row = HEAD
    for level in range(LEVELS - 1, -1, -1):
        following = cache.following[level, row]
        while following != HEAD and cache.begin[following] < address:
            row = following
            following = cache.following[level, row]
        cache.path[level] = row
    return row


@step
def unlink_use(cache, row):
    """Remove a region from the LRU ring."""
    cache.newer[cache.older[row]] = cache.newer[row]
    cache.older[cache.newer[row]] = cache.older[row]


@step
def link_newest(cache, row):
    """Append a region to the LRU ring as the most recent."""
    newest = cache.older[HEAD]
    cache.newer[newest] = row
    cache.older[row] = newest
    cache.newer[row] = HEAD
    cache.older[HEAD] = row


@step
def pages_of(begin, end):
    """Pages of the host that a range of bytes has a part of."""
    return ((end - 1) >> PAGE_BITS) - (begin >> PAGE_BITS) + 1


@step
def deregister(cache, row):
    """Take a region out of the cache."""
    last_before(cache, cache.begin[row])
    for level in range(LEVELS):
        before = cache.path[level]
        if cache.following[level, before] == row:
            cache.following[level, before] = cache.following[level, row]
    unlink_use(cache, row)
    size = cache.end[row] - cache.begin[row]
    counts = cache.counts[0]
    counts.regions -= 1
    counts.bytes -= size
    counts.deregistered_bytes += size
    counts.deregistered_pages += pages_of(cache.begin[row], cache.end[row])
    cache.newer[row] = cache.free[0]
    cache.free[0] = row


@step
def insert(cache, begin, end):
    """Enter a region that overlaps none, in a free row."""
    row = cache.free[0]
    cache.free[0] = cache.newer[row]
    cache.begin[row] = begin
    cache.end[row] = end
    last_before(cache, begin)
    lottery = cache.free[1]
    lottery ^= (lottery << 13) & 0xFFFFFFFF
    lottery ^= lottery >> 17
    lottery ^= (lottery << 5) & 0xFFFFFFFF
    cache.free[1] = lottery
    for level in range(LEVELS):
        before = cache.path[level]
        cache.following[level, row] = cache.following[level, before]
        cache.following[level, before] = row
        if lottery & 3:
            for above in range(level + 1, LEVELS):
                cache.following[above, row] = HEAD
            break
        lottery >>= 2
    link_newest(cache, row)


@step
def register(cache, begin, end):
    """Register a range, after what has to go for it."""
    counts, rules = cache.counts[0], cache.rules[0]
    begin = begin & -rules.alignment
    end = (end + rules.alignment - 1) & -rules.alignment
    low, high = begin, end
    while True:
        row = last_before(cache, high)
        if row == HEAD or cache.end[row] <= low:
            break
        if rules.merges:
            begin, low = min(begin, cache.begin[row]), min(low, cache.begin[row])
            end, high = max(end, cache.end[row]), max(high, cache.end[row])
        counts.overlapped += 1
        deregister(cache, row)
    size = end - begin
    counts.registrations += 1
    counts.registered_bytes += size
    counts.registered_pages += pages_of(begin, end)
    if size > rules.most_bytes or rules.most_regions == 0:
        counts.uncached += 1
        counts.deregistered_bytes += size
        counts.deregistered_pages += pages_of(begin, end)
        return
    while counts.regions >= rules.most_regions or counts.bytes + size > rules.most_bytes:
        counts.evicted += 1
        deregister(cache, cache.newer[HEAD])
    insert(cache, begin, end)
    counts.regions += 1
    counts.bytes += size
    counts.most_regions = max(counts.most_regions, counts.regions)
    counts.most_bytes = max(counts.most_bytes, counts.bytes)


@kernel
def use_ranges(cache, address, length, first):
    """Look up ranges from ``first`` on, and register what is not there.

    Returns how many are done: all, or as many as there were rows for.
    """
    counts = cache.counts[0]
    for place in range(first, address.size):
        if cache.free[0] == HEAD:
            return place
        begin = np.int64(address[place])
        end = begin + np.int64(length[place])
        counts.lookups += 1
        row = last_before(cache, begin + 1)
        if row != HEAD and cache.end[row] >= end:
            counts.hits += 1
            unlink_use(cache, row)
            link_newest(cache, row)
        else:
            register(cache, begin, end)
    return address.size
