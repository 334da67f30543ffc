"""``nicscope size`` of a folder: the same bytes from one process and from several."""

import numpy as np
import pytest
from own_hands import Here

from nicscope.cli.app import main
from nicscope.studies import size_survey
from nicscope.studies.size_survey import Passes, Whole, extent, grids
from nicscope.traces.folders import open_folder
from nicscope.traces.writer import write_trace
from tasks_given import rows_by_worker

PAGE = 4096


def a_folder(folder, count=60, nodes=3, pages=300):
    rng = np.random.default_rng(1)
    rows = {
        "time_ns": np.arange(count) * 10,
        "node": rng.integers(0, nodes, count),
        "pid": rng.integers(0, 2, count),
        "op": rng.integers(0, 6, count).astype(np.uint8),
        "address": rng.integers(0, pages, count).astype(np.uint64) * np.uint64(PAGE),
        "length": rng.integers(1, 9000, count),
    }
    folder.mkdir()
    for node in range(nodes):
        part = {name: column[rows["node"] == node] for name, column in rows.items()}
        write_trace(folder / f"part-{node}.parquet", part)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["--target-miss", "20%", "--page-size", "4K,64K"],
        ["--nic-memory", "4KiB", "--only", "static", "--only", "page-sizes"],
    ],
    ids=["target", "memory"],
)
def test_workers_print_and_write_the_same_bytes(words, tmp_path, capsys, monkeypatch):
    folder = a_folder(tmp_path / "t", 150, pages=20)  # which are used again
    given_rows = rows_by_worker(monkeypatch)
    told = []
    for number in ("1", "3"):
        assert not given_rows
        out = tmp_path / number
        command = ["size", str(folder), *words, "--workers", number]
        assert main([*command, "--json", "--out", str(out)]) == 0
        printed, err = capsys.readouterr()
        assert err == ""
        told.append((printed, {path.name: path.read_bytes() for path in sorted(out.iterdir())}))

    assert told[0] == told[1]
    assert len(given_rows) == 3
    assert all(any(each) for each in given_rows.values())


def test_what_is_surveyed_by_shares_is_what_one_pass_finds(tmp_path):
    trace = open_folder(a_folder(tmp_path / "t"))
    whole = Whole(trace, Passes(), Here())

    touched = whole.extent(PAGE, 1)
    assert touched == extent(trace.batches(), PAGE)
    found = whole.surveyed(PAGE, [1, 4], 64, 1).grids
    expected = grids(trace.batches(), PAGE, [1, 4], 64)
    pairs = [(found.offset, expected.offset)]
    pairs += [(found.plain[line], expected.plain[line]) for line in (1, 4)]
    for one, other in pairs:
        assert one[:2] == other[:2]
        assert np.array_equal(one.misses, other.misses)
        assert {node: held.tolist() for node, held in one.held.items()} == {
            node: held.tolist() for node, held in other.held.items()
        }


def test_workers_search_on_the_sample_that_one_process_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(size_survey, "SAMPLED", 40)
    monkeypatch.setattr(size_survey, "LONG", 50)
    trace = open_folder(a_folder(tmp_path / "t", 200))
    touched = extent(trace.batches(), PAGE)
    taken = []
    for workers in (None, Here()):
        sample = Whole(trace, Passes(), workers).surveyed(PAGE, [1], 64, 1, touched).sample
        every = [np.concatenate(column) for column in zip(*sample, strict=True)]
        taken.append([[column[every[1] == n].tolist() for column in every] for n in range(3)])

    assert taken[0] == taken[1]
    assert 16 <= len(taken[0][0][0]) < 100


def test_rows_of_passes_of_workers_are_told_by_what_they_take(tmp_path):
    trace = open_folder(a_folder(tmp_path / "t"))
    told = []
    passes = Passes(lambda *pair: told.append(pair))
    watch = passes.watching(trace, 5)
    watch(1, 4)
    watch(4, 4)

    assert told == [(75, 300), (300, 300)]


def test_skipping_is_done_by_one(tmp_path, capsys):
    folder = a_folder(tmp_path / "t")
    words = ["size", str(folder), "--target-miss", "20%", "--skip", "3"]
    assert main([*words, "--workers", "2"]) == 2
    assert "so one process does" in capsys.readouterr().err
    assert main(words) == 0
