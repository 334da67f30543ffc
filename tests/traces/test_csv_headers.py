"""A CSV file's header says whose it is: a trace of ours, or a cache trace by column numbers."""

from __future__ import annotations

from nicscope.traces.formats import convert


def test_what_a_header_calls_the_columns_that_are_taken_is_said(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("when,size,what\n1,2,3\n")
    done = convert(source, tmp_path / "t.parquet")
    assert done.metadata.observed["columns_taken"] == "when as time, size as object, what as size"
