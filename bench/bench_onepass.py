"""Lookups per second of the one-pass kernels, beside single runs of other simulators.

The rates are in ``extra_info``, in million lookups per second of one core; a peer's is that of
its own part of the same lookups.  libcachesim's wheel has no stack distances, only single caches.
"""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest
from workload import workload

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import SetAssociativeGrid
from nicscope.drivers.onepass.sample import SampledCurve

LOOKUPS = 20_000_000
PAGES = 50_000
SET_BITS, WAYS = range(5, 17), (1, 2, 4, 8)
SHAPES = [  # 36 caches of 256 to 64 K entries
    (1 << bits, ways) for bits in SET_BITS for ways in WAYS if 256 <= ways << bits <= 1 << 16
]
ROUNDS = 5


@pytest.fixture(scope="module")
def lookups():
    return workload(LOOKUPS, PAGES)


@pytest.fixture(scope="module")
def many_pages():
    return workload(LOOKUPS, 1_000_000, seed=2)


def measured(benchmark, run, count):
    """Run a few rounds after one that compiles and warms up; notes the rate of the median."""
    result = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    benchmark.extra_info["million_lookups_per_s"] = round(count / benchmark.stats["median"] / 1e6)
    return result


def rate_of(run, count):
    start = time.perf_counter()
    run()
    return count / (time.perf_counter() - start) / 1e6


def test_exact_curve(benchmark, lookups):
    measured(benchmark, lambda: LruCurve().feed(lookups.numbers).result(), LOOKUPS)


def test_exact_curve_of_a_million_pages(benchmark, many_pages):
    measured(benchmark, lambda: LruCurve().feed(many_pages.numbers).result(), LOOKUPS)


def test_thirty_six_caches(benchmark, lookups):
    assert len(SHAPES) == 36

    def run():
        grid = SetAssociativeGrid(SET_BITS[-1], 8, split=False, min_set_bits=SET_BITS[0])
        return grid.feed(*lookups).result()

    counts = measured(benchmark, run, LOOKUPS)

    # The misses of pycachesim are counted twice over some of the lookups: once to compare.
    pytest.importorskip("cachesim")
    some = LOOKUPS // 20
    addresses = (lookups.index[:some].astype(np.int64) * 64).tolist()  # faster than an array
    grid = SetAssociativeGrid(SET_BITS[-1], 8, split=False, min_set_bits=SET_BITS[0])
    short = grid.feed(lookups.numbers[:some], lookups.index[:some]).result()
    seconds = 0.0
    for sets, ways in SHAPES:
        taken, misses = one_pycachesim(sets, ways, addresses)
        seconds += taken
        assert misses == short.misses[sets.bit_length() - 1 - SET_BITS[0], ways - 1]
    rate = some / seconds / 1e6
    benchmark.extra_info["pycachesim_36_runs"] = round(rate, 2)
    own = LOOKUPS / benchmark.stats["median"] / 1e6
    benchmark.extra_info["times_pycachesim"] = round(own / rate, 1)
    assert counts.lookups == LOOKUPS


def one_pycachesim(sets, ways, addresses):
    """Seconds and misses of one cache; addresses that share a line are one key."""
    from cachesim import Cache, CacheSimulator, MainMemory

    memory = MainMemory()
    cache = Cache("L1", sets, ways, 64, "LRU")
    memory.load_to(cache)
    memory.store_from(cache)
    simulator = CacheSimulator(cache, memory)
    start = time.perf_counter()
    simulator.load(addresses, length=1)
    return time.perf_counter() - start, cache.backend.MISS_count


def test_thirty_six_caches_and_the_kinds_of_misses(benchmark, lookups):
    def run():
        grid = SetAssociativeGrid(SET_BITS[-1], 8, min_set_bits=SET_BITS[0])
        return grid.feed(*lookups).result()

    measured(benchmark, run, LOOKUPS)


def test_all_set_counts_and_sixteen_ways(benchmark, lookups):
    measured(
        benchmark, lambda: SetAssociativeGrid(16, 16, split=False).feed(*lookups).result(), LOOKUPS
    )


def test_sampled_curve(benchmark, many_pages):
    sizes = [1 << bits for bits in range(8, 21)]

    def run():
        return SampledCurve(0.01).feed(many_pages.numbers).result(sizes)

    found = measured(benchmark, run, LOOKUPS)

    exact = LruCurve().feed(many_pages.numbers).result().misses_at(sizes) / LOOKUPS
    benchmark.extra_info["largest_error"] = round(float(np.abs(found.miss_ratio - exact).max()), 4)


def test_one_lru_cache_of_libcachesim(benchmark, lookups, tmp_path):
    simulator = pytest.importorskip("libcachesim")
    trace = tmp_path / "lookups.oracleGeneral"
    some = LOOKUPS // 10
    rows = np.zeros(
        some, np.dtype([("time", "<u4"), ("key", "<u8"), ("size", "<u4"), ("next", "<i8")])
    )
    assert rows.dtype.itemsize == struct.calcsize("<IQIq")
    rows["key"], rows["size"], rows["next"] = lookups.numbers[:some], 1, -2
    rows.tofile(trace)

    def run():
        reader = simulator.TraceReader(str(trace), simulator.TraceType.ORACLE_GENERAL_TRACE)
        return simulator.LRU(cache_size=8192).process_trace(reader)[0]

    ratio = measured(benchmark, run, some)

    exact = LruCurve().feed(lookups.numbers[:some]).result().misses_at(8192)
    assert ratio == pytest.approx(exact / some)
