"""Signals to the recorder are meant for the program that it records.

The terminal sends Ctrl-C to the recorder and to the program alike, since they share its
foreground process group; what somebody sends to the recorder alone has to be passed on.  Only
``siginfo`` tells the two apart, and Python's handlers do not get it, so the signals are blocked
and a thread waits for them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

PASSED_ON = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
TICK_S = 0.2


@contextlib.contextmanager
def held_signals() -> Iterator[Collection[int]]:
    """Block the signals that are passed on, and yield the mask that was in force before.

    Threads inherit the block: enter this before a library starts any.  Not to be nested.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    try:
        yield mask
    finally:
        # Whoever pressed Ctrl-C while the result was being written wanted the program to end,
        # and it has.
        while signal.sigtimedwait(PASSED_ON, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def stop_if_interrupted() -> None:
    """Raise ``KeyboardInterrupt`` if a held signal has come: there is no program to get it yet."""
    if signal.sigtimedwait(PASSED_ON, 0) is not None:
        raise KeyboardInterrupt


class Forwarder(threading.Thread):
    """Passes held signals on to a program while it runs; calls ``tick`` now and then.

    ``processes`` gives the recorded processes that are alive.
    """

    def __init__(
        self, root: int, processes: Callable[[], Collection[int]], tick: Callable[[], None]
    ) -> None:
        super().__init__(name="signals", daemon=True)
        self._root = root
        self._processes = processes
        self._tick = tick
        self._over = threading.Event()
        self._asked_to_end = False

    def __enter__(self) -> Forwarder:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.ident is not None and self.is_alive():
            signal.pthread_kill(self.ident, signal.SIGUSR2)  # wakes it
        self.join()

    def run(self) -> None:
        """Wait for signals until the ``with`` block ends."""
        while not self._over.is_set():
            came = signal.sigtimedwait(PASSED_ON, TICK_S)
            if self._over.is_set():
                return
            if came is not None:
                self._pass_on(came)
            self._tick()

    def _pass_on(self, came: signal.struct_siginfo) -> None:
        alive = self._processes()
        if self._root not in alive:
            self._end(alive)
        # From the kernel (the terminal), or from one of its own to the whole process group: the
        # program has got it too.
        elif came.si_code <= 0 and came.si_pid not in alive:
            _send(self._root, came.si_signo)

    def _end(self, alive: Collection[int]) -> None:
        """End what runs on after the program itself has ended; the second time for certain."""
        for process in alive:
            _send(process, signal.SIGKILL if self._asked_to_end else signal.SIGTERM)
        self._asked_to_end = True


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
