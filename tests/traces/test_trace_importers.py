"""Importers of lackey logs, CSV and libCacheSim traces, on samples made by hand."""

import resource

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from trace_kinds import CSV, LACKEY, LIBCACHESIM, records

from nicscope.errors import TraceError
from nicscope.traces import files
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices


def imported(path, **options):
    """Convert ``path`` and return the result's rows as dicts, and the conversion."""
    target = path.parent / "out.parquet"
    done = convert(path, target, **options)
    return pq.read_table(target).to_pylist(), done


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path, **options):
    with pytest.raises(TraceError) as caught:
        convert(path, path.parent / "refused.parquet", **options)
    assert not (path.parent / "refused.parquet").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path), "FILE")


# lackey -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.lackey", "run.log"])
def test_lackey_loads_are_sent_stores_received_modifies_both(tmp_path, name):
    found, done = imported(written(tmp_path / name, LACKEY), choices=Choices(node=2, pid=9))

    assert [(r["op"], r["address"], r["length"]) for r in found] == [
        ("recv", 0x1FFEFFF7E8, 8),
        ("send", 0x4025E70, 16),
        ("send", 0x1FFEFFF000, 4),
        ("recv", 0x1FFEFFF000, 4),
    ]
    assert {(r["node"], r["pid"], r["time_ns"], r["peer"]) for r in found} == {(2, 9, 0, None)}
    assert done.from_format == "lackey"
    assert done.metadata.observed == {
        "instruction_fetches": 2, "loads": 1, "stores": 1, "modifies": 1
    }  # fmt: skip


def test_lackey_logs_of_several_blocks_keep_order_and_line_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(files.ByteSource.blocks, "__defaults__", (64,))
    lines = [f" L {4096 * i:08x},{i % 8 + 1}" for i in range(1, 200)]
    path = written(tmp_path / "run.lackey", "\n".join(lines))  # no newline at the end

    found, _ = imported(path)
    assert [r["address"] for r in found] == [4096 * i for i in range(1, 200)]

    lines[150] = " L oops,8"
    assert "FILE: line 151: ' L oops,8'" in refusal(written(path, "\n".join(lines)))


# our CSV ------------------------------------------------------------------------------------


def test_csv_is_read_with_nulls_hexadecimal_addresses_and_further_columns(tmp_path):
    found, _ = imported(written(tmp_path / "t.csv", CSV))

    assert [list(r.values()) for r in found] == [
        [0, 0, 7, "send", 0x7F0000001000, 64, 1, None, "a, b"],
        [10, 1, 8, "recv", 4096, 100, None, 3, "c"],
    ]


def test_csv_columns_may_stand_in_any_order(tmp_path):
    text = "\ufefflength,op,pid,node,address,time_ns\r\n64,read,7,0,4096,5\r\n"

    found, _ = imported(written(tmp_path / "t.csv", text))

    assert {name: found[0][name] for name in ("length", "op", "address", "time_ns")} == {
        "length": 64, "op": "read", "address": 4096, "time_ns": 5
    }  # fmt: skip


@pytest.mark.parametrize("ending", [".csv.zst", ".csv.gz"])
def test_csv_may_be_compressed(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    with pa.output_stream(str(path), compression="zstd" if ending.endswith("zst") else "gzip") as s:
        s.write(CSV.encode())

    assert len(imported(path)[0]) == 2


def test_csv_lines_are_counted_with_blank_ones_and_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files.ByteSource.blocks, "__defaults__", (90,))
    text = CSV + "\n" + "20,0,7,send,4096,64,,,x\n" * 20 + "30,0,7,send,4096,0,,,x\n"

    assert "FILE: line 25: length is 0" in refusal(written(tmp_path / "t.csv", text))


# libCacheSim --------------------------------------------------------------------------------


def test_oracle_general_objects_are_pages_of_processes(tmp_path):
    data = records((5, 3, 100, 3), (5, (2 << 52) | 9, 5000, -1), (6, 4, 0, -1), (7, 3, 4096, -1))

    found, done = imported(written(tmp_path / "t.oracleGeneral.bin", data), choices=Choices(pid=10))

    assert [(r["time_ns"], r["pid"], r["op"], r["address"], r["length"]) for r in found] == [
        (5 * 10**9, 10, "send", 3 * 4096, 100),
        (5 * 10**9, 12, "send", 9 * 4096, 4096),
        (7 * 10**9, 10, "send", 3 * 4096, 4096),
    ]
    assert done.metadata.observed == {"objects_without_bytes": 1, "objects_beyond_a_page": 1}


