"""Lookups per second of every scheme, and beside pycachesim and libcachesim.

    python bench/bench_replay.py

The accesses are in memory, except those of libcachesim, which takes a file (read just before).
Rates are million lookups per CPU second of one core, the median of a few rounds after one that
compiles and warms up; what the machine does for others in between is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np
from peers import libcachesim_misses, pycachesim_misses
from streams import (
    ACCESSES,
    PAGE_BITS,
    Accesses,
    Columns,
    accesses,
    as_addresses,
    as_requests,
    write_objects,
)

from nicscope.config.design import Design, load_design, with_settings
from nicscope.drivers.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENTRIES = 8192
WAYS = 4
ROUNDS = 3
PIN_LIMIT = 2048  # pages, of the 12,500 of each process
HIGH_WATER = 8192  # pages, of the 50,000 of the node
LONG = 4  # pages of a request of the second workload
PART = 4  # designs with limits are slower: they get the first quarter of the accesses
POLICIES = ("lru", "mru", "lfu", "mfu", "random")
PINNED_RATE = 40


class Case(NamedTuple):
    """A configuration and the least rates asked of it: without and with kinds of misses."""

    title: str
    design: Design
    without: int | None = None
    with_kinds: int | None = None


def cases() -> Iterator[Case]:
    """Every scheme: as wide open as it goes first, then with limits."""
    full = f"ways={ENTRIES}"
    yield _case("utlb", "direct-mapped", (150, 80))
    yield _case("utlb", f"{WAYS}-way", (95, 60), f"ways={WAYS}")
    yield _case("utlb", "fully associative", (90, 60), full)
    yield _case("utlb-shared", "direct-mapped", (None, None))
    yield _case("handle", "64-entry lines, 4-way", (90, None), design="mini")
    yield _case("handle", "1-entry lines, 4-way", (90, None), "line=1", design="mini")
    yield _case("unet-mm", "1024 + 16 entries", (90, None), design="unet-mm-pca200")
    yield _case("interrupt", "direct-mapped", (90, None), design="vmmc-interrupt")
    yield _case("interrupt", f"{WAYS}-way", (90, None), f"ways={WAYS}", design="vmmc-interrupt")
    limit = f"pin_limit={PIN_LIMIT}"
    for shape, ways in (("direct", "ways=1"), (f"{WAYS}-way", f"ways={WAYS}"), ("full", full)):
        for policy in POLICIES:
            settings = (ways, limit, f"replacement={policy}")
            yield _case("utlb", f"{shape}, pin limit, {policy}", (PINNED_RATE, None), *settings)
    for policy in POLICIES:
        settings = (limit, f"replacement={policy}")
        yield _case("utlb-shared", f"pin limit, {policy}", (PINNED_RATE, None), *settings)
    for policy in POLICIES:
        settings = (f"entries={PIN_LIMIT}", f"replacement={policy}")
        yield _case("utlb-process", f"full tables, {policy}", (PINNED_RATE, None), *settings)
    for shape, ways in (("direct", "ways=1"), (f"{WAYS}-way", f"ways={WAYS}")):
        settings = (ways, limit)
        title = f"{shape}, pin limit"
        yield _case("interrupt", title, (PINNED_RATE, None), *settings, design="vmmc-interrupt")
    for line in (64, 1):
        settings = (f"line={line}", f"high_water={HIGH_WATER}")
        title = f"{line}-entry lines, high water"
        yield _case("handle", title, (PINNED_RATE, None), *settings, design="mini")


def _case(
    scheme: str,
    title: str,
    least: tuple[int | None, int | None],
    *settings: str,
    design: str | None = None,
) -> Case:
    made = with_settings(load_design(design or scheme), settings)
    assert made.scheme == scheme
    return Case(f"{scheme} {title}", made, *least)


class Bench:
    """One workload and how often it is run."""

    def __init__(self, rounds: int, count: int) -> None:
        self.rounds = rounds
        self.some = accesses(count)
        self.columns = as_requests(self.some)
        few = Accesses(*(column[: count // LONG] for column in self.some))
        self.long = as_requests(few, LONG)
        self.part = Columns(*(column[: count // PART] for column in self.columns))

    def rate(self, columns: Columns, design: Design, kinds: bool) -> float:
        lookups = int(columns.length.sum(dtype=np.int64)) >> PAGE_BITS
        return self.rates(lookups, lambda: misses(columns, design, kinds))[0]

    def rates(self, lookups: int, *jobs: Callable[[], object]) -> list[float]:
        """Medians of the jobs' rates, with rounds that alternate between them."""
        for job in jobs:
            job()
        seconds = [[cpu_seconds(job) for job in jobs] for _ in range(self.rounds)]
        each = zip(*seconds, strict=True)
        return [lookups / statistics.median(times) / 1e6 for times in each]


