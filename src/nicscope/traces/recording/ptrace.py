"""The kernel's ptrace interface, through libc: stops, system call details, remote memory."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
