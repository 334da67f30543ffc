"""A CSV file's header says whose it is: a trace of ours, or a cache trace by column numbers."""

from __future__ import annotations

import pytest

from nicscope.errors import TraceError
from nicscope.traces.formats import convert


def test_what_a_header_calls_the_columns_that_are_taken_is_said(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("when,size,what\n1,2,3\n")
    done = convert(source, tmp_path / "t.parquet")
    assert done.metadata.observed["columns_taken"] == "when as time, size as object, what as size"


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("time_ns;node;pid;op;address;length",
         "the header line has ';' where a trace has commas; write it with commas"),
        ("time_ns\tnode\tpid\top\taddress\tlength",
         "the header line has '\\t' where a trace has commas; write it with commas"),
        ("Time,Op,Address,Length",
         "column 'time_ns' is missing in the header line; a trace has time_ns, node, pid, op, "
         "address, length"),
    ],
)  # fmt: skip
def test_a_trace_that_is_spelt_wrong_is_not_read_as_anothers(tmp_path, header, complaint):
    source = tmp_path / "t.csv"
    source.write_text(f"{header}\n1,2,3,4,5,6\n")
    with pytest.raises(TraceError) as caught:
        convert(source, tmp_path / "t.parquet")
    assert str(caught.value) == f"{source}: {complaint}"
