"""Trace files for the tests of this folder, believable or not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

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


def write(path, count=40, types=None, **columns):
    """A trace of ``count`` requests over few pages on two nodes, some columns replaced."""
    rows = {
        "time_ns": range(count),
        "node": [i % 2 for i in range(count)],
        "pid": [7 + i % 3 for i in range(count)],
        "op": ["send" if i % 3 else "recv" for i in range(count)],
        "address": [0x10000 + 4096 * (i * i % 23) for i in range(count)],
        "length": [100 + 3000 * (i % 4) for i in range(count)],
        "peer": [None] * count,
        "buffer": [None] * count,
    } | columns
    kinds = TYPES | (types or {})
    table = pa.table({name: pa.array(list(v), kinds[name]) for name, v in rows.items()})
    pq.write_table(table, path)
    return path
