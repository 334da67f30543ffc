"""What designs make of a trace, in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.comparison import ReplayReport

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def replay_report(trace: Path | str, designs: Sequence[str] = ()) -> ReplayReport:
    """What ``designs`` (all of the catalog if none is named) make of the trace file.

    Errors: ``TraceError`` or ``DesignError``, as on the command line.
    """
    from nicscope.studies.replaying import choose_subjects, compare
    from nicscope.traces.reader import open_trace

    subjects = choose_subjects(designs, None, [])
    return ReplayReport(compare(open_trace(trace), subjects))
