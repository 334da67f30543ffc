"""A folder of files is the trace that its rows make, however they are divided among the files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_samples import parquet, request_lists, rows

from nicscope.errors import TraceError
from nicscope.traces import folders as ordering
from nicscope.traces.folders import Order, open_folder
from nicscope.traces.schema import METADATA_KEY, TraceMetadata
from nicscope.traces.writer import write_trace
from refusals import refused, refused_command
from suite import share

NAMES = ("time_ns", "node", "pid", "op", "address", "length")


def divided(columns, owners, folder, *, signed=True):
    """The rows of ``columns`` in files of ``folder``, each in the file that ``owners`` says."""
    folder.mkdir()
    for owner in sorted(set(owners)):
        picked = [place for place, one in enumerate(owners) if one == owner]
        part = {name: [column[place] for place in picked] for name, column in columns.items()}
        path = folder / f"part-{owner:03}.parquet"
        write_trace(path, part) if signed else parquet(path, part)
    return folder


def by_node(columns, owners=None):
    """Each node's rows in order: by time, then file, then place; the slow, obvious way."""
    count = len(columns["node"])
    owners = owners or [0] * count
    keys = sorted(range(count), key=lambda i: (columns["time_ns"][i], owners[i], i))
    found = {}
    for place in keys:
        row = tuple(columns[name][place] for name in NAMES)
        found.setdefault(row[1], []).append(row)
    return found


def read_by_node(batches):
    from trace_samples import as_lists

    found = {}
    for batch in batches:
        columns = as_lists(batch)
        for row in zip(*(columns[name] for name in NAMES), strict=True):
            found.setdefault(row[1], []).append(row)
    return found


@share(0.6)
@given(data=st.data())
def test_rows_come_in_the_order_of_time_then_file_then_place(data, tmp_path_factory):
    columns = data.draw(request_lists())
    count = len(columns["node"])
    owners = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    signed = data.draw(st.booleans())
    folder = divided(columns, owners, tmp_path_factory.mktemp("x") / "t", signed=signed)

    trace = open_folder(folder)

    assert trace.rows == count
    expected = by_node(columns, owners)
    assert read_by_node(trace.batches(3)) == expected
    for hands in (1, 3):
        shares = trace.shares(hands)
        found = [read_by_node(share.batches(4)) for share in shares]
        assert sum(len(one) for one in found) == len(expected)  # a node is in one share alone
        assert {node: part for one in found for node, part in one.items()} == expected


@pytest.mark.parametrize(
    ("times", "owners", "nodes", "order"),
    [
        ([0, 1, 2, 3], [0, 0, 1, 1], [0, 1, 0, 1], Order.IN_TURN),
        ([0, 1, 2, 3], [1, 1, 0, 0], [0, 1, 0, 1], Order.IN_TURN),  # by time, not by name
        ([0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], Order.IN_TURN),  # by name in a tie
        ([0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 0, 0], Order.SIDE_BY_SIDE),
        ([5, 6, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], Order.NODE_BY_NODE),
    ],
)
def test_how_files_are_read_follows_from_what_they_share(
    times, owners, nodes, order, tmp_path, monkeypatch
):
    columns = rows(4, time_ns=times, node=nodes)
    trace = open_folder(divided(columns, owners, tmp_path / "t"))
    scanned = []
    scan = ordering.scan
    monkeypatch.setattr(ordering, "scan", lambda member: scanned.append(member) or scan(member))

    [stretch] = trace.stretches

    assert stretch.order is order
    assert bool(scanned) == (order is not Order.IN_TURN)
    assert read_by_node(trace.batches()) == by_node(
        {name: list(np.asarray(column).tolist()) for name, column in columns.items()}, owners
    )


def test_files_of_other_nodes_are_apart_and_none_is_read_to_see_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ordering, "scan", lambda member: pytest.fail(member.name))
    columns = rows(6, node=[0, 2, 4, 1, 3, 5])
    trace = open_folder(divided(columns, [0, 1, 2, 0, 1, 2], tmp_path / "t"))

    assert [len(stretch.members) for stretch in trace.stretches] == [1, 1, 1]
    assert len(trace.shares(3)) > 3  # those that are large are divided by node


def refused_folder(folder, *facts):
    with refused(TraceError, *facts):
        for _ in open_folder(folder).batches():
            pass


