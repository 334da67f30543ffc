"""A sweep on one worker thread and on two, in wall-clock seconds: python bench/bench_sweep.py.

The same command with ``--workers 1`` and ``--workers 2``, everything included: start, checks,
reading the trace, the journal, the table.  The tables must be the same bytes.  The last line says
how little of a pass a thread holds the interpreter, where no other can be.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import compiled  # noqa: F401 - rates are those of compiled code
from bench_command import NICSCOPE, Run, run, write_trace

ACCESSES = 7_000_000
PAIRS = 1
LEAST_RATIO, LEAST_S = 1.8, 60.0
GRID = (
    "entries=256,1024,4096,16384",
    "ways=1,4",
    "pin_limit=1024,4096,16384,none",
    "replacement=lru,mru,lfu",
    "prefetch=1,4",
)
HELD_DESIGNS = 8  # of one pass, to see how long it holds the interpreter


def sweep(trace: Path | str, out: Path, workers: int) -> tuple[str, ...]:
    grid = (word for axis in GRID for word in ("--grid", axis))
    files = (str(trace), "--design", "utlb", "--out", str(out))
    return (*NICSCOPE, "sweep", *files, "--workers", str(workers), "--json", *grid)


def measured(trace: Path, workers: int) -> tuple[Run, bytes]:
    out = trace.with_name(f"{workers}.parquet")
    out.unlink(missing_ok=True)
    return run(sweep(trace, out, workers)), out.read_bytes()


def print_pairs(trace: Path, pairs: int) -> None:
    runs = []
    for _ in range(pairs):
        both = [measured(trace, workers) for workers in (1, 2)]
        assert both[0][1] == both[1][1], "the tables differ"
        runs.append([took for took, _ in both])
    one, two = (statistics.median(pair[place].seconds for pair in runs) for place in (0, 1))
    peaks = [max(pair[place].peak_mb for pair in runs) for place in (0, 1)]
    ratio = statistics.median(pair[0].seconds / pair[1].seconds for pair in runs)
    verdict = "met" if ratio >= LEAST_RATIO else f"short by {LEAST_RATIO - ratio:.2f}"
    enough = "" if one >= LEAST_S else f"  (less than {LEAST_S:.0f} s of work: use --accesses)"
    print(f"{'':34}{'s':>7}{'peak MB':>9}{'ratio':>7}  least {LEAST_RATIO}")
    print(f"{'sweep, 1 worker':34}{one:7.1f}{peaks[0]:9.0f}{enough}")
    print(f"{'sweep, 2 workers':34}{two:7.1f}{peaks[1]:9.0f}{ratio:7.2f}  {verdict}", flush=True)


def print_held(trace: Path) -> None:
    """Share of a pass spent outside kernels, where only one thread at a time can be.

    With pieces an eighth as long the interpreter has eight times as much to do, and the kernels
    the same; so a seventh of what the pass takes longer is what it had before.
    """
    from nicscope.config.design import load_design, with_settings
    from nicscope.drivers.replay import columns as partition
    from nicscope.studies.sweep.sweeping import load, tally
    from nicscope.traces.reader import open_trace

    columns = load(open_trace(trace))
    base = load_design("utlb")
    sizes = [1024, 4096] * (HELD_DESIGNS // 2)
    designs = [with_settings(base, [f"entries={size}", "pin_limit=4096"]) for size in sizes]

    def seconds() -> float:
        began = time.perf_counter()
        tally(columns, designs, 4096, kinds=True)
        return time.perf_counter() - began

    seconds()
    whole = min(seconds() for _ in range(3))
    rows = partition.ROWS
    partition.ROWS = rows // 8
    short = min(seconds() for _ in range(3))
    partition.ROWS = rows
    share = max(0.0, (short - whole) / 7 / whole)
    print(f"{'held by the interpreter':34}{100 * share:7.1f} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--accesses", type=int, default=ACCESSES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.parquet"
        spawn = multiprocessing.get_context("spawn")
        writer = spawn.Process(target=write_trace, args=(trace, arguments.accesses))
        writer.start()
        writer.join()
        if writer.exitcode:
            sys.exit("bench_sweep: the trace could not be written")
        warm = sweep("bundled:rsync_transfer", trace.with_name("warm.parquet"), 1)
        run(warm)  # has all compiled
        print_pairs(trace, arguments.pairs)
        print_held(trace)
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"medians, wall clock; load average at the end {load}")


if __name__ == "__main__":
    main()
