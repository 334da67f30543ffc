"""A trace file for the tests of sizing: two hosts, some pages often, runs of others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.traces.reader import open_trace


def trace_of(path, count):
    """A trace of ``count`` requests, opened."""
    random = np.random.default_rng(7)
    often = random.random(count) < 0.6
    page = np.where(often, random.zipf(1.6, count) % 24, random.integers(0, 90, count))
    columns = {
        "time_ns": pa.array(range(count), pa.int64()),
        "node": pa.array((np.arange(count) % 2).tolist(), pa.int32()),
        "pid": pa.array((np.arange(count) % 3).tolist(), pa.int32()),
        "op": pa.array(
            ["send" if one else "recv" for one in often], pa.dictionary(pa.int32(), pa.string())
        ),
        "address": pa.array(((page + 1000) * 4096).tolist(), pa.uint64()),
        "length": pa.array(random.integers(1, 12_000, count).tolist(), pa.uint32()),
        "peer": pa.nulls(count, pa.int32()),
        "buffer": pa.nulls(count, pa.int32()),
    }
    pq.write_table(pa.table(columns), path)
    return open_trace(path)
