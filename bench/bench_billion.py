"""A sampled curve, and ``size --target-miss``, of 10^9 lookups: how long, and how much memory.

The trace is generated chunk by chunk into a file (about a gigabyte, removed at the end): requests
of 16 pages by four processes, whose starts follow a Zipf law over 16 million pages.  ``--lookups``
makes it shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.traces.writer import TraceWriter

PAGES_EACH = 16
FOOTPRINT = 1 << 24  # pages
PROCESSES = 4
CHUNK = 1 << 20  # requests
PAGE_BITS = 12


def starts(rng: np.random.Generator, count: int) -> np.ndarray:
    """First pages of ``count`` requests: log-uniform ranks (Zipf with exponent 1), scattered."""
    ranks = np.exp(rng.random(count) * np.log(FOOTPRINT / PAGES_EACH)).astype(np.uint64)
    scattered = ranks * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - 20)
    return (scattered * np.uint64(PAGES_EACH)) << np.uint64(PAGE_BITS)


def write_trace(path: Path, lookups: int) -> None:
    """Write requests that make ``lookups`` lookups."""
    rng = np.random.default_rng(1)
    left = lookups // PAGES_EACH
    with TraceWriter(path) as trace:
        now = 0
        while left > 0:
            rows = min(left, CHUNK)
            left -= rows
            trace.write(
                {
                    "time_ns": np.arange(now, now + rows, dtype=np.int64),
                    "node": np.zeros(rows, np.int32),
                    "pid": rng.integers(100, 100 + PROCESSES, rows, dtype=np.int32),
                    "op": np.zeros(rows, np.uint8),
                    "address": starts(rng, rows),
                    "length": np.full(rows, PAGES_EACH << PAGE_BITS, np.uint32),
                }
            )
            now += rows


def run(words: list[str], path: Path) -> tuple[float, float]:
    """Seconds by the wall clock, and the most memory in GB, of a command over ``path``."""
    command = [sys.executable, "-m", "nicscope", *words, "--json"]
    warm = [*command, "bundled:rsync_transfer"]  # has all compiled
    subprocess.run(warm, stdout=subprocess.DEVNULL, check=True)
    start = time.perf_counter()
    process = subprocess.Popen([*command, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status or not found:
        sys.exit(f"nicscope {' '.join(words)} failed")
    return seconds, usage.ru_maxrss * 1024 / 1e9


def main() -> None:
    """Write, run, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lookups", type=int, default=10**9)
    options.add_argument("--sample", default="0.01")
    options.add_argument("--target-miss", default="1%")
    chosen = options.parse_args()
    commands = (
        ["curve", "--sample", chosen.sample],
        ["size", "--target-miss", chosen.target_miss],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "billion.parquet"
        start = time.perf_counter()
        write_trace(path, chosen.lookups)
        written = time.perf_counter() - start
        size = path.stat().st_size / 1e6
        print(f"{chosen.lookups:,} lookups, {size:,.0f} MB, written in {written:.0f} s")
        for words in commands:
            seconds, memory = run(words, path)
            rate = chosen.lookups / seconds / 1e6
            print(f"{' '.join(words):24}{seconds:8.1f} s {rate:6.0f} M lookups/s {memory:6.2f} GB")


if __name__ == "__main__":
    main()
