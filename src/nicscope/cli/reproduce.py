"""``nicscope reproduce``: published numbers beside reproduced ones."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.tables import WIDEST, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.text import Text

    from nicscope.studies.reproduce.verdict import Point, Reproduction, Shape

# Blue and orange stay apart for every kind of colour vision; sign and word say it without colour.
STYLES = {True: "blue", False: "bold dark_orange"}


def reproduce(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER[/ID]", help="What to reproduce; by default all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json and results.md.")
    ] = None,
) -> None:
    """Set what the papers published beside what nicscope finds.

    Exit status 1 if a number is outside its tolerance or a statement does not hold.

    Example: nicscope reproduce utlb/table6 unet_mm --out results
    """
    from nicscope.outputs import output_folder
    from nicscope.studies.reproduce.harness import choose, load_papers

    names = wanted or []
    choose(load_papers(), names)  # a name that is wrong leaves no folder
    folder = None if out is None else output_folder(out)
    found = _reproduce(names)
    if folder is not None:
        _write(folder, found, names)
    if as_json:
        print_json(found.to_json())
    else:
        show(found)
    if not found.all_ok():
        raise typer.Exit(1)


def show(found: Reproduction) -> None:
    """Print the tables, item by item, then what is missing, then the counts."""
    from rich.console import Console
    from rich.text import Text

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
    if found.missing:
        console.print(Text("not reproduced yet", style="bold"))
        gaps = [(Text(f"{gap.paper}/{gap.id}"), Text(gap.why)) for gap in found.missing]
        console.print(_grid(gaps))
        console.print()
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


def _reproduce(names: Sequence[str]) -> Reproduction:
    """Run the study, with its progress on the error stream if someone is watching."""
    from rich.console import Console

    from nicscope.studies.reproduce.harness import reproduce as study

    console = Console(stderr=True)
    if not console.is_terminal:
        return study(names)
    with console.status("reproducing") as status:
        return study(names, progress=lambda name: status.update(f"reproducing {name}"))


def _write(folder: Path, found: Reproduction, names: Sequence[str]) -> None:
    from nicscope.outputs import whole_file
    from nicscope.studies.reproduce.markdown import as_markdown

    results = json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n"
    for name, content in (("results.json", results), ("results.md", as_markdown(found, names))):
        with whole_file(folder / name) as part:
            part.write_text(content, encoding="utf-8")
