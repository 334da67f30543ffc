"""Traces of a few requests, as tables of Arrow."""

import pyarrow as pa


def table(ranges, pids=None, nodes=None, op="send"):
    """Requests of (address, bytes), a nanosecond apart, of process 7 of node 0 unless told.

    ``op``: of all of them, or of each.
    """
    count = len(ranges)
    return pa.table(
        {
            "time_ns": pa.array(range(count), pa.int64()),
            "node": pa.array(nodes or [0] * count, pa.int32()),
            "pid": pa.array(pids or [7] * count, pa.int32()),
            "op": pa.array([op] * count if isinstance(op, str) else op, pa.string()),
            "address": pa.array([begin for begin, _ in ranges], pa.uint64()),
            "length": pa.array([size for _, size in ranges], pa.uint32()),
        }
    )
