"""Reading and writing trace files."""

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from trace_samples import as_lists, parquet, request_lists, rows

from nicscope.errors import TraceError
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import OP_NAMES, Op, TraceMetadata
from nicscope.traces.writer import TraceWriter, write_trace
from refusals import refused

NAMES = ("time_ns", "node", "pid", "op", "address", "length")


def with_metadata(path, text):
    table = pq.read_table(parquet(path, rows()))
    pq.write_table(table.replace_schema_metadata({"nicscope": text}), path)
    return path


def with_a_column_twice(path):
    table = pq.read_table(parquet(path, rows()))
    pq.write_table(table.append_column("node", table.column("node")), path)


def changed(change, **options):
    """What writes a trace of which ``change`` of its bytes is kept."""

    def write(path):
        path.write_bytes(change(parquet(path, rows(1000), **options).read_bytes()))

    return write


REFUSED = [
    (lambda _: None, "no such file"),
    (Path.mkdir, "folder"),
    (Path.touch, "empty"),
    (lambda path: path.write_text("time_ns,node\n"), "not a Parquet file", "nicscope trace c"),
    (lambda path: parquet(path, rows(0)), "no requests"),
    (with_a_column_twice, "column 'node'", "2 times"),
    *[(changed(lambda data, kept=kept: data[:kept]), "truncated") for kept in (4, 7, 100, -1)],
    (changed(lambda data: data[:4] + bytes(196) + data[200:], compression="zstd"), "damaged"),
    (changed(lambda data: data[: len(data) // 2] + data[-6:]), "damaged or truncated"),
    *[
        (
            lambda path, gone=gone: parquet(path, {k: v for k, v in rows().items() if k != gone}),
            f"column {gone!r} is missing", ", ".join(NAMES),
        )
        for gone in NAMES
    ],
    *[
        (
            lambda path, name=name, kind=kind: parquet(
                path, rows(4, **{name: pa.nulls(4, kind)}), {name: kind}
            ),
            f"column {name!r} is {kind}", must,
        )
        for name, kind, must in [
            ("time_ns", pa.float64(), "int64"),
            ("time_ns", pa.timestamp("ns"), "int64"),
            ("node", pa.string(), "int32"),
            ("pid", pa.bool_(), "int32"),
            ("op", pa.int8(), "text"),
            ("address", pa.decimal128(38), "uint64"),
            ("length", pa.binary(), "uint32"),
            ("peer", pa.large_binary(), "int32"),
        ]
    ],
    *[
        (lambda path, text=text: with_metadata(path, text), *facts)
        for text, *facts in [
            ("{", "metadata 'nicscope'", "damaged"),
            ("[1]", "metadata 'nicscope'", "damaged"),
            ('{"page_size": "big"}', "metadata 'nicscope'", "damaged"),
            *[
                (f'{{"page_size": {size}}}', "page_size", "power of two", "512 to 1073741824", size)
                for size in (1000, 0, 1 << 62)
            ],
            ('{"origin": ' + '{"a":' * 60 + "0" + "}" * 61, "more than 50 deep"),
            ('{"origin": ' + "[" * 100_000, "damaged"),
            (b'{"origin": "\xff"}', "damaged"),
            ('{"schema": 2}', "version 2", "up to 1"),
        ]
    ],
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: " ".join(map(str, row[1:])))
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(tmp_path, row):
    write, *facts = row
    path = tmp_path / "t.parquet"
    write(path)
    with refused(TraceError, path, *facts):
        open_trace(path).read()


def test_an_unreadable_file_is_refused(tmp_path, monkeypatch):
    path = parquet(tmp_path / "t.parquet", rows())

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)  # root may read everything
    with refused(TraceError, path, "Permission denied"):
        open_trace(path)


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        ("length", 0, ["length is 0", "at least 1 byte"]),
        ("node", -1, ["node is -1", "from 0"]),
        ("pid", -5, ["pid is -5", "negative"]),
        ("op", "sned", ["'sned'", "'send'"]),
        ("op", None, ["op is null"]),
        ("address", None, ["address is null"]),
        ("address", 2**64 - 1, ["0xffffffffffffffff", "length 182", "2^64"]),
        ("time_ns", 1479, ["time_ns is 1479", "1480", "node 0"]),
    ],
)
@pytest.mark.parametrize("max_rows", [10, 1000])
def test_a_bad_row_is_named_with_its_value(tmp_path, name, value, facts, max_rows):
    columns = rows(200)
    columns[name] = list(columns[name])
    columns[name][150] = value
    path = parquet(tmp_path / "t.parquet", columns, row_group_size=60)

    with refused(TraceError, f"{path}: row 150 (the first is 0): ", *facts):
        list(open_trace(path).batches(max_rows))


