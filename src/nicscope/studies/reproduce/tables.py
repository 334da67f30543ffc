"""Tables and figures of programs as the papers lay them out, with what came of traces in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

# One line of a table as plain values, units in the names of its measures.
Row = dict[str, Any]


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


class StudyTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table or figure for some traces, with what the paper prints beside it."""

    paper: str
    id: str
    where: str
    what: str
    unit: str
    conditions: str
    layout: Layout
    traces: list[dict[str, Any]]
    programs: str | None  # that were run for it, at these sizes; None: traces were given
    reduction: int  # the paper's caches and pin limits over those that were used
    designs: list[str]  # replayed, each as NAME KEY=VALUE ...
    rows: list[Row]
    printed: list[Row]
    printed_note: str | None
    comparable: list[str]  # applications whose cells are held against the paper's
    why: str  # the rest is not
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Everything but the layout; all that is printed in one."""
        plain = msgspec.structs.asdict(self)
        del plain["layout"]
        printed = {
            "comparable": plain.pop("comparable"),
            "not_comparable": plain.pop("why"),
            "note": plain.pop("printed_note"),
            "rows": self.printed,
        }
        return {**plain, "printed": printed}
