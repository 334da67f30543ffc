"""Tables: headings, cells, and how they shrink to fit a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from rich.text import Text

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
