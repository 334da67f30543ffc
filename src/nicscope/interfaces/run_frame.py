"""A run's report as an Arrow table: one row for each node, process or endpoint, or for all.

A column is named by the way to it in the JSON: ``lookups.send`` there is ``lookups_send`` here.
Every run has the same columns; what an interface has not is null.  Bytes and times have their unit
in their names (``bytes_out``, ``elapsed_us``), shares are of the run's time, all else is counted.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from nicscope.errors import SimulationError, did_you_mean
from nicscope.interfaces import run_report as told
from nicscope.nic.ports.traffic import ENDED_NAMES, FIRST_DROPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.interfaces.run_report import RunReport

DROPPED = tuple(name.removeprefix("no_") for name in ENDED_NAMES[FIRST_DROPPED:])
OF_RUN = ("interface", "design", "way", "delivery", "platform", "elapsed_us", "events")
ROWS: dict[str, tuple[type[msgspec.Struct], Callable[[RunReport], list[Any]]]] = {
    "run": (told.Work, lambda report: [report.total]),
    "node": (told.NodeReport, lambda report: report.nodes),
    "process": (told.Account, lambda report: report.processes),
    "endpoint": (told.Account, lambda report: report.endpoints),
}
FIRST = ("node", "process", "port", "name")  # columns that say whose row it is


def frame_of(report: RunReport, by: str) -> Any:
    """The table whose rows are ``by``.  Errors: ``SimulationError`` for no such rows."""
    import pyarrow as pa

    if by not in ROWS:
        raise SimulationError(f"no rows by {by!r}{did_you_mean(str(by), ROWS)}")
    kind, rows_of = ROWS[by]
    rows = [msgspec.to_builtins(one) for one in rows_of(report)]
    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    of_run = {name: getattr(report, name) for name in OF_RUN}
    arrays: dict[str, Any] = {}
    for name, what in _columns(told.RunReport, OF_RUN):
        arrays[name] = pa.array([of_run[name]] * len(rows), kinds[what])
    fields = list(kind.__struct_fields__)
    ordered = [*(name for name in FIRST if name in fields), *fields]
    for name, what in _columns(kind, tuple(dict.fromkeys(ordered))):
        arrays[name] = pa.array([_found(row, name) for row in rows], kinds[what])
    return pa.table(arrays)


def _columns(kind: type[msgspec.Struct], fields: tuple[str, ...]) -> Iterator[tuple[str, type]]:
    """Names and types of the columns that ``fields`` of a struct become."""
    hints = get_type_hints(kind)
    for field in fields:
        what = hints[field]
        if isinstance(what, UnionType):
            (what,) = (each for each in get_args(what) if each is not NoneType)
        if field == "requests":
            yield from (("requests_done", int), ("requests_failed", int))
        elif field == "dropped":
            yield from ((f"dropped_{name}", int) for name in DROPPED)
        elif isinstance(what, type) and issubclass(what, msgspec.Struct):
            inner = _columns(what, what.__struct_fields__)
            yield from ((f"{field}_{name}", each) for name, each in inner)
        else:
            yield field, what


def _found(row: Any, name: str) -> Any:
    """The value of a column in a row as JSON has it; None if there is none such."""
    if name in row:
        return row[name]
    if name in ("requests_done", "requests_failed"):
        done = row["requests"].get("done", 0)
        return done if name == "requests_done" else sum(row["requests"].values()) - done
    for field, value in row.items():
        if name.startswith(f"{field}_"):
            return None if value is None else _found(value, name.removeprefix(f"{field}_"))
    return None
