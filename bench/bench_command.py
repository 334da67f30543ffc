"""What whole commands take, in seconds by the wall clock and of CPU: python bench/bench_command.py.

20 M requests in a Parquet file through ``nicscope replay`` beside the same accesses through
libCacheSim, start of the process included; then what every command costs before it does anything.

libCacheSim's command is not in the wheel of its Python package.  ``LIBCACHESIM=/path/to/cachesim``
names one that was built from source; else a Python process that runs the wheel on the file stands
in for it, with a hash table as large as the command's own.  Tuned: with the fastest table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import compiled  # noqa: F401 - rates are those of compiled code
from peers import HASH_POWER

ACCESSES = 20_000_000
ENTRIES = 8192
PAIRS = 3
STARTS = 5
NICSCOPE = (sys.executable, "-m", "nicscope")
COMMAND_HASH_POWER = 24  # what libCacheSim's bin/cachesim/cache_init.h sets
LEAST_RATIO = 1.0  # to the wheel, tuned
ONE, EVERY = "replay bundled, one design", "replay bundled, every design"
WARM_LIMITS_S = {"nicscope --help": 1.0, "nicscope designs": 1.0, ONE: 0.6, EVERY: 1.0}
COLD_LIMITS_S = {ONE: 5.0, EVERY: 12.0}
FIRST_USE = {"NICSCOPE_COMPILE": "background"}  # which waits for nothing
STAND_IN = """
import sys
from libcachesim import LRU, ReaderInitParam, TraceReader, TraceType
reader = TraceReader(
    sys.argv[1], TraceType.ORACLE_GENERAL_TRACE, ReaderInitParam(ignore_obj_size=True)
)
print(LRU(cache_size=int(sys.argv[2]), hashpower=int(sys.argv[3])).process_trace(reader)[0])
"""


class Run(NamedTuple):
    """What one process took."""

    seconds: float  # wall clock, from start to end
    cpu_seconds: float  # of all its threads; a busy machine shows less in it
    peak_mb: float  # resident


def run(command: tuple[str, ...], environment: dict[str, str] | None = None) -> Run:
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | (environment or {}),
    )
    assert child.stderr is not None
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if child.returncode:
        sys.exit(f"bench_command: {' '.join(command)}: {errors.decode(errors='replace')}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write_trace(path: Path, count: int) -> None:
    """Run in a process of its own: a command's peak counts from what its parent has resident."""
    import numpy as np
    from streams import accesses, as_requests

    from nicscope.traces.schema import Op
    from nicscope.traces.writer import TraceWriter

    columns = as_requests(accesses(count))
    ops = np.where(columns.receive == 1, int(Op.RECV), int(Op.SEND)).astype(np.uint8)
    with TraceWriter(path) as writer:
        for begin in range(0, count, 1 << 20):
            rows = slice(begin, begin + (1 << 20))
            some = {name: getattr(columns, name)[rows] for name in ("node", "pid")}
            some |= {"address": columns.address[rows], "length": columns.length[rows]}
            time_ns = np.arange(begin, begin + len(some["pid"]), dtype=np.int64) * 1000
            writer.write({"time_ns": time_ns, "op": ops[rows], **some})


def peers(trace: Path) -> dict[str, tuple[str, ...]]:
    """Commands by what the table calls them: libCacheSim's own or its stand-in, then the tuned."""
    stand_in = (sys.executable, "-c", STAND_IN, str(trace), str(ENTRIES))
    tuned = (*stand_in, str(HASH_POWER))
    if built := os.environ.get("LIBCACHESIM"):
        options = ("oracleGeneral", "lru", str(ENTRIES), "--ignore-obj-size=true")
        return {"libCacheSim's command": (built, str(trace), *options), "its wheel, tuned": tuned}
    own = (*stand_in, str(COMMAND_HASH_POWER))
    return {"libcachesim's wheel": own, "libcachesim's wheel, tuned": tuned}


