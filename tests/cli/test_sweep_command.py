"""``nicscope sweep`` as a user and as a program see it."""

import json
import socket
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from trace_files import write

from nicscope.cli.app import main
from nicscope.studies import workers
from pressing import interrupted
from refusals import refused_command

GRID = ["--grid", "entries=4,16,64", "--grid", "pin_limit=8,none", "--grid", "replacement=lru,mru"]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "t.parquet", count=100)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "o.parquet"


def run(capsys, *arguments):
    assert main(["sweep", *map(str, arguments)]) == 0
    return capsys.readouterr()


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


def test_what_is_done_is_not_done_again_and_the_output_of_another_grid_is_kept(
    trace, out, capsys, tmp_path
):
    command = [trace, "--design", "utlb", *GRID, "--out", out]
    first = run(capsys, *command)

    again = run(capsys, *command)

    assert again.out == first.out
    assert again.err == f"nicscope: {out}: this sweep is there already, complete\n"
    refused_command(capsys, ["sweep", *command, "--grid", "ways=1,2"], "ways")
    assert sorted(tmp_path.iterdir()) == [out, trace]


def test_a_scheduler_that_does_not_answer_is_told_in_five_seconds(trace, out, capsys, monkeypatch):
    assert workers.REACH_S == 5.0
    monkeypatch.setattr(workers, "REACH_S", 0.5)  # the same, sooner
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"

        words = ["sweep", trace, "--design", "utlb", *GRID, "--out", out, "--scheduler", address]
        refused_command(capsys, words, f"'{address}'")


def test_without_dask_one_line_says_what_to_install(trace, out, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    address = "tcp://127.0.0.1:8786"

    words = ["sweep", trace, "--design", "utlb", *GRID, "--out", out, "--scheduler", address]
    refused_command(capsys, words, "nicscope[cluster]")


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
