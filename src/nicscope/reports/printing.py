"""Tables, paragraphs and commands on stdout, as wide as the terminal is.

The width is that of ``COLUMNS``, if it is set; else the terminal's; 100 columns where the output
is no terminal.  Paragraphs are never wider than 100, as longer lines are hard to read.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

Printed: TypeAlias = "Rows | Text | str | Note"
Thing = TypeVar("Thing")
BAR = 15  # characters of the longest bar, unless its table says otherwise


class Piece(NamedTuple):
    """A segment of a bar: its character, colour and length."""

    texture: str
    colour: str
    share: float  # of the longest bar


class Bar(NamedTuple):
    """A bar: its segments from the left."""

    pieces: tuple[Piece, ...]

    def draw(self, longest: int) -> Text:
        """The bar where the longest has so many characters; pieces round so that they add up."""
        from rich.text import Text

        text = Text()
        along, drawn = 0.0, 0
        for texture, colour, share in self.pieces:
            along += max(share, 0)
            end = round(longest * along)
            text.append(texture * (end - drawn), style=colour)
            drawn = max(drawn, end)
        if not drawn and along:
            text.append("▏", style="dim")  # too little to be drawn, but there
        return text


class Rows(NamedTuple):
    """A table: its title, its headings and its cells; the rest says how it is laid out.

    The first ``key`` columns say whose row it is: they are never left out.  Of the others those
    that ``least`` names go first, in its order, and then the rest from the right.
    """

    title: str
    headings: list[str]  # empty ones: the table has no head
    cells: list[list[str]]
    left: tuple[int, ...] = (0,)  # columns of words; the others hold numbers
    key: int = 1
    least: tuple[str, ...] = ()
    prose: tuple[int, ...] | None = None  # that may wrap between words; by default what is left
    bars: Sequence[Bar] = ()
    longest_bar: int = BAR
    grouped: bool = False  # a first cell like the one above it is left blank
    styles: Mapping[str, str] = {}  # of cells, by their text
    row_styles: Mapping[int, str] = {}
    gaps: tuple[int, ...] = ()  # rows before which a line stays blank
    # Headings above so many columns each, of those behind the key: what does not fit beside the
    # others follows below, under the key again, and no column is left out.
    groups: tuple[tuple[str, int], ...] = ()

    def wraps(self, column: int) -> bool:
        """Whether cells of ``column`` may be broken between words."""
        if self.prose is not None:
            return column in self.prose
        return column in self.left and column >= self.key

    def leaving(self) -> list[int]:
        """Columns in the order in which they are dropped; the last one matters most."""
        named = [self.headings.index(name) for name in self.least if name in self.headings]
        others = range(len(self.headings) - 1, self.key - 1, -1)
        return named + [column for column in others if column not in named]


def rows_of(
    title: str,
    things: Iterable[Thing],
    columns: Mapping[str, Callable[[Thing], str]],
    *,
    words: Collection[str] = (),
    **how: Any,
) -> Rows:
    """A table with a row for each of ``things``; ``columns``: by heading, how its cell is spelt.

    ``words``: headings of columns that hold words; the rest is as in ``Rows``.
    """
    cells = [[spell(one) for spell in columns.values()] for one in things]
    left = tuple(place for place, name in enumerate(columns) if name in words)
    return Rows(title, list(columns), cells, left, **how)


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


def _console(**how: Any) -> Console:
    from rich.console import Console

    how |= dict.fromkeys(("force_jupyter", "highlight", "markup", "emoji"), False)
    return Console(width=output_width(), **how)


def show(parts: Iterable[Printed], elsewhere: str = ELSEWHERE) -> None:
    """Print ``parts``: tables, paragraphs, and strings, which are printed verbatim.

    ``elsewhere``: where columns are that the width leaves out.
    """
    console = _console()
    for line in lines_of(parts, console.width, elsewhere):
        # Wrapped already: what is longer is one word, which the terminal may break.
        console.print(line, soft_wrap=True)


def text_of(parts: Iterable[Printed]) -> str:
    """``parts`` as ``show`` prints them, without colours."""
    from io import StringIO

    console = _console(file=StringIO(), no_color=True)
    with console.capture() as captured:
        for line in lines_of(parts, console.width):
            console.print(line, soft_wrap=True)
    return captured.get().rstrip("\n")


def lines_of(parts: Iterable[Printed], width: int, elsewhere: str = ELSEWHERE) -> Iterator[Any]:
    """The lines of ``parts`` on an output of ``width`` columns, one blank before a titled table."""
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


# A table as lines of text.  In this order: the bar becomes shorter, headings and prose wrap between
# words, the bar goes, and then column after column, what matters least first.  Where not even the
# key and what matters most fit, every row is stacked: a line for each of its cells.  No name and no
# number is ever cut.
GAP = 2  # columns between two columns
SHORTEST_BAR = 6
MOST_LINES = 4  # of a heading
NARROWEST_PROSE = 20  # columns: what is narrower is tiresome to read


class Block(NamedTuple):
    """Columns shown side by side: their indices and widths."""

    columns: list[int]
    widths: list[int]
    bar: int = 0  # columns of the longest bar; 0: there is none


class Shape(NamedTuple):
    """The layout of a table: blocks one below the other; without blocks, rows are stacked."""

    blocks: list[Block]
    left_out: list[str]  # headings


def fit(rows: Rows, width: int) -> Shape:
    """Lay out ``rows`` within ``width`` columns."""
    if rows.groups:
        return _fit_groups(rows, width)
    shown = list(range(len(rows.headings)))
    leaving = rows.leaving()
    gone: set[int] = set()
    while True:
        block = _fit_columns(rows, shown, width, NARROWEST_PROSE)
        if block is None and len(leaving) < 2:
            block = _fit_columns(rows, shown, width, 0)
            if block is None:
                return Shape([], [])
        if block is not None:
            return Shape([block], [rows.headings[column] for column in sorted(gone)])
        least = leaving.pop(0)
        gone.add(least)
        shown.remove(least)


def _fit_groups(rows: Rows, width: int) -> Shape:
    """Place as many groups side by side as fit, and the others below."""
    blocks: list[Block] = []
    keys = list(range(rows.key))
    first = rows.key
    for _, count in rows.groups:
        group = list(range(first, first + count))
        first += count
        both = None
        if blocks:
            both = _natural(rows, blocks[-1].columns + group, width)
        alone = _natural(rows, keys + group, width)
        if both is not None:
            blocks[-1] = both
        elif alone is not None:
            blocks.append(alone)
        else:
            return Shape([], [])
    return Shape(blocks, [])


def _natural(rows: Rows, columns: list[int], width: int) -> Block | None:
    widths = grouped_widths(rows, columns)
    return Block(columns, widths) if _total(widths) <= width else None


def grouped_widths(rows: Rows, columns: Sequence[int]) -> list[int]:
    """Widths of ``columns``, the first of each group wide enough for the heading above them."""
    widths = [max(_cells(rows, column), width_of(rows.headings[column])) for column in columns]
    first = rows.key
    for name, count in rows.groups:
        if first in columns:
            place = list(columns).index(first)
            spare = width_of(name) - _total(widths[place : place + count])
            widths[place] += max(spare, 0)
        first += count
    return widths


def _fit_columns(rows: Rows, columns: list[int], width: int, narrowest: int) -> Block | None:
    """Fit ``columns`` by shortening the bar and wrapping headings and prose, or without a bar."""
    bar = min(SHORTEST_BAR, rows.longest_bar) if rows.bars else 0
    for least_bar in dict.fromkeys((bar, 0)):
        room = width - (least_bar + GAP if least_bar else 0)
        widths = _wrapped_widths(rows, columns, room, narrowest)
        if _total(widths) <= room:
            spare = room - _total(widths)
            return Block(
                columns, widths, min(rows.longest_bar, least_bar + spare) if least_bar else 0
            )
    return None


def _wrapped_widths(rows: Rows, columns: list[int], room: int, narrowest: int) -> list[int]:
    """Widths that add up to ``room`` or less, if wrapping alone can do it.

    Headings wrap to two lines, then prose, and at last headings to as many lines as they can.
    """
    heads = [rows.headings[column] for column in columns]
    cells = [_cells(rows, column) for column in columns]
    widths = [max(width_of(head), cell) for head, cell in zip(heads, cells, strict=True)]
    _wrap_headings(heads, cells, widths, room, 2)
    least = list(widths)
    for place, column in enumerate(columns):
        if rows.wraps(column):
            pieces = [longest_piece(row[column]) for row in rows.cells]
            floor = max([*pieces, longest_piece(heads[place])])
            least[place] = min(widths[place], max(floor, narrowest))
    _wrap_prose(widths, least, room)
    floors = [min(pair) for pair in zip(cells, widths, strict=True)]
    _wrap_headings(heads, floors, widths, room, MOST_LINES)
    for place, head in enumerate(heads):
        widths[place] += _widening_that_saves(head, widths[place], room - _total(widths))
    return widths


def _wrap_headings(
    heads: list[str], cells: list[int], widths: list[int], room: int, lines: int
) -> None:
    """Wrap headings to at most ``lines`` lines, the one that saves most first, until all fits."""
    least = [max(cell, _narrowest(head, lines)) for head, cell in zip(heads, cells, strict=True)]
    for place in sorted(range(len(heads)), key=lambda i: least[i] - widths[i]):
        if _total(widths) > room:
            widths[place] = min(widths[place], least[place])


def _narrowest(head: str, lines: int) -> int:
    """The least width at which ``head`` takes at most ``lines`` lines."""
    width = longest_piece(head)
    while len(wrapped(head, width)) > lines:
        width += 1
    return width


def _wrap_prose(widths: list[int], least: list[int], room: int) -> None:
    """Narrow the prose columns, the widest first."""
    while _total(widths) > room:
        place = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
        if widths[place] <= least[place]:
            break
        widths[place] -= 1


def _widening_that_saves(heading: str, width: int, spare: int) -> int:
    """The columns, of ``spare``, that save a wrapped heading a line; 0 if none."""
    lines = len(wrapped(heading, width))
    for more in range(1, spare + 1):
        if len(wrapped(heading, width + more)) < lines:
            return more
    return 0


def _cells(rows: Rows, column: int) -> int:
    return max((width_of(row[column]) for row in rows.cells), default=0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


PLAIN = {"0": "dim", "none": "dim", "unknown": "dim", "-": "dim"}
RULE = "─"
STACK_INDENT = 2


def table_lines(rows: Rows, width: int, elsewhere: str) -> Iterator[Text]:
    """``rows`` within ``width`` columns; omitted columns are named, with ``elsewhere``."""
    from rich.text import Text

    rows = rows._replace(
        headings=[visible(heading) for heading in rows.headings],
        cells=[[visible(cell) for cell in row] for row in rows.cells],
    )
    if rows.title:
        yield from (Text(line, style="bold") for line in wrapped(visible(rows.title), width))
    shape = fit(rows, width)
    if not shape.blocks:
        yield from _stacked(rows, width)
    for number, block in enumerate(shape.blocks):
        if number:
            yield Text()
        yield from _block_lines(rows, block)
    if shape.left_out:
        told = f"not shown at {width} columns: {', '.join(shape.left_out)}; see {elsewhere}"
        yield from (Text(line, style="dim") for line in wrapped(told, width))


def _block_lines(rows: Rows, block: Block) -> Iterator[Text]:
    from rich.text import Text

    if any(rows.headings):
        yield from _head_lines(rows, block)
    above = ""
    for number, row in enumerate(rows.cells):
        if number in rows.gaps:
            yield Text()
        cells = [row[column] for column in block.columns]
        if rows.grouped and row[0] == above and number not in rows.gaps:
            cells[0] = ""
        above = row[0]
        bar = rows.bars[number].draw(block.bar) if block.bar and number < len(rows.bars) else None
        style = rows.row_styles.get(number, "")
        yield from _lines_of(rows, block, cells, style, bar)


def _head_lines(rows: Rows, block: Block) -> Iterator[Text]:
    from rich.text import Text

    if any(name for name, _ in rows.groups):
        yield _group_line(rows, block)
    yield from _lines_of(
        rows, block, [rows.headings[column] for column in block.columns], "bold", None, bottom=True
    )
    if not rows.groups:
        taken = sum(block.widths) + GAP * (len(block.widths) - 1)
        yield Text(RULE * (taken + (block.bar + GAP if block.bar else 0)))


def _group_line(rows: Rows, block: Block) -> Text:
    """The headings above groups of columns, each at the right end of its own."""
    from rich.text import Text

    line, end, first = "", -GAP, rows.key
    ends = {}
    for column, width in zip(block.columns, block.widths, strict=True):
        end += width + GAP
        ends[column] = end
    for name, count in rows.groups:
        if first in ends:
            line += padded(name, ends[first + count - 1] - width_of(line), left=False)
        first += count
    return Text(line, style="bold")


def _lines_of(
    rows: Rows,
    block: Block,
    cells: Sequence[str],
    style: str,
    bar: Text | None,
    *,
    bottom: bool = False,
) -> Iterator[Text]:
    """The lines of one row, as many as its tallest cell; headings are aligned at the ``bottom``."""
    from rich.text import Text

    columns = [wrapped(cell, width) for cell, width in zip(cells, block.widths, strict=True)]
    height = max(map(len, columns))
    for number in range(height):
        line = Text(style=style)
        for place, (column, lines) in enumerate(zip(block.columns, columns, strict=True)):
            at = number - (height - len(lines)) if bottom else number
            text = lines[at] if 0 <= at < len(lines) else ""
            left = column in rows.left
            line.append(" " * GAP if place else "")
            line.append(
                padded(text, block.widths[place], left=left),
                style="" if bottom else _look(rows, cells[place]),
            )
        if bar is not None and not number:
            line.append(" " * GAP).append_text(bar)
        line.rstrip()
        yield line


def _look(rows: Rows, cell: str) -> str:
    return rows.styles.get(cell, PLAIN.get(cell, ""))


def _stacked(rows: Rows, width: int) -> Iterator[Text]:
    """Each row as a list of headings and cells, one below the other."""
    from rich.text import Text

    names = list(rows.headings)
    first = rows.key
    for group, count in rows.groups:
        for column in range(first, first + count):
            names[column] = f"{group} {names[column]}".rstrip()
        first += count
    for number, row in enumerate(rows.cells):
        if number:
            yield Text()
        for column, cell in enumerate(row):
            if not cell:
                continue
            indent = 0 if column < rows.key else STACK_INDENT
            for line in _pair(names[column], cell, width - indent):
                text = " " * indent + line
                fits = width_of(text) <= width
                yield Text(text if fits else line.lstrip(), style="" if indent else "bold")


def _pair(name: str, cell: str, width: int) -> Iterator[str]:
    """A heading and its cell: beside each other, or the cell below, as it fits."""
    beside = f"{name}  {cell}" if name else cell
    if width_of(beside) <= width:
        yield beside
        return
    if name:
        yield from wrapped(name, width)
    for line in wrapped(cell, width - STACK_INDENT):
        yield " " * STACK_INDENT + line if width_of(line) + STACK_INDENT <= width else line
