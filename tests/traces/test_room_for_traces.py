"""A trace for which there is no memory is refused before any is taken, with what it would need."""

import pytest

from nicscope import memory_limit
from nicscope.cli.app import main
from nicscope.traces.writer import write_trace

GIB = 1 << 30


@pytest.fixture
def long_request(tmp_path):
    columns = {"time_ns": [0], "node": [0], "pid": [1], "op": ["recv"], "address": [0x3000]}
    write_trace(tmp_path / "t.parquet", columns | {"length": [2**32 - 1]})
    return tmp_path / "t.parquet"


@pytest.mark.compiled  # a million pages are told apart
@pytest.mark.parametrize(
    ("command", "needs"),
    [
        (["simulate", "--design", "utlb"], "pages of 4096 bytes, with every byte, on 2"),
        (["replay", "--design", "utlb"], "pages apart"),
        (["curve"], "pages apart"),
        (["size", "--nic-memory", "64KiB"], "pages apart"),
        (["trace", "info"], "pages or objects apart"),
        (["sweep", "--design", "utlb", "--grid", "entries=64,128"], "keeping"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_request_of_4_gib_is_refused_where_it_does_not_fit(
    command, needs, long_request, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 1 << 20)
    if command[0] == "simulate":
        monkeypatch.setattr(memory_limit, "available_bytes", lambda: 8 * GIB)
    names = command[: 2 if command[0] == "trace" else 1]
    options = command[len(names) :]
    if command[0] == "sweep":
        options += ["--out", str(tmp_path / "s.parquet")]

    assert main([*names, str(long_request), *options]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    [line] = [line for line in err.splitlines() if not line.startswith("compiling")]
    assert needs in line
    assert "GiB of memory, and " in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.parquet"]
