"""The timelines of a program: all its runs, one cluster beside the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.interfaces.run_timeline import MOST_RECORDS, Drawn, document, write_document
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.interfaces.run_report import RunReport
    from nicscope.studies.programs import ProgramRuns

__all__ = ["MOST_RECORDS", "counts", "program_timeline", "write_timeline"]


SIMULATE = ("simulate",)


def write_timeline(found: ProgramRuns, path: Path, command: Sequence[str] = SIMULATE) -> Path:
    """The document of all runs as the file ``path``, as a cluster's own timeline is written.

    Errors: ``OutputError``, ``ReaderGone``.
    """
    what = dict.fromkeys(report.title() for report in found.runs)
    drawn = program_timeline(found, command)
    return write_document(drawn, path, f"{found.program}: {'; '.join(what)}")


def program_timeline(found: ProgramRuns, command: Sequence[str] = SIMULATE) -> dict[str, Any]:
    """The whole document, of runs whose logs were kept."""
    many = len(found.runs) > 1
    runs = [
        Drawn(_nodes(report, f"run {number}, " if many else ""), log)
        for number, (report, log) in enumerate(zip(found.runs, found.logs, strict=True), 1)
    ]
    return document(runs, ["nicscope", *command, found.program], __version__)


def counts(found: ProgramRuns) -> tuple[int, int]:
    """Records that the timeline shows, and those that there were."""
    return sum(len(log.records) for log in found.logs), sum(log.total for log in found.logs)


def _nodes(report: RunReport, run: str) -> list[str]:
    what = report.title()
    return [f"{run}node {node.node}: {what}" for node in report.nodes]
