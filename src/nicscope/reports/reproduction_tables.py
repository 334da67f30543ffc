"""What the papers printed beside what comes out, as tables of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.result import tidy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.studies.reproduce.traced.running import StudyTable
    from nicscope.studies.reproduce.verdict import Point, Reproduction, Shape

NUMBERS = {
    "paper": "string",
    "item": "string",
    "quantity": "string",
    "published": "float64",
    "reproduced": "float64",
    "relative_error": "float64",
    "tolerance": "float64",
    "basis": "string",
    "because": "string",
    "baseline": "float64",
    "ok": "bool",
    "known_miss": "string",
}
STATEMENTS = {
    "paper": "string",
    "item": "string",
    "statement": "string",
    "ok": "bool",
    "evidence": "string",
    "basis": "string",
    "because": "string",
    "known_miss": "string",
}


def reproduction_tables(found: Reproduction) -> Iterator[tuple[str, Any]]:
    """Yield names and tables: of printed numbers, of statements, and of each study."""
    yield "numbers", _plain(found.points, NUMBERS)
    yield "statements", _plain(found.shapes, STATEMENTS)
    for table in found.tables:
        yield study_table(table)


def _plain(checks: Sequence[Point] | Sequence[Shape], kinds: dict[str, str]) -> Any:
    """``checks`` as an Arrow table with a column for each of ``kinds``."""
    rows = [[getattr(one, "id" if name == "item" else name) for name in kinds] for one in checks]
    return tidy(kinds, rows)


def study_table(table: StudyTable) -> tuple[str, Any]:
    """Its name, and one row per application and place, as ``rows`` of the JSON has them."""
    import pyarrow as pa

    axes = [(axis.key, pa.int64()) for axis in table.layout.axes]
    measures = [(name, pa.float64()) for name in table.layout.measures]
    schema = pa.schema([("application", pa.string()), *axes, *measures])
    return f"{table.paper}_{table.id}", pa.Table.from_pylist(table.rows, schema=schema)
