"""Importers of lackey logs, CSV and libCacheSim traces, on samples made by hand."""

from __future__ import annotations

import gzip
import resource
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nicscope.errors import TraceError
from nicscope.traces import files
from nicscope.traces.formats import convert
from nicscope.traces.imported import Choices

LACKEY = """\
==123== Lackey, an example Valgrind tool
==123==
I  04000c10,3
 S 1ffefff7e8,8
I  04000c13,5
 L 04025e70,16
 M 1ffefff000,4

==123== Counted 0 calls
"""


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
    message = refusal(written(path, "\n".join(lines)))
    assert message.startswith("FILE: line 151: ' L oops,8' is no memory access")


@pytest.mark.parametrize(
    "line",
    [" L 04025e70", " L 04025e70,", " L ,8", " X 04025e70,8", "L", " L 04025e70,0",
     " L 04025e70,8 x", " L 1234567890abcdef1,8", "hello"],
)  # fmt: skip
def test_a_line_that_is_no_access_is_named(tmp_path, line):
    path = written(tmp_path / "run.lackey", LACKEY + line + "\n")

    assert refusal(path).startswith(f"FILE: line 10: {line!r} is no memory access")


def test_a_lackey_log_without_data_accesses_is_refused(tmp_path):
    path = written(tmp_path / "run.lackey", "I  04000c10,3\n")

    assert refusal(path) == "FILE: holds no requests (lackey)"


# our CSV ------------------------------------------------------------------------------------

CSV = """\
time_ns,node,pid,op,address,length,peer,buffer,note
0,0,7,send,0x7f0000001000,64,1,,"a, b"
10,1,8,recv,4096,100,,3,c
"""


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


def test_a_compressed_file_that_is_cut_is_refused(tmp_path):
    data = gzip.compress((CSV + "20,0,7,send,4096,64,,,x\n" * 1000).encode())

    message = refusal(written(tmp_path / "t.csv.gz", data[:-30]), from_format="csv")

    assert message == (
        "FILE: cannot be read on: Truncated compressed stream; copy or record it again"
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("0,0,7,send,x,64,,,", "line 4: address is no uint64: found 'x'"),
        ("0,0,7,send,4096,,,,", "line 4: length is null; only peer and buffer may be"),
        ("0,0,7,send,4096,0,,,", "line 4: length is 0; a request moves at least 1 byte"),
        ("0,0,7,send,4096,99999999999,,,", "line 4: length is no uint32: found '99999999999'"),
        ("20,-3,7,send,4096,1,,,", "line 4: node is -3; nodes are numbered from 0"),
        ("20,0,7,sent,4096,1,,,", "line 4: unknown op 'sent'; did you mean 'send'?"),
        ("5,1,7,send,4096,1,,,", "line 4: time_ns is 5, after 10 on the same node 1; time must "
         "not go backwards within a node"),
        ("20,0,7,send,4096", "line 4: Expected 9 columns, got 5: 20,0,7,send,4096"),
    ],
)  # fmt: skip
def test_a_bad_csv_line_is_named(tmp_path, line, complaint):
    path = written(tmp_path / "t.csv", CSV + line + "\n30,0,7,send,4096,64,,,x\n")

    assert refusal(path) == f"FILE: {complaint}"


def test_csv_lines_are_counted_with_blank_ones_and_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files.ByteSource.blocks, "__defaults__", (90,))
    text = CSV + "\n" + "20,0,7,send,4096,64,,,x\n" * 20 + "30,0,7,send,4096,0,,,x\n"

    assert refusal(written(tmp_path / "t.csv", text)) == (
        "FILE: line 25: length is 0; a request moves at least 1 byte"
    )


def test_a_missing_csv_column_is_named(tmp_path):
    path = written(tmp_path / "t.csv", CSV.replace(",length,", ",len,"))

    assert refusal(path).startswith("FILE: column 'length' is missing in the header line")


def test_a_csv_column_that_is_there_twice_is_refused(tmp_path):
    path = written(tmp_path / "t.csv", CSV.replace("note", "pid"))

    assert refusal(path) == "FILE: column 'pid' is there 2 times"


