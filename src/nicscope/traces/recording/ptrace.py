"""ptrace(2), why the kernel may refuse it, and reading memory of traced threads."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def why_refused(name: str, error: OSError, tracer: str | None) -> str:
    """One line saying why the process called ``name`` may not be traced, and what to do about it.

    ``error`` is what the kernel said, ``tracer`` who traces it already.
    """
    if tracer is not None:
        return (
            f"{name} cannot be recorded: it is traced by {tracer} already, and Linux allows one "
            "tracer only; start 'nicscope record' outside of it"
        )
    scope = yama_scope()
    if scope >= 2:
        return (
            f"{name} cannot be recorded: this machine forbids tracing "
            f"(kernel.yama.ptrace_scope is {scope}); "
            + ("reboot with it below 3" if scope > 2 else "record as root")
        )
    return (
        f"{name} cannot be recorded: the kernel refuses to trace it ({error.strerror}); in a "
        "container, start that with --cap-add=SYS_PTRACE"
    )


def tracer_of(pid: int) -> str | None:
    """Name and number of the process that traces ``pid``."""
    tracer = int(status_of(pid).get("TracerPid", 0))
    if not tracer:
        return None
    return f"{status_of(tracer).get('Name', '?')!r} (process {tracer})"


def status_of(pid: int) -> dict[str, str]:
    """The fields of ``/proc/PID/status``; none if there is no such process or it is hidden."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(errors="backslashreplace")
    except OSError:
        return {}
    fields = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in fields}


def yama_scope() -> int:
    """Yama's ptrace scope: 0 same user, 1 ancestors, 2 root, 3 nobody."""
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0


# linux/ptrace.h, linux/wait.h: how a stopped thread goes on.
CONTINUE = 7  # PTRACE_CONT: to the next call that its filter stops it at
TO_NEXT_STOP = 24  # PTRACE_SYSCALL: to the beginning or end of a call, whichever comes next
DETACH = 17  # untraced from here on
LISTEN = 0x4208  # not at all, but hear of SIGCONT
_SEIZE = 0x4206
_INTERRUPT = 0x4207
_GET_EVENT_MESSAGE = 0x4201
_GET_SYSCALL_INFO = 0x420E

_MARK_CALL_STOPS = 0x01  # TRACESYSGOOD
_FORK, _VFORK, _CLONE, _EXEC, _SECCOMP = 1, 2, 3, 4, 7  # events; as options, 1 << event
_STOP = 128
_FOLLOW = _MARK_CALL_STOPS | 1 << _FORK | 1 << _VFORK | 1 << _CLONE | 1 << _EXEC
_AT_FILTER = 1 << _SECCOMP
_KILL_WITH_TRACER = 1 << 20  # EXITKILL

_SIGTRAP = 5
_STOPPED = 0x7F  # a status's low byte
# The status of a thread that stopped before a call or after it.
AT_CALL = frozenset(
    reason << 8 | _STOPPED for reason in (_SECCOMP << 8 | _SIGTRAP, _SIGTRAP | 0x80)
)
# The reasons of other stops, in the bytes of a status above that.
AFTER_EXEC = _EXEC << 8 | _SIGTRAP
AFTER_CLONE = frozenset(event << 8 | _SIGTRAP for event in (_FORK, _VFORK, _CLONE))

_WALL = 0x40000000  # threads too
_WNOTHREAD = 0x20000000  # what this thread traces, and no other thread's children
_WAIT_OPTIONS = _WALL | _WNOTHREAD

# PyDLL keeps the interpreter's lock: neither call ever waits, and letting go costs more than they.
_libc = ctypes.PyDLL(None, use_errno=True)
# Without argument types, as checking those takes longer than the call: give numbers below 2**31,
# and pointers as arrays or bytes.
_ptrace = _libc.ptrace
_readv = _libc.process_vm_readv
_readv.restype = ctypes.c_ssize_t

# struct ptrace_syscall_info
_INFO = ctypes.create_string_buffer(96)
_INFO_SIZE = len(_INFO)
# What the stop is, audit_arch; number of the call or its result, then its arguments.
_CALL = struct.Struct("=B3xI16xq6Q")
_RETURNING = 2  # PTRACE_SYSCALL_INFO_EXIT

PIECE = struct.Struct("=QQ")  # struct iovec
MOST_PIECES = 1024  # UIO_MAXIOV
_MEMORY_SIZE = 1 << 14
_MEMORY = ctypes.create_string_buffer(_MEMORY_SIZE)  # making one takes as long as the call


# A system call about to be made: AUDIT_ARCH_* of the code that makes it, its number, and its
# arguments, six registers of unsigned 64 bits.
CallEntry = tuple[int, int, list[int]]


def seize_with_exitkill(tid: int) -> None:
    """Trace ``tid``, which has a filter, and all its descendants; they die with this process.

    Errors: ``OSError``.
    """
    _request(_SEIZE, tid, _FOLLOW | _AT_FILTER | _KILL_WITH_TRACER)


def seize_detachable(tid: int) -> None:
    """Trace ``tid`` and all its descendants, and stop it; they outlive this process.

    Errors: ``OSError``.
    """
    _request(_SEIZE, tid, _FOLLOW)
    interrupt(tid)


def interrupt(tid: int) -> None:
    """Stop a traced thread, whatever it does; nothing happens to one that has ended."""
    resume(tid, _INTERRUPT)


def wait_for_stop() -> tuple[int, int]:
    """The next traced thread that stopped or ended, and its status as ``waitpid`` has it.

    Errors: ``ChildProcessError`` once there is none left.
    """
    return os.waitpid(-1, _WAIT_OPTIONS)


def pending_stop() -> tuple[int, int] | None:
    """The next stop as of ``wait_for_stop``, or None if there is none yet."""
    tid, status = os.waitpid(-1, _WAIT_OPTIONS | os.WNOHANG)
    return (tid, status) if tid else None


def is_group_stop(reason: int) -> bool:
    """Whether a stop is a group-stop of the whole process, or the end of one."""
    return reason >> 8 == _STOP


def resume(tid: int, request: int, signal: int = 0) -> bool:
    """Continue a stopped thread, delivering ``signal`` if it is not 0; False if it has ended.

    One that was killed while it was stopped is none of our business any more: its end will be
    reported.
    """
    if _ptrace(request, tid, 0, signal) >= 0:
        return True
    number = ctypes.get_errno()
    if number == errno.ESRCH:
        return False
    raise OSError(number, os.strerror(number))


def call_at_stop(tid: int) -> CallEntry | int | None:
    """The system call that a stopped thread is entering, or the result of the one that it leaves.

    A result is -errno if the call failed.  None if the thread was killed meanwhile.
    """
    if _ptrace(_GET_SYSCALL_INFO, tid, _INFO_SIZE, _INFO) <= 0:
        number = ctypes.get_errno()
        if number == errno.ESRCH:
            return None
        raise OSError(number, os.strerror(number))
    stop, audit_arch, first, *arguments = _CALL.unpack_from(_INFO)
    if stop == _RETURNING:
        return int(first)
    return audit_arch, first, arguments


def event_message(tid: int) -> int | None:
    """The message of an event stop: the thread's former id after exec; None if it was killed."""
    message = ctypes.c_ulong()
    if _ptrace(_GET_EVENT_MESSAGE, tid, 0, ctypes.byref(message)) < 0:
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


def _request(request: int, tid: int, data: int) -> None:
    if _ptrace(request, tid, 0, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
