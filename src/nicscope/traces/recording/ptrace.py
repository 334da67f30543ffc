"""ptrace(2), waiting for the traced, and the signals that end a recording.

The terminal sends Ctrl-C to the recorder and to the program alike, since they share its
foreground process group; what somebody sends to the recorder alone has to be passed on.  Only
``siginfo`` tells the two apart, and Python's handlers do not get it, so the signals are blocked
and a thread waits for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

# linux/ptrace.h, linux/wait.h
CONTINUE = 7  # PTRACE_CONT
TO_NEXT_STOP = 24  # PTRACE_SYSCALL: run to the end of the system call
LISTEN = 0x4208  # stay stopped, but hear of SIGCONT
_SEIZE = 0x4206
_GET_EVENT_MESSAGE = 0x4201
_GET_SYSCALL_INFO = 0x420E

_MARK_CALL_STOPS = 0x01  # TRACESYSGOOD
_FORK, _VFORK, _CLONE, _EXEC, _SECCOMP = 1, 2, 3, 4, 7  # events; as options, 1 << event
_STOP = 128
_KILL_WITH_TRACER = 1 << 20  # EXITKILL
_OPTIONS = (
    _MARK_CALL_STOPS
    | 1 << _FORK
    | 1 << _VFORK
    | 1 << _CLONE
    | 1 << _EXEC
    | 1 << _SECCOMP
    | _KILL_WITH_TRACER
)

_SIGTRAP = 5
# The reasons of a stop, as ``wait_for_stop`` gives them.
AT_CALL = _SECCOMP << 8 | _SIGTRAP
AFTER_CALL = _SIGTRAP | 0x80
AFTER_EXEC = _EXEC << 8 | _SIGTRAP
AFTER_CLONE = frozenset(event << 8 | _SIGTRAP for event in (_FORK, _VFORK, _CLONE))

_WALL = 0x40000000  # threads too
_WNOTHREAD = 0x20000000  # what this thread traces, and no other thread's children
_WAIT_OPTIONS = _WALL | _WNOTHREAD

# PyDLL keeps the interpreter's lock: neither call ever waits, and letting go costs more than they.
_libc = ctypes.PyDLL(None, use_errno=True)
_ptrace = _libc.ptrace
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_ptrace.restype = ctypes.c_long
_readv = _libc.process_vm_readv
_readv.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_ulong,
)
_readv.restype = ctypes.c_ssize_t

# struct ptrace_syscall_info
_INFO = ctypes.create_string_buffer(96)
_INFO_ADDRESS = ctypes.addressof(_INFO)
_ENTRY = struct.Struct("=24xQ6QI")  # number, arguments, what the filter says
_RESULT = struct.Struct("=24xq")

PIECE = struct.Struct("=QQ")  # struct iovec
MOST_PIECES = 1024  # UIO_MAXIOV
_MEMORY_SIZE = 1 << 14
_MEMORY = ctypes.create_string_buffer(_MEMORY_SIZE)  # making one takes as long as the call


class CallEntry(NamedTuple):
    """A system call about to be made."""

    number: int
    arguments: Sequence[int]  # six registers, unsigned 64 bits
    remark: int  # of the filter that stopped it


def seize(tid: int) -> None:
    """Trace ``tid`` and all that it will start; they die with this process.

    Errors: ``OSError``.
    """
    if _ptrace(_SEIZE, tid, 0, _OPTIONS) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def wait_for_stop() -> tuple[int, int]:
    """The next traced thread that stopped or ended, and its status as ``waitpid`` has it.

    Errors: ``ChildProcessError`` once there is none left.
    """
    return os.waitpid(-1, _WAIT_OPTIONS)


def is_pause(reason: int) -> bool:
    """Whether a stop says that its thread has stopped with its whole process, or goes on."""
    return reason >> 8 == _STOP


def resume(tid: int, request: int, signal: int = 0) -> None:
    """Let a stopped thread go on, delivering ``signal`` if it is not 0.

    One that was killed while it was stopped is none of our business any more: its end will be
    reported.
    """
    if _ptrace(request, tid, 0, signal) < 0 and ctypes.get_errno() != errno.ESRCH:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def call_entry(tid: int) -> CallEntry | None:
    """The call that a stopped thread is about to make; None if it was killed meanwhile."""
    if not _read_info(tid):
        return None
    number, *arguments, remark = _ENTRY.unpack_from(_INFO)
    return CallEntry(number, arguments, remark)


def call_result(tid: int) -> int | None:
    """What the call of a stopped thread returned, -errno if it failed; None if it was killed."""
    if not _read_info(tid):
        return None
    result: int = _RESULT.unpack_from(_INFO)[0]
    return result


def _read_info(tid: int) -> bool:
    if _ptrace(_GET_SYSCALL_INFO, tid, len(_INFO), _INFO_ADDRESS) > 0:
        return True
    number = ctypes.get_errno()
    if number == errno.ESRCH:
        return False
    raise OSError(number, os.strerror(number))


def event_message(tid: int) -> int | None:
    """What an event stop has to add: the thread's former id after exec; None if it was killed."""
    message = ctypes.c_ulong()
    if _ptrace(_GET_EVENT_MESSAGE, tid, 0, ctypes.addressof(message)) < 0:
        return None
    return message.value


