"""How much of all passes over the traces is done, told from several threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests


class Stopped(Exception):  # noqa: N818 - nobody's error
    """Ends a pass that nobody waits for any more."""


class Passes:
    """Rows done in all passes so far, each as often as there are designs in its pass."""

    def __init__(self, watch: Callable[[int, int], None] | None = None) -> None:
        self._watch = watch
        self._done = 0
        self._total = 0
        self._lock = threading.Lock()
        self._stopped = False

    def expect(self, trace: Trace, designs: int = 1) -> None:
        """So many designs are going to see ``trace``."""
        self._total += trace.rows * designs

    def through(self, trace: Trace) -> Iterator[Requests]:
        """The batches of ``trace``, counted as they pass."""
        self.expect(trace)
        tell = self.of(1)
        done = 0
        for batch in trace.batches():
            yield batch
            done += len(batch.length)
            tell(done, trace.rows)

    def of(self, designs: int) -> Callable[[int, int], None]:
        """What to tell of one pass with so many ``designs``: rows done, and of how many.

        It raises ``Stopped`` after ``stop``.
        """
        before = 0

        def tell(done: int, _: int) -> None:
            nonlocal before
            if self._stopped:
                raise Stopped
            with self._lock:
                self._done += (done - before) * designs
                before = done
                if self._watch is not None:
                    self._watch(self._done, self._total)

        return tell

    def stop(self) -> None:
        """End every pass at its next batch."""
        self._stopped = True
