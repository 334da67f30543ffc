"""The system calls that move bytes through sockets, and their numbers on each machine.

A seccomp filter lets all others pass without a stop.
"""

from __future__ import annotations

import ctypes
import enum
import os
import platform
import struct
import sys
from typing import NamedTuple

from nicscope.errors import RecordError


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

_libc = ctypes.CDLL(None, use_errno=True)


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
