"""The rows of a recording as a trace file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.traces.recording.calls import NAMES
from nicscope.traces.writer import TraceWriter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.traces.recording.rows import IssueOrder
    from nicscope.traces.schema import TraceMetadata


def write_result(path: Path, rows: IssueOrder, metadata: TraceMetadata) -> None:
    """Write ``rows`` to ``path``; errors as of ``TraceWriter``."""
    with TraceWriter(path, metadata) as writer:
        for batch in rows.batches():
            writer.write(_columns(batch))


def _columns(rows: NDArray[Any]) -> dict[str, Any]:
    """The columns of a trace, and with them what only a recorder knows."""
    return {
        "time_ns": rows["time_ns"],
        "node": np.zeros(rows.size, np.int32),
        "pid": rows["pid"],
        "op": rows["op"],
        "address": rows["address"],
        "length": rows["length"],
        "posted": rows["posted"],
        "tid": rows["tid"],
        "syscall": pa.DictionaryArray.from_arrays(rows["call"].astype(np.int32), list(NAMES)),
    }
