"""Program traces: what is written is read, and what cannot be is refused in one line."""

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
from nicscope.traces.programs.reader import read_program
from nicscope.traces.programs.schema import Operation
from nicscope.traces.programs.writer import ProgramBuilder, write_program
from nicscope.traces.reader import open_trace
from refusals import refused


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

    return with_columns(change)


def with_columns(change):
    def write(path):
        columns = columns_of(small())
        change(columns)
        write_columns(path, columns)

    return write


def with_type(name, kind, value):
    columns = columns_of(small())
    columns[name] = [value] * len(columns[name])
    return lambda path: write_columns(path, columns, types={name: kind})


def with_metadata(said):
    return lambda path: write_columns(path, columns_of(small()), said)


def truncated(path):
    write_program(path, small())
    path.write_bytes(path.read_bytes()[:-20])


REFUSED = [
    (wrong("process", 0, 1), "row 1 (", "process 0", "process 1", "sort"),
    (wrong("process", 13, 2), "row 13 (", "process 2", "the 2"),
    (wrong("process", 3, None), "row 3 (", "process is null"),
    (wrong("operation", 1, "fecht"), "row 1 (", "'fecht'"),
    (wrong("operation", 1, None), "row 1 (", "operation is null"),
    (wrong("peer", 1, 2), "process 0, row 1 (", "fetch", "peer 2", "2 nodes"),
    (wrong("peer", 8, -1), "process 1, row 1 (", "fetch", "peer -1"),
    (wrong("peer", 6, 2), "row 6 (", "send", "peer 2", "2 processes"),
    (wrong("peer", 6, -1), "send", "peer -1", "2 processes"),
    (wrong("peer", 13, -2), "receive", "peer -2", "2 processes"),
    (wrong("peer", 0, 0), "row 0 (", "compute", "peer 0"),
    (wrong("length", 2, 5), "row 2 (", "lock", "5 bytes at 0x0"),
    (wrong("length", 1, 0), "row 1 (", "fetch", "0 bytes"),
    (wrong("address", 1, 2**64 - 8), "fetch", "4096 bytes", "0xfffffffffffffff8", "2^64"),
    (wrong("address", 1, BASE - 8), "the trace's memory", "1,048,576 bytes"),
    (wrong("address", 1, BASE + MEMORY - 8), "the trace's memory"),
    (wrong("after", 3, [3]), "row 3 (", "after names row 3"),
    (wrong("after", 9, [0, 4]), "process 1, row 2 (", "after names row 4"),
    (wrong("after_start", 0, [0]), "row 0 (", "after_start names row 0"),
    (wrong("after", 3, [None]), "row 3 (", "after", "null"),
    (wrong("after_others", 3, [{"process": 2, "row": 0}]), "row 3 (", "after_others"),
    (wrong("after_others", 3, [{"process": 1, "row": 7}]), "after_others"),
    (wrong("after_others", 3, [None]), "row 3 (", "after_others"),
    (
        wrong("after_start_others", 9, [{"process": 1, "row": 0}]),
        "process 1, row 2 (", "after_start_others", "its own process",
    ),
    (wrong("operation", 4, "lock"), "row 4 (", "lock", "7"),
    (wrong("operation", 2, "unlock"), "row 2 (", "unlock", "7"),
    (wrong("name", 4, 8), "row 2 (", "lock", "7"),
    (wrong("operation", 0, "barrier"), "process 0", "2 times", "process 1"),
    (wrong("duration_ns", 0, 2**63), "process 0", "9.22e+18 ns", "2^53"),
    (with_columns(lambda columns: columns.pop("name")), "column 'name'", "0 times"),
    (with_columns(lambda columns: columns.pop("operation")), "column 'operation'"),
    (with_type("peer", pa.int64(), 2**40), "peer is 1099511627776", "from -2147483648"),
    (with_type("after", pa.list_(pa.int64()), [-1]), "after"),
    (with_type("after", pa.uint32(), 1), "column 'after' is uint32", "list of uint32"),
    (with_type("after_others", pa.list_(pa.uint32()), [1]), "list of structs of process and"),
    (with_type("length", pa.float64(), 1.5), "column 'length' is double", "uint32"),
    (with_type("operation", pa.int32(), 1), "column 'operation' is int32", "string"),
    (with_metadata(metadata((0, 2))), "nodes_of_processes", "gap"),
    (with_metadata(metadata((1, 1))), "nodes_of_processes", "gap"),
    (with_metadata(metadata(())), "nodes_of_processes", "no process"),
    (with_metadata(metadata(page_size=1000)), "page_size", "power of two"),
    (with_metadata(metadata(version=2)), "version 2"),
    (with_metadata(metadata(format="another")), "'another'"),
    (with_metadata(b"{"), "damaged"),
    (with_metadata(b"{}"), "damaged", "`nodes_of_processes`"),
    (truncated, "truncated"),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: " ".join(row[1:]))
def test_what_cannot_be_is_refused_in_one_line(tmp_path, row):
    write, *facts = row
    path = tmp_path / "t.program.parquet"
    write(path)
    with refused(TraceError, *facts) as told:
        read_program(path)
    assert str(told.value).startswith(f"{path}: ")


def test_nothing_wrong_is_written(tmp_path):
    made = ProgramBuilder(metadata())
    for fact in ("no operations", "peer 5"):
        with refused(TraceError, fact):
            write_program(tmp_path / "t.program.parquet", made.trace())
        made.add(0, Operation.FETCH, peer=5, address=BASE, length=8)

    assert not [*tmp_path.iterdir()]


def test_who_wants_requests_is_told_what_to_do_with_a_program(tmp_path):
    path = tmp_path / "t.program.parquet"
    write_program(path, small())

    with refused(TraceError, "program trace", "nicscope simulate", "trace convert"):
        open_trace(path)
