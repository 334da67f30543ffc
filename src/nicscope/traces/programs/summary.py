"""What a program trace amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.traces.programs.ordering import times_without_network
from nicscope.traces.programs.schema import OPERATION_NAMES

if TYPE_CHECKING:
    from nicscope.traces.programs.schema import ProgramMetadata, ProgramTrace


@dataclass
class ProgramSummary:
    """Counts over a whole trace; nanoseconds."""

    metadata: ProgramMetadata
    operations: int
    nodes: int
    processes: int
    operations_by_kind: dict[str, int]
    bytes_by_kind: dict[str, int]
    compute_ns: list[int]  # of each process
    waits: int  # for rows that are not simply the one before
    waits_for_others: int  # for rows of other processes
    longest_path_ns: int  # from the beginning to the end, if the network took no time
    never_ended: int  # rows that wait for each other, or for messages that nobody sends

    def as_json(self) -> dict[str, Any]:
        """The counts under their own names, ready for JSON."""
        return vars(self) | {"metadata": msgspec.to_builtins(self.metadata)}


def summarize_program(trace: ProgramTrace) -> ProgramSummary:
    """Counts over ``trace``."""
    counts = np.bincount(trace.operation, minlength=len(OPERATION_NAMES))
    lengths = np.bincount(trace.operation, trace.length, len(OPERATION_NAMES))
    sums = np.concatenate([[0], np.cumsum(trace.duration_ns.astype(np.int64))])
    times = times_without_network(trace)
    own = [len(each.places) for each in (trace.after, trace.after_start) if each is not None]
    others = (trace.after_others, trace.after_start_others)
    return ProgramSummary(
        trace.metadata,
        trace.rows,
        trace.metadata.nodes,
        trace.metadata.processes,
        dict(zip(OPERATION_NAMES, counts.tolist(), strict=True)),
        dict(zip(OPERATION_NAMES, lengths.astype(np.int64).tolist(), strict=True)),
        np.diff(sums[trace.first]).tolist(),
        sum(own),
        sum(len(each.rows) for each in others if each is not None),
        times.longest_ns,
        int(np.count_nonzero(~times.is_reached)),
    )
