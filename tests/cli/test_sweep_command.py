"""``nicscope sweep`` as a user and as a program see it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from trace_files import write

from nicscope.cli.app import main
from nicscope.studies.workers import cluster
from pressing import interrupted

GRID = ["--grid", "entries=4,16,64", "--grid", "pin_limit=8,none", "--grid", "replacement=lru,mru"]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "t.parquet", count=300)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "o.parquet"


def run(capsys, *arguments):
    assert main(["sweep", *map(str, arguments)]) == 0
    return capsys.readouterr()


def refused(capsys, *arguments):
    """The one line that a command is refused with."""
    assert main(["sweep", *map(str, arguments)]) == 2
    printed, err = capsys.readouterr()
    assert printed == ""
    assert err.startswith("nicscope: ")
    assert err.count("\n") == 1
    return err


def test_the_best_points_are_shown_within_a_hundred_columns(trace, out, capsys):
    text, err = run(capsys, trace, "--design", "utlb", *GRID, "--out", out)

    assert err == ""
    assert max(map(len, text.splitlines())) <= 100
    rows = pq.read_table(out).to_pylist()
    assert len(rows) == 12
    fewest = min(row["ni_misses"] for row in rows)
    lines = [line.split() for line in text.splitlines()]
    rules = [place for place, line in enumerate(lines) if line and set(line[0]) == {"─"}]
    first, cheapest = (lines[place + 1] for place in rules)
    assert first[:2] == ["64", "none"]
    assert int(first[3]) == fewest
    least = min(row["cost_us_high"] for row in rows)
    assert float(cheapest[5].replace(",", "")) == pytest.approx(least, rel=0.005)
    assert str(out) in text


def test_many_keys_and_traces_fit_a_hundred_columns_too(out, capsys, tmp_path):
    trace = write(tmp_path / "t.parquet", count=10)
    other = write(tmp_path / "another_trace_of_a_server.parquet", count=10)
    keys = ("ways=1,2", "index_offset=true,false", "prefetch=1,4", "prepin=1,2")
    more = [word for key in (*keys, "costs.ni_check=0.5us,1us") for word in ("--grid", key)]

    text, _ = run(capsys, trace, other, "--design", "utlb", *GRID, *more, "--out", out)

    assert max(map(len, text.splitlines())) <= 100
    assert pq.read_table(out, columns=["trace"]).num_rows == 2 * 12 * 32


def test_the_json_has_the_best_rows_of_the_table_and_repeats_it(trace, out, capsys, tmp_path):
    options = [trace, "--design", "utlb", *GRID, "--platform", "utlb-prototype", "--no-kinds"]
    found = json.loads(run(capsys, *options, "--out", out, "--json").out)

    rows = pq.read_table(out).to_pylist()
    assert found["columns"] == list(rows[0])
    assert found["rows"] == len(rows)
    assert found["grid"]["pin_limit_pages"] == [8, None]
    for kind, key in (("fewest_misses", "ni_misses"), ("cheapest", "cost_us_high")):
        assert len(found[kind]) == 5
        assert all(row in rows for row in found[kind])
        best = [row[key] for row in found[kind]]
        assert best == sorted(row[key] for row in rows)[:5]
    again = found["repeat"]["command"]
    again[again.index(str(out))] = str(tmp_path / "again.parquet")
    assert main(again[1:]) == 0
    assert (tmp_path / "again.parquet").read_bytes() == out.read_bytes()


def test_what_is_done_is_not_done_again(trace, out, capsys):
    command = [trace, "--design", "utlb", *GRID, "--out", out]
    first = run(capsys, *command)

    again = run(capsys, *command)

    assert again.out == first.out
    assert again.err == f"nicscope: {out}: this sweep is there already, complete\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "empty grid"),
        (["--grid", "entires=4"], "did you mean 'entries'?"),
        (["--grid", "entries="], "no values"),
        (["--grid", "entries=4,4"], "twice"),
        (["--grid", "entries=3"], "power of two"),
        (["--grid", "entries=4", "--workers", "0"], "--workers must be from 1"),
        (["--grid", "entries=4", "--platform", "pca"], "no platform 'pca'"),
        (["--grid", "entries=4", "--design", "utl"], "did you mean 'utlb'?"),
        (["--grid", "entries=4", "--scheduler", "somewhere"], "tcp://HOST:PORT"),
        (["--grid", "entries=4", "--scheduler", "tcp://h:1", "--workers", "2"], "--workers"),
        (
            [
                *("--grid", "seed=" + ",".join(map(str, range(1000)))),
                *("--grid", "prepin=" + ",".join(map(str, range(1, 1001)))),
            ],
            "--yes",
        ),
    ],
)
def test_a_bad_option_is_told_and_leaves_nothing(arguments, words, trace, out, capsys, tmp_path):
    design = [] if "--design" in arguments else ["--design", "utlb"]

    assert words in refused(capsys, trace, *design, *arguments, "--out", out)

    assert list(tmp_path.iterdir()) == [trace]


def test_a_bad_output_is_told(trace, out, capsys, tmp_path):
    command = [trace, "--design", "utlb", *GRID]
    assert "there is no folder" in refused(capsys, *command, "--out", tmp_path / "no" / "o.parquet")
    assert "is a folder" in refused(capsys, *command, "--out", tmp_path)
    assert "no sweep's table" in refused(capsys, *command, "--out", trace)
    run(capsys, *command, "--out", out)
    other = refused(capsys, *command, "--grid", "ways=1,2", "--out", out)
    assert "its grid does not vary ways, this one does" in other
    assert sorted(tmp_path.iterdir()) == [out, trace]


def test_a_missing_trace_is_told_and_leaves_nothing(out, capsys, tmp_path):
    line = refused(capsys, tmp_path / "none", "--design", "utlb", *GRID, "--out", out)

    assert "no such file" in line
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_that_does_not_answer_is_told_in_five_seconds(trace, out, capsys, monkeypatch):
    assert cluster.REACH_S == 5.0
    monkeypatch.setattr(cluster, "REACH_S", 0.5)  # the same, sooner
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"

        line = refused(
            capsys, trace, "--design", "utlb", *GRID, "--out", out, "--scheduler", address
        )

    assert f"no Dask scheduler answers at '{address}'" in line


def test_without_dask_one_line_says_what_to_install(trace, out, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    address = "tcp://127.0.0.1:8786"

    line = refused(capsys, trace, "--design", "utlb", *GRID, "--out", out, "--scheduler", address)

    assert "nicscope[cluster]" in line


def test_dask_is_not_imported_without_a_scheduler(trace, out):
    program = (
        "import sys; from nicscope.cli.app import main;"
        f"main(['sweep', {str(trace)!r}, '--design', 'utlb', '--grid', 'entries=4', '--out',"
        f" {str(out)!r}]); print([name for name in ('dask', 'distributed', 'matplotlib') if name"
        " in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )

    assert done.stderr == "[]\n"


@pytest.mark.compiled
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(out, capsys, tmp_path):
    trace = write(tmp_path / "t.parquet", count=40_000)
    seeds = ",".join(map(str, range(400)))
    command = ["sweep", str(trace), "--design", "utlb", "--grid", f"seed={seeds}"]
    command += ["--grid", "replacement=random", "--grid", "pin_limit=8", "--out", str(out)]
    journal = tmp_path / "o.parquet.journal"

    done = interrupted(
        [sys.executable, "-m", "nicscope", *command],
        lambda: journal.exists() and journal.read_bytes().count(b"\n") > 1,
    )

    kept = f"what is done is kept in {journal}: the same command continues"
    assert done == (130, "", f"nicscope: interrupted; {kept}\n")
    assert not out.exists()
    assert main(command) == 0
    assert "continuing: " in capsys.readouterr().err
    assert out.exists()
    assert not journal.exists()
