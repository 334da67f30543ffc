"""``nicscope reproduce``: published numbers beside reproduced ones, and their tables for traces."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.progress import progress
from nicscope.cli.replay import print_written, trace_path
from nicscope.cli.tables import print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.outputs import OutputFolder
    from nicscope.studies.reproduce.harness import Plan
    from nicscope.studies.reproduce.verdict import Reproduction

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope reproduce utlb/table6 unet_mm --out results[/bold]\n\n"
    "[bold]nicscope reproduce utlb/table4 --trace traces[/bold]"
)
LISTED = 12  # files


def reproduce(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER[/ID]", help="What to reproduce; by default all."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="DIR",
            help="Traces for the tables that take any, each file a program; may be repeated. "
            "Left out: the bundled ones.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for results.json, results.md, and tables and figures."
        ),
    ] = None,
) -> None:
    """Set what the papers published beside what nicscope finds.

    Exit status 1 if a number is outside its tolerance or a statement does not hold.
    """
    from nicscope.reports.folder import folder_for
    from nicscope.studies.reproduce.harness import load_papers, plan
    from nicscope.studies.reproduce.traced.applications import trace_files

    names = wanted or []
    todo = plan(load_papers(), names, bool(traces))  # a name that is wrong leaves no folder
    files = [file for given in traces or [] for file in trace_files(trace_path(given))]
    with folder_for(out) as folder:
        found = _reproduce(names, todo, files)
        command = [*names, *(part for given in traces or [] for part in ("--trace", given))]
        written = [] if folder is None else _write(folder, found, command)
    if as_json:
        print_json(found.to_json())
    else:
        show(found)
        _print_written(written)
    if not found.all_ok():
        raise typer.Exit(1)


def show(found: Reproduction) -> None:
    """Print the checks, item by item, then what has no verdict or is missing, then the counts."""
    from nicscope.reports.printing import show as print_parts
    from nicscope.reports.reproduction_terminal import reproduction_parts

    print_parts(reproduction_parts(found))


def _reproduce(names: Sequence[str], todo: Plan, files: Sequence[Path]) -> Reproduction:
    """Run all of it, with its progress on the error stream."""
    from nicscope.studies.reproduce import harness

    with progress("reproducing", "items") as watch:
        count = _Count(watch, len(todo.items))
        found = harness.reproduce(names, progress=count, traced=bool(files))
    if todo.studies:
        with progress("replaying", "rows") as watch:
            harness.study(found, names, files, watch=watch)
    return found


class _Count:
    """Counts the items that are begun for a watch that hears how many are done."""

    def __init__(self, watch: Callable[[int, int], None], total: int) -> None:
        self._watch = watch
        self._total = total
        self._done = 0

    def __call__(self, name: str) -> None:  # noqa: ARG002 - how many, not which
        self._watch(self._done, max(self._total, self._done))
        self._done += 1


def _write(folder: OutputFolder, found: Reproduction, command: Sequence[str]) -> list[Path]:
    from nicscope.reports.folder import write_json, write_text
    from nicscope.reports.study_folder import write_studies
    from nicscope.studies.reproduce.markdown import as_markdown

    written = [
        write_json(folder, "results.json", found.to_json()),
        write_text(folder, "results.md", as_markdown(found, command)),
    ]
    with progress("writing", "tables") as watch:
        return written + write_studies(found.tables, folder, _Count(watch, len(found.tables)))


def _print_written(files: list[Path]) -> None:
    """Say where results went; of many, how many there are."""
    if len(files) <= LISTED:
        print_written(files)
        return
    folder = files[0].parent
    print(f"\nwritten: {len(files)} files in {folder}, among them {files[0].name}")
