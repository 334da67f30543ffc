"""``nicscope reproduce``: published numbers beside reproduced ones, and their tables for traces."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.progress import progress
from nicscope.cli.replay import print_written, trace_path
from nicscope.cli.tables import WIDEST, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from nicscope.studies.reproduce.harness import Plan
    from nicscope.studies.reproduce.verdict import Point, Reproduction, Shape

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope reproduce utlb/table6 unet_mm --out results[/bold]\n\n"
    "[bold]nicscope reproduce utlb/table4 --trace traces[/bold]"
)
LISTED = 12  # files
# Blue and orange stay apart for every kind of colour vision; sign and word say it without colour.
STYLES = {True: "blue", False: "bold dark_orange"}


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
    from rich.console import Console
    from rich.text import Text

    from nicscope.reports.study_text import study_lines
    from nicscope.studies.reproduce.markdown import summary_line

    console = Console(highlight=False)
    console.width = min(WIDEST, console.width) if console.is_terminal else WIDEST
    points = {key: list(group) for key, group in groupby(found.points, _key)}
    shapes = {key: list(group) for key, group in groupby(found.shapes, _key)}
    for key in sorted({*points, *shapes}):
        console.print(Text("/".join(key), style="bold"))
        if key in points:
            console.print(_points_table(points[key]))
        if key in shapes:
            console.print(_shapes_table(shapes[key]))
        console.print()
    for table in found.tables:
        title, *lines = study_lines(table)
        console.print(Text(title, style="bold"))
        console.print(Text("\n".join(lines)))
        console.print()
    if found.studies:
        console.print(Text("studies: rows for any traces, without a verdict", style="bold"))
        offers = [(Text(f"{one.paper}/{one.id}"), Text(one.why)) for one in found.studies]
        console.print(_grid(offers))
        console.print(
            "run one by its name: nicscope reproduce utlb/table4 [--trace DIR]", markup=False
        )
        console.print()
    if found.missing:
        console.print(Text("not reproduced yet", style="bold"))
        gaps = [(Text(f"{gap.paper}/{gap.id}"), Text(gap.why)) for gap in found.missing]
        console.print(_grid(gaps))
        console.print()
    if found.points or found.shapes or found.missing or found.studies:
        console.print(Text(summary_line(found)))


def _key(check: Point | Shape) -> tuple[str, str]:
    return check.paper, check.id


def _points_table(points: Sequence[Point]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    from nicscope.studies.reproduce.markdown import share

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("quantity", overflow="fold")
    for heading in ("published", "reproduced", "error", "tolerance"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("basis", no_wrap=True)
    table.add_column("", no_wrap=True)
    for point in points:
        table.add_row(
            Text(point.quantity),
            f"{point.published:g}",
            f"{point.reproduced:.6g}",
            share(point.relative_error),
            share(point.tolerance),
            point.basis.value,
            _verdict(point.ok),
        )
    return table


def _shapes_table(shapes: Sequence[Shape]) -> RenderableType:
    from rich.text import Text

    rows = []
    for shape in shapes:
        rows.append((_verdict(shape.ok), Text(shape.statement)))
        rows.append((Text(), Text(shape.evidence, style="dim")))
    return _grid(rows)


def _verdict(ok: bool) -> Text:
    from rich.text import Text

    from nicscope.studies.reproduce.markdown import verdict

    return Text(verdict(ok), style=STYLES[ok])


def _grid(rows: Sequence[tuple[Text, Text]]) -> RenderableType:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


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


def _write(folder: Path, found: Reproduction, command: Sequence[str]) -> list[Path]:
    from nicscope.outputs import whole_file
    from nicscope.reports.study_folder import write_studies
    from nicscope.studies.reproduce.markdown import as_markdown

    results = json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n"
    written = []
    for name, content in (("results.json", results), ("results.md", as_markdown(found, command))):
        with whole_file(folder / name) as part:
            part.write_text(content, encoding="utf-8")
        written.append(folder / name)
    with progress("writing", "tables") as watch:
        return written + write_studies(found.tables, folder, _Count(watch, len(found.tables)))


def _print_written(files: list[Path]) -> None:
    """Say where results went; of many, how many there are."""
    if len(files) <= LISTED:
        print_written(files)
        return
    folder = files[0].parent
    typer.echo(f"\nwritten: {len(files)} files in {folder}, among them {files[0].name}")
