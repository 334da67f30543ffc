"""Progress of long work on the error stream: a bar, or periodic lines.

Called as a library, nothing is said where nobody would read it: neither terminal nor notebook.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

PATIENCE_S = 2.0  # before anything is said
PACE_S = 2.0  # at least, between two lines
QUIET_S = 15.0  # at most, between two lines
STEP = 0.1  # of the whole, after which a line is due
SLOW = 1e5  # per second: below, no millions of them
COMPILING = "compiling kernels (first use only)"
# Whether lines are wanted where there is no terminal: of a command, for its log.
_TO_LOGS: contextvars.ContextVar[bool] = contextvars.ContextVar("to_logs", default=False)


@contextlib.contextmanager
def progress_in_logs() -> Iterator[None]:
    """Within the block, progress is printed even without a terminal or notebook."""
    token = _TO_LOGS.set(True)
    try:
        yield
    finally:
        _TO_LOGS.reset(token)


def _in_notebook() -> bool:
    """Whether this process is a notebook's kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def progress(
    verb: str, unit: str, *, always_say: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Yield a watch (done, total) that shows progress, rate, and the remaining time.

    On a terminal that is a bar, and each kernel that compiles is named at once; in a notebook, and
    elsewhere within ``progress_in_logs``, lines,
    every ``STEP`` or ``QUIET_S``, also when nothing is done or the watch is never told.  Nothing
    is said of what is done within ``PATIENCE_S``.  ``unit`` is what is counted; without one it is
    bytes.  With ``always_say`` compilation is one line at once where a command has no terminal.
    """
    at_terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (at_terminal or _TO_LOGS.get() or _in_notebook()):
        yield _unwatched
        return
    shown: _Bar | _Lines = _Bar(verb, unit) if at_terminal else _Lines(verb, unit)
    says_once = always_say and _TO_LOGS.get() and not at_terminal
    _Listener.tell(_show_compiling(shown) if says_once else shown.compiling)
    try:
        yield shown.watch
    finally:
        _Listener.tell(None)
        shown.stop()


def _unwatched(done: int, total: int) -> None:
    """A watch that does nothing."""


def _rate(speed: float, unit: str) -> str:
    if unit and speed < SLOW:
        return f"{speed:,.1f} {unit}/s"
    return f"{speed / 1e6:,.1f} {f'M {unit}' if unit else 'MB'}/s"


def _time(seconds: float) -> str:
    """Seconds, or minutes and seconds, as people say them."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


class _Lines:
    """Periodic progress lines from a thread, for logs and pipes."""

    def __init__(self, verb: str, unit: str) -> None:
        self._verb = verb
        self._unit = unit
        self._begin = time.monotonic()
        self._since = (0, self._begin)  # done by then: the clock starts anew after compiling
        self._at: tuple[int, int] | None = None
        self._kernel: str | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(sys.stderr,), daemon=True)
        self._thread.start()

    def watch(self, done: int, total: int) -> None:
        if self._kernel is not None:
            self._kernel = None
            self._since = (done, time.monotonic())
        self._at = (done, total)

    def compiling(self, kernel: str) -> None:
        self._kernel = kernel

    def stop(self) -> None:
        self._over.set()
        self._thread.join(PACE_S)

    def _run(self, stream: object) -> None:
        said, share = 0.0, 0.0
        waiting = PATIENCE_S
        while not self._over.wait(waiting):
            waiting = PACE_S
            now, reached = time.monotonic(), self._share()
            if not said or reached - share >= STEP or now - said >= QUIET_S:
                said, share = now, reached
                with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                    print(f"nicscope: {self._line(now)}", file=stream, flush=True)  # type: ignore[call-overload]

    def _share(self) -> float:
        done, total = self._at or (0, 0)
        return min(done / total, 1.0) if total else 0.0

    def _line(self, now: float) -> str:
        so_far = f"{_time(now - self._begin)} so far"
        if self._kernel is not None:
            return f"{self._verb}: {COMPILING}: {self._kernel}; {so_far}"
        if self._at is None:
            return f"{self._verb}: {so_far}"
        done, total = self._at
        first, since = self._since
        speed = (done - first) / max(now - since, 1e-9)
        parts = [f"{100 * self._share():.0f} %"]
        if speed > 0:
            left = _time((total - done) / speed)
            parts += [_rate(speed, self._unit), f"about {left} left"]
        return f"{self._verb}: {', '.join([*parts, so_far])}"


class _Bar:
    """A progress bar with rate; its clock restarts after compiling."""

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
        self._update(self._verb, _rate(speed, self._unit), done, total or None)

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
        console=Console(force_jupyter=False, stderr=True),
        transient=True,
    )


class _Listener:
    """The single listener of the compiler, which forwards kernel names to the current display."""

    _shown_by: Callable[[str], None] | None = None
    _listening = False

    @classmethod
    def tell(cls, shown_by: Callable[[str], None] | None) -> None:
        cls._shown_by = shown_by
        if shown_by is not None and not cls._listening:
            from nicscope.kernel.entry import on_compilation

            on_compilation(cls._hear)
            cls._listening = True

    @classmethod
    def _hear(cls, kernel: str) -> None:
        if cls._shown_by is not None:
            cls._shown_by(kernel)


def _show_compiling(lines: _Bar | _Lines) -> Callable[[str], None]:
    """Show ``lines`` for each kernel, and to everybody for the first, at once."""
    said = False

    def say(kernel: str) -> None:
        nonlocal said
        lines.compiling(kernel)
        if not said:
            said = True
            patience = "seconds for a replay, about a minute for programs"
            print(f"{COMPILING}; {patience}...", file=sys.stderr, flush=True)

    return say
