"""Signals to the recorder: those to forward to the program, and those that end a recording.

The terminal sends Ctrl-C to the recorder and to the program alike, since they share its
foreground process group; what somebody sends to the recorder alone has to be passed on.  Only
``siginfo`` tells the two apart, and Python's handlers do not get it, so the signals are blocked
and waited for.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

HELD = frozenset(
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

_libc = ctypes.CDLL(None)
_SIGNAL_INFO = struct.Struct("=iiixxxxi")  # siginfo_t: number, errno, code, sender
_SIGNAL_INFO_SIZE = 128
_TIME = struct.Struct("=qq")  # struct timespec


def _sigset(numbers: Iterable[int]) -> bytes:
    return sum(1 << (number - 1) for number in numbers).to_bytes(128, "little")


_HELD = _sigset(HELD)
_HELD_OR_STOP = _sigset(HELD | {signal.SIGCHLD})


class ReceivedSignal(NamedTuple):
    """A signal that was received."""

    number: int
    code: int  # above 0: from the kernel
    sender: int  # process, if it came from one


def wait_for_signal(seconds: float, or_stop: bool = False) -> ReceivedSignal | None:
    """The next held signal; None if none comes in time, or this process was stopped meanwhile.

    ``or_stop``: also None as soon as a traced thread stops or ends.  Python's
    ``signal.sigtimedwait`` makes up a signal when a stop outlasts the time.
    """
    info = ctypes.create_string_buffer(_SIGNAL_INFO_SIZE)
    time = _TIME.pack(int(seconds), int(seconds % 1 * 1e9))
    if _libc.sigtimedwait(_HELD_OR_STOP if or_stop else _HELD, info, time) < 0:
        return None
    number, _, code, sender = _SIGNAL_INFO.unpack_from(info)
    return None if number == signal.SIGCHLD else ReceivedSignal(number, code, sender)


@contextlib.contextmanager
def held_signals() -> Iterator[Collection[int]]:
    """Block the signals of ``wait_for_signal``; yields the previous mask.

    Threads inherit the block: enter this before a library starts any.  Not to be nested.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, HELD | {signal.SIGCHLD})
    try:
        yield mask
    finally:
        # Whoever pressed Ctrl-C while the result was being written wanted the program to end,
        # and it has.
        while wait_for_signal(0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def never_paused() -> Iterator[None]:
    """Ignore stop signals: a waiting parent would wait for ever."""
    pauses = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
    taken = {number: signal.signal(number, signal.SIG_IGN) for number in pauses}
    # Whoever ignores this one does not hear that a thread has stopped.
    taken[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        for number, before in taken.items():
            signal.signal(number, before)


def stop_if_interrupted() -> None:
    """Raise ``KeyboardInterrupt`` if a held signal is pending: no program runs yet to get it."""
    if wait_for_signal(0) is not None:
        raise KeyboardInterrupt


class Ticker(threading.Thread):
    """Calls ``tick`` periodically while a ``with`` block runs."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__(name="ticks", daemon=True)
        self._tick = tick
        self._over = threading.Event()

    def __enter__(self) -> Ticker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Tick until the ``with`` block ends."""
        while not self._over.wait(TICK_S):
            self._tick()


class Forwarder(threading.Thread):
    """Forwards held signals to a program while it runs; calls ``tick`` periodically.

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
            came = wait_for_signal(TICK_S)
            if self._over.is_set():
                return
            if came is not None:
                self._pass_on(came)
            self._tick()

    def _pass_on(self, came: ReceivedSignal) -> None:
        alive = self._processes()
        if self._root not in alive:
            self._end(alive)
        # From the kernel (the terminal), or from one of its own to the whole process group: the
        # program has got it too.
        elif came.code <= 0 and came.sender not in alive:
            _send(self._root, came.number)

    def _end(self, alive: Collection[int]) -> None:
        """Terminate processes that outlive the program; kill them the second time."""
        for process in alive:
            _send(process, signal.SIGKILL if self._asked_to_end else signal.SIGTERM)
        self._asked_to_end = True


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
