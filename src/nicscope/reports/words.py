"""Words on lines: where text may be broken, and how wide it is on a terminal."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from rich.cells import cell_len

# A number stays with its unit ("32 KiB", "4 ways"), a sign with its number ("≥ 1.70").
_WORD = re.compile(r"\S+")
_NUMBER = re.compile(r"[+-]?[0-9]([0-9,.]*[0-9])?")
_SIGNS = ("≥", "x")


def width_of(text: str) -> int:
    """Columns that ``text`` takes on a terminal; some characters take two, some none."""
    return cell_len(text)


def visible(text: str) -> str:
    """``text`` on one line: control characters, which a name may contain, are spelt out."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) == "Cc" else char
        for char in text
    )


def pieces(text: str) -> list[tuple[int, int]]:
    """Where the pieces of ``text`` that are never broken begin and end."""
    found: list[tuple[int, int]] = []
    before = ""
    for match in _WORD.finditer(text):
        word = match.group()
        is_unit = _NUMBER.fullmatch(before) is not None and not word[0].isdigit()
        if before in _SIGNS or is_unit:
            found[-1] = (found[-1][0], match.end())
        else:
            found.append(match.span())
        before = word
    return found


def longest_piece(text: str) -> int:
    """Columns that the widest piece of ``text`` takes."""
    return max((width_of(text[begin:end]) for begin, end in pieces(text)), default=0)


def breaks(text: str, width: int) -> list[int]:
    """Where lines of at most ``width`` columns begin in ``text``, the first one aside.

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
    """``text`` in lines of at most ``width`` columns, but for a piece that is wider."""
    ends = [0, *breaks(text, width), len(text)]
    return [text[begin:end].rstrip() for begin, end in pairwise(ends)]


def padded(text: str, width: int, *, left: bool) -> str:
    """``text`` with blanks up to ``width`` columns, behind it if ``left``, else before it."""
    blanks = " " * (width - width_of(text))
    return text + blanks if left else blanks + text
