"""The order in which bytes that arrive come to be in a program's memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nicscope.live.build import HERE, compiler

SPINS = 20_000


@pytest.fixture
def run(libraries, tmp_path):
    """Runs ``last_byte.c``; the numbers that it prints, line by line."""
    program, source = tmp_path / "last_byte", Path(__file__).with_name("last_byte.c")
    words = [compiler(), "-O2", "-Wall", "-Wextra", "-Werror", f"-I{HERE}", f"-I{libraries}"]
    subprocess.run([*words, str(source), "-o", str(program)], check=True)

    def made(*given):
        told = subprocess.run(
            [program, *map(str, given)], capture_output=True, text=True, timeout=300, check=True
        )
        return [tuple(map(int, line.split())) for line in told.stdout.splitlines()]

    return made


@pytest.mark.parametrize(
    ("pieces", "copies"),
    [
        ([(0, 8)], [(0, 8)]),
        ([(0, 64)], [(0, 56), (56, 64)]),
        ([(3, 5001)], [(3, 5000), (5000, 5001)]),
        # Two messages, either of which a program may wait for.
        ([(0, 64), (64, 200)], [(0, 56), (56, 64), (64, 192), (192, 200)]),
        # A flag in front of data that came before it, and in the midst of them.
        ([(64, 200), (0, 64)], [(64, 192), (192, 200), (0, 56), (56, 64)]),
        ([(0, 200), (8, 16)], [(0, 192), (192, 200), (8, 16)]),
        ([(0, 64), (0, 64)], [(0, 56), (56, 64)]),
    ],
)
def test_the_last_bytes_of_what_arrives_are_copied_after_all_others(run, pieces, copies):
    asked = [number for piece in pieces for number in piece]
    assert run("order", *asked) == copies


@pytest.mark.parametrize("step", [4096, 65536])  # a packet, a burst
@pytest.mark.parametrize("size", [8, 64, 4096, 8192, 65536])
def test_who_sees_the_last_byte_sees_all(run, size, step):
    begins = range(0, size, step)
    asked = [number for begin in begins for number in (begin, min(begin + step, size))]

    assert run("spin", SPINS, *asked) == [(0,)]
