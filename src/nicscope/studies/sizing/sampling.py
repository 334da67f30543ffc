"""Windows of a long trace, spread evenly over it, on which designs are compared in a moment.

What is cheap there is likely to be cheap on the whole trace, and only that is replayed in full:
a sample says where to look, and is never what is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nicscope.studies.sizing.survey import Extent
    from nicscope.traces.schema import Requests

# Assumed: a fourth of a trace says too little less than the whole to be worth a detour.
SAMPLED = 1 << 20  # lookups of a sample
LONG = 4 * SAMPLED  # lookups of a trace that is sampled
WINDOWS = 16


class Windows:
    """Takes the windows out of batches that pass."""

    def __init__(self, rows: int, extent: Extent) -> None:
        wanted = max(rows * SAMPLED // max(extent.lookups, 1) // WINDOWS, 1)
        self._is_long = extent.lookups >= LONG
        self._spans = [
            (start, start + wanted)
            for start in (rows * number // WINDOWS for number in range(WINDOWS))
        ]
        self._found: list[Requests] = []

    def of(self, batches: Iterable[Requests]) -> Iterator[Requests]:
        """``batches`` as they are."""
        begin = 0
        for batch in batches:
            yield batch
            if self._is_long:
                self._take(batch, begin)
            begin += len(batch.length)

    def _take(self, batch: Requests, begin: int) -> None:
        end = begin + len(batch.length)
        for start, stop in self._spans:
            low, high = max(start, begin), min(stop, end)
            if low < high:
                rows = slice(low - begin, high - begin)
                # Copies: a batch is as long as it must be and no longer.
                self._found.append(type(batch)._make(np.array(column[rows]) for column in batch))

    def result(self) -> list[Requests] | None:
        """The windows as batches, in the trace's order; None of a short trace, which needs none."""
        return self._found or None