@given(columns=request_lists(with_peer=True))
@settings(deadline=None)
def test_what_is_written_is_read_back(tmp_path_factory, columns):
    path = tmp_path_factory.mktemp("trip") / "t.parquet"

    write_trace(path, columns)

    trace = open_trace(path)
    assert trace.rows == len(columns["op"])
    assert as_lists(trace.read()) == {name: columns[name] for name in NAMES}
    table = pq.read_table(path)
    for name in ("peer", "buffer", "note"):
        assert table.column(name).to_pylist() == columns[name]


def test_batches_are_bounded_and_in_order(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(1000), row_group_size=300)

    batches = list(open_trace(path).batches(max_rows=128))

    assert max(batch.length.size for batch in batches) <= 128
    assert np.concatenate([b.time_ns for b in batches]).tolist() == list(range(0, 10_000, 10))


def test_columns_have_the_types_that_kernels_are_compiled_for(tmp_path):
    requests = open_trace(parquet(tmp_path / "t.parquet", rows())).read()
    batch = next(open_trace(tmp_path / "t.parquet").batches())

    assert [str(c.dtype) for c in requests] == [
        "int64", "int32", "int32", "uint8", "uint8", "uint64", "uint32"
    ]  # fmt: skip
    assert all(c.flags.writeable and c.flags.c_contiguous for c in batch)


def test_the_receive_path_is_where_local_memory_is_written(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(6, op=OP_NAMES))

    requests = open_trace(path).read()

    found = {
        Op(op).name: receive for op, receive in zip(requests.op, requests.receive, strict=True)
    }
    assert found == {
        "SEND": 0, "WRITE": 0, "SERVE_READ": 0, "RECV": 1, "READ": 1, "SERVE_WRITE": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint32(), pa.string()),
        pa.dictionary(pa.int64(), pa.large_string()),
    ],
    ids=str,
)
@pytest.mark.parametrize("with_arrow_schema", [True, False])
def test_operations_may_be_any_kind_of_string(tmp_path, kind, with_arrow_schema):
    path = tmp_path / "t.parquet"
    parquet(path, rows(6), {"op": kind}, store_schema=with_arrow_schema, row_group_size=4)

    assert as_lists(open_trace(path).read())["op"] == list(OP_NAMES)


def test_unknown_columns_are_ignored_and_kept(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(4, posted=[1, 2, 3, 4], kind=list("abcd")))

    trace = open_trace(path)

    assert trace.column_names == [*NAMES, "posted", "kind"]
    (batch,) = [batch for _, batch in trace.record_batches()]
    assert batch.column("kind").to_pylist() == list("abcd")


def test_the_last_byte_of_the_address_space_can_be_used(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(1, address=[2**64 - 32]))

    assert open_trace(path).read().address.tolist() == [2**64 - 32]


def test_clocks_of_different_nodes_may_differ(tmp_path):
    path = parquet(tmp_path / "t.parquet", rows(4, time_ns=[100, 5, 100, 5], node=[0, 1, 0, 1]))

    assert open_trace(path).read().time_ns.tolist() == [100, 5, 100, 5]


