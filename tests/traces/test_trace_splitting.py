"""``nicscope trace split``: a folder of files that has what the trace had, or no folder."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import as_lists, disk_of_4_kib, parquet, request_lists, rows  # noqa: F401

from nicscope.cli.app import main
from nicscope.errors import OutputError, TraceError
from nicscope.traces.folders import Order, open_folder, split
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace
from refusals import refused
from suite import share


def by_node(trace):
    found = {}
    for batch in trace.batches():
        columns = as_lists(batch)
        for row in zip(*columns.values(), strict=True):
            found.setdefault(row[1], []).append(row)
    return found


@share(0.5)
@given(columns=request_lists(with_peer=True), files=st.integers(1, 5))
def test_a_trace_split_by_node_has_each_node_in_one_file(columns, files, tmp_path_factory):
    work = tmp_path_factory.mktemp("x")
    trace = open_trace(parquet(work / "t.parquet", columns))

    done = split(trace, work / "parts", "node", files)

    found = open_folder(work / "parts")
    assert by_node(found) == by_node(trace)
    assert found.column_names == trace.column_names
    nodes = set(columns["node"])
    assert 1 <= len(done.files) <= min(files, len(nodes))
    assert sum(rows for _, rows in done.files) == trace.rows
    assert [(path.name, open_trace(path).rows) for path in sorted((work / "parts").iterdir())] == (
        done.files
    )
    assert all(len(stretch.members) == 1 for stretch in found.stretches)
    assert len(found.stretches) == len(done.files)


@share(0.5)
@given(data=st.data(), files=st.integers(1, 5))
def test_a_trace_split_by_time_comes_back_as_it_was(data, files, tmp_path_factory):
    columns = data.draw(request_lists())
    columns["time_ns"] = sorted(columns["time_ns"])
    work = tmp_path_factory.mktemp("x")
    trace = open_trace(parquet(work / "t.parquet", columns))

    done = split(trace, work / "parts", "time", files)

    counts = [rows for _, rows in done.files]
    assert max(counts) - min(counts) <= 1
    assert len(counts) == min(files, trace.rows)
    found = open_folder(work / "parts")
    assert {stretch.order for stretch in found.stretches} == {Order.IN_TURN}
    assert by_node(found) == by_node(trace)


def test_the_files_have_the_traces_metadata(tmp_path):
    metadata = TraceMetadata(page_size=8192, origin={"program": "x"}, observed={"lost": 2})
    write_trace(tmp_path / "t.parquet", rows(8), metadata)

    split(open_trace(tmp_path / "t.parquet"), tmp_path / "parts", "node", 2)

    assert open_folder(tmp_path / "parts").metadata == metadata


def test_a_folder_can_be_split_anew(tmp_path):
    trace = open_trace(parquet(tmp_path / "t.parquet", rows(40)))
    split(trace, tmp_path / "a", "time", 3)

    split(open_folder(tmp_path / "a"), tmp_path / "b", "node", 2)

    assert by_node(open_folder(tmp_path / "b")) == by_node(trace)


def test_what_cannot_be_split_is_one_line_and_leaves_nothing(tmp_path):
    backwards = parquet(tmp_path / "t.parquet", rows(4, time_ns=[5, 4, 6, 7]))
    with refused(TraceError, "order of time", "by node"):
        split(open_trace(backwards), tmp_path / "parts", "time", 2)
    broken = parquet(tmp_path / "u.parquet", rows(4, length=[1, 1, 1, 0]))
    with pytest.raises(TraceError, match=r"row 3"):
        split(open_trace(broken), tmp_path / "parts", "time", 2)
    good = open_trace(parquet(tmp_path / "v.parquet", rows(4)))
    for by, files, words in (("day", 2, "--by"), ("node", 0, "--files"), ("node", 9**9, "--files")):
        with pytest.raises(TraceError, match=words):
            split(good, tmp_path / "parts", by, files)
    assert not (tmp_path / "parts").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    with refused(OutputError, "not empty"):
        split(good, tmp_path / "full", "node", 2)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["x"]


def test_a_full_disk_leaves_no_folder(tmp_path, request):
    address = [page * 4096 for page in range(2000)]
    path = parquet(tmp_path / "t.parquet", rows(2000) | {"address": address})
    trace = open_trace(path)
    request.getfixturevalue("disk_of_4_kib")

    with pytest.raises(OutputError):
        split(trace, tmp_path / "parts", "node", 1)

    assert not (tmp_path / "parts").exists()


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    parquet(tmp_path / "t.parquet", rows(8))
    words = ["trace", "split", str(tmp_path / "t.parquet")]

    assert main([*words, str(tmp_path / "a"), "--files", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  part-0.parquet: 4 requests",
        "  part-1.parquet: 4 requests",
    ]
    assert main([*words, str(tmp_path / "b"), "--by", "time", "--files", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["requests"] == 8
    assert [one["requests"] for one in told["files"]] == [3, 3, 2]
