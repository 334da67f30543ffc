"""How bytes come to be in a program's memory, and how they are read from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nicscope.live.build import HERE, compiler

SPINS = 20_000


@pytest.fixture
def run(libraries, tmp_path):
    """Runs a C program that lies here; the numbers that it prints, line by line."""

    def made(name, *given):
        program, source = tmp_path / name, Path(__file__).with_name(f"{name}.c")
        words = [compiler(), "-O2", "-Wall", "-Wextra", "-Werror", f"-I{HERE}", f"-I{libraries}"]
        subprocess.run([*words, str(source), "-o", str(program)], check=True)
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
    assert run("last_byte", "order", *asked) == copies


@pytest.mark.parametrize("step", [4096, 65536])  # a packet, a burst
@pytest.mark.parametrize("size", [8, 64, 4096, 8192, 65536])
def test_who_sees_the_last_byte_sees_all(run, size, step):
    begins = range(0, size, step)
    asked = [number for begin in begins for number in (begin, min(begin + step, size))]

    assert run("last_byte", "spin", SPINS, *asked) == [(0,)]


MIB = 1 << 20
HALF = 2 * MIB  # of the memory of ``read_ahead.c``


def test_what_a_program_sends_again_is_read_once_until_it_posts_more(run):
    reads = [
        word for begin in range(0, MIB, MIB // 16) for word in ("own", begin, begin + MIB // 16)
    ]

    told = run("read_ahead", "change", *reads, *reads, "change", "post", *reads)

    assert [calls for _, _, calls in told] == [*range(1, 17), *[16] * 16, *range(17, 33)]
    assert all(oldest == 0 for oldest, _, _ in told)


def test_small_messages_side_by_side_are_read_together(run):
    reads = [word for begin in range(64, 4096, 64) for word in ("own", begin, begin + 64)]

    told = run("read_ahead", "own", 0, 64, *reads)

    assert told[-1][2] == 2


@pytest.mark.parametrize("size", [8, 64, 4096, 65536])
def test_an_answer_to_a_peer_has_the_bytes_as_they_are_then(run, size):
    """A peer that reads a flag, and then the data that it announces, relies on their order."""
    steps = ("own", 0, size, "answer", 0, size, "change", "answer", 0, size, "change")

    told = run("read_ahead", *steps, "own", 0, size, "answer", 0, size, "own", 0, size)

    ages = [oldest for oldest, _, _ in told]
    assert ages == [0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("begin", "end", "calls"),
    [
        (HALF, HALF + 64, 2),  # its first page, by the frame of another region
        (HALF + 8192, HALF + 8256, 2),
        (HALF + 8256, HALF + 8320, 1),  # behind it
        (0, 64, 1),  # its own frame, which has the bytes that arrive
    ],
)
def test_what_arrives_by_another_regions_frame_is_read_anew(run, begin, end, calls):
    read = ("own", 0, 8256)

    told = run("read_ahead", "double", "change", *read, "arrive", begin, end, *read)

    ages = [newest for _, newest, _ in told]
    assert told[1][2] == calls
    assert ages == ([0, 0] if calls == 2 or begin == 0 else [0, 1])
