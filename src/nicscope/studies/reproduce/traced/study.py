"""What a table over any traces is made of: which designs, which rows, how they are laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings
    from nicscope.studies.reproduce.verdict import Item

# A catalog design's name and what is set on it: ("utlb", "entries=1024").
Spec = tuple[str, ...]
# One line of a table as plain values, units in the names of its measures.
Row = dict[str, Any]

OFFSET, NO_OFFSET = True, False  # of the caches that one pass simulates


class Axis(NamedTuple):
    """What rows differ in: its name in a row, and its heading."""

    key: str
    heading: str


class Line(NamedTuple):
    """A printed line: its label and the measure in each of an application's columns."""

    label: str
    measures: tuple[str | None, ...]  # None: the paper prints a dash


class Layout(NamedTuple):
    """A table as it is printed: a block of lines per row, columns per application."""

    axes: tuple[Axis, ...]
    columns: tuple[str, ...]  # of each application; one without a name if there is but one
    lines: tuple[Line, ...]

    @property
    def measures(self) -> list[str]:
        """Every measure, once, in the order of the lines."""
        found = (name for line in self.lines for name in line.measures if name is not None)
        return list(dict.fromkeys(found))


class Study(NamedTuple):
    """One table or figure of a paper, for any traces."""

    unit: str
    conditions: str
    layout: Layout
    rows: Callable[[Findings], list[Row]]  # of one application, without its name
    # Designs to replay, by what ``rows`` calls them; the page size (bytes) is the trace's.
    designs: Callable[[int], Mapping[Hashable, Spec]] = lambda _: {}
    # Direct-mapped, 2- and 4-way caches of Table 4's sizes from one pass, by index offset.
    caches: tuple[bool, ...] = ()
    # What the paper prints of it, from its items; each row with its ``application``.
    printed: Callable[[Mapping[str, Item]], list[Row]] = lambda _: []
    printed_note: str | None = None  # what one has to know to read it
    # As far as it is known whose cells they are; None: of all of them.
    labelled: Callable[[Mapping[str, Item]], list[Row]] | None = None


def pages_of(mbytes: int, page_size: int) -> int:
    """Pages of ``page_size`` bytes in so many MB of 2**20 bytes, at least one."""
    return max(1, (mbytes << 20) // page_size)
