"""A study as a table, a column, or a few, for each application, and as files.

Applications that do not fit beside each other follow below, under the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.table import Rows
from nicscope.reports.wording import per_hundred

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.reproduce.traced.running import StudyTable
    from nicscope.studies.reproduce.traced.study import Layout, Row

MOST_NOTES = 3


def study_parts(table: StudyTable) -> Iterator[Printed]:
    """The study of our traces, what the paper prints, and how far both can be compared."""
    from rich.text import Text

    yield Text(f"{table.paper}/{table.id} ({table.where})", style="bold")
    yield Text(table.what)
    yield Text(f"{table.unit}; {table.conditions}")
    yield Text(origin_of(table))
    yield Text()
    yield study_rows(table.layout, table.rows)
    for note in table.notes[:MOST_NOTES]:
        yield Text(f"note: {note}")
    if len(table.notes) > MOST_NOTES:
        yield Text(f"note: {len(table.notes) - MOST_NOTES} more such notes with --json")
    yield Text()
    if not table.printed:
        yield Text(comparison_of(table))
        return
    yield Text(f"the paper prints, for orientation; {comparison_of(table)}")
    if table.printed_note is not None:
        yield Text(table.printed_note)
    yield Text()
    yield study_rows(table.layout, table.printed)


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


def study_rows(layout: Layout, rows: Sequence[Row]) -> Rows:
    """The lines of every place, with the columns of every application; blank where it has none."""
    names = list(dict.fromkeys(row["application"] for row in rows))
    labelled = any(line.label for line in layout.lines)
    index = {(row["application"], *_place(layout, row)): row for row in rows}
    cells = []
    for place in dict.fromkeys(_place(layout, row) for row in rows):
        for number, line in enumerate(layout.lines):
            # A place is told on its first line only.
            key = [_number(value) if not number else "" for value in place]
            cells.append(
                [
                    *key,
                    *[line.label] * labelled,
                    *(
                        _cell(index.get((name, *place), {}), measure)
                        for name in names
                        for measure in line.measures
                    ),
                ]
            )
    axes = len(layout.axes)
    has_heads = any(layout.columns)
    heads = [head for name in names for head in (layout.columns if has_heads else (name,))]
    return Rows(
        "",
        [*(axis.heading for axis in layout.axes), *[""] * labelled, *heads],
        cells,
        left=(axes,) * labelled,
        key=axes + labelled,
        prose=(),
        groups=tuple((name if has_heads else "", len(layout.columns)) for name in names),
    )


def _place(layout: Layout, row: Row) -> tuple[Any, ...]:
    return tuple(row[axis.key] for axis in layout.axes)


def _number(value: int) -> str:
    """As the papers write sizes of caches: 1 K."""
    return f"{value // 1024} K" if value >= 1024 and value % 1024 == 0 else str(value)


def _cell(row: Row, measure: str | None) -> str:
    if not row:
        return ""
    if measure is None or row.get(measure) is None:
        return "-"
    return per_hundred(row[measure])


def study_files(table: StudyTable) -> Iterator[tuple[str, Any]]:
    """Yield one row per application and place, as ``rows`` of the JSON has them, and figures."""
    import pyarrow as pa

    from nicscope.reports.figures.studies import draw_study

    axes = [(axis.key, pa.int64()) for axis in table.layout.axes]
    measures = [(name, pa.float64()) for name in table.layout.measures]
    schema = pa.schema([("application", pa.string()), *axes, *measures])
    called = f"{table.paper}_{table.id}"
    yield f"{called}.parquet", pa.Table.from_pylist(table.rows, schema=schema)
    for name, figure in draw_study(table):
        yield f"{called}{name}", figure
