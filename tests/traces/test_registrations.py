"""Rows that register memory: what is read, refused, kept, counted and left out."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nicscope.errors import TraceError
from nicscope.traces.folders import open_folder, split
from nicscope.traces.formats import convert
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import ROW_CODES
from nicscope.traces.summary import summarize
from nicscope.traces.writer import write_trace
from refusals import refused

LARGE = 3 << 34
ROWS = {
    "time_ns": [0, 1, 2, 3, 4, 5],
    "node": [0, 1, 0, 0, 1, 0],
    "pid": [7] * 6,
    "op": ["register", "register", "send", "serve_write", "recv", "deregister"],
    "address": [4096, 1 << 33, 4096, 8192, 1 << 33, 4096],
    "length": [LARGE, 4096, 100, 200, 300, LARGE],
    "page_size": [1 << 21, None, None, None, None, None],
    "rights": ["local_write|remote_write", None, None, None, None, None],
}


def table(**changes):
    return pa.table({**ROWS, **changes})


def rows_of(trace):
    [rows] = trace.batches_of_rows()
    return rows


def test_requests_are_read_without_what_is_registered():
    trace = open_trace(table())
    assert (trace.rows, trace.registrations, trace.all_rows) == (3, 3, 6)
    [requests] = trace.batches()
    assert requests.length.tolist() == [100, 200, 300]
    assert requests.receive.tolist() == [0, 1, 1]
    rows = rows_of(trace)
    assert rows.op.tolist() == [ROW_CODES[name] for name in ROWS["op"]]
    assert rows.region_bytes.tolist() == ROWS["length"]
    assert rows.page_size.tolist() == [1 << 21, 0, 0, 0, 0, 0]
    assert rows.rights.tolist() == [3, 7, 0, 2, 1, 7]
    assert rows.receive.tolist() == [0, 0, 0, 1, 1, 0]


def test_a_trace_without_such_rows_is_read_as_ever_whatever_its_further_columns_hold():
    plain = table(op=["send"] * 6, length=[1] * 6, page_size=["large"] * 6)
    trace = open_trace(plain)
    assert (trace.rows, trace.registrations) == (6, 0)
    [requests] = trace.batches()
    assert len(requests.op) == 6


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"page_size": [3000, *[None] * 5]}, ["row 0 (", "page_size is 3000"]),
        ({"rights": ["local_wirte", *[None] * 5]}, ["'local_wirte'", "'local_write'"]),
        ({"rights": ["remote_write", *[None] * 5]}, ["remote_write", "local_write"]),
        ({"rights": ["", *[None] * 5]}, ["rights are empty"]),
        ({"rights": [1, *[None] * 5]}, ["rights are int64"]),
        ({"length": [0, *ROWS["length"][1:]]}, ["row 0 (", "length is 0"]),
        ({"length": [LARGE, 4096, 2**32, 1, 1, LARGE]}, ["row 2 (", "length is"]),
        (
            {"address": pa.array([2**64 - 8192, 0, 0, 0, 0, 0], pa.uint64())},
            ["row 0 (", "0xffffffffffffe000"],
        ),
    ],
)
def test_what_cannot_be_believed_is_refused_with_its_row(changes, told):
    with refused(TraceError, *told):
        list(open_trace(table(**changes)).batches())


def test_rows_that_register_need_the_column_that_says_how():
    plain = {name: column for name, column in ROWS.items() if name not in ("page_size", "rights")}
    plain["length"] = [1] * 6
    with refused(TraceError, "'page_size'"):
        list(open_trace(pa.table(plain)).batches())


def test_a_trace_that_only_registers_is_refused():
    with refused(TraceError, "only registers"):
        open_trace(table().slice(0, 2))


@pytest.mark.parametrize("ending", ["csv", "parquet", "csv.zst"])
def test_every_format_with_operations_keeps_the_rows(ending, tmp_path):
    written, other, back = (tmp_path / name for name in ("a.parquet", f"b.{ending}", "c.parquet"))
    write_trace(written, ROWS)
    done = convert(written, other)
    assert (done.rows, done.registrations) == (3, 3)
    convert(other, back)
    again = pq.read_table(back)
    for name, column in ROWS.items():
        assert again[name].to_pylist() == column
    assert [each.tolist() for each in rows_of(open_trace(back))] == [
        each.tolist() for each in rows_of(open_trace(table()))
    ]


def test_a_format_of_objects_says_what_it_loses(tmp_path):
    write_trace(tmp_path / "a.parquet", ROWS)
    done = convert(tmp_path / "a.parquet", tmp_path / "a.oracleGeneral")
    assert "rows that register memory or give it back" in done.lost
    assert (tmp_path / "a.oracleGeneral").stat().st_size == 24 * 3


@pytest.mark.parametrize("by", ["node", "time"])
def test_a_folder_has_the_rows_in_their_order(by, tmp_path):
    write_trace(tmp_path / "a.parquet", ROWS)
    trace = open_trace(tmp_path / "a.parquet")
    done = split(trace, tmp_path / "folder", by, 3)
    assert done.rows == 6
    folder = open_folder(tmp_path / "folder")
    assert (folder.rows, folder.registrations, folder.all_rows) == (3, 3, 6)
    for node in (0, 1):
        got = [
            (int(rows.op[place]), int(rows.region_bytes[place]))
            for rows in folder.batches_of_rows()
            for place in range(len(rows.op))
            if rows.node[place] == node
        ]
        want = [
            (ROW_CODES[op], length)
            for of, op, length in zip(ROWS["node"], ROWS["op"], ROWS["length"], strict=True)
            if of == node
        ]
        assert got == want
    assert sum(len(batch.op) for batch in folder.batches()) == 3


def test_the_summary_counts_regions_beside_requests():
    found = summarize(open_trace(table()))
    assert (found.requests, found.bytes) == (3, 600)
    assert (found.registrations, found.deregistrations) == (2, 1)
    assert found.registered_bytes == LARGE + 4096
    assert json.dumps(found.as_json())
