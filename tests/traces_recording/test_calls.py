"""The tables of system calls."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from nicscope.errors import RecordError
from nicscope.traces.recording.calls import CALLS, MACHINES, NAMES, this_machine

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_has_a_number_of_its_own_for_each_call(name: str) -> None:
    numbers = MACHINES[name].numbers

    assert set(numbers) == set(NAMES)
    assert len(set(numbers.values())) == len(CALLS)


@pytest.mark.parametrize("name", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip(f"{HEADERS[name]} is not installed here")
    text = HEADERS[name].read_text()
    defined = dict(re.findall(r"#define (__NR\w+)\s+(\w+)", text))

    for call, number in MACHINES[name].numbers.items():
        found = defined.get(f"__NR_{call}", "")
        # On some machines a call goes through a second name, such as __NR3264_sendfile.
        assert int(defined.get(found, found)) == number


def test_a_machine_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(RecordError, match=r"'riscv64'.*strace"):
        this_machine()


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    with pytest.raises(RecordError, match=r"needs Linux.*'darwin'"):
        this_machine()
