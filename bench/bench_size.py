"""What it takes to size two traces of 17 million lookups: python bench/bench_size.py.

``recorded``: the bundled traces one after the other, again and again: few pages, many lookups of
each.  ``blocks``: transfers of 60 pages each, two thirds of them looked up but once: millions of
pages.  Both with pages of three sizes side by side.  CPU seconds, for the machine may be busy with
other things; the command is warmed up by a small trace.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.traces.bundled import bundled_traces
from nicscope.traces.numbering import lookups_of
from nicscope.traces.reader import open_trace
from nicscope.traces.writer import TraceWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOOKUPS = 17_000_000
PAGE = 4096
BLOCK_PAGES = 60
ONCE = 0.63  # share of the transfers whose block was not there before
BATCH = 1 << 18
OPTIONS = ("--nic-memory", "128KiB", "--page-size", "4KiB,2MiB,1GiB", "--json")


def write(path: Path, columns: dict[str, NDArray[np.generic]]) -> Path:
    with TraceWriter(path) as writer:
        for begin in range(0, len(columns["address"]), BATCH):
            writer.write({name: column[begin : begin + BATCH] for name, column in columns.items()})
    return path


def recorded(path: Path, lookups: int) -> Path:
    parts = [open_trace(file).read() for file in bundled_traces().values()]
    own = sum(len(pages) for part in parts for _, pages in lookups_of(part, PAGE))
    times = -(-lookups // own)
    pids = [part.pid + 100_000 * number for number, part in enumerate(parts)]
    columns = {
        name: np.tile(np.concatenate([getattr(part, name) for part in parts]), times)
        for name in ("op", "address", "length")
    }
    columns["pid"] = np.tile(np.concatenate(pids), times).astype(np.int32)
    return write(path, columns | ordered(len(columns["pid"])))


def blocks(path: Path, lookups: int) -> Path:
    random = np.random.default_rng(1)
    count = lookups // BLOCK_PAGES
    is_new = random.random(count) < ONCE
    is_new[0] = True
    newest = np.cumsum(is_new) - 1
    # One that was there before: the more recent, the likelier.
    back = (random.pareto(0.7, count) * 20).astype(np.int64)
    block = np.where(is_new, newest, np.maximum(newest - back, 0))
    columns = {
        "pid": np.full(count, 7, np.int32),
        "op": np.where(is_new, 0, 3).astype(np.uint8),
        "address": (1 << 40) + block.astype(np.uint64) * np.uint64(BLOCK_PAGES * PAGE),
        "length": np.full(count, BLOCK_PAGES * PAGE, np.uint32),
    }
    return write(path, columns | ordered(count))


def ordered(count: int) -> dict[str, NDArray[np.generic]]:
    return {"time_ns": np.arange(count, dtype=np.int64), "node": np.zeros(count, np.int32)}


def size(trace: str) -> tuple[float, float, float]:
    """CPU seconds, seconds and peak MB of the whole command."""
    command = [sys.executable, "-m", "nicscope", "size", trace, *OPTIONS]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, took, after.ru_maxrss / 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lookups", type=int, default=LOOKUPS)
    lookups = options.parse_args().lookups
    size("bundled:rsync_transfer")
    with tempfile.TemporaryDirectory() as folder:
        print(f"nicscope size TRACE {' '.join(OPTIONS)}, {lookups:,} lookups")
        print(f"{'':12}{'CPU s':>8}{'s':>8}{'peak MB':>9}")
        for make in (recorded, blocks):
            trace = make(Path(folder) / f"{make.__name__}.parquet", lookups)
            cpu, took, peak = size(str(trace))
            print(f"{make.__name__:12}{cpu:8.1f}{took:8.1f}{peak:9.0f}", flush=True)
    print("load average at the end", ", ".join(f"{load:.1f}" for load in os.getloadavg()))


if __name__ == "__main__":
    main()
