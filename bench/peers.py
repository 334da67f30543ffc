"""Other simulators of the same caches, each by its fastest way in from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# libcachesim's hash table has 2**HASH_POWER buckets.  By default it has 2**24, which are slower to
# set up and to hit than the cache is to simulate; of 2**12 to 2**24 these were fastest.
HASH_POWER = 17


def pycachesim_misses(sets: int, ways: int, line_bytes: int, addresses: list[int]) -> int:
    """Misses of one LRU cache."""
    from cachesim import Cache, CacheSimulator, MainMemory

    memory = MainMemory()
    cache = Cache("NIC", sets, ways, line_bytes, "LRU")
    memory.load_to(cache)
    memory.store_from(cache)
    CacheSimulator(cache, memory).load(addresses, length=1)
    misses: int = cache.backend.MISS_count
    return misses


def libcachesim_misses(entries: int, trace: Path, count: int) -> int:
    """Misses of one fully associative LRU cache over the ``count`` objects of a file."""
    from libcachesim import LRU, TraceReader, TraceType

    reader = TraceReader(str(trace), TraceType.ORACLE_GENERAL_TRACE)
    ratio, _ = LRU(cache_size=entries, hashpower=HASH_POWER).process_trace(reader)
    return round(ratio * count)
