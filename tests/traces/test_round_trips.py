"""From any format that can be written to any other and back: nothing changes without a word."""

import contextlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from trace_samples import request_lists

from nicscope.errors import TraceError
from nicscope.traces.columns import FURTHER, TYPES
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OPTIONAL_COLUMNS, TraceMetadata
from nicscope.traces.writer import write_trace

FORMATS = {"parquet": ".parquet", "csv": ".csv", "oracle-general": ".oracleGeneral"}
PACKED = {"parquet": "", "csv": ".zst", "oracle-general": ".gz"}

# Columns that a trace may have beside the schema's: what nicscope itself adds, and anybody's.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=20)
COLUMNS = {
    "posted": (FURTHER["posted"], st.integers(0, 2**32 - 1)),
    "tid": (FURTHER["tid"], st.none() | st.integers(-(2**31), 2**31 - 1)),
    "syscall": (FURTHER["syscall"], st.none() | st.sampled_from(["read", "write", ""])),
    "note": (pa.string(), st.none() | LINES),
    "a, b": (pa.string(), st.none() | st.sampled_from(["", '"', ",", " ", "é", "a b"])),
    "count": (pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
    "share": (pa.float64(), st.none() | st.floats()),
    "yes": (pa.bool_(), st.none() | st.booleans()),
    "large": (pa.large_string(), st.none() | LINES),
    "kind": (pa.dictionary(pa.int8(), pa.string()), st.none() | st.sampled_from(["a", "b"])),
    "at": (pa.timestamp("us"), st.none() | st.integers(0, 2**50)),
    "nothing": (pa.null(), st.none()),
}
ODD = {
    "text": (pa.string(), st.none() | TEXT),
    "bytes": (pa.binary(), st.none() | st.binary(max_size=5)),
    "list": (pa.list_(pa.int32()), st.none() | st.lists(st.integers(0, 9), max_size=3)),
    "a\nb": (pa.int32(), st.integers(0, 9)),
}


@st.composite
def tables(draw, further=COLUMNS):
    """A trace as a table: the schema's columns, some with nulls, and further ones."""
    columns = draw(request_lists(max_size=12, max_length=2000))
    count = len(columns["op"])
    # What fits into seconds from the first on, for a format that has nothing else.
    columns["time_ns"] = sorted(time % 10**17 for time in columns["time_ns"])
    arrays = {name: pa.array(column, TYPES[name]) for name, column in columns.items()}
    for name in OPTIONAL_COLUMNS:
        values = st.none() | st.integers(-(2**31), 2**31 - 1)
        drawn = draw(st.lists(values, min_size=count, max_size=count))
        arrays[name] = pa.array(drawn, TYPES[name])
    chosen = draw(st.lists(st.sampled_from(sorted(further)), unique=True)) if further else []
    for name in chosen:
        kind, values = further[name]
        arrays[name] = pa.array(draw(st.lists(values, min_size=count, max_size=count)), kind)
    return pa.table(arrays)


def rewritten(source, target, **options):
    """What ``convert`` says that it lost."""
    return convert(source, target, **options).lost


def read(path):
    table = pq.read_table(path).unify_dictionaries()
    return table.replace_schema_metadata(None)


def same(one, other):
    """Whether two tables have the same schema and values, nan equal to nan."""
    return one.schema == other.schema and repr(one.to_pydict()) == repr(other.to_pydict())


METADATA = st.builds(
    TraceMetadata,
    page_size=st.sampled_from([512, 4096, 2**21]),
    origin=st.dictionaries(st.sampled_from(["program", "command"]), TEXT, max_size=2),
    observed=st.dictionaries(TEXT, st.integers(0, 9), max_size=2),
    unknown=st.sampled_from([{}, {"later": {"deep": [1, 2]}}]),
)


@given(table=tables(COLUMNS | ODD), metadata=METADATA)
@settings(deadline=None)
def test_parquet_keeps_everything(tmp_path_factory, table, metadata):
    folder = tmp_path_factory.mktemp("trip")
    write_trace(folder / "a.parquet", table, metadata)

    lost = rewritten(folder / "a.parquet", folder / "b.parquet")

    assert lost == []
    assert same(read(folder / "b.parquet"), read(folder / "a.parquet"))
    assert same(read(folder / "a.parquet"), table.unify_dictionaries())
    assert open_trace(folder / "b.parquet").metadata == metadata


@given(table=tables(), metadata=METADATA)
@settings(deadline=None)
@pytest.mark.parametrize("ending", [".csv", ".csv.zst", ".csv.gz"])
def test_csv_keeps_everything_but_what_it_says(tmp_path_factory, ending, table, metadata):
    folder = tmp_path_factory.mktemp("trip")
    write_trace(folder / "a.parquet", table, metadata)

    lost = rewritten(folder / "a.parquet", folder / f"b{ending}")
    rewritten(folder / f"b{ending}", folder / "c.parquet")

    before, after = read(folder / "a.parquet"), read(folder / "c.parquet")
    assert after.column_names == before.column_names
    for name in before.column_names:
        was, now = before.field(name).type, after.field(name).type
        if was == now:
            assert before.column(name).to_pylist() == after.column(name).to_pylist(), name
        else:
            assert now == pa.string()
            assert any(f"{name} ({was})" in line for line in lost)
    said = any(line.startswith("metadata: ") for line in lost)
    assert said == (metadata != TraceMetadata())
    assert said or open_trace(folder / "c.parquet").metadata.page_size == metadata.page_size


@given(table=tables(ODD))
@settings(deadline=None)
def test_what_has_no_form_in_csv_is_refused_in_one_line_or_kept(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("trip")
    write_trace(folder / "a.parquet", table)
    with contextlib.suppress(TraceError):
        convert(folder / "a.parquet", folder / "b.csv")
    if not (folder / "b.csv").exists():
        with pytest.raises(TraceError, match=r"line end|no form in CSV|without a form in CSV"):
            convert(folder / "a.parquet", folder / "b.csv")
        return
    convert(folder / "b.csv", folder / "c.parquet")

    before, after = read(folder / "a.parquet"), read(folder / "c.parquet")
    if "text" in before.column_names:
        assert after.column("text").to_pylist() == before.column("text").to_pylist()


@given(table=tables(), metadata=METADATA)
@settings(deadline=None)
@pytest.mark.parametrize("ending", [".oracleGeneral", ".oracleGeneral.zst"])
def test_oracle_general_keeps_the_pages_of_each_process_and_says_what_not(
    tmp_path_factory, ending, table, metadata
):
    folder = tmp_path_factory.mktemp("trip")
    size = metadata.page_size
    span = 2**40
    address = [a % span for a in table.column("address").to_pylist()]
    place = table.schema.get_field_index("address")
    table = table.set_column(place, "address", pa.array(address, pa.uint64()))
    write_trace(folder / "a.parquet", table, metadata)

    lost = rewritten(folder / "a.parquet", folder / f"b{ending}")
    back = rewritten(folder / f"b{ending}", folder / "c.parquet", choices=Choices(page_size=size))

    assert back == []
    before, after = open_trace(folder / "a.parquet"), open_trace(folder / "c.parquet")
    assert list(lookups(before, size)) == list(lookups(after, size))
    assert after.metadata.page_size == size
    written = pq.read_schema(folder / "c.parquet")
    assert written.names == list(TYPES)
    assert [written.field(name).type for name in TYPES] == list(TYPES.values())
    further = [name for name in table.column_names if name not in TYPES]
    assert all(any(name in line for line in lost) for name in (*further, "peer", "buffer"))
    assert any("operations" in line and "numbers of nodes and processes" in line for line in lost)


def lookups(trace, page_size):
    """(process, page, second) of each lookup, processes numbered as they appear."""
    processes = {}
    first = None
    for requests in trace.batches():
        for node, pid, address, length, time_ns in zip(
            requests.node.tolist(), requests.pid.tolist(), requests.address.tolist(),
            requests.length.tolist(), requests.time_ns.tolist(), strict=True,
        ):  # fmt: skip
            first = time_ns if first is None else first
            process = processes.setdefault((node, pid), len(processes))
            for page in range(address // page_size, (address + length - 1) // page_size + 1):
                yield process, page, (time_ns - first) // 10**9


@given(table=tables({}))
@settings(deadline=None)
@pytest.mark.parametrize(
    ("one", "other"),
    [("csv", "oracle-general"), ("oracle-general", "csv"), ("parquet", "oracle-general")],
)
def test_what_a_format_has_carried_once_it_carries_again(tmp_path_factory, one, other, table):
    """After a first trip has lost what it has to, further ones through the same lose nothing."""
    assume(max(table.column("address").to_pylist()) < 2**51)
    folder = tmp_path_factory.mktemp("trip")
    write_trace(folder / "0.parquet", table)

    for trip in range(2):
        first = folder / f"{trip}{FORMATS[one]}{PACKED[one]}"
        if first.name != f"{trip}.parquet":
            convert(folder / f"{trip}.parquet", first)
        middle = folder / f"m{trip}{FORMATS[other]}{PACKED[other]}"
        convert(first, middle)
        convert(middle, folder / f"{trip + 1}.parquet")

    before = 1 if "oracle-general" in (one, other) else 0
    assert same(read(folder / "2.parquet"), read(folder / f"{before}.parquet"))
