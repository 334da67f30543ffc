"""Lookups per second of the one-pass curves and grids, beside other simulators.

    python bench/bench_onepass.py

Rates are million lookups per CPU second of one core, the median of a few rounds after one that
compiles and warms up.  pycachesim runs the 36 caches one by one, over a part of the lookups;
libcachesim's wheel has no stack distances, so one cache of its own stands for it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np
from peers import libcachesim_misses, pycachesim_misses
from streams import write_objects
from workload import workload

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import SetAssociativeGrid
from nicscope.drivers.onepass.sample import SampledCurve

if TYPE_CHECKING:
    from collections.abc import Callable

    from workload import Workload

LOOKUPS = 20_000_000
PAGES = 50_000
MANY_PAGES = 1_000_000
SET_BITS, WAYS = range(5, 17), (1, 2, 4, 8)
SHAPES = [  # 36 caches of 256 to 64 K entries
    (1 << bits, ways) for bits in SET_BITS for ways in WAYS if 256 <= ways << bits <= 1 << 16
]
SAMPLE = 0.01
SIZES = [1 << bits for bits in range(8, 21)]
LINE = "{:44} {:>9} {:>7} {:>5}"


class Rates:
    """Measures and prints one row after the other."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def rate(self, run: Callable[[], object], count: int) -> float:
        """Median rate of a few rounds, million per CPU second; the first of all is not counted."""
        run()
        seconds = []
        for _ in range(self.rounds):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
        return count / statistics.median(seconds) / 1e6

    def row(self, title: str, value: str, least: float | None, met: bool | None) -> None:
        """One line of the table."""
        asked = "" if least is None else f"{least:g}"
        print(LINE.format(title, value, asked, "" if met is None else "yes" if met else "no"))


def grid(lookups: Workload, split: bool) -> np.ndarray:
    """Misses of every set count and associativity from one pass."""
    one = SetAssociativeGrid(SET_BITS[-1], WAYS[-1], split=split, min_set_bits=SET_BITS[0])
    return one.feed(*lookups).result().misses


def print_exact(rates: Rates, lookups: Workload, many: Workload) -> None:
    """Whole curves of fully associative caches."""
    for pages, some, least in ((PAGES, lookups, 40), (MANY_PAGES, many, None)):
        count = len(some.numbers)

        def run(some: Workload = some) -> object:
            return LruCurve().feed(some.numbers).result()

        own = rates.rate(run, count)
        rates.row(
            f"exact LRU curve, {pages:,} pages, M/s",
            f"{own:.0f}",
            least,
            None if least is None else own >= least,
        )


def print_one_of_libcachesim(rates: Rates, lookups: Workload, folder: Path) -> None:
    """One cache of one size, for orientation."""
    part = lookups.numbers[: len(lookups.numbers) // 10]
    trace = folder / "lookups.oracleGeneral"
    write_objects(trace, Part(part))
    other = rates.rate(lambda: libcachesim_misses(8192, trace, len(part)), len(part))
    if libcachesim_misses(8192, trace, len(part)) != LruCurve().feed(part).result().misses_at(8192):
        sys.exit("bench_onepass: libcachesim counts other misses")
    rates.row("one LRU cache by libcachesim, M/s", f"{other:.0f}", None, None)


class Part:
    """What ``write_objects`` reads of accesses."""

    def __init__(self, number: np.ndarray) -> None:
        self.number = number


def print_grid(rates: Rates, lookups: Workload) -> None:
    """The 36 caches, and as many runs of pycachesim."""
    count = len(lookups.numbers)
    own = rates.rate(lambda: grid(lookups, False), count)
    kinds = rates.rate(lambda: grid(lookups, True), count)
    rates.row(f"{len(SHAPES)} caches in one pass, M/s", f"{own:.0f}", 30, own >= 30)
    rates.row("  and the kinds of misses, M/s", f"{kinds:.0f}", 45, kinds >= 45)
    part = type(lookups)(*(column[: count // 20] for column in lookups))
    addresses = (part.index.astype(np.int64) * 64).tolist()  # faster than an array
    counts = grid(part, False)
    start = time.process_time()
    for sets, ways in SHAPES:
        theirs = pycachesim_misses(sets, ways, 64, addresses)
        if theirs != counts[sets.bit_length() - 1 - SET_BITS[0], ways - 1]:
            sys.exit(f"bench_onepass: pycachesim counts other misses at {sets} x {ways}")
    rate = len(addresses) / (time.process_time() - start) / 1e6
    rates.row(f"{len(SHAPES)} runs of pycachesim, M/s", f"{rate:.2f}", None, None)
    rates.row("one pass / those runs", f"{own / rate:.1f}x", 20, own / rate >= 20)


def print_sampled(rates: Rates, many: Workload) -> None:
    """The sampled curve and its error."""
    count = len(many.numbers)
    own = rates.rate(lambda: SampledCurve(SAMPLE).feed(many.numbers).result(SIZES), count)
    found = SampledCurve(SAMPLE).feed(many.numbers).result(SIZES).miss_ratio
    error = np.abs(found - LruCurve().feed(many.numbers).result().misses_at(SIZES) / count).max()
    rates.row(f"sampled curve at {SAMPLE:.0%}, M/s", f"{own:.0f}", 150, own >= 150)
    rates.row("  its largest error, miss ratio", f"{error:.4f}", 0.01, bool(error < 0.01))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lookups", type=int, default=LOOKUPS)
    arguments = parser.parse_args()
    rates = Rates(arguments.rounds)
    lookups = workload(arguments.lookups, PAGES)
    many = workload(arguments.lookups, MANY_PAGES, seed=2)
    print(LINE.format("", "measured", "asked", "met"))
    print_exact(rates, lookups, many)
    print_grid(rates, lookups)
    print_sampled(rates, many)
    with tempfile.TemporaryDirectory() as folder:
        print_one_of_libcachesim(rates, lookups, Path(folder))


if __name__ == "__main__":
    main()
