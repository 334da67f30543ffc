"""Ctrl-C, SIGTERM and SIGHUP, wherever Python is when they come."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from nicscope.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Exit statuses, 128 and the number of the signal as shells have it, and how each is told.
ENDINGS = {
    128 + signal.SIGINT: "interrupted",
    128 + signal.SIGTERM: "terminated",
    128 + signal.SIGHUP: "hung up",
}
_AGAIN_S = 0.3  # long beside any finalizer, short beside the wait until one presses again

# An interrupt's frames, and in them what the compiler was at: freeing that half-made has crashed.
_HALF_MADE: list[BaseException] = []


class _Came:
    """The signal that ended the last block of ``heeded_interrupts``."""

    number = signal.SIGINT


def ending_status() -> int:
    """The exit status of a command that was interrupted."""
    return 128 + _Came.number


def leave_kept(journal: Path | None) -> None:
    """If what is done is kept in ``journal``, say how to go on, and end with the signal's status.

    To be called while the interrupt is handled; without a journal it goes on its way.
    """
    if journal is None or not journal.exists():
        return
    status = ending_status()
    print(
        f"nicscope: {ENDINGS[status]}; what is done is kept in {printable(str(journal))}: the same "
        "command continues",
        file=sys.stderr,
    )
    raise typer.Exit(status) from None


class _Interrupts:
    """An interrupt that comes back until it is heeded.

    Python cannot raise it in a finalizer or in a callback of the compiler: there it would be
    printed and lost. It is heeded while anything handles it, clearing up for example.
    """

    def __init__(self) -> None:
        self.came = False
        self._over = threading.Event()

    def raise_one(self, number: int, _: object) -> None:
        if not self.came:
            self.came = True
            _Came.number = signal.Signals(number)
            threading.Thread(target=self._insist, daemon=True).start()
        raise KeyboardInterrupt

    def _insist(self) -> None:
        while not self._over.wait(_AGAIN_S):
            if not self._heeded():
                _thread.interrupt_main()

    def _heeded(self) -> bool:
        top: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
        error = top[1] if isinstance(top, tuple) else top  # a tuple before Python 3.12
        while error is not None:
            if isinstance(error, KeyboardInterrupt):
                return True
            error = error.__context__
        return False

    def finish(self) -> None:
        self._over.set()


@contextmanager
def heeded_interrupts() -> Iterator[None]:
    """Let no interrupt within the block be lost; what fails for want of a callback was one too.

    SIGTERM and SIGHUP are interrupts as Ctrl-C is, except where somebody takes or ignores them,
    as nohup does.  Where somebody else takes SIGINT, or off the main thread, the block is left
    alone.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    _Came.number = signal.SIGINT
    interrupts = _Interrupts()
    others = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not (interrupts.came or issubclass(unraisable.exc_type, KeyboardInterrupt)):
            others(unraisable)

    taken = {signal.SIGINT: signal.default_int_handler} | {
        number: signal.SIG_DFL
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    for number in taken:
        signal.signal(number, interrupts.raise_one)
    sys.unraisablehook = hook
    try:
        yield
    except Exception as error:
        if not interrupts.came:
            raise
        _HALF_MADE.append(error)
        raise KeyboardInterrupt from error
    finally:
        interrupts.finish()
        for number, before in taken.items():
            signal.signal(number, before)
        sys.unraisablehook = others


def leave_at_once(status: int) -> NoReturn:
    """End the process with ``status`` when its output is out, and nothing more.

    After an interrupt CPython may die of SIGINT whatever the status, as it remembers one that left
    the ``exec`` of a string; the compiler may have been left half-way, which has crashed its end;
    and threads may be within kernels that do not end soon.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed, or full: whoever can tell of it has
            stream.flush()
    os._exit(status)
