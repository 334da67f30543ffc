"""Summary of a trace in one pass and bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.traces.columns import requests_in
from nicscope.traces.numbering import Numbering, lookups_of
from nicscope.traces.schema import OP_NAMES, Registration, Requests, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.traces.files import Watch
    from nicscope.traces.reader import Trace

SIZE_CLASSES = 32  # lengths are 32 bits wide: class k holds 2^k to 2^(k+1) - 1 bytes


@dataclass
class TraceSummary:
    """Counts over a whole trace; bytes, pages of ``metadata.page_size``, nanoseconds."""

    metadata: TraceMetadata
    requests: int = 0
    bytes: int = 0
    lookups: int = 0
    pages: int = 0  # distinct (node, pid, page)
    nodes: int = 0
    processes: int = 0  # distinct (node, pid)
    first_time_ns: int | None = None
    last_time_ns: int | None = None
    lowest_address: int | None = None
    highest_address: int | None = None  # the last byte touched
    registrations: int = 0  # rows that register a region
    deregistrations: int = 0
    registered_bytes: int = 0  # of all that were registered, each as often as it was
    requests_per_op: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OP_NAMES, 0))
    bytes_per_op: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OP_NAMES, 0))
    requests_per_size_class: list[int] = field(default_factory=lambda: [0] * SIZE_CLASSES)

    @property
    def reuse(self) -> float:
        """Lookups per distinct page."""
        return self.lookups / self.pages if self.pages else 0.0

    @property
    def duration_ns(self) -> int:
        """From the first to the last time stamp over all nodes."""
        if self.first_time_ns is None or self.last_time_ns is None:
            return 0
        return self.last_time_ns - self.first_time_ns

    def as_json(self) -> dict[str, Any]:
        """The counts under their own names, ready for JSON."""
        import msgspec

        fields: dict[str, Any] = {
            name: value for name, value in vars(self).items() if name != "metadata"
        }
        fields["duration_ns"] = self.duration_ns
        fields["reuse"] = self.reuse
        fields["page_size"] = self.metadata.page_size
        fields["metadata"] = msgspec.json.decode(self.metadata.to_json())
        return fields


def summarize(trace: Trace, watch: Watch | None = None) -> TraceSummary:
    """Counts over ``trace``; tells ``watch`` how many of its rows are done.

    Errors: ``TraceError`` at the first row that the schema does not allow.
    """
    total, nodes = TraceSummary(trace.metadata), set[int]()
    numbers, pages_of = Numbering(), Numbering()
    for requests in _requests_beside(trace, total) if trace.registrations else trace.batches():
        total.requests += requests.length.size
        total.bytes += int(requests.length.sum(dtype=np.uint64))
        last = requests.address + (requests.length - np.uint32(1))
        for name, extreme, value in (
            ("first_time_ns", min, requests.time_ns.min()),
            ("last_time_ns", max, requests.time_ns.max()),
            ("lowest_address", min, requests.address.min()),
            ("highest_address", max, last.max()),
        ):
            before = getattr(total, name)
            setattr(total, name, int(value) if before is None else extreme(before, int(value)))
        counts = np.bincount(requests.op, minlength=len(OP_NAMES))
        for code, name in enumerate(OP_NAMES):
            if counts[code]:
                total.requests_per_op[name] += int(counts[code])
                mine = requests.length[requests.op == code]
                total.bytes_per_op[name] += int(mine.sum(dtype=np.uint64))
        # frexp is exact for 32-bit integers: the exponent is the position of the highest bit.
        classes = np.frexp(requests.length.astype(np.float64))[1] - 1
        for size_class, count in enumerate(np.bincount(classes, minlength=SIZE_CLASSES)):
            total.requests_per_size_class[size_class] += int(count)
        known = numbers.count
        process = numbers.number(requests.node.astype(np.int64), requests.pid.astype(np.int64))
        nodes.update(requests.node[process >= known].tolist())
        for rows, pages in lookups_of(requests, total.metadata.page_size):
            pages_of.number(process[rows], pages)
            total.lookups += rows.size
        total.nodes, total.processes, total.pages = len(nodes), numbers.count, pages_of.count
        if watch is not None:
            watch(total.requests, trace.rows)
    return total


def _requests_beside(trace: Trace, total: TraceSummary) -> Iterator[Requests]:
    """The requests of ``trace``, whose registrations ``total`` counts."""
    for rows in trace.batches_of_rows():
        is_new = rows.op == Registration.REGISTER
        total.registrations += int(np.count_nonzero(is_new))
        total.deregistrations += int(np.count_nonzero(rows.op == Registration.DEREGISTER))
        total.registered_bytes += sum(rows.region_bytes[is_new].tolist())
        requests = requests_in(rows)
        if len(requests.op):
            yield requests
