"""What commands make of a trace that says what is registered when."""

import json

import pyarrow.parquet as pq
import pytest

from nicscope.cli.app import main
from nicscope.traces.writer import write_trace
from refusals import refused_command

PAGE = 4096
NAMES = ("node", "op", "address", "length", "page_size", "rights")
ROWS = [
    (0, "register", 1 << 33, 1 << 33, 1 << 21, "local_write remote_read"),
    (1, "register", 0, 16 * PAGE, None, None),
    *[(0, "recv", (1 << 33) + page * PAGE, PAGE, None, None) for page in range(20)],
    *[(1, "send", page * PAGE, PAGE, None, None) for page in range(17)],
    (0, "serve_write", 1 << 33, PAGE, None, None),
    (0, "deregister", 1 << 33, 1 << 33, None, None),
    (0, "recv", 1 << 33, PAGE, None, None),
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("traces") / "pools.parquet"
    return str(written(path, ROWS, range(len(ROWS))))


def written(path, rows, times):
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    write_trace(path, columns | {"time_ns": [*times], "pid": [1] * len(rows)})
    return path


def replayed(capsys, *words):
    assert main(["replay", *words, "--design", "rnic", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_replay_counts_what_is_registered_and_what_is_refused(trace, capsys):
    found = replayed(capsys, trace)
    total = found["total"]
    assert found["trace"]["requests"] == total["requests"] == 39
    assert (total["regions"], total["mtt_entries"]) == (2, 4096 + 16)
    assert total["rejected"] == 3
    reasons = ("unregistered", "rights", "deregistered")
    assert [total[f"rejected_{reason}"] for reason in reasons] == [1, 1, 1]
    assert total["entries_invalidated"] == 2


def test_tables_say_what_was_refused_and_who_has_no_regions(trace, capsys):
    assert main(["replay", trace, "--design", "rnic", "--design", "utlb"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "rnic: 2 regions registered as the trace says, 1 deregistered" in shown
    assert (
        "3 requests refused for protection: 1 outside of any region, 1 against a region's rights, "
        "1 after deregistration" in shown
    )
    assert "utlb: no regions; what the trace registers (3 rows) changes nothing there" in shown


def test_a_trace_without_such_rows_says_nothing_of_them(tmp_path, capsys):
    plain = tmp_path / "plain.parquet"
    columns = {"time_ns": [0], "node": [0], "pid": [1], "op": ["send"], "address": [0]}
    write_trace(plain, columns | {"length": [PAGE]})
    assert main(["replay", str(plain), "--design", "rnic", "--design", "utlb"]) == 0
    shown = capsys.readouterr().out
    assert "as the trace says" not in shown
    assert "no regions" not in shown


def test_a_folder_and_its_workers_count_the_same(trace, tmp_path, capsys):
    assert main(["trace", "split", trace, str(tmp_path / "folder")]) == 0
    assert "42 rows in 2 files" in capsys.readouterr().out
    alone = replayed(capsys, trace)
    for words in ([], ["--workers", "1"]):
        assert replayed(capsys, str(tmp_path / "folder"), *words)["nodes"] == alone["nodes"]


@pytest.mark.parametrize("design", ["rnic", "utlb"])
def test_sweep_counts_what_replay_counts(design, trace, tmp_path, capsys):
    table = tmp_path / "sizes.parquet"
    words = ["--design", design, "--grid", "entries=64,1024"]
    assert main(["sweep", trace, *words, "--out", str(table)]) == 0
    capsys.readouterr()
    rows = pq.read_table(table).to_pylist()
    assert len(rows) == 2
    for row in rows:
        settings = ["--set", f"entries={row['entries']}"]
        assert main(["replay", trace, "--design", design, *settings, "--json"]) == 0
        total = json.loads(capsys.readouterr().out)["total"]
        assert {name: row[name] for name in total} == total


def test_what_is_registered_is_not_said_twice(trace, capsys):
    words = ["replay", trace, "--design", "rnic", "--registered", "1GiB"]
    refused_command(capsys, words, "the trace", "registered")


BAD = 31  # a row that gives back what the one before it gave back, at the same time
TWICE = [
    *[(place % 2, "register", PAGE * place, PAGE, None, None) for place in range(20)],
    *[(place % 2, "send", PAGE * place, 64, None, None) for place in range(10)],
    *[(0, "deregister", PAGE * 4, PAGE, None, None)] * 3,
    (1, "send", PAGE, 64, None, None),
]


@pytest.fixture
def twice(tmp_path):
    times = [min(row, BAD - 1) for row in range(len(TWICE))]
    return written(tmp_path / "twice.parquet", TWICE, times)


def test_what_is_given_back_twice_is_told_by_file_and_row(twice, tmp_path, capsys):
    grid = ["--grid", "entries=64,128", "--out", tmp_path / "s.csv"]
    for command, more in (("replay", []), ("sweep", grid)):
        words = [command, twice, "--design", "rnic", *more]
        refused_command(capsys, words, f"{twice}: row {BAD} (", "process 1 of node 0", "4,096")
    assert not (tmp_path / "s.csv").exists()


@pytest.mark.parametrize("by", ["node", "time"])
def test_of_a_folder_the_file_is_told_that_holds_the_row(by, twice, tmp_path, capsys):
    folder = tmp_path / by
    assert main(["trace", "split", str(twice), str(folder), "--by", by, "--files", "2"]) == 0
    capsys.readouterr()
    holding = [
        (path, place)
        for path in sorted(folder.glob("*.parquet"))
        for place, row in enumerate(pq.read_table(path).to_pylist())
        if row["op"] == "deregister"
    ]
    path, place = holding[1]

    for more in ([], ["--workers", "1"]):
        words = ["replay", folder, "--design", "rnic", *more]
        refused_command(capsys, words, f"{path}: row {place} (", "process 1 of node 0")


def test_info_counts_regions_and_conversions_keep_them(trace, tmp_path, capsys):
    assert main(["trace", "info", trace]) == 0
    assert "2 registered (8.0 GiB), 1 deregistered" in capsys.readouterr().out
    assert main(["trace", "convert", trace, str(tmp_path / "pools.csv"), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["requests"], done["registrations"]) == (39, 3)