@pytest.mark.requirement("UT-80")
def test_five_processes_of_a_node_are_one_stream_by_time(tmp_path):
    """Sends and remote reads, each process's in its order, merged by their stamps."""
    issued = sorted(
        (10 * i + process, node, 100 + process, "read" if (i + process) % 3 == 0 else "send")
        for node in (0, 1)
        for process in range(5)
        for i in range(20)
    )
    time_ns, node, pid, op = (list(column) for column in zip(*issued, strict=True))
    columns = rows(len(issued), time_ns=time_ns, node=node, pid=pid, op=op)

    requests = open_trace(parquet(tmp_path / "merged.parquet", columns)).read()

    for number in (0, 1):
        mine = requests.node == number
        assert set(requests.pid[mine].tolist()) == set(range(100, 105))
        assert (np.diff(requests.time_ns[mine]) >= 0).all()
    assert {OP_NAMES[code] for code in requests.op.tolist()} == {"send", "read"}

    # Process after process, as they were recorded, is no trace yet.
    order = sorted(range(len(issued)), key=lambda i: (pid[i], time_ns[i]))
    one_by_one = {name: [column[i] for i in order] for name, column in columns.items()}
    with refused(TraceError, "unmerged.parquet", "same node"):
        open_trace(parquet(tmp_path / "unmerged.parquet", one_by_one)).read()


@pytest.mark.parametrize("stride", [1, 4096])
def test_time_is_watched_on_thousands_of_nodes(tmp_path, stride):
    node = np.tile(np.arange(3000) * stride, 2)
    good = rows(6000, node=node, time_ns=np.repeat([5, 5], 3000))
    assert open_trace(parquet(tmp_path / "good.parquet", good)).read().node.tolist() == list(node)

    bad = good | {"time_ns": np.concatenate([good["time_ns"][:-1], [4]])}
    with refused(TraceError, "row 5999 (the first is 0)", "time_ns is 4", 5, 2999 * stride):
        open_trace(parquet(tmp_path / "bad.parquet", bad)).read()


def test_metadata_makes_the_round_trip_with_unknown_fields(tmp_path):
    path = tmp_path / "t.parquet"
    metadata = TraceMetadata(
        page_size=8192,
        origin={"program": "redis", "command": ["redis-server", "--port", "1"]},
        regions=[{"node": 0, "address": 4096, "length": 100}],
        unknown={"later": {"deep": [1, 2]}},
    )

    with TraceWriter(path, metadata) as writer:
        writer.write(rows())
        writer.metadata.observed["failed"] = 3  # known only at the end

    assert open_trace(path).metadata == metadata
    assert open_trace(path).metadata.observed == {"failed": 3}


def test_a_trace_may_have_no_metadata(tmp_path):
    metadata = open_trace(parquet(tmp_path / "t.parquet", rows())).metadata

    assert metadata == TraceMetadata()
    assert metadata.page_size == 4096


@pytest.mark.parametrize("key", ["schema", "schema_version"])
def test_an_origin_may_be_plain_text(tmp_path, key):
    path = with_metadata(tmp_path / "t.parquet", f'{{"{key}": 1, "origin": "a run of mine"}}')

    metadata = open_trace(path).metadata

    assert metadata.origin == {"description": "a run of mine"}
    assert metadata.schema_version == 1
    assert metadata.unknown == {}


def test_readers_that_are_given_up_wait_for_nobody_and_leave_no_threads(tmp_path, monkeypatch):
    """As they may be wherever garbage is collected: while a thread begins, which holds locks."""
    write_trace(tmp_path / "t.parquet", rows(5000), TraceMetadata())

    def waits(*_):
        raise AssertionError

    monkeypatch.setattr(threading.Thread, "join", waits)
    many = []
    for _ in range(9):
        batches = open_trace(tmp_path / "t.parquet").batches(max_rows=10)
        next(batches)
        batches.close()
        many.append(threading.active_count())

    assert max(many) <= many[0] + 1
