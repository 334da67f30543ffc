"""Folders through commands: the same bytes from one process, from several and from one file."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from nicscope.cli.app import main
from nicscope.studies import size_survey, workers
from nicscope.traces.writer import write_trace
from refusals import refused_command
from suite import INTERPRETED, share
from tasks_given import rows_by_worker

COMMANDS = {
    "replay": ["--design", "utlb", "--design", "mini"],
    "curve": ["--entries", "4..64", "--line", "1,4"],
}


def columns(count, nodes, seed=1, pages=300):
    rng = np.random.default_rng(seed)
    return {
        "time_ns": np.arange(count) * 10,
        "node": rng.integers(0, nodes, count),
        "pid": rng.integers(0, 2, count),
        "op": rng.integers(0, 6, count).astype(np.uint8),
        "address": rng.integers(0, pages, count).astype(np.uint64) * np.uint64(4096),
        "length": rng.integers(1, 9000, count),
    }


def divided(rows, owners, folder):
    folder.mkdir()
    for owner in np.unique(owners):
        path = folder / f"part-{owner}.parquet"
        write_trace(path, {name: column[owners == owner] for name, column in rows.items()})
    return folder


def ran(command, trace, capsys, *more):
    """What the command prints as JSON."""
    assert main([command, str(trace), *COMMANDS[command], *more, "--json"]) == 0
    printed, err = capsys.readouterr()
    assert err == ""
    return printed


def without_names(text):
    """The JSON without what says which file it was."""

    def plain(value):
        if isinstance(value, dict):
            gone = ("file", "bytes", "command", "name")
            return {key: plain(part) for key, part in value.items() if key not in gone}
        return [plain(part) for part in value] if isinstance(value, list) else value

    return plain(json.loads(text))


# Pixels follow from what is counted, and the workers, which count, are not in this process.
@pytest.mark.usefixtures("no_pixels")
@pytest.mark.parametrize("command", COMMANDS)
def test_workers_print_and_write_the_same_bytes(command, tmp_path, capsys, monkeypatch):
    rows = columns(200 if INTERPRETED else 4000, 5, pages=20)  # which are used again
    folder = divided(rows, rows["node"] // 2, tmp_path / "t")
    given_rows = rows_by_worker(monkeypatch)

    found = []
    # Three files and processes: of two shares the first and the last are all there are.
    for out, more in (("a", []), ("b", ["--workers", "3"])):
        assert not given_rows
        printed = ran(command, folder, capsys, *more, "--out", str(tmp_path / out))
        files = {path.name: path.read_bytes() for path in sorted((tmp_path / out).iterdir())}
        found.append((printed, files))

    assert found[0] == found[1]
    assert len(given_rows) == 3  # processes
    assert all(any(each) for each in given_rows.values())


@pytest.mark.parametrize("command", COMMANDS)
@share(0.3, phases=[Phase.generate])
@given(data=st.data())
def test_any_division_gives_the_bytes_of_the_whole(command, data, tmp_path_factory, request):
    capsys = request.getfixturevalue("capsys")
    count = data.draw(st.integers(1, 40))
    rows = columns(count, 3, seed=data.draw(st.integers(0, 99)))
    owners = np.array(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    work = tmp_path_factory.mktemp("x")
    write_trace(work / "t.parquet", rows)
    (work / "d").mkdir()
    folder = divided(rows, owners, work / "d" / "t")

    whole, parted = (ran(command, trace, capsys) for trace in (work / "t.parquet", folder))

    assert without_names(parted) == without_names(whole)


def test_size_takes_the_same_sample_however_rows_are_divided(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(size_survey, "SAMPLED", 40)
    monkeypatch.setattr(size_survey, "LONG", 50)
    rows = columns(400, 3)
    write_trace(tmp_path / "t.parquet", rows)
    folder = divided(rows, rows["node"], tmp_path / "t")
    taken = []
    result = size_survey.Windows.result

    def kept(self):
        found = result(self)
        every = [np.concatenate(column) for column in zip(*found, strict=True)]
        taken.append({n: [c[every[1] == n].tolist() for c in every] for n in range(3)})
        return found

    monkeypatch.setattr(size_survey.Windows, "result", kept)
    told = []
    for path in (tmp_path / "t.parquet", folder):
        words = ["size", str(path), "--nic-memory", "4KiB", "--only", "static", "--json"]
        assert main(words) == 0
        told.append(without_names(capsys.readouterr().out))

    assert taken[0] == taken[1]
    assert all(len(taken[0][node][0]) >= size_survey.WINDOWS for node in range(3))
    for one in (*told[0]["sizings"], *told[1]["sizings"]):
        one.pop("trace")
    assert told[0]["sizings"] == told[1]["sizings"]


def seen_workers(monkeypatch):
    """The processes that are made from now on."""
    made = []

    class Seen(workers._Worker):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr(workers, "_Worker", Seen)
    return made


@pytest.mark.compiled_too
def test_a_worker_killed_on_the_way_changes_nothing(tmp_path, capsys, monkeypatch):
    rows = columns(400 if INTERPRETED else 200_000, 8)
    folder = divided(rows, rows["node"], tmp_path / "t")
    words = ["replay", str(folder), *COMMANDS["replay"], "--json"]
    assert main([*words, "--workers", "1"]) == 0
    alone = capsys.readouterr().out
    made, given_tasks = seen_workers(monkeypatch), []
    give = workers.LocalWorkers._give

    def given_and_killed(self, worker, place, tasks):
        give(self, worker, place, tasks)
        given_tasks.append(place)
        if len(given_tasks) == 5:
            worker.process.send_signal(signal.SIGKILL)

    monkeypatch.setattr(workers.LocalWorkers, "_give", given_and_killed)

    assert main([*words, "--workers", "2"]) == 0

    assert capsys.readouterr().out == alone
    assert len(made) == 3
    assert len(given_tasks) == len(set(given_tasks)) + 1  # one was done again
    ended = [one.process.poll() for one in made]
    assert None not in ended  # none is left behind
    assert -signal.SIGKILL in ended


def test_what_is_wrong_with_a_file_is_one_line_whoever_finds_it(tmp_path, capsys):
    rows = columns(40, 4)
    folder = divided(rows, rows["node"], tmp_path / "t")
    broken = folder / "part-2.parquet"
    table = pq.read_table(broken)
    lengths = pa.array([0] * table.num_rows, pa.uint32())
    pq.write_table(table.set_column(table.column_names.index("length"), "length", lengths), broken)

    for more in ([], ["--workers", "2"]):
        words = ["replay", folder, "--design", "utlb", *more]
        refused_command(capsys, words, f"{broken}: row 0 (", "length is 0")


def test_ctrl_c_leaves_no_worker(tmp_path, capsys, monkeypatch):
    rows = columns(400, 4)
    folder = divided(rows, rows["node"], tmp_path / "t")
    made = seen_workers(monkeypatch)

    def press():
        while len(made) < 2:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()

    assert main(["replay", str(folder), "--design", "utlb", "--workers", "2"]) == 130

    assert capsys.readouterr().out == ""
    assert all(one.process.poll() is not None for one in made)
    assert not any(Path(f"/proc/{one.process.pid}").exists() for one in made)
