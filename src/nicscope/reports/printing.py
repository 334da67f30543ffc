"""Results on stdout: tables, paragraphs and commands, as wide as the terminal is.

The width is that of ``COLUMNS``, if it is set; else the terminal's; 100 columns where the output
is no terminal.  Paragraphs are never wider than 100, as longer lines are hard to read.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from rich.text import Text

    from nicscope.reports.table import Rows

    Printed: TypeAlias = "Rows | Text | str | Note"

# A number stays with its unit ("32 KiB", "4 ways"), a sign with its number ("≥ 1.70").
_WORD = re.compile(r"\S+")
_NUMBER = re.compile(r"[+-]?[0-9]([0-9,.]*[0-9])?")
_SIGNS = ("≥", "x")
_POINT = re.compile(r"[0-9,]+:")  # of a table over sizes, before its value: "16: 70"


def width_of(text: str) -> int:
    """The display width of ``text``; some characters take two columns, some none."""
    return cell_len(text)


def visible(text: str) -> str:
    """``text`` on one line, with control characters escaped."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) == "Cc" else char
        for char in text
    )


def pieces(text: str) -> list[tuple[int, int]]:
    """Begin and end of each unbreakable piece of ``text``."""
    found: list[tuple[int, int]] = []
    before = ""
    for match in _WORD.finditer(text):
        word = match.group()
        is_unit = _NUMBER.fullmatch(before) is not None and not word[0].isdigit()
        if before in _SIGNS or is_unit or _POINT.fullmatch(before):
            found[-1] = (found[-1][0], match.end())
        else:
            found.append(match.span())
        before = word
    return found


def longest_piece(text: str) -> int:
    """The display width of the widest unbreakable piece of ``text``."""
    return max((width_of(text[begin:end]) for begin, end in pieces(text)), default=0)


def breaks(text: str, width: int) -> list[int]:
    """Where the lines of ``text`` at most ``width`` wide begin, except the first.

    A wider piece has a line of its own.
    """
    found: list[int] = []
    first = 0
    for begin, end in pieces(text):
        if begin > first and width_of(text[first:end]) > width:
            first = begin
            found.append(begin)
    return found


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` columns, except wider unbreakable pieces."""
    ends = [0, *breaks(text, width), len(text)]
    return [text[begin:end].rstrip() for begin, end in pairwise(ends)]


def padded(text: str, width: int, *, left: bool) -> str:
    """``text`` with blanks up to ``width`` columns, behind it if ``left``, else before it."""
    blanks = " " * (width - width_of(text))
    return text + blanks if left else blanks + text


PIPED = 100  # columns where nobody says how many there are
PARAGRAPH = 100
INDENT = "  "
ELSEWHERE = "a wider terminal, or --json"


class Note(NamedTuple):
    """A paragraph with a hanging indent."""

    text: str = ""


def said(text: str, style: str = "") -> Text:
    """``text`` as a paragraph in a style of Rich."""
    from rich.text import Text

    return Text(text, style)


def heading(text: str) -> Text:
    """``text`` in bold."""
    return said(text, "bold")


def remark(text: str) -> Text:
    """``text`` dimmed: what stands below tables."""
    return said(text, "dim")


def is_blank(part: Printed) -> bool:
    """Whether ``part`` is an empty line."""
    text = part if isinstance(part, str) else getattr(part, "plain", getattr(part, "text", "-"))
    return text == ""


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
    """Print ``parts``: tables, paragraphs, and strings, which are printed verbatim.

    ``elsewhere``: where columns are that the width leaves out.
    """
    from rich.console import Console

    width = output_width()
    console = Console(force_jupyter=False, width=width, highlight=False, markup=False, emoji=False)
    for line in lines_of(parts, width, elsewhere):
        # Wrapped already: what is longer is one word, which the terminal may break.
        console.print(line, soft_wrap=True)


def text_of(parts: Iterable[Printed]) -> str:
    """``parts`` as ``show`` prints them, without colours."""
    from io import StringIO

    from rich.console import Console

    width = output_width()
    console = Console(
        force_jupyter=False,
        file=StringIO(),
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        no_color=True,
    )
    with console.capture() as captured:
        for line in lines_of(parts, width):
            console.print(line, soft_wrap=True)
    return captured.get().rstrip("\n")


def lines_of(parts: Iterable[Printed], width: int, elsewhere: str = ELSEWHERE) -> Iterator[Any]:
    """The lines of ``parts`` on an output of ``width`` columns, one blank before a titled table."""
    from nicscope.reports.table import Rows
    from nicscope.reports.table_layout import table_lines

    before: Printed = ""
    for part in parts:
        if isinstance(part, Rows):
            if part.title and not is_blank(before):
                yield ""
            yield from table_lines(part, width, elsewhere)
        elif isinstance(part, Note):
            first, *others = wrapped(
                " ".join(part.text.split()), min(width, PARAGRAPH) - len(INDENT)
            )
            yield from (first, *(INDENT + line for line in others))
        elif isinstance(part, str):
            yield part
        else:
            yield from paragraph(part, min(width, PARAGRAPH))
        before = part


def paragraph(text: Text, width: int) -> Iterator[Text]:
    """``text`` wrapped between words, with its style."""
    for line in text.split("\n", allow_blank=True):
        for part in line.divide(breaks(line.plain, width)):
            part.rstrip()
            yield part
