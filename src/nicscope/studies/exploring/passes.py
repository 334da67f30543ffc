"""What was counted of a trace so far, and the thread that counts the rest.

A pass is one reading of the trace for one thing: the caches of all shapes, or some designs
replayed.  What somebody waits for goes first, the latest wish before earlier ones; what is likely
to be asked next is counted meanwhile, and gives way when it is in somebody's way.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.replay.parting import ROWS
from nicscope.errors import StudyError
from nicscope.studies.sweep.tally import load
from nicscope.studies.threads import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from nicscope.studies.sweep.tally import Columns
    from nicscope.traces.reader import Trace

PATIENCE_S = 3.0  # a wish that is not repeated for so long is nobody's any more


class Pass(NamedTuple):
    """One reading of the trace: ``work`` gets its batches and notes what it found."""

    key: Hashable
    what: str  # is counted, for people
    work: Callable[[Iterator[Columns]], None]


class Working(NamedTuple):
    """How far a pass is, in rows."""

    what: str
    done: int
    total: int


class Passes:
    """The passes over one trace, made one after the other by a thread."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.finished: set[Hashable] = set()
        self.seconds: list[tuple[str, float]] = []  # of each pass that was finished
        self.failure: BaseException | None = None  # what ended it all
        self._failed: dict[Hashable, str] = {}  # why a pass was not finished
        self._columns: Columns | None = None
        self._wishes: dict[Hashable, tuple[Pass, float]] = {}  # with the time of the last asking
        self._likely: list[Pass] = []
        self._running: tuple[Pass, bool] | None = None  # and whether anybody waits for it
        self._done = 0
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to read the trace."""
        self._thread.start()

    def stop(self) -> None:
        """Have the thread end soon, and wait for it a little."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join(2.0)

    def expect(self, one: Pass) -> None:
        """Make that pass when there is nothing else to do."""
        with self._changed:
            if not self.is_over(one) and all(one.key != each.key for each in self._likely):
                self._likely.append(one)
            self._changed.notify_all()

    def prefer(self, one: Pass) -> None:
        """Make that pass when nobody waits for another, before all that is merely expected."""
        with self._changed:
            if not self.is_over(one):
                self._likely = [one, *(each for each in self._likely if each.key != one.key)]
            self._changed.notify_all()

    def ask(self, one: Pass) -> None:
        """Somebody waits for that pass: it is next.

        Errors: ``StudyError`` if it was made and failed; after that it is tried again.
        """
        with self._changed:
            if (why := self._failed.pop(one.key, None)) is not None:
                raise StudyError(why)
            if one.key not in self.finished:
                self._wishes.pop(one.key, None)
                self._wishes[one.key] = one, time.monotonic()
                if self._running is not None and self._running[0].key == one.key:
                    self._running = self._running[0], True
            self._changed.notify_all()

    def is_over(self, one: Pass) -> bool:
        """Whether nothing more comes of that pass: it is finished, or has failed."""
        return one.key in self.finished or one.key in self._failed

    def why_failed(self, one: Pass) -> str | None:
        """Why nothing came of that pass; None if it has not failed."""
        return self._failed.get(one.key)

    def progress(self) -> Working:
        """What the thread is at; errors: what ended it."""
        if self.failure is not None:
            raise StudyError(str(self.failure) or type(self.failure).__name__) from self.failure
        if self._columns is None:
            return Working("reading the trace", 0, self.trace.rows)
        running = self._running
        return Working(running[0].what if running else "waiting", self._done, self.trace.rows)

    def wait_until(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Whether ``is_true()`` comes true within ``seconds``; asked whenever a pass ends."""
        with self._changed:
            return self._changed.wait_for(lambda: is_true() or bool(self.failure), seconds)

    @property
    def is_idle(self) -> bool:
        """Whether all that was asked for or expected is counted."""
        return self._columns is not None and not (self._running or self._wishes or self._likely)

    def _run(self) -> None:
        try:
            self._columns = load(self.trace, "explore a part of the trace")
            while (one := self._next()) is not None:
                self._make(one)
        except BaseException as error:
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _next(self) -> Pass | None:
        """The next pass, once there is one; None when it is over."""
        with self._changed:
            while not self._over:
                now = time.monotonic()
                for key, (_, since) in list(self._wishes.items()):
                    if now - since > PATIENCE_S or key in self.finished:
                        del self._wishes[key]
                if self._wishes:
                    one = next(reversed(self._wishes.values()))[0]
                    self._running, self._done = (one, True), 0
                    return one
                if self._likely:
                    self._running, self._done = (self._likely[0], False), 0
                    return self._likely[0]
                self._changed.notify_all()
                self._changed.wait()
        return None

    def _make(self, one: Pass) -> None:
        began = time.monotonic()
        try:
            one.work(self._batches())
        except Stopped:
            with self._changed:
                self._running = None
            return
        except Exception as error:  # of this pass alone, such as one design too many for the memory
            why = str(error) or type(error).__name__
            if isinstance(error, MemoryError):
                why = "there is not enough memory; choose smaller sizes"
            with self._changed:
                self._failed[one.key] = f"{one.what}: {why}"
                self._leave(one)
            return
        with self._changed:
            self.finished.add(one.key)
            self.seconds.append((one.what, time.monotonic() - began))
            self._leave(one)

    def _leave(self, one: Pass) -> None:
        """That pass is over; whoever waits is told."""
        self._wishes.pop(one.key, None)
        self._likely = [each for each in self._likely if each.key != one.key]
        self._running = None
        self._changed.notify_all()

    def _batches(self) -> Iterator[Any]:
        """The trace in parts; ``Stopped`` if something else is more urgent."""
        assert self._columns is not None
        for begin in range(0, len(self._columns.node), ROWS):
            running = self._running
            if self._over or (self._wishes and running is not None and not running[1]):
                raise Stopped
            yield self._columns.rows(begin, begin + ROWS)
            self._done = min(begin + ROWS, len(self._columns.node))