def print_pairs(folder: Path, count: int, pairs: int) -> None:
    trace, objects = folder / "trace.parquet", folder / "trace.oracleGeneral"
    writer = multiprocessing.get_context("spawn").Process(target=write_trace, args=(trace, count))
    writer.start()
    writer.join()
    if writer.exitcode:
        sys.exit("bench_command: the trace could not be written")
    converted = run((*NICSCOPE, "trace", "convert", str(trace), str(objects)))
    others = peers(objects)
    full = ("--set", f"ways={ENTRIES}")
    commands = {
        "replay, utlb": (*replay(trace, "utlb"), "--no-kinds"),
        "replay, utlb, fully associative": (*replay(trace, "utlb"), "--no-kinds", *full),
        **others,
    }
    for command in commands.values():  # has all compiled, and the files in memory
        run(command)
    runs = [{title: run(command) for title, command in commands.items()} for _ in range(pairs)]
    print(f"{count / 1e6:g} M rows, {trace.stat().st_size / 1e6:.0f} MB of Parquet, ", end="")
    print(f"{objects.stat().st_size / 1e6:.0f} MB of oracleGeneral")
    print(f"{'':62}ratio to the wheel, and to the tuned one by")
    print(f"{'':34}{'s':>7}{'CPU s':>7}{'M rows/s':>10}{'peak MB':>9}", end="")
    print(f"{'':7}{'clock':>7}{'CPU':>7}  least {LEAST_RATIO:g}")
    own, tuned = (_medians(runs, name) for name in others)
    for title in commands:
        found = _medians(runs, title)
        print(f"{title:34}{found.seconds:7.2f}{found.cpu_seconds:7.2f}", end="")
        print(f"{count / found.seconds / 1e6:10.1f}{found.peak_mb:9.0f}", end="")
        if title not in others:
            ratio = tuned.seconds / found.seconds
            by_cpu = tuned.cpu_seconds / found.cpu_seconds
            verdict = "met" if ratio >= LEAST_RATIO else f"short by {LEAST_RATIO - ratio:.2f}"
            print(f"{own.seconds / found.seconds:7.2f}{ratio:7.2f}{by_cpu:7.2f}  {verdict}", end="")
        print()
    print(f"{'trace convert, once':34}{converted.seconds:7.2f}", end="")
    print(f"{count / converted.seconds / 1e6:10.1f}{converted.peak_mb:9.0f}\n", flush=True)


def _medians(runs: list[dict[str, Run]], title: str) -> Run:
    """Of all runs of one command; but the highest peak."""
    return Run(
        statistics.median(each[title].seconds for each in runs),
        statistics.median(each[title].cpu_seconds for each in runs),
        max(each[title].peak_mb for each in runs),
    )


def replay(trace: Path | str, *designs: str) -> tuple[str, ...]:
    chosen = (word for design in designs for word in ("--design", design))
    return (*NICSCOPE, "replay", str(trace), "--json", *chosen)


def print_starts(folder: Path) -> None:
    bundled = "bundled:redis_server"
    warm = {
        "nicscope --help": (*NICSCOPE, "--help"),
        "nicscope designs": (*NICSCOPE, "designs"),
        ONE: replay(bundled, "utlb"),
        EVERY: replay(bundled),
    }
    print(f"{'start, warm':34}{'s':>7}{'at most':>9}")
    for title, command in warm.items():
        run(command)
        seconds = statistics.median(run(command).seconds for _ in range(STARTS))
        print_limited(title, seconds, WARM_LIMITS_S[title])
    print(f"{'first use, nothing compiled':34}{'s':>7}{'at most':>9}")
    for number, title in enumerate(COLD_LIMITS_S):
        cache = {"NUMBA_CACHE_DIR": str(folder / f"cache{number}"), **FIRST_USE}
        print_limited(title, run(warm[title], cache).seconds, COLD_LIMITS_S[title])


def print_limited(title: str, seconds: float, limit: float) -> None:
    verdict = "met" if seconds <= limit else f"over by {seconds - limit:.1f}"
    print(f"{title:34}{seconds:7.2f}{limit:9g}  {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--accesses", type=int, default=ACCESSES)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print_pairs(Path(folder), arguments.accesses, arguments.pairs)
        print_starts(Path(folder))
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"medians; load average at the end {load}")


if __name__ == "__main__":
    main()
