"""Small traces for the tests of this folder."""

from __future__ import annotations

import resource
import signal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from nicscope.traces.schema import OP_NAMES

TYPES = {
    "time_ns": pa.int64(),
    "node": pa.int32(),
    "pid": pa.int32(),
    "op": pa.dictionary(pa.int32(), pa.string()),
    "address": pa.uint64(),
    "length": pa.uint32(),
    "peer": pa.int32(),
    "buffer": pa.int32(),
}


def rows(count=4, **columns):
    """Columns of ``count`` harmless requests, some of them replaced."""
    numbers = np.arange(count)
    return {
        "time_ns": numbers * 10,
        "node": numbers % 2,
        "pid": 7 + numbers % 3,
        "op": [OP_NAMES[i % len(OP_NAMES)] for i in range(count)],
        "address": 0x7F0000000FF0 + numbers * 4096,
        "length": 32 + numbers,
    } | columns


def parquet(path, columns, types=None, **options):
    """Write ``columns`` as they are: no check, no metadata, just the types."""
    kinds = TYPES | (types or {})
    table = pa.table({name: pa.array(list(v), kinds.get(name)) for name, v in columns.items()})
    pq.write_table(table, path, **options)
    return path


@st.composite
def request_lists(draw, max_size=40, max_length=20_000, with_peer=False):
    """Columns of a believable trace: times never go back within a node."""
    count = draw(st.integers(1, max_size))

    def column(values):
        return draw(st.lists(values, min_size=count, max_size=count))

    node = column(st.integers(0, 3) | st.integers(0, 2**31 - 1))
    clock: dict[int, int] = {}
    time_ns = []
    for n, step in zip(node, column(st.integers(0, 10**12)), strict=True):
        clock[n] = clock.get(n, 0) + step
        time_ns.append(clock[n])
    length = column(st.integers(1, max_length))
    columns = {
        "time_ns": time_ns,
        "node": node,
        "pid": column(st.integers(0, 2) | st.integers(0, 2**31 - 1)),
        "op": column(st.sampled_from(OP_NAMES)),
        "address": [
            min(a, 2**64 - n)
            for a, n in zip(
                column(st.integers(0, 2**64 - 1) | st.integers(0, 10**6)), length, strict=True
            )
        ],
        "length": length,
    }
    if with_peer:
        columns["peer"] = column(st.none() | st.integers(-(2**31), 2**31 - 1))
        columns["buffer"] = column(st.none() | st.integers(-(2**31), 2**31 - 1))
        columns["note"] = column(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
    return columns


def as_lists(requests):
    """A batch's columns as lists, operations by name, without the derived direction."""
    columns = {name: column.tolist() for name, column in requests._asdict().items()}
    columns["op"] = [OP_NAMES[code] for code in columns["op"]]
    del columns["receive"]
    return columns


@pytest.fixture
def disk_of_4_kib():
    """Writing more than 4 KiB to any file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, old)
