"""``nicscope sweep``: a trace through every design of a grid, into one table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nicscope.cli.answer import check_explained, tell
from nicscope.cli.arguments import output_path, text_beside
from nicscope.cli.streams import exit_resumable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.reports.sweep import ShownSweep
    from nicscope.studies.sweep.sweeping import Done


def answer_sweep(
    found: Callable[..., ShownSweep], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Print what was found beside the table, and say which earlier run it continues."""
    from nicscope.studies.sweep.table import journal_path

    check_explained(explain, as_json)
    out = given["out"] = output_path(given["out"])
    with text_beside(out, as_json):
        try:
            report = found(begun=_say_found)
        except KeyboardInterrupt:
            exit_resumable(journal_path(out))
            raise
        if report.done.was_there:
            print(f"nicscope: {out}: this sweep is there already, complete", file=sys.stderr)
        tell(report, [out], as_json, explain)


def _say_found(done: Done) -> None:
    if done.found:
        print(
            f"nicscope: continuing: {done.found:,} of {done.replays:,} replays were done before",
            file=sys.stderr,
        )