def remote_bytes(tid: int, pieces: Sequence[tuple[int, int]]) -> bytes | None:
    """The memory of ``tid`` at (address, size) after (address, size); None if not readable."""
    chunks = []
    for first in range(0, len(pieces), MOST_PIECES):
        chunk = _remote_chunk(tid, pieces[first : first + MOST_PIECES])
        if chunk is None:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _remote_chunk(tid: int, pieces: Sequence[tuple[int, int]]) -> bytes | None:
    size = sum([size for _, size in pieces])
    into = _MEMORY if size <= _MEMORY_SIZE else ctypes.create_string_buffer(size)
    local = PIECE.pack(ctypes.addressof(into), size)
    remote = b"".join([PIECE.pack(*piece) for piece in pieces])
    if _readv(tid, local, 1, remote, len(pieces), 0) != size:
        return None
    return memoryview(into)[:size].tobytes()


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

_signal_libc = ctypes.CDLL(None)
_SIGNAL_SET = sum(1 << (number - 1) for number in PASSED_ON).to_bytes(128, "little")  # sigset_t
_SIGNAL_INFO = struct.Struct("=iiixxxxi")  # siginfo_t: number, errno, code, sender
_SIGNAL_INFO_SIZE = 128
_TIME = struct.Struct("=qq")  # struct timespec


class Came(NamedTuple):
    """A signal that was waited for."""

    number: int
    code: int  # above 0: from the kernel
    sender: int  # process, if it came from one


def wait_for_signal(seconds: float) -> Came | None:
    """The next held signal; None if none comes in time, or this process was stopped meanwhile.

    Python's ``signal.sigtimedwait`` makes up a signal when a stop outlasts the time.
    """
    info = ctypes.create_string_buffer(_SIGNAL_INFO_SIZE)
    time = _TIME.pack(int(seconds), int(seconds % 1 * 1e9))
    if _signal_libc.sigtimedwait(_SIGNAL_SET, info, time) < 0:
        return None
    number, _, code, sender = _SIGNAL_INFO.unpack_from(info)
    return Came(number, code, sender)


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
        while wait_for_signal(0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def stop_if_interrupted() -> None:
    """Raise ``KeyboardInterrupt`` if a held signal has come: there is no program to get it yet."""
    if wait_for_signal(0) is not None:
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
            came = wait_for_signal(TICK_S)
            if self._over.is_set():
                return
            if came is not None:
                self._pass_on(came)
            self._tick()

    def _pass_on(self, came: Came) -> None:
        alive = self._processes()
        if self._root not in alive:
            self._end(alive)
        # From the kernel (the terminal), or from one of its own to the whole process group: the
        # program has got it too.
        elif came.code <= 0 and came.sender not in alive:
            _send(self._root, came.number)

    def _end(self, alive: Collection[int]) -> None:
        """End what runs on after the program itself has ended; the second time for certain."""
        for process in alive:
            _send(process, signal.SIGKILL if self._asked_to_end else signal.SIGTERM)
        self._asked_to_end = True


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
