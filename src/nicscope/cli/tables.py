"""Results on stdout: text and tables of at most 100 columns, or JSON."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from nicscope.cli.streams import is_unicode
from nicscope.reports.json_text import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDEST = 100


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    print(json_text(result, ascii_only=not is_unicode(sys.stdout)), end="")


def print_text(text: str = "") -> None:
    """One paragraph on stdout, wrapped."""
    print(textwrap.fill(text, WIDEST, subsequent_indent="  ", break_on_hyphens=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings on stdout; long cells wrap, the first column never does."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
