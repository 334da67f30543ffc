"""The seccomp filter, run by an interpreter of the few BPF instructions that it uses."""

from __future__ import annotations

import struct

import pytest

from nicscope.traces.recording.calls import MACHINES, filter_program

ALLOW, TRACE = 0x7FFF0000, 0x7FF00000


def verdict(program: bytes, number: int, arch: int) -> int:
    """What the kernel does on a call: see its filter.rst, struct seccomp_data."""
    call = struct.pack("=iIQ6Q", number, arch, 0, *[0] * 6)
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, operand = instructions[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", call, operand)
        elif code == 0x15:
            at += if_true if accumulator == operand else if_false
        else:
            assert code == 0x06
            return int(operand)


@pytest.mark.parametrize("name", MACHINES)
def test_the_filter_stops_at_the_calls_of_interest_and_at_no_other(name: str) -> None:
    machine = MACHINES[name]
    program = filter_program(machine)

    stopped_at = {n for n in range(1000) if verdict(program, n, machine.audit_arch) == TRACE}

    assert stopped_at == set(machine.numbers.values())
    assert verdict(program, 999, machine.audit_arch) == ALLOW


def test_the_filter_stops_at_every_call_of_foreign_code() -> None:
    i386 = 0x40000003

    assert verdict(filter_program(MACHINES["x86_64"]), 0, i386) == TRACE