def misses(columns: Columns, design: Design, kinds: bool) -> int:
    (result,) = replay([columns], [design], kinds)
    found = result.total["ni_misses"]
    assert found is not None
    return found


def cpu_seconds(job: Callable[[], object]) -> float:
    began = time.process_time()
    job()
    return time.process_time() - began


def verdict(rate: float, least: float | None) -> str:
    if least is None:
        return ""
    return "met" if rate >= least else f"{rate / least:.2f} of it"


def row(*cells: object) -> None:
    widths = (41, 8, 6, 14, 8, 6, 14)
    texts = [f"{cells[0]:<{widths[0]}}"]
    for cell, width in zip(cells[1:], widths[1:], strict=False):
        text = "" if cell is None else f"{cell:.1f}" if isinstance(cell, float) else str(cell)
        texts.append(f"{text:<{width - 2}}" if width == 14 else f"{text:>{width}}")
        if width == 6:
            texts.append(" ")
    print("".join(texts).rstrip(), flush=True)


def print_rates(bench: Bench) -> None:
    row("million lookups per second", "no kinds", "least", "", "kinds", "least", "")
    for case in cases():
        row(*_rates(bench, bench.part if _is_limited(case) else bench.columns, case))
    print(f"\nthe same in requests of {LONG} pages, for which nothing is asked", flush=True)
    for case in cases():
        if not _is_limited(case):
            row(*_rates(bench, bench.long, case._replace(without=None, with_kinds=None)))


def _is_limited(case: Case) -> bool:
    design = case.design
    limits = (design.pin_limit, design.high_water)
    return design.scheme == "utlb-process" or any(limit is not None for limit in limits)


def _rates(bench: Bench, columns: Columns, case: Case) -> list[object]:
    cells: list[object] = [case.title]
    for kinds, least in ((False, case.without), (True, case.with_kinds)):
        told_apart = case.design.scheme != "utlb-process"  # a table has no misses to tell apart
        if kinds and not told_apart:
            break
        rate = bench.rate(columns, case.design, kinds)
        cells += [rate, least, verdict(rate, least)]
    return cells


def print_peers(bench: Bench, folder: Path) -> None:
    print("\nbeside others, alternating in one run; all count the same misses", flush=True)
    row("million lookups per second", "nicscope", "peer", "", "ratio", "least", "")
    design = with_settings(load_design("utlb"), [f"entries={ENTRIES}", f"ways={WAYS}"])
    addresses = as_addresses(bench.some)
    sets = ENTRIES // WAYS
    _beside(
        bench,
        f"pycachesim, {sets} sets, {WAYS} ways",
        design,
        2.0,
        lambda: pycachesim_misses(sets, WAYS, 1 << PAGE_BITS, addresses),
    )
    count = len(bench.some.page)
    trace = folder / "accesses.oracleGeneral"
    write_objects(trace, bench.some)
    design = with_settings(design, [f"ways={ENTRIES}"])
    _beside(
        bench,
        f"libcachesim, {ENTRIES} objects",
        design,
        3.5,
        lambda: libcachesim_misses(ENTRIES, trace, count),
    )


def _beside(
    bench: Bench, title: str, design: Design, least: float, theirs: Callable[[], int]
) -> None:
    expected = theirs()
    for kinds in (False, True):
        if misses(bench.columns, design, kinds) != expected:
            sys.exit(f"bench_replay: {title}: {expected} misses there, other here")

        def ours(kinds: bool = kinds) -> int:
            return misses(bench.columns, design, kinds)

        own, other = bench.rates(len(bench.some.page), ours, theirs)
        ratio = own / other
        name = f"{title}, kinds here" if kinds else title
        row(name, own, f"{other:.1f}", "", ratio, least, verdict(ratio, least))


def print_footer(bench: Bench) -> None:
    print()
    for title, ways in (("direct-mapped", 1), (f"{WAYS}-way", WAYS), ("full LRU", ENTRIES)):
        design = with_settings(load_design("utlb"), [f"entries={ENTRIES}", f"ways={ways}"])
        found = misses(bench.columns, design, False) / len(bench.some.page)
        print(f"{title} {found:.1%} misses; ", end="")
    print(f"{len(bench.some.page) / 1e6:g} M accesses of {len(np.unique(bench.some.number))} pages")
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"with limits: the first {len(bench.part.node) / 1e6:g} M of them")
    print(f"median of {bench.rounds} rounds, CPU time; load average at the end {load}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--accesses", type=int, default=ACCESSES)
    arguments = parser.parse_args()
    bench = Bench(arguments.rounds, arguments.accesses)
    print_rates(bench)
    with tempfile.TemporaryDirectory() as folder:
        print_peers(bench, Path(folder))
    print_footer(bench)


if __name__ == "__main__":
    main()
