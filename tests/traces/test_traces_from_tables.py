"""Tables of other libraries as traces: any integer type will do whose values fit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_samples import TYPES, as_lists, request_lists, rows

from nicscope.errors import TraceError
from nicscope.library.translation import replay
from nicscope.traces.formats import convert
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS
from nicscope.traces.writer import write_trace
from refusals import refused

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
INTEGERS += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
WIDE = dict.fromkeys(("time_ns", "node", "pid", "address", "length"), pa.int64())
NUMBERS = [name for name in TYPES if name != "op"]


class Frame:
    """A data frame of any library: it hands itself over by Arrow's protocol."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def wide(count=50, **replaced):
    """As pandas makes it: every integer in 64 bits, integers with nulls as floating numbers."""
    columns = rows(count, address=np.arange(count) * 4096) | {
        "peer": [None if i % 3 else float(i) for i in range(count)]
    }
    columns |= replaced
    kinds = WIDE | {"op": pa.string(), "peer": pa.float64()}
    return pa.table({name: pa.array(list(v), kinds.get(name)) for name, v in columns.items()})


def as_pandas_writes(path, table, index):
    """With an index as a column of its own or not, and a note of it in the metadata."""
    if index:
        numbers = pa.array(range(table.num_rows), pa.int64())
        table = table.append_column("__index_level_0__", numbers)
    pq.write_table(table.replace_schema_metadata({"pandas": '{"index_columns": []}'}), path)
    return path


@pytest.mark.parametrize("make", [lambda table: table, Frame, lambda t: t.combine_chunks()])
def test_a_table_of_64_bit_integers_is_replayed_as_a_file_is(tmp_path, make):
    table = wide()
    write_trace(tmp_path / "t.parquet", table)

    report = replay(make(table), ["utlb"])

    file = replay(tmp_path / "t.parquet", ["utlb"])
    assert report.comparison.priced[0].result.total == file.comparison.priced[0].result.total
    assert report.comparison.trace["file"].startswith("the ")
    assert report.comparison.trace["bytes"] == table.nbytes


@pytest.mark.parametrize("index", [True, False])
def test_a_file_that_pandas_wrote_is_a_trace(tmp_path, index):
    path = as_pandas_writes(tmp_path / "p.parquet", wide(), index)
    write_trace(tmp_path / "t.parquet", wide())

    assert as_lists(open_trace(path).read()) == as_lists(open_trace(tmp_path / "t.parquet").read())
    convert(path, tmp_path / "c.parquet")
    written = pq.read_table(tmp_path / "c.parquet")
    assert {name: written.field(name).type for name in TYPES} == TYPES
    assert written.column("peer").to_pylist() == wide().column("peer").to_pylist()
    assert ("__index_level_0__" in written.column_names) == index


def fits(value, kind, nulls):
    if value is None:
        return nulls
    info = np.iinfo(kind.to_pandas_dtype())
    return info.min <= value <= info.max and value == int(value)


def read_or_refused(source):
    try:
        return as_lists(open_trace(source).read())
    except TraceError as error:
        return error


@given(
    columns=request_lists(max_size=8, max_length=200),
    name=st.sampled_from(NUMBERS),
    kind=st.sampled_from(INTEGERS + FLOATS),
    odd=st.none() | st.integers(-(2**63), 2**64 - 1) | st.integers(-300, 300) | st.floats(),
)
@settings(deadline=None)
def test_a_column_of_any_integer_type_is_taken_value_by_value(
    tmp_path_factory, columns, name, kind, odd
):
    """Refused is the first value that does not fit, with column and row; never a fitting one."""
    folder = tmp_path_factory.mktemp("table")
    count = len(columns["op"])
    columns |= {key: [None] * count for key in OPTIONAL_COLUMNS}
    values = list(columns[name])
    values[count // 2] = odd
    if kind in INTEGERS:
        low, high = np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max
        values = [v if v is None or (low <= v <= high and v == int(v)) else 0 for v in values]
        values = [None if v is None else int(v) for v in values]
    else:
        values = [None if v is None else float(v) for v in values]
    array = pa.array(values, kind if kind in INTEGERS else pa.float64()).cast(kind, safe=False)
    values = array.to_pylist()
    kinds = TYPES | {name: kind}
    table = pa.table(
        {n: array if n == name else pa.array(columns[n], kinds[n]) for n in kinds if n in columns}
    )
    pq.write_table(table, folder / "t.parquet")
    must = TYPES[name]
    unfit = [row for row, v in enumerate(values) if not fits(v, must, name in OPTIONAL_COLUMNS)]

    for source in (table, folder / "t.parquet"):
        if kind in FLOATS and name in REQUIRED_COLUMNS:
            with pytest.raises(TraceError, match=f"column {name!r} is (float|double)"):
                open_trace(source)
        elif unfit:
            with pytest.raises(TraceError) as caught:
                open_trace(source).read()
            row = unfit[0]
            said = "null" if values[row] is None else str(values[row])
            assert f"row {row} (the first is 0): {name} is {said}" in str(caught.value)
        else:
            found = read_or_refused(source)
            if isinstance(found, TraceError):  # the value fits, and makes no sense
                assert "must be from" not in str(found)
            elif name in REQUIRED_COLUMNS:
                assert found[name] == [int(v) for v in values]


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("length", 2**33, "length is 8589934592; must be from 0 to 4294967295 (uint32)"),
        ("address", -1, "address is -1; must be from 0 to 18446744073709551615 (uint64)"),
        ("pid", 2**31, "pid is 2147483648; must be from -2147483648 to 2147483647 (int32)"),
        ("node", None, "node is null; only peer and buffer may be"),
        ("peer", 0.5, "peer is 0.5; must be from -2147483648 to 2147483647 (int32)"),
    ],
)
def test_what_does_not_fit_is_named_wherever_it_comes_from(tmp_path, name, value, complaint):
    column = wide().column(name).to_pylist()
    column[37] = value
    table = wide(**{name: column})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20)
    complaint = f"row 37 (the first is 0): {complaint}"

    for read in (
        lambda: open_trace(table).read(),
        lambda: open_trace(Frame(table)).read(),
        lambda: open_trace(tmp_path / "t.parquet").read(),
        lambda: write_trace(tmp_path / "o.parquet", table),
        lambda: write_trace(tmp_path / "o.parquet", table.to_pydict()),
        lambda: convert(tmp_path / "t.parquet", tmp_path / "o.csv"),
    ):
        with pytest.raises(TraceError) as caught:
            read()
        assert str(caught.value).endswith(complaint)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("nonsense", [3, None, b"t.parquet", object()])
def test_what_is_no_table_is_refused(nonsense):
    with refused(TraceError, "no trace", "a path"):
        open_trace(nonsense)


def test_a_table_lacks_no_column_and_has_a_request(tmp_path):
    with refused(TraceError, "the Table", "'op'"):
        open_trace(wide().drop_columns("op"))
    with refused(TraceError, "the Table", "no requests"):
        open_trace(wide(0))
    with refused(TraceError, "o.parquet", "no request"):
        write_trace(tmp_path / "o.parquet", wide(0))
