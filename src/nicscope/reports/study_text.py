"""A study as text of at most 100 columns: a column, or a few, for each application.

Applications that do not fit beside each other follow below, under the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.wording import per_hundred

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.studies.reproduce.traced.running import StudyTable
    from nicscope.studies.reproduce.traced.study import Layout, Row

WIDEST = 100
GAP = "  "
CELL = 5  # characters, at least
LONGEST_NAME = 20  # characters of an application
MOST_NOTES = 3


def study_lines(table: StudyTable) -> Iterator[str]:
    """The study of our traces, what the paper prints, and how far both can be compared."""
    yield f"{table.paper}/{table.id} ({table.where})"
    yield table.what
    yield f"{table.unit}; {table.conditions}"
    yield origin_of(table)
    yield ""
    yield from grid_lines(table.layout, table.rows)
    for note in table.notes[:MOST_NOTES]:
        yield f"note: {note}"
    if len(table.notes) > MOST_NOTES:
        yield f"note: {len(table.notes) - MOST_NOTES} more such notes with --json"
    yield ""
    yield from _printed_lines(table)


def origin_of(table: StudyTable) -> str:
    """Which traces they are."""
    if table.bundled:
        return (
            "over the sample traces that come with nicscope, which are none of the paper's "
            "programs; --trace DIR takes yours"
        )
    count = len(table.traces)
    return f"over {count} trace{'s' * (count > 1)}, each a program of its own"


def comparison_of(table: StudyTable) -> str:
    """What the printed cells are worth beside ours."""
    if not table.comparable:
        return f"no verdict: NOT COMPARABLE, {table.why}"
    others = len(table.traces) - len(table.comparable)
    rest = f"; NOT COMPARABLE with the other {others}" if others else ""
    return f"verdicts above for {', '.join(table.comparable)}, which say they are the paper's{rest}"


def _printed_lines(table: StudyTable) -> Iterator[str]:
    if not table.printed:
        yield comparison_of(table)
        return
    yield f"the paper prints, for orientation; {comparison_of(table)}"
    if table.printed_note is not None:
        yield table.printed_note
    yield ""
    yield from grid_lines(table.layout, table.printed)


def grid_lines(layout: Layout, rows: Sequence[Row]) -> Iterator[str]:
    """The rows as blocks of columns; a row that an application has not is left blank."""
    names = list(dict.fromkeys(row["application"] for row in rows))
    labels = _labels(layout, rows)
    room = WIDEST - sum(len(part) + len(GAP) for part in labels[0])
    widths = {name: _widths(layout, name) for name in names}
    while names:
        block: list[str] = []
        taken = 0
        while names and (not block or taken + _whole(widths[names[0]]) <= room):
            taken += _whole(widths[names[0]])
            block.append(names.pop(0))
        yield from _block(layout, rows, labels, {name: widths[name] for name in block})
        if names:
            yield ""


def _block(
    layout: Layout,
    rows: Sequence[Row],
    labels: list[list[str]],
    widths: dict[str, list[int]],
) -> Iterator[str]:
    heads, *labels = labels
    blank = GAP.join(" " * len(part) for part in heads)
    shown = [_shortened(name).rjust(_whole(width) - len(GAP)) for name, width in widths.items()]
    if any(layout.columns):
        yield GAP.join([blank, *shown]).rstrip()
        cells = [
            GAP.join(text.rjust(n) for text, n in zip(layout.columns, width, strict=True))
            for width in widths.values()
        ]
        yield GAP.join([*heads, *cells]).rstrip()
    else:
        yield GAP.join([*heads, *shown]).rstrip()
    index = {(row["application"], *_place(layout, row)): row for row in rows}
    places = list(dict.fromkeys(_place(layout, row) for row in rows))
    for number, label in enumerate(labels):
        place = places[number // len(layout.lines)]
        line = layout.lines[number % len(layout.lines)]
        cells = []
        for name, width in widths.items():
            row = index.get((name, *place), {})
            cells.append(
                GAP.join(
                    _cell(row, measure).rjust(n)
                    for measure, n in zip(line.measures, width, strict=True)
                )
            )
        yield GAP.join([*label, *cells]).rstrip()


def _place(layout: Layout, row: Row) -> tuple[Any, ...]:
    return tuple(row[axis.key] for axis in layout.axes)


def _labels(layout: Layout, rows: Sequence[Row]) -> list[list[str]]:
    """Headings, then the labels of every line; a place is told on its first line only."""
    table = [[axis.heading for axis in layout.axes]]
    named = any(line.label for line in layout.lines)
    table[0] += [""] * named
    for place in dict.fromkeys(_place(layout, row) for row in rows):
        for number, line in enumerate(layout.lines):
            parts = [_number(value) if not number else "" for value in place]
            table.append(parts + [line.label] * named)
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    axes = len(layout.axes)
    return [
        [
            part.rjust(n) if at < axes else part.ljust(n)
            for at, (part, n) in enumerate(zip(parts, widths, strict=True))
        ]
        for parts in table
    ]


def _number(value: int) -> str:
    """As the papers write sizes of caches: 1 K."""
    return f"{value // 1024} K" if value >= 1024 and value % 1024 == 0 else str(value)


def _widths(layout: Layout, name: str) -> list[int]:
    widths = [max(CELL, len(heading)) for heading in layout.columns]
    short = len(_shortened(name)) - (_whole(widths) - len(GAP))
    widths[0] += max(0, short)
    return widths


def _whole(widths: list[int]) -> int:
    """Characters of an application's columns, the gaps before them included."""
    return sum(widths) + len(GAP) * len(widths)


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[: half - 1]}…{name[-half:]}"


def _cell(row: Row, measure: str | None) -> str:
    if not row:
        return ""
    if measure is None or row.get(measure) is None:
        return "-"
    return per_hundred(row[measure])
