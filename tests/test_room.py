"""What does not fit into memory is refused before it is allocated, with what it would need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nicscope import room
from nicscope.cli.app import main
from nicscope.errors import RoomError
from nicscope.room import check_room, free_bytes
from nicscope.traces.writer import write_trace

GIB = 1 << 30


def test_what_is_free_is_known_and_bounded_by_a_limit():
    free = free_bytes()
    assert 0 < free < 1 << 50

    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
        "from nicscope.room import free_bytes; print(free_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert 0 < int(done.stdout) < 3 * GIB


def test_what_fits_is_let_through_and_what_does_not_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda: 2 * GIB)

    check_room(2 * GIB, "this", "do that")
    with pytest.raises(RoomError) as caught:
        check_room(16 * GIB, "this", "do that")
    assert str(caught.value) == "this needs 16.0 GiB of memory and 2.0 GiB is free; do that"


def test_little_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda: pytest.fail("asked"))

    check_room(room.WORTH_ASKING - 1, "this", "do that")


@pytest.fixture
def long_request(tmp_path):
    columns = {"time_ns": [0], "node": [0], "pid": [1], "op": ["recv"], "address": [0]}
    write_trace(tmp_path / "t.parquet", columns | {"length": [2**32 - 1]})
    return tmp_path / "t.parquet"


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        (["simulate", "--design", "utlb"], "2,097,153 pages of 4096 bytes, with every byte, on 2"),
        (["replay", "--design", "utlb"], "1,065,008 pages apart"),
        (["curve"], "1,065,008 pages apart"),
        (["size", "--nic-memory", "64KiB"], "1,065,008 pages apart"),
        (["trace", "info"], "pages or objects apart"),
        (["sweep", "--design", "utlb", "--grid", "entries=64,128"], "keeping"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_request_of_4_gib_is_refused_where_it_does_not_fit(
    command, needs, long_request, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(room, "WORTH_ASKING", 0)
    monkeypatch.setattr(room, "free_bytes", lambda: 1 << 20)
    if command[0] == "simulate":
        monkeypatch.setattr(room, "free_bytes", lambda: 8 * GIB)
    names = command[: 2 if command[0] == "trace" else 1]
    options = command[len(names) :]
    if command[0] == "sweep":
        options += ["--out", str(tmp_path / "s.parquet")]

    assert main([*names, str(long_request), *options]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    [line] = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert needs in line
    assert "GiB of memory and " in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet"]
