"""Runs of requests looked up group by group, beside page by page, and beside reading them alone.

    python bench/bench_runs.py
    python bench/bench_runs.py --trace conversation.parquet --part 4_000_000

Without ``--trace``, blocks of 20 MiB of a pool are read in slices of 64 KiB, as those of a language
model's KV cache: which block is drawn with a fixed seed.  CPU seconds of one process; fifteen
caches, of pages of three sizes.  Page by page only the first ``--part`` requests are replayed, and
both have to count the same there.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import compiled  # noqa: F401 - rates are those of compiled code
import numpy as np

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.replay import alignments_for, replay
from nicscope.studies.curves import ask, curves_of
from nicscope.traces.reader import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

PAGE_SIZES = ("4KiB", "2MiB", "1GiB")
ENTRIES = (1024, 4096, 16384, 65536, 262144)
BLOCK, SLICE = 20 << 20, 1 << 16
BLOCKS, TRANSFERS = 20_000, 30_000
BATCH = 1 << 17


class Batch(NamedTuple):
    """Requests as a replay wants them."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]

    def head(self, rows: int) -> Batch:
        """The first rows."""
        return Batch(*(column[:rows] for column in self))


def drawn() -> Iterator[Batch]:
    """Transfers of blocks, most of them of few."""
    rng = np.random.default_rng(7)
    blocks = np.minimum(rng.zipf(1.2, TRANSFERS) - 1, BLOCKS - 1)
    each = BLOCK // SLICE
    for first in range(0, TRANSFERS, BATCH // each):
        piece = blocks[first : first + BATCH // each]
        address = piece[:, None] * BLOCK + np.arange(each) * SLICE
        rows = address.size
        yield Batch(
            np.zeros(rows, np.int32),
            np.zeros(rows, np.int32),
            np.zeros(rows, np.uint8),
            address.reshape(-1).astype(np.uint64),
            np.full(rows, SLICE, np.uint32),
        )


def first_rows(batches: Iterator[Any], rows: int) -> Iterator[Batch]:
    """The batches up to so many rows."""
    for batch in batches:
        if rows <= 0:
            return
        yield Batch(*(getattr(batch, name) for name in Batch._fields)).head(rows)
        rows -= len(batch.node)


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What it finds, and the CPU seconds that it takes."""
    start = time.process_time()
    found = run()
    return found, time.process_time() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trace", help="a Parquet trace instead")
    parser.add_argument("--part", type=int, default=1_000_000, help="requests page by page")
    options = parser.parse_args()
    read: Callable[[], Iterator[Any]] = drawn
    if options.trace is not None:
        read = open_trace(options.trace).batches
    utlb = load_design("utlb")
    designs = [
        with_settings(utlb, [f"entries={entries}", "ways=8", f"page_size={size}"])
        for size in PAGE_SIZES
        for entries in ENTRIES
    ]

    def grouped(rows: int | None) -> Any:
        some = read if rows is None else lambda: first_rows(read(), rows)
        return replay(some(), designs, alignments=alignments_for(some(), designs, 4096))

    grouped(BATCH)  # compiles
    replay(first_rows(read(), 1 << 12), designs)
    rows, reading = timed(lambda: sum(len(batch.node) for batch in read()))
    part = min(options.part, rows)
    by_page, slow = timed(lambda: replay(first_rows(read(), part), designs))
    by_group, fast = timed(lambda: grouped(part))
    if [one.total for one in by_page] != [one.total for one in by_group]:
        raise SystemExit("page by page and group by group do not count the same")
    whole, replaying = timed(lambda: grouped(None))
    question = ask(entries="1..67108864")
    _, curving = timed(lambda: curves_of("t", read, question, 4096))
    lookups = whole[0].total["lookups"]
    print(f"{rows:,} requests, {lookups:,} lookups of pages of 4 KiB")
    line = "{:46} {:>8} {:>12}"
    print(line.format("", "CPU s", "to reading"))
    for what, seconds in (
        ("reading them", reading),
        ("fifteen caches, group by group", replaying),
        ("curve to 2^26 entries, pages of 4 KiB", curving),
    ):
        print(line.format(what, f"{seconds:.1f}", f"{seconds / max(reading, 1e-9):.1f}"))
    print(f"of the first {part:,}: page by page {slow:.2f} s, group by group {fast:.2f} s")
    print(f"page by page takes {slow / fast:.1f} times as long")


if __name__ == "__main__":
    main()
