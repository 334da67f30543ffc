"""The one progress bar: on the error stream, for those who look, when it takes long."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

PATIENCE_S = 2.0  # before a progress bar appears
SLOW = 1e5  # per second: below, no millions of them
COMPILING = "compiling kernels (first use only)"


@contextlib.contextmanager
def progress(
    verb: str, unit: str, *, always_say: bool = False
) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a watch (done, total) that draws a bar with rate and time left, or None.

    The bar appears after ``PATIENCE_S``, or at once with the name of each kernel that compiles,
    if the error stream is a terminal.  ``unit`` is what is counted; without one it is bytes.
    With ``always_say`` compilation is one plain line where there is no terminal.
    """
    if not sys.stderr.isatty():
        if always_say:
            _Listener.tell(_say)
        try:
            yield None
        finally:
            _Listener.tell(None)
        return
    bar = _Bar(verb, unit)
    _Listener.tell(bar.compiling)
    try:
        yield bar.watch
    finally:
        _Listener.tell(None)
        bar.stop()


class _Bar:
    """What is done of how much, how fast; the clock starts anew after compiling."""

    def __init__(self, verb: str, unit: str) -> None:
        self._verb = verb
        self._unit = unit
        self._begin = time.monotonic()
        self._since = (0, self._begin)  # done by then
        self._done = 0
        self._compiling = False
        self._shown: Progress | None = None

    def watch(self, done: int, total: int) -> None:
        now = time.monotonic()
        self._done = done
        if self._compiling:
            self._compiling = False
            self._since = (done, now)
        if self._shown is None and now - self._begin < PATIENCE_S:
            return
        first, since = self._since
        speed = (done - first) / max(now - since, 1e-9)
        self._update(self._verb, self._rate(speed), done, total or None)

    def _rate(self, speed: float) -> str:
        if self._unit and speed < SLOW:
            return f"{speed:,.1f} {self._unit}/s"
        return f"{speed / 1e6:,.1f} {f'M {self._unit}' if self._unit else 'MB'}/s"

    def compiling(self, kernel: str) -> None:
        self._compiling = True
        self._update(f"{COMPILING}: {kernel}...", "", self._done, None)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown.stop()

    def _update(self, text: str, rate: str, done: int, total: int | None) -> None:
        if self._shown is None:
            self._shown = _new_bar()
            self._shown.add_task(text, total=None, rate="")
            self._shown.start()
        task = self._shown.task_ids[0]
        self._shown.update(task, description=text, rate=rate, completed=done, total=total)


def _new_bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=False),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


class _Listener:
    """The compiler's one listener, which passes names on to whoever shows them now."""

    _shown_by: Callable[[str], None] | None = None
    _listening = False

    @classmethod
    def tell(cls, shown_by: Callable[[str], None] | None) -> None:
        cls._shown_by = shown_by
        if shown_by is not None and not cls._listening:
            from nicscope.jit import on_compilation

            on_compilation(cls._hear)
            cls._listening = True

    @classmethod
    def _hear(cls, kernel: str) -> None:
        if cls._shown_by is not None:
            cls._shown_by(kernel)


def _say(kernel: str) -> None:  # noqa: ARG001 - one line stands for all of them
    _Listener.tell(None)
    patience = "seconds for a replay, about a minute for programs"
    print(f"{COMPILING}; {patience}...", file=sys.stderr, flush=True)
