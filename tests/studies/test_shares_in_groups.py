"""Nodes that workers count are looked up in groups of pages too, and the result stays the same."""

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from own_hands import Here

from nicscope.drivers.replay import Replayer
from nicscope.drivers.replay.page_numbering import NO_GRAIN
from nicscope.studies import curves
from nicscope.studies.curves import ask
from nicscope.studies.replaying import choose_subjects, compare
from nicscope.studies.sources import ShareDone
from nicscope.traces.folders import open_folder
from nicscope.traces.writer import write_trace
from oracle import replay as oracle
from oracle.runs import traces_of_runs
from suite import share

PAGE = 4096
FLAT = {"scheme": "utlb", "entries": 64, "ways": 4, "index_offset": False}


def folder_of(rows, folder):
    """A file of each node."""
    folder.mkdir()
    for node in {row[1] for row in rows}:
        time, nodes, pid, op, address, length = zip(
            *(row for row in rows if row[1] == node), strict=True
        )
        columns = {
            "time_ns": time,
            "node": nodes,
            "pid": pid,
            "op": list(op),
            "address": np.array(address, np.uint64),
            "length": length,
        }
        write_trace(folder / f"part-{node}.parquet", columns)
    return open_folder(folder)


@pytest.fixture
def alignments(monkeypatch):
    """The grains of every replay there is."""
    found = []
    make = Replayer.__init__

    def noted(self, designs, kinds, page_size, alignments=None, *others):
        found.append(alignments)
        make(self, designs, kinds, page_size, alignments, *others)

    monkeypatch.setattr(Replayer, "__init__", noted)
    return found


@share(2, phases=[Phase.generate])
@given(rows=traces_of_runs(PAGE, 6))
def test_shares_count_what_the_oracle_counts_page_by_page(rows, tmp_path_factory):
    trace = folder_of(rows, tmp_path_factory.mktemp("t") / "t")
    settings_ = [f"{name}={value}" for name, value in FLAT.items() if name != "scheme"]
    subjects = choose_subjects(["utlb"], None, [one.replace("False", "false") for one in settings_])

    shared = compare(trace, subjects, workers=Here()).priced[0].result

    expected = oracle.replay(rows, FLAT, lambda *_: 0)
    for want, got in [
        (expected["total"], shared.total),
        *zip(expected["nodes"], shared.nodes, strict=True),
    ]:
        assert {name: got[name] for name in want} == want


@share(2, phases=[Phase.generate])
@given(rows=traces_of_runs(PAGE, 6), by=st.sampled_from(["trace", "node", "process"]))
def test_curves_of_shares_are_those_of_the_whole(rows, by, tmp_path_factory):
    trace = folder_of(rows, tmp_path_factory.mktemp("t") / "t")
    question = ask(entries="1..64", by=by)

    whole = curves.report([("t", trace)], question)
    shared = curves.report([("t", trace)], question, workers=Here())

    assert shared.to_json() == whole.to_json()
    for one, other in zip(shared.curves, whole.curves, strict=True):
        assert one.group == other.group
        assert np.array_equal(one.every_size, other.every_size)


def test_each_share_is_looked_up_in_the_groups_of_its_own_runs(tmp_path, alignments):
    run, page = 32 * PAGE, PAGE
    rows = [(n, 0, 0, "send", (n % 3) * run, run) for n in range(6)]
    rows += [(n, 1, 0, "send", 5 * n * page, page) for n in range(6)]
    trace = folder_of(rows, tmp_path / "t")

    compare(trace, choose_subjects(["utlb"], None, []), workers=Here())

    assert sorted(found[PAGE].plain for found in alignments) == [0, 5]
    [curve] = curves.report([("t", trace)], ask(), workers=Here()).curves
    assert curve.group == 1  # of all nodes, as the sum is told size by size


def test_curves_of_shares_with_runs_alone_are_of_groups(tmp_path):
    run = 32 * PAGE
    rows = [(n, n % 2, 0, "send", (n % 3) * run, run) for n in range(12)]
    trace = folder_of(rows, tmp_path / "t")
    told = []

    report = curves.report(
        [("t", trace)], ask(entries="1..64"), watch=lambda *pair: told.append(pair), workers=Here()
    )

    assert report.curves[0].group == 32
    assert told[-1][1] == 18  # the second of two rounds: 12 rows of the first, 6 of a share


def test_rows_of_a_share_are_told_once_however_often_they_are_read(tmp_path):
    rows = [(n, 0, 0, "send", 5 * n * PAGE, PAGE) for n in range(9)]
    [share] = folder_of(rows, tmp_path / "t").shares(1)
    for passes in (1, 2, 3):
        told = []
        done = ShareDone(share, told.append)
        for number in range(passes):
            list(done.through(last=number == passes - 1))

        assert sum(told) == 9
    told = []
    done = ShareDone(share, told.append)
    next(iter(done.through(last=False)))  # a pass that ends before it has read all
    list(done.through())
    assert sum(told) == 9
    assert curves.grain_of_share(share, ask(), PAGE, told.append) == NO_GRAIN
