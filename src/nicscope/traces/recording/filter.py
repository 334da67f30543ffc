"""The seccomp filter that stops a program at the calls of interest and at nothing else."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nicscope.traces.recording.calls import Machine

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

# What the filter says, besides "stop", of a call made by 32-bit code.
FOREIGN = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def filter_program(machine: Machine) -> bytes:
    """BPF code: stop at the calls of ``machine``, and at every call of foreign code."""
    numbers = list(machine.numbers.values())
    to_trace = len(numbers)  # instructions from the first comparison to "return trace"
    code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_JUMP_IF_EQUAL, 1, 0, machine.audit_arch),
        (_RETURN, 0, 0, _TRACE | FOREIGN),
        (_LOAD, 0, 0, _NUMBER_AT),
        *((_JUMP_IF_EQUAL, to_trace - i, 0, number) for i, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _TRACE),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def install_filter(program: bytes) -> None:
    """Put this process, and all that it will ever start, under ``program``.

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
