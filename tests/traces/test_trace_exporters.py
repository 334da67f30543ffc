"""Exporters, and conversions there and back."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from trace_samples import as_lists, disk_of_4_kib, parquet, request_lists, rows  # noqa: F401

from nicscope.errors import OutputError, TraceError
from nicscope.traces import numbering, reader
from nicscope.traces.formats import convert
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import write_trace
from refusals import refused


def test_csv_has_the_schema_in_its_header_and_decimal_numbers(tmp_path):
    parquet(tmp_path / "t.parquet", rows(1, peer=[None], note=["a, b"]))

    convert(tmp_path / "t.parquet", tmp_path / "t.csv")

    header, row = (tmp_path / "t.csv").read_text().splitlines()
    assert header.replace('"', "").split(",") == [
        "time_ns", "node", "pid", "op", "address", "length", "peer", "buffer", "note"
    ]  # fmt: skip
    assert row == '0,0,7,"send",139637976731632,32,,,"a, b"'


def oracle_records(data):
    return list(struct.iter_unpack("<IQIq", data))


@given(columns=request_lists(max_length=5000))
@settings(deadline=None)
def test_oracle_general_holds_every_lookup_and_its_future(tmp_path_factory, columns):
    folder = tmp_path_factory.mktemp("trip")
    for key, span in (("time_ns", 10**15), ("address", 2**47)):
        columns[key] = [value % span for value in columns[key]]
    columns["time_ns"].sort()
    write_trace(folder / "t.parquet", columns, TraceMetadata(page_size=512))

    convert(folder / "t.parquet", folder / "t.oracleGeneral")

    processes, lookups = {}, []
    for time_ns, node, pid, address, length in zip(
        *(columns[name] for name in ("time_ns", "node", "pid", "address", "length")), strict=True
    ):
        process = processes.setdefault((node, pid), len(processes))
        time_s = (time_ns - columns["time_ns"][0]) // 10**9
        pages = range(address // 512, (address + length - 1) // 512 + 1)
        lookups += [(time_s, process << 55 | page) for page in pages]
    last, future = {}, [-1] * len(lookups)
    for number, (_, name) in enumerate(lookups, 1):  # records are counted from 1
        if name in last:
            future[last[name] - 1] = number
        last[name] = number
    assert oracle_records((folder / "t.oracleGeneral").read_bytes()) == [
        (time_s, name, 512, after) for (time_s, name), after in zip(lookups, future, strict=True)
    ]


def test_the_future_reaches_across_batches_and_compression(tmp_path, monkeypatch):
    monkeypatch.setattr(numbering.lookups_of, "__defaults__", (300,))
    monkeypatch.setattr(reader.Trace.record_batches, "__defaults__", (700,))
    count = 10_000
    columns = rows(count, time_ns=[0] * count, node=[0] * count, pid=[5] * count)
    columns |= {"address": [4096 * (i % 3_001) for i in range(count)], "length": [1] * count}
    columns["op"] = ["send"] * count
    write_trace(tmp_path / "t.parquet", columns)

    convert(tmp_path / "t.parquet", tmp_path / "t.bin.zst")

    with pa.input_stream(str(tmp_path / "t.bin.zst"), compression="zstd") as stream:
        records = oracle_records(stream.read())
    assert [r[1] for r in records] == [i % 3_001 for i in range(count)]
    assert [r[3] for r in records] == [
        i + 3_001 + 1 if i + 3_001 < count else -1 for i in range(count)
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.bin.zst", "t.parquet"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (rows(2, node=[0, 0], time_ns=[0, 2**62]), "spans more seconds than 32 bits can count"),
        (rows(600, pid=range(600)), "more than 512 processes"),
    ],
)
def test_what_oracle_general_cannot_hold_is_refused(tmp_path, columns, complaint):
    write_trace(tmp_path / "t.parquet", columns, TraceMetadata(page_size=512))

    with pytest.raises(TraceError, match=complaint):
        convert(tmp_path / "t.parquet", tmp_path / "t.bin.zst")
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize(
    "name", ["out.csv", "out.csv.zst", "out.bin", "out.bin.zst", "out.parquet"]
)
def test_a_bad_row_leaves_no_output(tmp_path, name):
    parquet(tmp_path / "t.parquet", rows(4, length=[1, 1, 1, 0]))

    with refused(TraceError, "t.parquet", "row 3 (", "length is 0"):
        convert(tmp_path / "t.parquet", tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


WRITTEN = ["out.parquet", "out.csv", "out.csv.zst", "out.bin", "out.bin.zst"]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_folder_that_is_not_there_is_an_output_error(tmp_path, name):
    parquet(tmp_path / "t.parquet", rows())

    with refused(OutputError, "nowhere", "No such file"):
        convert(tmp_path / "t.parquet", tmp_path / "nowhere" / name)


@pytest.fixture
def large_trace(tmp_path):
    address = np.random.default_rng(1).integers(0, 2**60, 3_000)
    write_trace(tmp_path / "t.parquet", rows(3_000, address=address))
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.usefixtures("large_trace", "disk_of_4_kib")
def test_a_full_disk_is_one_error_and_no_output(tmp_path, name):
    with refused(OutputError, tmp_path / name, "cannot be written"):
        convert(tmp_path / "t.parquet", tmp_path / name)

    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_a_column_without_a_form_in_csv_is_refused(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(1, nested=[[1, 2]]))

    with refused(TraceError, "column 'nested'", "list<element: int64>", "CSV"):
        convert(path, tmp_path / "t.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_input_and_output_must_differ(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows())

    with refused(TraceError, "input and output"):
        convert(path, tmp_path / "." / "t.parquet")


@pytest.mark.parametrize(
    ("source", "target", "options", "facts"),
    [
        ("t.parquet", "t.xyz", {}, ["which format to write"]),
        ("t.parquet", "t.strace", {}, ["strace", "parquet, csv, oracle-gen"]),
        ("t.parquet", "t.parquet.zst", {}, ["Parquet is compressed"]),
        ("t.parquet", "t.csv", {"to_format": "cvs"}, ["'cvs'", "'csv'"]),
        ("t.parquet", "t.csv", {"from_format": "tar"}, ["'tar'"]),
        ("t.parquet", "u.csv", {"from_format": "csv"}, ["'time_ns'", "header"]),
        ("what.ever", "t.csv", {}, ["--from parquet or --from csv"]),
        ("missing", "t.csv", {}, ["missing", "no such file"]),
    ],
)
def test_formats_that_cannot_be_told_or_used_are_refused(tmp_path, source, target, options, facts):
    parquet(tmp_path / "t.parquet", rows())
    (tmp_path / "what.ever").write_text("nobody knows\n")

    with refused((TraceError, OutputError), *facts):
        convert(tmp_path / source, tmp_path / target, **options)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.parquet", "what.ever"]
