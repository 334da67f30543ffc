"""Program traces: what is written is read, and what cannot be is refused in one line."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from program_trace_samples import (
    BASE,
    MEMORY,
    columns_of,
    metadata,
    programs,
    same,
    small,
    write_columns,
)

from nicscope.errors import TraceError
from nicscope.traces.programs import reader
from nicscope.traces.programs.building import ProgramBuilder
from nicscope.traces.programs.reader import read_program
from nicscope.traces.programs.schema import Operation
from nicscope.traces.programs.writer import write_program
from nicscope.traces.reader import open_trace


@given(programs())
def test_what_is_written_is_read(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("p") / "t.program.parquet"

    write_program(path, trace)

    assert same(read_program(path), trace)


@given(programs())
def test_batches_of_any_size_are_the_same_trace(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("p") / "t.program.parquet"
    write_program(path, trace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BATCH_ROWS", 3)
        assert same(read_program(path), trace)


def test_lists_that_say_the_usual_are_as_if_they_said_nothing(tmp_path):
    columns = columns_of(small())
    columns["after"] = [[row - 1] if row else [] for row in range(7)] * 2
    columns["after_start"] = [[]] * 14

    trace = read_program(write_columns(tmp_path / "t.parquet", columns))

    assert trace.after is None
    assert trace.after_start is None


def test_lists_may_be_missing_and_numbers_wider(tmp_path):
    columns = columns_of(small())
    del columns["after"], columns["after_start"]
    types = {"peer": pa.int64(), "process": pa.int16(), "operation": pa.large_string()}

    trace = read_program(write_columns(tmp_path / "t.parquet", columns, types=types))

    assert same(trace, small())


def test_a_null_list_after_lists_is_the_row_before(tmp_path):
    columns = columns_of(small())
    columns["after"][3] = []

    trace = read_program(write_columns(tmp_path / "t.parquet", columns))

    lists = np.split(trace.after.places, trace.after.first[1:-1])
    assert [each.tolist() for each in lists[:7]] == [[], [0], [1], [], [3], [4], [5]]
    assert [each.tolist() for each in lists[7:9]] == [[], [0]]


def test_a_process_may_do_nothing(tmp_path):
    made = ProgramBuilder(metadata((0, 0, 1, 1)))
    made.add(1, Operation.COMPUTE, duration_ns=5)
    made.add(2, Operation.COMPUTE, duration_ns=6)
    path = tmp_path / "t.program.parquet"

    write_program(path, made.trace())

    assert read_program(path).first.tolist() == [0, 0, 1, 2, 2]


def wrong(name, row, value):
    def change(columns):
        columns[name][row] = value

    return change


def without(name):
    def change(columns):
        del columns[name]

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (wrong("process", 0, 1), "row 1 (the first is 0): process 0 follows process 1; sort"),
        (wrong("process", 13, 2), "row 13 (the first is 0): process 2 is none of the 2"),
        (wrong("process", 3, None), "row 3 (the first is 0): process is null"),
        (wrong("operation", 1, "fecht"), "row 1 (the first is 0): operation is 'fecht'; there are"),
        (wrong("operation", 1, None), "row 1 (the first is 0): operation is null"),
        (
            wrong("peer", 1, 2),
            "process 0, row 1 (the first is 0): fetch: peer 2 is none of 2 nodes",
        ),
        (wrong("peer", 8, -1), "process 1, row 1 (the first is 0): fetch: peer -1 is none"),
        (wrong("peer", 6, 2), "row 6 (the first is 0): send: peer 2 is none of 2 processes"),
        (wrong("peer", 6, -1), "send: peer -1 is none of 2 processes"),
        (wrong("peer", 13, -2), "receive: peer -2 is none of 2 processes"),
        (wrong("peer", 0, 0), "row 0 (the first is 0): compute: has peer 0"),
        (wrong("length", 2, 5), "row 2 (the first is 0): lock: has a buffer (5 bytes at 0x0)"),
        (wrong("length", 1, 0), "row 1 (the first is 0): fetch: of 0 bytes"),
        (wrong("address", 1, 2**64 - 8), "fetch: 4096 bytes at 0xfffffffffffffff8 wrap past 2^64"),
        (wrong("address", 1, BASE - 8), "are not all in the trace's memory, 1,048,576 bytes from"),
        (wrong("address", 1, BASE + MEMORY - 8), "are not all in the trace's memory"),
        (wrong("after", 3, [3]), "row 3 (the first is 0): after names row 3; a row waits for"),
        (wrong("after", 9, [0, 4]), "process 1, row 2 (the first is 0): after names row 4"),
        (wrong("after_start", 0, [0]), "row 0 (the first is 0): after_start names row 0"),
        (wrong("after", 3, [None]), "row 3 (the first is 0): after names a row that is null"),
        (
            wrong("after_others", 3, [{"process": 2, "row": 0}]),
            "row 3 (the first is 0): after_others",
        ),
        (wrong("after_others", 3, [{"process": 1, "row": 7}]), "after_others names a row that is"),
        (wrong("after_others", 3, [None]), "row 3 (the first is 0): after_others names a row that"),
        (
            wrong("after_start_others", 9, [{"process": 1, "row": 0}]),
            "process 1, row 2 (the first is 0): after_start_others names a row of its own process",
        ),
        (wrong("operation", 4, "lock"), "row 4 (the first is 0): lock: 7 is its own already"),
        (wrong("operation", 2, "unlock"), "row 2 (the first is 0): unlock: 7 is not held"),
        (wrong("name", 4, 8), "row 2 (the first is 0): lock: 7 is never let go of"),
        (wrong("operation", 0, "barrier"), "process 0 comes to it 2 times and process 1 1"),
        (wrong("duration_ns", 0, 2**63), "process 0 computes 9.22e+18 ns in all; at most 2^53"),
        (without("name"), "column 'name' is there 0 times; must be once"),
        (without("operation"), "is no program trace, as it has no column 'operation'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, change, says):
    columns = columns_of(small())
    change(columns)
    path = write_columns(tmp_path / "t.parquet", columns)

    with pytest.raises(TraceError) as refused:
        read_program(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "kind", "value", "says"),
    [
        ("peer", pa.int64(), 2**40, "peer is 1099511627776; must be from -2147483648"),
        ("after", pa.list_(pa.int64()), [-1], "after from here on: "),
        ("after", pa.uint32(), 1, "column 'after' is uint32; must be a list of uint32"),
        ("after_others", pa.list_(pa.uint32()), [1], "must be a list of structs of process and"),
        ("length", pa.float64(), 1.5, "column 'length' is double; must be uint32"),
        ("operation", pa.int32(), 1, "column 'operation' is int32; must be string"),
    ],
)
def test_columns_of_another_type_are_refused(tmp_path, name, kind, value, says):
    columns = columns_of(small())
    columns[name] = [value] * len(columns[name])

    with pytest.raises(TraceError) as refused:
        read_program(write_columns(tmp_path / "t.parquet", columns, types={name: kind}))

    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (metadata((0, 2)), "nodes_of_processes must rise from 0 without a gap"),
        (metadata((1, 1)), "nodes_of_processes must rise from 0 without a gap"),
        (metadata(()), "nodes_of_processes names no process"),
        (metadata(page_size=1000), "page_size in its metadata must be a power of two"),
        (metadata(version=2), "version 2 of program traces"),
        (metadata(format="another"), "says format 'another'"),
        (b"{", "is damaged"),
        (b"{}", "is damaged: Object missing required field `nodes_of_processes`"),
    ],
)
def test_metadata_that_cannot_be_are_refused(tmp_path, said, says):
    path = write_columns(tmp_path / "t.parquet", columns_of(small()), said)

    with pytest.raises(TraceError) as refused:
        read_program(path)

    assert says in str(refused.value)


def test_nothing_wrong_is_written(tmp_path):
    made = ProgramBuilder(metadata())
    made.add(0, Operation.FETCH, peer=5, address=BASE, length=8)

    with pytest.raises(TraceError, match="peer 5 is none of 2 nodes"):
        write_program(tmp_path / "t.program.parquet", made.trace())

    assert not [*tmp_path.iterdir()]


def test_a_trace_without_rows_is_refused(tmp_path):
    with pytest.raises(TraceError, match="holds no operations"):
        write_program(tmp_path / "t.program.parquet", ProgramBuilder(metadata()).trace())


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "t.program.parquet"
    write_program(path, small())
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(TraceError, match="truncated"):
        read_program(path)


def test_who_wants_requests_is_told_what_to_do_with_a_program(tmp_path):
    path = tmp_path / "t.program.parquet"
    write_program(path, small())

    with pytest.raises(TraceError, match=r"is a program trace.*nicscope simulate.*trace convert"):
        open_trace(path)
