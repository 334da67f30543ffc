"""A comparison on a terminal: tables and bars."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.reports.palette import KIND_COLOURS, KIND_TEXTURES
from nicscope.reports.printing import show
from nicscope.reports.rates import kind_names
from nicscope.reports.rows import (
    component_rows,
    headline,
    memory_rows,
    miss_rows,
    notes,
    work_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from nicscope.reports.printing import Printed
    from nicscope.studies.replaying import Comparison


def print_comparison(comparison: Comparison) -> None:
    """Print everything that people want of ``comparison`` on stdout."""
    show(comparison_parts(comparison))


def comparison_parts(comparison: Comparison) -> Iterator[Printed]:
    """What ``print_comparison`` prints, piece by piece."""
    from rich.text import Text

    yield _headline(comparison)
    yield Text()
    yield miss_rows(comparison)
    yield _legend(comparison)
    yield Text()
    yield work_rows(comparison)
    yield Text()
    yield memory_rows(comparison)
    if len(comparison.priced) == 1 and comparison.priced[0].cost.components:
        yield Text()
        yield component_rows(comparison.priced[0])
    lines = notes(comparison)
    if lines:
        yield Text()
    for line in lines:
        yield Text(line, style="dim")


def _headline(comparison: Comparison) -> Text:
    from rich.text import Text

    name = Text(Path(comparison.trace["file"]).name, style="bold")
    return name.append(f": {headline(comparison)}", style="not bold")


def _legend(comparison: Comparison) -> Text:
    from rich.text import Text

    legend = Text()
    for kind in kind_names(comparison):
        legend.append(KIND_TEXTURES[kind] * 2, style=KIND_COLOURS[kind]).append(f" {kind}   ")
    return legend
