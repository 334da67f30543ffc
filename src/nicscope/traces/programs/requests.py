"""The requests that a program makes, as a request trace: what NICs are asked, without waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.errors import TraceError
from nicscope.traces.programs.ordering import times_without_network
from nicscope.traces.programs.schema import Operation
from nicscope.traces.schema import Op, TraceMetadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.traces.programs.schema import ProgramTrace

_OPS = {
    Operation.FETCH: Op.READ,
    Operation.DEPOSIT: Op.WRITE,
    Operation.SEND: Op.SEND,
    Operation.RECEIVE: Op.RECV,
}


def requests_of_program(trace: ProgramTrace, source: str) -> dict[str, NDArray[Any]]:
    """Columns of a request trace, rising in time: as if the network took none.

    Errors: ``TraceError`` if rows wait for each other, or nothing is moved.
    """
    times = times_without_network(trace)
    if not times.is_reached.all():
        raise TraceError(f"{source}: some rows wait for each other, or for messages never sent")
    rows = np.flatnonzero(np.isin(trace.operation, [*_OPS]) & (trace.length > 0))
    if not len(rows):
        raise TraceError(f"{source}: moves nothing; it has no requests")
    rows = rows[np.argsort(times.begin[rows], kind="stable")]
    process = trace.process_of_rows()[rows]
    node = np.array(trace.metadata.nodes_of_processes)
    local = np.arange(len(node)) - np.searchsorted(node, node)
    codes = np.zeros(len(Operation), np.uint8)
    codes[[*_OPS]] = [*_OPS.values()]
    peer = trace.peer[rows]
    is_message = np.isin(trace.operation[rows], (Operation.SEND, Operation.RECEIVE))
    return {
        "time_ns": times.begin[rows],
        "node": node[process].astype(np.int32),
        "pid": local[process].astype(np.int32),
        "op": codes[trace.operation[rows]],
        "address": trace.address[rows],
        "length": trace.length[rows],
        "peer": np.where(is_message & (peer >= 0), node[peer], peer).astype(np.int32),
    }


def request_metadata(trace: ProgramTrace) -> TraceMetadata:
    """Where they come from."""
    of = trace.metadata
    origin = {"program": of.program, "problem_size": of.size, "seed": of.seed} | of.origin
    times = "as if the network took no time; the program trace has what they depend on"
    return TraceMetadata(page_size=of.page_size, origin=origin | {"times": times})
