"""The contents of a request trace or a program trace, as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import printable
from nicscope.reports.printing import Bar, Piece, Printed, Rows, heading, rows_of
from nicscope.reports.result import Report
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.traces.programs.writer import ProgramSummary
    from nicscope.traces.summary import TraceSummary

BAR = 40  # characters of the longest bar


class ShownSummary(Report):
    """The summary of the trace called ``file``."""

    found: TraceSummary
    topic = "trace"

    def __init__(self, found: TraceSummary, file: str) -> None:
        super().__init__(found)
        self.file = file

    def as_json(self) -> dict[str, Any]:
        """One object."""
        return {"file": self.file, **self.found.as_json()}

    def parts(self) -> Iterator[Printed]:
        """Three tables: of the trace as a whole, its operations, its sizes."""
        yield ""
        yield heading(Path(self.file).name)
        for rows in (fact_rows, operation_rows, size_rows):
            yield rows(self.found)
            yield ""


def fact_rows(summary: TraceSummary) -> Rows:
    """Facts about the whole trace, one per line."""
    lowest, highest = summary.lowest_address or 0, summary.highest_address or 0
    page_size = summary.metadata.page_size
    footprint = byte_size(summary.pages * page_size)
    span = byte_size(highest - lowest + 1)
    notes = dict(summary.metadata.origin) | {
        f"observed {name}": value for name, value in summary.metadata.observed.items()
    }
    cells = [
        ["requests", f"{summary.requests:,}"],
        *(
            [
                [
                    "regions",
                    f"{summary.registrations:,} registered "
                    f"({byte_size(summary.registered_bytes)}), "
                    f"{summary.deregistrations:,} deregistered",
                ]
            ]
            if summary.registrations
            else []
        ),
        ["nodes, processes", f"{summary.nodes:,}, {summary.processes:,}"],
        ["bytes moved", f"{summary.bytes:,} ({byte_size(summary.bytes)})"],
        ["pages touched", f"{summary.pages:,} of {byte_size(page_size)} ({footprint})"],
        ["page lookups", f"{summary.lookups:,}, {summary.reuse:,.1f} per page"],
        ["addresses", f"{lowest:#x} to {highest:#x} ({span})"],
        ["duration", _duration(summary.duration_ns)],
        *(
            [printable(name.replace("_", " ")), printable(_spelt(value))]
            for name, value in notes.items()
        ),
    ]
    return Rows("", ["", ""], cells, left=(0, 1))


def operation_rows(summary: TraceSummary) -> Rows:
    """A row for each operation that the trace has."""
    from nicscope.traces.schema import FIRST_RECEIVE, OP_CODES

    counts = summary.requests_per_op
    return rows_of(
        "",
        [name for name, count in counts.items() if count],
        {
            "operation": str,
            "path": lambda name: "receive" if OP_CODES[name] >= FIRST_RECEIVE else "send",
            "requests": lambda name: f"{counts[name]:,}",
            "share": lambda name: f"{counts[name] / summary.requests:.1%}",
            "bytes": lambda name: byte_size(summary.bytes_per_op[name]),
        },
        words=("operation", "path"),
        least=("path", "share", "bytes"),
    )


def size_rows(summary: TraceSummary) -> Rows:
    """The number of requests by length, in powers of two."""
    counts = summary.requests_per_size_class
    used = [size_class for size_class, count in enumerate(counts) if count]
    most = max(counts, default=0)
    cells, bars = [], []
    for size_class in range(used[0], used[-1] + 1) if used else ():
        low, high = 1 << size_class, (2 << size_class) - 1
        label = byte_size(low) if low == high else f"{byte_size(low)} … {byte_size(high + 1)}"
        count = counts[size_class]
        cells.append([label, f"{count:,}"])
        bars.append(Bar((Piece("█", "green", count / most),)))
    return Rows("", ["request size", "requests"], cells, left=(), bars=bars, longest_bar=BAR)


def _duration(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "unknown (no times)"
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= factor:
            return f"{nanoseconds / factor:,.3f} {unit}"
    return f"{nanoseconds} ns"


def _spelt(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_spelt(count)}" for key, count in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


_MS = 1_000_000  # ns


class ShownProgramTrace(Report):
    """What the program trace called ``file`` holds."""

    found: ProgramSummary
    topic = "program-traces"

    def __init__(self, found: ProgramSummary, file: str) -> None:
        super().__init__(found)
        self.file = file

    def as_json(self) -> dict[str, Any]:
        """One object."""
        return {"file": self.file, **self.found.as_json()}

    def parts(self) -> Iterator[Printed]:
        """Two tables: of the trace as a whole, and its operations."""
        yield ""
        yield heading(Path(self.file).name)
        yield _facts(self.found)
        yield ""
        yield _operations(self.found)
        yield ""


def _facts(summary: ProgramSummary) -> Rows:
    metadata, computed = summary.metadata, summary.compute_ns
    notes = {"program": metadata.program, "size": metadata.size}
    for number, left_out in enumerate(metadata.left_out):
        notes["left out" if not number else f"left out {number + 1}"] = left_out
    cells = [
        ["operations", f"{summary.operations:,}"],
        ["nodes, processes", f"{summary.nodes:,}, {summary.processes:,}"],
        [
            "computing by process",
            f"{min(computed) / _MS:,.3f} to {max(computed) / _MS:,.3f} ms",
        ],
        ["longest path", f"{summary.longest_path_ns / _MS:,.3f} ms, the network aside"],
        ["waits", f"{summary.waits:,} within processes, {summary.waits_for_others:,} for others"],
        ["memory", f"{byte_size(metadata.memory_bytes)} from {metadata.base:#x}"],
        *([name, printable(text)] for name, text in notes.items() if text),
    ]
    if summary.never_ended:
        cells.append(["never ended", f"{summary.never_ended:,}: they wait for what never comes"])
    return Rows("", ["", ""], cells, left=(0, 1))


def _operations(summary: ProgramSummary) -> Rows:
    counts = summary.operations_by_kind
    return rows_of(
        "",
        [name for name, count in counts.items() if count],
        {
            "operation": str,
            "rows": lambda name: f"{counts[name]:,}",
            "bytes": lambda name: byte_size(summary.bytes_by_kind[name]),
        },
        words=("operation",),
        least=("bytes",),
    )
