"""Writes a recording as a trace.

Apart from the recorder, as what writes Parquet takes longer to load than a program to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.outputs.file import PARQUET
from nicscope.traces.columns import Checker
from nicscope.traces.reader import requests_of
from nicscope.traces.recording.ptrace import NAMES
from nicscope.traces.writer import TraceWriter, batch_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.traces.recording.connections import Connection
    from nicscope.traces.recording.tracer import IssueOrder
    from nicscope.traces.schema import TraceMetadata


def write_result(
    path: Path,
    written: str,
    rows: IssueOrder,
    metadata: TraceMetadata,
    connections: Sequence[Connection],
) -> None:
    """Write ``rows`` to ``path`` in the format called ``written``; errors as of its writer."""
    checker = Checker(str(path))
    peers = pa.array([each.peer for each in connections], pa.int32())
    writer_type: Any = TraceWriter
    if written != PARQUET:
        from nicscope.traces.formats import FORMATS  # with all readers, which take long to load

        writer_type = FORMATS[written].writer
    with writer_type(path, metadata) as writer:
        for found in rows.batches():
            batch = batch_of(_columns(found, peers), checker)
            requests = requests_of(batch, checker)
            checker.check(requests)
            writer.append(requests, batch)


def _columns(rows: NDArray[Any], peers: pa.Array) -> dict[str, Any]:
    """The columns of a trace, and further ones that only a recorder knows."""
    known = pa.array(rows["connection"], mask=rows["connection"] < 0)  # null: could not be seen
    return {
        "time_ns": rows["time_ns"],
        "node": np.zeros(rows.size, np.int32),
        "pid": rows["pid"],
        "op": rows["op"],
        "address": rows["address"],
        "length": rows["length"],
        "peer": peers.take(known),
        "posted": rows["posted"],
        "tid": rows["tid"],
        "connection": known,
        "syscall": pa.DictionaryArray.from_arrays(rows["call"].astype(np.int32), list(NAMES)),
    }
