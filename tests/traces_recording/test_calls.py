"""The tables of system calls, and the seccomp filter, run by an interpreter of what it uses."""

import platform
import re
import struct
from pathlib import Path

import pytest

from nicscope.errors import RecordError
from nicscope.traces.recording.ptrace import CALLS, MACHINES, NAMES, filter_program, this_machine

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_has_a_number_of_its_own_for_each_call(name):
    numbers = MACHINES[name].numbers

    assert set(numbers) == set(NAMES)
    assert len(set(numbers.values())) == len(CALLS)


@pytest.mark.parametrize("name", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(name):
    if not HEADERS[name].exists():
        pytest.skip(f"{HEADERS[name]} is not installed here")
    text = HEADERS[name].read_text()
    defined = dict(re.findall(r"#define (__NR\w+)\s+(\w+)", text))

    for call, number in MACHINES[name].numbers.items():
        found = defined.get(f"__NR_{call}", "")
        # On some machines a call goes through a second name, such as __NR3264_sendfile.
        assert int(defined.get(found, found)) == number


def test_a_machine_that_is_not_known_is_named(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(RecordError, match=r"'riscv64'.*strace"):
        this_machine()


def test_another_system_is_named(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")

    with pytest.raises(RecordError, match=r"needs Linux.*'darwin'"):
        this_machine()


ALLOW, TRACE = 0x7FFF0000, 0x7FF00000


def verdict(program, number, arch):
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
def test_the_filter_stops_at_the_calls_of_interest_and_at_no_other(name):
    machine = MACHINES[name]
    program = filter_program(machine)

    stopped_at = {n for n in range(1000) if verdict(program, n, machine.audit_arch) == TRACE}

    assert stopped_at == set(machine.numbers.values())
    assert verdict(program, 999, machine.audit_arch) == ALLOW


def test_the_filter_stops_at_every_call_of_foreign_code():
    i386 = 0x40000003

    assert verdict(filter_program(MACHINES["x86_64"]), 0, i386) == TRACE
