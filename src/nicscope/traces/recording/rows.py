"""Rows of calls as arrays: sorted by issue within a run, and runs merged.

Apart from the tracer, as NumPy takes longer to load than the rest of the recorder: it is loaded
when the first rows are written out, not before the program starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

# As ``tracer.PACKED`` packs one.
ROW = np.dtype(
    [
        ("issue", "<i8"),  # which call, counted as they were issued
        ("time_ns", "<i8"),
        ("address", "<u8"),
        ("pid", "<i4"),
        ("tid", "<i4"),
        ("length", "<u4"),
        ("posted", "<u4"),
        ("connection", "<i4"),
        ("op", "u1"),  # codes of Op
        ("call", "u1"),  # codes of CALLS
    ]
)


class Run(NamedTuple):
    """Sorted rows of a file."""

    first_issue: int
    start: int  # row of the file
    stop: int


def sorted_run(packed: bytes | bytearray, start: int) -> tuple[bytes, Run]:
    """``packed`` rows in the order of issue, and the run that they are from row ``start`` on."""
    rows = np.frombuffer(packed, ROW)
    rows = rows[np.argsort(rows["issue"], kind="stable")]
    return rows.tobytes(), Run(int(rows["issue"][0]), start, start + rows.size)


def merged(
    read: Callable[[int, int], bytes], runs: Sequence[Run], block_rows: int
) -> Iterator[NDArray[Any]]:
    """All rows of ``runs`` as arrays of ``ROW``, in the order of issue.

    ``read`` gives the rows of the file from one to another; ``block_rows`` are read at a time of
    each run.
    """
    waiting = sorted(runs, reverse=True)  # the next one last
    open_runs: list[_Reader] = []
    while waiting or open_runs:
        # Rows up to the least last row of the blocks in memory have no unread predecessor.
        while waiting and (
            not open_runs or waiting[-1].first_issue <= min(run.last for run in open_runs)
        ):
            open_runs.append(_Reader(read, waiting.pop(), block_rows))
        bound = min(run.last for run in open_runs)
        batch = np.concatenate([run.take(bound) for run in open_runs])
        yield batch[np.argsort(batch["issue"], kind="stable")]
        open_runs = [run for run in open_runs if run.has_rows()]


class _Reader:
    """A sorted run, read block by block.  All rows of one call lie in the same run."""

    def __init__(self, read: Callable[[int, int], bytes], run: Run, block_rows: int) -> None:
        self._read = read
        self._next, self._stop = run.start, run.stop
        self._block_rows = block_rows
        self._block: NDArray[Any] = np.empty(0, ROW)
        self.has_rows()

    def has_rows(self) -> bool:
        """Whether any are left; reads the next block if the last one is used up."""
        if not self._block.size and self._next < self._stop:
            stop = min(self._next + self._block_rows, self._stop)
            self._block = np.frombuffer(self._read(self._next, stop), ROW)
            self._next = stop
        return self._block.size > 0

    @property
    def last(self) -> int:
        """The issue number of the last row in memory."""
        return int(self._block["issue"][-1])

    def take(self, bound: int) -> NDArray[Any]:
        """Remove and return the rows issued up to ``bound``."""
        count = int(np.searchsorted(self._block["issue"], bound, side="right"))
        taken, self._block = self._block[:count], self._block[count:]
        return taken
