"""What a program trace holds, on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import printable
from nicscope.reports.result import Report
from nicscope.reports.table import Rows, rows_of
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.traces.programs.summary import ProgramSummary

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
        from rich.text import Text

        yield Text()
        yield Text(Path(self.file).name, style="bold")
        yield _facts(self.found)
        yield Text()
        yield _operations(self.found)
        yield Text()


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
