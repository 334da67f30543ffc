"""How much of all passes over the traces is done, told from several threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests


class Passes:
    """Rows done in all passes so far, each as often as there are designs in its pass.

    How many there will be is known for the next passes, and forecast for those after.
    """

    def __init__(self, watch: Callable[[int, int], None] | None = None) -> None:
        self._watch = watch
        self._done = 0
        self._total = 0
        self._forecast = 0
        self._later = 0
        self._lock = threading.Lock()

    def forecast(self, trace: Trace, designs: int) -> None:
        """So many designs are likely to see ``trace`` after those that are expected."""
        self._forecast = trace.rows * designs

    def forecast_later(self, rows: int) -> None:
        """So many rows are likely to be left when this trace is done."""
        self._later = rows

    def expect(self, trace: Trace, designs: int) -> None:
        """So many designs are going to see ``trace``, which the forecast had in it."""
        self._total += trace.rows * designs
        self._forecast = max(self._forecast - trace.rows * designs, 0)

    def through(self, trace: Trace, designs: int) -> Iterator[Requests]:
        """The batches of ``trace``, for a pass that takes as long as so many ``designs``."""
        self.expect(trace, designs)
        return self.over(trace, designs)

    def over(self, trace: Trace, designs: int) -> Iterator[Requests]:
        """The batches of ``trace`` for so many ``designs``, counted as they pass."""
        for batch in trace.batches():
            yield batch
            self._tell(len(batch.length) * designs)

    def _tell(self, rows: int) -> None:
        with self._lock:
            self._done += rows
            if self._watch is not None:
                self._watch(self._done, self._total + self._forecast + self._later)