def test_hashed_objects_may_be_renumbered(tmp_path):
    data = records((0, 2**64 - 1, 1, 3), (0, 77, 1, -1), (0, 2**64 - 1, 1, -1))
    choices = Choices(renumber=True, op="recv", page_size=8192)

    found, done = imported(written(tmp_path / "t.bin", data), choices=choices)

    assert [(r["pid"], r["op"], r["address"]) for r in found] == [
        (0, "recv", 0), (0, "recv", 8192), (0, "recv", 0)
    ]  # fmt: skip
    assert done.metadata.page_size == 8192


def test_libcachesim_csv_is_told_by_its_ending_and_has_a_header_or_not(tmp_path):
    expected = [(1_500_000_000, 3 * 4096, 100), (2_000_000_000, 4 * 4096, 200)]
    for text in (LIBCACHESIM, LIBCACHESIM.partition("\n")[2]):
        found, done = imported(written(tmp_path / "t.csv", text))
        assert [(r["time_ns"], r["address"], r["length"]) for r in found] == expected
        assert done.from_format == "libcachesim-csv"


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("5|x|7|0\n", "time-col=4, obj-id-col=1, obj-size-col=3"),
        ("5;x;7;0\n", "obj-id-col=1,time-col=4,obj-size-col=3,delimiter=;"),
        ("5,x,7,0\n", "delimiter=,,obj-id-col=1,time-col=4,obj-size-col=3"),
        ("5\tx\t7\t0\n", "delimiter=\\t,obj-id-col=1,time-col=4,obj-size-col=3"),
        ("1,2,3,4\n5,x,7,0\n", "has-header=true,obj-id-col=1,time-col=4,obj-size-col=3"),
    ],
)
def test_libcachesim_columns_may_be_described(tmp_path, text, parameters):
    path = written(tmp_path / "t.txt", text)

    found, _ = imported(path, from_format="libcachesim-csv", choices=Choices(parameters=parameters))

    assert [(r["time_ns"], r["address"], r["length"]) for r in found] == [(0, 5 * 4096, 7)]


def test_numbers_above_2_63_are_kept(tmp_path):
    text = CSV + f"20,0,7,send,{2**64 - 64},64,,,x\n"

    found, _ = imported(written(tmp_path / "t.csv", text))

    assert np.uint64(found[2]["address"]) == 2**64 - 64


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(files.ByteSource.blocks, "__defaults__", (90,))

    message = refusal(written(tmp_path / "t.csv", CSV + "x" * 5000))

    assert message.startswith("FILE: line 4: longer than 1000 bytes")


# bounds -------------------------------------------------------------------------------------


STRACE = "1 1.0 recvfrom(0x3, 0x1000, 0x10, 0, 0, 0) = 0x10\n"


@pytest.mark.parametrize(
    ("from_format", "before"),
    [
        ("libcachesim-csv", LIBCACHESIM),
        ("csv", CSV),
        ("lackey", LACKEY),
        ("strace", STRACE),
        (None, CSV),
    ],
)
@pytest.mark.parametrize(
    "line", [b"1," * 5_000_000, b"3" * 10_000_000, b"\0" * 10_000_000], ids=["1,", "3", "zero"]
)
def test_a_line_of_10_mb_is_refused_by_its_length(tmp_path, from_format, before, line):
    path = written(tmp_path / "t.csv", before.encode() + line)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    message = refusal(path, from_format=from_format)

    number = before.count("\n") + 1
    assert message.startswith(f"FILE: line {number}: longer than 1048576 bytes")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 200 << 10, "KiB"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("from_format", "header"),
    [("libcachesim-csv", b""), ("csv", b"time_ns,node,pid,op,address,length,")],
)
def test_a_table_of_400_000_columns_is_refused_by_their_number(tmp_path, from_format, header):
    text = header + b",".join([b"1"] * 400_000) + b"\n"

    message = refusal(written(tmp_path / "t.csv", text), from_format=from_format)

    assert "1,000" in message


def test_a_line_is_as_long_as_it_may_be_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 300)
    for size in (100, 350, 2000):
        monkeypatch.setattr(files.ByteSource.blocks, "__defaults__", (size,))
        for before in (0, 1, 7):
            lines = CSV.splitlines(keepends=True)
            rest = "".join(lines[1:]) * before
            fits = "20,0,7,send,4096,64,,," + "x" * 277 + "\n"
            assert len(fits) == 300
            assert "time_ns" in refusal(
                written(tmp_path / "t.csv", lines[0] + rest + fits * 2 + "5,0,7,send,1,1,,,x\n")
            )
            message = refusal(written(tmp_path / "t.csv", lines[0] + rest + "x" + fits))
            assert message.startswith(f"FILE: line {2 + 2 * before}: longer than 300 bytes")


def test_what_a_header_calls_the_columns_that_are_taken_is_said(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("when,size,what\n1,2,3\n")
    done = convert(source, tmp_path / "t.parquet")
    assert done.metadata.observed["columns_taken"] == "when as time, size as object, what as size"
