"""What the kernel offers a tracer: a filter for calls that move bytes, ptrace(2), memory of others.

A seccomp filter lets all calls but those that move bytes through sockets pass without a stop.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import os
import platform
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import RecordError

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


class Shape(enum.Enum):
    """How a call passes its buffers; ``segments`` tells which arguments these are."""

    BUFFER = enum.auto()  # (fd, address, length)
    VECTOR = enum.auto()  # (fd, iovec *, count)
    MESSAGE = enum.auto()  # (fd, msghdr *)
    MESSAGES = enum.auto()  # (fd, mmsghdr *, count)
    COPY = enum.auto()  # inside the kernel: no user buffer, the result is a number of bytes
    RING = enum.auto()  # requests in shared memory: cannot be seen from here


class Call(NamedTuple):
    """One system call that moves bytes."""

    name: str
    x86_64: int  # its number there
    aarch64: int
    shape: Shape
    receives: bool = False
    # Arguments that hold a descriptor which may be something other than a socket; empty where
    # the call fails on anything else anyway.
    descriptors: tuple[int, ...] = ()


# Numbers: asm/unistd_64.h and asm-generic/unistd.h of Linux 6.
CALLS: tuple[Call, ...] = (
    Call("read", 0, 63, Shape.BUFFER, True, (0,)),
    Call("write", 1, 64, Shape.BUFFER, False, (0,)),
    Call("readv", 19, 65, Shape.VECTOR, True, (0,)),
    Call("writev", 20, 66, Shape.VECTOR, False, (0,)),
    Call("preadv2", 327, 286, Shape.VECTOR, True, (0,)),  # with offset -1 they take sockets
    Call("pwritev2", 328, 287, Shape.VECTOR, False, (0,)),
    Call("recvfrom", 45, 207, Shape.BUFFER, True),
    Call("sendto", 44, 206, Shape.BUFFER, False),
    Call("recvmsg", 47, 212, Shape.MESSAGE, True),
    Call("sendmsg", 46, 211, Shape.MESSAGE, False),
    Call("recvmmsg", 299, 243, Shape.MESSAGES, True),
    Call("sendmmsg", 307, 269, Shape.MESSAGES, False),
    Call("sendfile", 40, 71, Shape.COPY, False, (0,)),
    Call("splice", 275, 76, Shape.COPY, False, (0, 2)),
    Call("io_uring_setup", 425, 425, Shape.RING),
    Call("io_uring_enter", 426, 426, Shape.RING),
)
NAMES: tuple[str, ...] = tuple(call.name for call in CALLS)
CODES: dict[str, int] = {name: code for code, name in enumerate(NAMES)}


class Machine(NamedTuple):
    """The kernel's name of this architecture, and its system call numbers."""

    audit_arch: int  # AUDIT_ARCH_*, linux/audit.h
    numbers: dict[str, int]  # by name of the call


MACHINES: dict[str, Machine] = {
    "x86_64": Machine(0xC000003E, {call.name: call.x86_64 for call in CALLS}),
    "aarch64": Machine(0xC00000B7, {call.name: call.aarch64 for call in CALLS}),
}


def this_machine() -> Machine:
    """The table of the architecture that this process runs on.

    Errors: ``RecordError`` if it is not Linux on a machine whose numbers are known.
    """
    if not sys.platform.startswith("linux"):
        raise RecordError(f"recording needs Linux, and this is {sys.platform!r}; record there")
    name = platform.machine()
    if name not in MACHINES or sys.maxsize < 2**32:
        raise RecordError(
            f"recording works on {' and '.join(MACHINES)}, 64 bits, and this is {name!r}; record "
            "with strace and import its log with 'nicscope trace convert'"
        )
    return MACHINES[name]


# linux/bpf_common.h, linux/seccomp.h, linux/prctl.h
_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_JUMP_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_TRACE = 0x7FF00000
_NUMBER_AT = 0  # offsets in struct seccomp_data
_ARCH_AT = 4
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_MODE_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def filter_program(machine: Machine) -> bytes:
    """A BPF program that stops at the calls of ``machine``, and at every call of a foreign ABI."""
    numbers = list(machine.numbers.values())
    to_trace = len(numbers)  # instructions from the first comparison to "return trace"
    code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_JUMP_IF_EQUAL, 1, 0, machine.audit_arch),
        (_RETURN, 0, 0, _TRACE),
        (_LOAD, 0, 0, _NUMBER_AT),
        *((_JUMP_IF_EQUAL, to_trace - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _TRACE),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def install_filter(program: bytes) -> None:
    """Put this process and all its descendants under the seccomp filter ``program``.

    Also gives up what set-user-id programs would gain: the kernel asks that of ordinary users.
    Errors: ``OSError``.
    """
    code = ctypes.create_string_buffer(program, len(program))
    header = _Program(len(program) // 8, ctypes.addressof(code))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)
    _prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))


def _prctl(option: int, first: int, second: int) -> None:
    arguments = [ctypes.c_ulong(value) for value in (first, second, 0, 0)]
    if _libc.prctl(option, *arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
