"""A pool of 1 TiB in pages of 4 KiB, all of it touched: what commands take of it.

    python bench/bench_pool.py
    python bench/bench_pool.py --pages 16_777_216 --order random --command replay

Three traces of one process: blocks of 16 MiB in slices of 64 KiB (``blocks``: long aligned runs),
the layers of each block apart, in slices of 20 KiB (``layers``: no two are neighbours, and none is
aligned to more than its pages), and accesses of a page each, first every page once, in an order as
good as random, then a quarter as many of any (``random``).  The last two do not begin at a
multiple of what is numbered together.  Each trace is written to a file that is removed at the end
(up to 3 GB); CPU seconds and memory are those of the command's process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.traces.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

PAGE_BITS = 12
BASE = 0x7F00_0000_0000
BLOCK, SLICE = 4096, 16  # pages
LAYERS, PART = 80, 5  # of a block, and pages of each
ODD = 0x9E3779B97F4A7C15
CHUNK = 1 << 20  # rows

UTLB = ["replay", "--design", "utlb"]
COMMANDS = {
    "replay": UTLB,
    "replay-wide": [*UTLB, "--set", f"entries={1 << 20}", "--set", f"ways={1 << 20}"],
    "replay-rnic": ["replay", "--design", "rnic"],
    "curve": ["curve"],
    "target": ["size", "--target-miss", "1%"],
    "descriptors": ["rdma", "descriptors"],
}


def in_blocks(pages: int) -> Iterator[NDArray[np.int64]]:
    """First pages of the slices of all blocks, in an order of blocks with a fixed seed."""
    blocks = np.random.default_rng(1).permutation(pages // BLOCK)
    step = CHUNK * SLICE // BLOCK
    for begin in range(0, len(blocks), step):
        first = blocks[begin : begin + step, None] * BLOCK
        yield (first + np.arange(0, BLOCK, SLICE)).ravel()


def in_layers(pages: int) -> Iterator[NDArray[np.int64]]:
    """First pages of the layers of all blocks: those of one layer lie side by side."""
    count = pages // (LAYERS * PART)
    blocks = np.random.default_rng(1).permutation(count)
    step = CHUNK // LAYERS
    for begin in range(0, count, step):
        first = blocks[begin : begin + step, None] * PART
        yield 3 + (first + np.arange(LAYERS) * count * PART).ravel()


def at_random(pages: int) -> Iterator[NDArray[np.int64]]:
    """Every page once, and a quarter of them again; ``pages`` is a power of two."""
    for begin in range(0, pages, CHUNK):
        places = np.arange(begin, begin + CHUNK, dtype=np.uint64) * np.uint64(ODD)
        yield 3 + (places % np.uint64(pages)).astype(np.int64)
    rng = np.random.default_rng(1)
    for _ in range(0, pages // 4, CHUNK):
        yield 3 + rng.integers(0, pages, CHUNK)


ORDERS = {"blocks": (in_blocks, SLICE), "layers": (in_layers, PART), "random": (at_random, 1)}


def write(path: Path, order: str, pages: int) -> int:
    """Write the trace; how many rows it has."""
    firsts, each = ORDERS[order]
    now = 0
    with TraceWriter(path) as trace:
        for first in firsts(pages):
            rows, pages_of = len(first), (BASE >> PAGE_BITS) + first
            trace.write(
                {
                    "time_ns": np.arange(now, now + rows, dtype=np.int64),
                    "node": np.zeros(rows, np.int32),
                    "pid": np.ones(rows, np.int32),
                    "op": np.full(rows, 2, np.uint8),
                    "address": pages_of.astype(np.uint64) << np.uint64(PAGE_BITS),
                    "length": np.full(rows, each << PAGE_BITS, np.uint32),
                }
            )
            now += rows
    return now


def run(name: str, path: Path) -> tuple[dict, float, float]:
    """What the command prints, its CPU seconds, and the most memory it had in GB."""
    first, *rest = COMMANDS[name]
    words = [sys.executable, "-m", "nicscope", first, str(path), *rest, "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)} failed")
    return json.loads(printed), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def extent(found: dict, pages: int) -> tuple[int, int]:
    """Pages that were touched, all of them if a command says nothing of it, and requests."""
    if "total" not in found and "trace" in found:  # of descriptors
        return pages, found["trace"]["requests"]
    if "total" in found:
        return found["total"]["ni_misses_compulsory"], found["total"]["requests"]
    told = found["targets"] if "targets" in found else found["curves"]
    return told[0]["ni_misses_compulsory"], found["traces"][0]["requests"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=1 << 28)
    parser.add_argument("--order", nargs="*", choices=ORDERS, default=list(ORDERS))
    parser.add_argument("--command", nargs="*", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--folder", type=Path, help="where traces are kept for the next time")
    options = parser.parse_args()
    line = "{:8} {:12} {:>12} {:>12} {:>8} {:>8} {:>8}"
    print(line.format("order", "command", "requests", "pages", "CPU s", "GB", "B/page"), flush=True)
    for order in options.order:
        with tempfile.TemporaryDirectory() as made:
            path = (options.folder or Path(made)) / f"{order}-{options.pages}.parquet"
            if not path.exists():
                write(path, order, options.pages)
            for name in options.command:
                found, seconds, size = run(name, path)
                pages, requests = extent(found, options.pages)
                print(
                    line.format(
                        order, name, f"{requests:,}", f"{pages:,}", f"{seconds:.1f}",
                        f"{size:.2f}", f"{size * 1e9 / pages:.1f}",
                    ),
                    flush=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
