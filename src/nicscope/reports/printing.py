"""Results on stdout: tables, paragraphs and commands, as wide as the terminal is.

The width is that of ``COLUMNS``, if it is set; else the terminal's; 100 columns where the output
is no terminal.  Paragraphs are never wider than 100, as longer lines are hard to read.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from nicscope.reports.table import Rows

    Printed = Rows | Text | str

PIPED = 100  # columns where nobody says how many there are
PARAGRAPH = 100
ELSEWHERE = "a wider terminal, or --json"


def output_width() -> int:
    """Columns of a line of the output."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    except (OSError, ValueError):
        columns = 0
    return columns or PIPED


def show(parts: Iterable[Printed], elsewhere: str = ELSEWHERE) -> None:
    """Print ``parts``: tables, paragraphs, and strings, which are to be copied as they are.

    ``elsewhere``: where columns are that the width leaves out.
    """
    from rich.console import Console

    width = output_width()
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    for line in lines_of(parts, width, elsewhere):
        # Wrapped already: what is longer is one word, which the terminal may break.
        console.print(line, soft_wrap=True)


def lines_of(parts: Iterable[Printed], width: int, elsewhere: str = ELSEWHERE) -> Iterator[Any]:
    """The lines of ``parts`` on an output of ``width`` columns."""
    from nicscope.reports.drawing import table_lines
    from nicscope.reports.table import Rows

    for part in parts:
        if isinstance(part, Rows):
            yield from table_lines(part, width, elsewhere)
        elif isinstance(part, str):
            yield part
        else:
            yield from paragraph(part, min(width, PARAGRAPH))


def paragraph(text: Text, width: int) -> Iterator[Text]:
    """``text`` broken between words, each line of it as it was styled."""
    from nicscope.reports.words import breaks

    for line in text.split("\n", allow_blank=True):
        for part in line.divide(breaks(line.plain, width)):
            part.rstrip()
            yield part
