"""``nicscope reproduce``: the papers' numbers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from nicscope.cli.answer import check_explained, tell
from nicscope.cli.streams import exit_resumable
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nicscope.outputs import OutputFolder
    from nicscope.reports.reproduction import ShownReproduction

LISTED = 12  # files


def answer_reproduction(
    found: Callable[..., ShownReproduction], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Print what was found and write its files; exit status 1 if it is not as known."""
    from nicscope.library.reproduce import check
    from nicscope.reports.result import folder_for
    from nicscope.studies.reproduce.keeping import journal_path, kept_beside

    check_explained(explain, as_json)
    out = given.pop("out")
    check(**given)  # a name that is wrong leaves no folder
    try:
        with kept_beside(out) as kept, folder_for(out) as folder:
            if kept.earlier:
                several = "results were" if kept.earlier > 1 else "was"
                said = f"continuing: {kept.earlier} {several} found before"
                print(f"nicscope: {said}", file=sys.stderr)
            report = found(kept=kept)
            written = [] if folder is None else _write(report, folder)
    except KeyboardInterrupt:
        exit_resumable(None if out is None else journal_path(out))
        raise
    if len(written) <= LISTED or as_json:
        tell(report, written, as_json, explain)
    else:
        tell(report, [], as_json, explain)
        print(f"\nwritten: {len(written)} files in {out}, among them {written[0].name}")
    if not report.found.as_known():
        raise typer.Exit(1)


def _write(report: ShownReproduction, folder: OutputFolder) -> list[Path]:
    from nicscope.library.reproduce import Count

    count = len(report.found.tables)
    with progress("writing", "tables") as watch:
        report.tell = Count(watch, count)
        return report.write(folder)
