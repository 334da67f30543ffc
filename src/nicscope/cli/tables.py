"""Results on stdout: text, tables, or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from nicscope.cli.streams import is_unicode
from nicscope.reports.json_text import json_text

if TYPE_CHECKING:
    from nicscope.reports.table import Rows

INDENT = "  "


def print_json(result: Any) -> None:
    """One JSON document on stdout."""
    print(json_text(result, ascii_only=not is_unicode(sys.stdout)), end="")


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
