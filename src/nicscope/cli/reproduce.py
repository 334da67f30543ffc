"""``nicscope reproduce``: the papers' numbers."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.answer import check_explained, tell
from nicscope.cli.arguments import AsJson, Explain, offering, option
from nicscope.cli.streams import exit_resumable
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.outputs import OutputFolder
    from nicscope.reports.reproduction import ShownReproduction

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope reproduce utlb/table6 unet_mm --out results[/bold]\n\n"
    "[bold]nicscope reproduce utlb/table4 --trace traces[/bold]\n\n"
    "[bold]nicscope reproduce today --trace FAST25-release/traces[/bold]"
)
LISTED = 12  # files


def reproduce(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER[/ID]", help="What to reproduce; by default all."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        option(
            "DIR",
            "Traces for the tables of programs, each file a program, instead of the papers' "
            "programs; for today the public traces that its items are of; may be repeated.",
            "--trace",
        ),
    ] = None,
    programs: Annotated[
        str,
        option(
            "SIZES",
            "Sizes of the papers' programs, which are run for their tables: small, paper (minutes, "
            "the first time), or none.",
            autocompletion=offering("programs"),
        ),
    ] = "small",
    as_json: AsJson = False,
    explain: Explain = False,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, results.md, and tables and figures.")
    ] = None,
) -> None:
    """Set what the papers published beside what nicscope finds.

    Exit status 1 if a number or statement misses that is not listed as a known miss, or if one
    that is listed misses no more.
    """
    from nicscope.library.reproduce import check
    from nicscope.library.reproduce import reproduce as run
    from nicscope.reports.result import folder_for
    from nicscope.studies.reproduce.keeping import journal_path, kept_beside

    check_explained(explain, as_json)
    check(wanted, traces=traces, programs=programs)  # a name that is wrong leaves no folder
    try:
        with kept_beside(out) as kept, folder_for(out) as folder:
            if kept.earlier:
                several = "results were" if kept.earlier > 1 else "was"
                said = f"continuing: {kept.earlier} {several} found before"
                print(f"nicscope: {said}", file=sys.stderr)
            report = run(wanted, traces=traces, programs=programs, kept=kept)
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
