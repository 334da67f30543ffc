"""Summary of a trace in one pass and bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.traces.columns import requests_in
from nicscope.traces.numbering import Numbering, lookups_of
from nicscope.traces.schema import OP_NAMES, Registration, Requests, Rows, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


class _Counter:
    """Accumulates batches; keeps its tables of pages and processes between them."""

    def __init__(self, summary: TraceSummary) -> None:
        self._summary = summary
        self._nodes: set[int] = set()
        self._processes = Numbering()
        self._pages = Numbering()

    def add(self, requests: Requests) -> None:
        """Count one batch."""
        total = self._summary
        total.requests += requests.length.size
        total.bytes += int(requests.length.sum(dtype=np.uint64))
        self._add_extent(requests)
        self._add_operations(requests)
        known = self._processes.count
        process = self._processes.number(
            requests.node.astype(np.int64), requests.pid.astype(np.int64)
        )
        self._nodes.update(requests.node[process >= known].tolist())
        for rows, pages in lookups_of(requests, total.metadata.page_size):
            self._pages.number(process[rows], pages)
            total.lookups += rows.size
        total.nodes = len(self._nodes)
        total.processes = self._processes.count
        total.pages = self._pages.count

    def _add_extent(self, requests: Requests) -> None:
        total = self._summary
        last = requests.address + (requests.length - np.uint32(1))
        total.first_time_ns = _lower(total.first_time_ns, int(requests.time_ns.min()))
        total.last_time_ns = _higher(total.last_time_ns, int(requests.time_ns.max()))
        total.lowest_address = _lower(total.lowest_address, int(requests.address.min()))
        total.highest_address = _higher(total.highest_address, int(last.max()))

    def _add_operations(self, requests: Requests) -> None:
        total = self._summary
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


def summarize(trace: Trace, watch: Watch | None = None) -> TraceSummary:
    """Counts over ``trace``; tells ``watch`` how many of its rows are done.

    Errors: ``TraceError`` at the first row that the schema does not allow.
    """
    if not trace.registrations:
        return summarize_batches(trace.batches(), trace.metadata, trace.rows, watch)
    counted = TraceSummary(trace.metadata)
    batches = _requests_beside(trace.batches_of_rows(), counted)
    summary = summarize_batches(batches, trace.metadata, trace.rows, watch)
    for name in ("registrations", "deregistrations", "registered_bytes"):
        setattr(summary, name, getattr(counted, name))
    return summary


def _requests_beside(batches: Iterable[Rows], summary: TraceSummary) -> Iterator[Requests]:
    """The requests of ``batches``, whose registrations ``summary`` counts."""
    for rows in batches:
        is_new = rows.op == Registration.REGISTER
        summary.registrations += int(np.count_nonzero(is_new))
        summary.deregistrations += int(np.count_nonzero(rows.op == Registration.DEREGISTER))
        summary.registered_bytes += sum(rows.region_bytes[is_new].tolist())
        requests = requests_in(rows)
        if len(requests.op):
            yield requests


def summarize_batches(
    batches: Iterable[Requests], metadata: TraceMetadata, rows: int, watch: Watch | None = None
) -> TraceSummary:
    """Counts over checked ``batches`` that belong to one trace of ``rows`` requests."""
    summary = TraceSummary(metadata)
    counter = _Counter(summary)
    for requests in batches:
        counter.add(requests)
        if watch is not None:
            watch(summary.requests, rows)
    return summary


def _lower(old: int | None, new: int) -> int:
    return new if old is None else min(old, new)


def _higher(old: int | None, new: int) -> int:
    return new if old is None else max(old, new)
