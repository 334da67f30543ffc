"""Writing trace files: what is refused, and that a file is there whole or not at all."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_samples import as_lists, rows

from nicscope.errors import TraceError
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OP_NAMES
from nicscope.traces.writer import TraceWriter, write_trace
from refusals import refused


def test_the_writer_refuses_what_the_reader_would(tmp_path):
    with refused(TraceError, "row 5 (", "length is 0"):
        write_in_parts(tmp_path / "t.parquet", rows(4), rows(2, length=[1, 0], time_ns=[90, 90]))
    assert list(tmp_path.iterdir()) == []


def write_in_parts(path, *parts, **how):
    with TraceWriter(path, **how) as writer:
        for part in parts:
            writer.write(part)


def test_the_writer_refuses_a_trace_without_requests(tmp_path):
    with refused(TraceError, "no request"):
        write_trace(tmp_path / "t.parquet", rows(0))
    assert list(tmp_path.iterdir()) == []


def test_parts_are_written_as_one_file(tmp_path):
    path = tmp_path / "t.parquet"
    later = rows(3, time_ns=[90, 91, 92], op=np.array([5, 0, 3], np.uint8))

    write_in_parts(path, rows(4), rows(0), later)

    assert as_lists(open_trace(path).read())["op"] == [*OP_NAMES[:4], "serve_write", "send", "recv"]
    kind = pq.read_schema(path).field("op").type
    assert pa.types.is_dictionary(kind)
    assert kind.value_type == pa.string()


def test_parts_must_have_the_same_columns(tmp_path):
    with pytest.raises(ValueError, match="follow columns"):
        write_in_parts(tmp_path / "t.parquet", rows(2), rows(2, extra=[1, 2]))


def test_row_groups_are_cut_as_the_file_grows(tmp_path):
    path = tmp_path / "t.parquet"

    write_in_parts(path, *(rows(60, time_ns=np.full(60, i)) for i in range(5)), group_rows=100)

    assert pq.read_metadata(path).num_row_groups >= 2
    assert open_trace(path).read().time_ns.tolist() == np.repeat(np.arange(5), 60).tolist()


def test_a_writer_that_is_given_up_leaves_nothing(tmp_path):
    def give_up():
        with TraceWriter(tmp_path / "t.parquet") as writer:
            writer.write(rows(4))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_only_by_a_whole_one(tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(path, rows(4))

    with pytest.raises(TraceError):
        write_trace(path, rows(2, length=[0, 0]))

    assert open_trace(path).rows == 4