def test_what_a_folder_may_not_hold_is_named(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    refused_folder(folder, "is a folder without a trace")
    divided(rows(4), [0, 0, 1, 1], tmp_path / "u")
    (tmp_path / "u" / ".hidden").write_text("x")
    (tmp_path / "u" / "_SUCCESS").write_text("")
    assert open_folder(tmp_path / "u").rows == 4
    (tmp_path / "u" / "notes.txt").write_text("x")
    refused_folder(tmp_path / "u", "notes.txt", "move it away")
    (tmp_path / "u" / "notes.txt").unlink()
    (tmp_path / "u" / "inner").mkdir()
    refused_folder(tmp_path / "u", "holds another, 'inner'")
    (tmp_path / "u" / "inner").rmdir()
    (tmp_path / "u" / "z.parquet").write_text("x")
    refused_folder(tmp_path / "u", "z.parquet: not a Parquet file")


def test_files_that_differ_in_what_holds_for_all_are_both_named(tmp_path):
    folder = divided(rows(4), [0, 0, 1, 1], tmp_path / "t")
    write_trace(folder / "z.parquet", rows(2), TraceMetadata(page_size=8192))
    refused_folder(
        folder, "z.parquet: differs from ", "part-000.parquet", "page_size (4096 and 8192)"
    )
    write_trace(folder / "z.parquet", rows(2, note=["a", "b"]))
    refused_folder(folder, "z.parquet: ", "part-000.parquet", "columns")


def test_files_are_not_all_open_at_once(tmp_path):
    folder = divided(rows(30, node=list(range(30))), list(range(30)), tmp_path / "t")
    before = len(list(Path("/proc/self/fd").iterdir()))

    trace = open_folder(folder)

    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2
    opened = [len(list(Path("/proc/self/fd").iterdir())) for _ in trace.batches()]
    assert len(opened) == 30
    assert max(opened) <= before + 6


def test_a_damaged_file_and_its_row_are_named(tmp_path):
    folder = divided(rows(4), [0, 0, 1, 1], tmp_path / "t", signed=False)
    parquet(folder / "part-002.parquet", rows(3, length=[1, 0, 1], node=[7, 7, 7]))

    refused_folder(folder, "part-002.parquet: row 1 (the first is 0): length is 0")


def test_a_file_that_was_replaced_meanwhile_is_refused(tmp_path):
    folder = divided(rows(4), [0, 0, 1, 1], tmp_path / "t")
    trace = open_folder(folder)
    write_trace(folder / "part-001.parquet", rows(2, address=[4096, 4096]))

    with refused(TraceError, "part-001.parquet", "changed"):
        list(trace.batches())


def test_statistics_that_a_row_contradicts_are_damage(tmp_path):
    folder = divided(rows(4), [0, 0, 1, 1], tmp_path / "t")
    trace = open_folder(folder)
    trace.members[1] = trace.members[1]._replace(times=trace.members[1].times._replace(high=21))

    with refused(TraceError, "part-001.parquet", "damaged", "footer"):
        list(trace.batches())


def test_metadata_that_all_files_share_is_the_folders(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    for number, program in enumerate(["a", "a", "b"]):
        made = TraceMetadata(page_size=8192, origin={"program": program}, observed={"lost": 1})
        write_trace(folder / f"{number}.parquet", rows(2, node=[number] * 2), made)

    found = open_folder(folder).metadata

    assert found.page_size == 8192
    assert found.origin == {}
    assert found.observed == {"lost": 1}


@share(0.4)
@given(data=st.data())
def test_a_folder_becomes_one_file_with_all_columns(data, tmp_path_factory):
    from nicscope.cli.app import main

    columns = data.draw(request_lists(with_peer=True))
    count = len(columns["node"])
    owners = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    work = tmp_path_factory.mktemp("x")
    folder = divided(columns, owners, work / "t")

    assert main(["trace", "convert", str(folder), str(work / "o.parquet")]) == 0

    table = pq.read_table(work / "o.parquet")
    names = [*NAMES, "peer", "buffer", "note"]
    found = {}
    for row in zip(*(table[name].to_pylist() for name in names), strict=True):
        found.setdefault(row[1], []).append(row)
    keys = sorted(range(count), key=lambda i: (columns["time_ns"][i], owners[i], i))
    expected = {}
    for place in keys:
        row = tuple(columns[name][place] for name in names)
        expected.setdefault(row[1], []).append(row)
    assert found == expected
    assert METADATA_KEY in pq.read_metadata(work / "o.parquet").metadata
    assert table.schema.field("op").type == pa.dictionary(pa.int32(), pa.string())


def test_info_counts_a_folder_as_one_trace(tmp_path, capsys):
    from nicscope.cli.app import main

    columns = rows(40)
    write_trace(tmp_path / "t.parquet", columns)
    folder = divided(columns, [i % 3 for i in range(40)], tmp_path / "t")

    told = []
    for path in (tmp_path / "t.parquet", folder):
        assert main(["trace", "info", str(path), "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
        assert told[-1].pop("file") == str(path)
    assert told[0] == told[1]


def test_a_command_that_takes_one_file_says_how_to_get_it(tmp_path, capsys):
    folder = divided(rows(4), [0, 0, 1, 1], tmp_path / "t")

    refused_command(capsys, ["simulate", folder, "--design", "utlb"], "is a folder")
    refused_command(capsys, ["rdma", "cache", folder], "is a folder", "one file")
    refused_command(capsys, ["trace", "convert", folder, folder / "o.parquet"], "among the files")