def test_a_csv_file_with_nothing_but_a_header_is_refused(tmp_path):
    path = written(tmp_path / "t.csv", CSV.splitlines(keepends=True)[0])

    assert refusal(path) == "FILE: holds no requests (csv)"


# libCacheSim --------------------------------------------------------------------------------


def records(*rows_):
    return b"".join(struct.pack("<IQIq", *row) for row in rows_)


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


def test_a_record_that_is_cut_is_refused(tmp_path):
    path = written(tmp_path / "t.bin", records((0, 1, 1, -1), (0, 2, 1, -1))[:-3])

    assert refusal(path).startswith("FILE: ends within record 1 (the first is 0)")


def test_time_going_backwards_names_the_record(tmp_path):
    path = written(tmp_path / "t.bin", records((9, 1, 0, 1), (9, 1, 1, -1), (8, 2, 1, -1)))

    assert refusal(path).startswith("FILE: record 2 (the first is 0): time_ns is 8000000000")


LIBCACHESIM = "time,object,size,next\n1.5,3,100,2\n2,4,200,-1\n"


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


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("3,x,1,", "line 4: object is no uint64: found 'x'"),
        ("3,5,,", "line 4: no size given"),
        ("x,5,1,", "line 4: time is no double: found 'x'"),
        ("1e300,5,1,", "line 4: time 1e+300 is out of range; must be seconds"),
        ("nan,5,1,", "line 4: time nan is out of range; must be seconds"),
        ("1,5,1,", "line 4: time_ns is 1000000000, after 2000000000 on the same node 0; time "
         "must not go backwards within a node"),
        ("3,5", "line 4: Expected 4 columns, got 2: 3,5"),
    ],
)  # fmt: skip
def test_a_bad_libcachesim_line_is_named(tmp_path, line, complaint):
    assert refusal(written(tmp_path / "t.csv", LIBCACHESIM + line + "\n")) == f"FILE: {complaint}"


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ("time-cl=1", "unknown word 'time-cl' in --columns; did you mean 'time-col'?"),
        ("time-col=0", "time-col in --columns is '0'; columns are numbered from 1"),
        ("time-col=x", "time-col in --columns is 'x'; columns are numbered from 1"),
        ("time-col=2", "--columns names one column twice; time, object and size are three"),
        ("has-header=maybe", "has-header in --columns is 'maybe'; must be true or false"),
        ("delimiter=--", "delimiter in --columns is '--'; must be one character of ASCII, but no "
         "quote or line end"),
        ("delimiter=é", "delimiter in --columns is 'é'; must be one character of ASCII, but no "
         "quote or line end"),
        ("time-col=9999999", "time-col in --columns is '9999999'; columns are numbered from 1"),
        ("time-col=9", "FILE: line 1: 4 columns, but the time should be in column 9; say which "
         "with --columns time-col=1,obj-id-col=2,obj-size-col=3"),
    ],
)  # fmt: skip
def test_a_description_that_makes_no_sense_is_refused(tmp_path, parameters, complaint):
    path = written(tmp_path / "t.csv", LIBCACHESIM)

    assert refusal(path, choices=Choices(parameters=parameters)) == complaint


def test_numbers_above_2_63_are_kept(tmp_path):
    text = CSV + f"20,0,7,send,{2**64 - 64},64,,,x\n"

    found, _ = imported(written(tmp_path / "t.csv", text))

    assert np.uint64(found[2]["address"]) == 2**64 - 64


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    monkeypatch.setattr(files.ByteSource.blocks, "__defaults__", (90,))

    message = refusal(written(tmp_path / "t.csv", CSV + "x" * 5000))

    assert message == "FILE: line 4: longer than 1000 bytes; is this a text file?"


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
    assert message == f"FILE: line {number}: longer than 1048576 bytes; is this a text file?"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 200 << 10, "KiB"


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("from_format", "header"),
    [("libcachesim-csv", b""), ("csv", b"time_ns,node,pid,op,address,length,")],
)
def test_a_table_of_400_000_columns_is_refused_by_their_number(tmp_path, from_format, header):
    text = header + b",".join([b"1"] * 400_000) + b"\n"

    message = refusal(written(tmp_path / "t.csv", text), from_format=from_format)

    assert "columns; at most 1,000 are read" in message


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
