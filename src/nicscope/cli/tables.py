"""Results on stdout: text, tables, or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from nicscope.reports.table import Rows

INDENT = "  "


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(result, indent=2, ensure_ascii=False))


def print_text(text: str = "") -> None:
    """One paragraph on stdout, wrapped; all lines but the first are indented."""
    from nicscope.reports.printing import PARAGRAPH, output_width, show
    from nicscope.reports.words import wrapped

    first, *others = wrapped(" ".join(text.split()), min(output_width(), PARAGRAPH) - len(INDENT))
    show([first, *(INDENT + line for line in others)])


def print_table(rows: Rows) -> None:
    """A table on stdout."""
    from nicscope.reports.printing import show

    show([rows])
