"""The best points of a sweep as rows of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.table import Rows
from nicscope.reports.wording import UNKNOWN, byte_size, per_hundred, significant, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.sweep.axis import Axis


def point_rows(
    rows: Sequence[dict[str, Any]], axes: Sequence[Axis], *, several_traces: bool
) -> Rows:
    """A table: the axes that vary, misses, time and memory of each of ``rows``."""
    varying = [axis for axis in axes if len(axis.values) > 1] or list(axes)
    headings = ["trace"] * several_traces + [_heading(axis) for axis in varying]
    headings += ["misses per 100", "us per lookup", "on the NIC", "pinned in hosts"]
    cells = [
        [row["trace"]] * several_traces
        + [_value(axis, row[axis.column]) for axis in varying]
        + [
            per_hundred(100 * row["miss_ratio"]),
            _time(row),
            byte_size(row["nic_memory_bytes"]),
            byte_size(row["pinned_host_bytes"]),
        ]
        for row in rows
    ]
    words = {place for place, axis in enumerate(varying, several_traces) if _is_words(rows, axis)}
    return Rows(
        "",
        headings,
        cells,
        left=(*range(several_traces), *sorted(words)),
        key=several_traces + len(varying),
    )


def _is_words(rows: Sequence[dict[str, Any]], axis: Axis) -> bool:
    return any(isinstance(row[axis.column], str) for row in rows)


def _heading(axis: Axis) -> str:
    name = axis.cost or axis.key
    unit = axis.unit or "bytes"  # sizes in bytes show theirs
    return name if unit == "bytes" else f"{name} ({unit.replace('_', ' ')})"


def _value(axis: Axis, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return byte_size(value) if axis.key in ("page_size", "area_bytes") else whole(value)
    return str(value)


def _time(row: dict[str, Any]) -> str:
    low, high = row["cost_us_per_lookup_low"], row["cost_us_per_lookup_high"]
    if low is None:
        return UNKNOWN
    if row["cost_is_lower_bound"]:
        return f"≥ {significant(low)}"
    ends = [significant(low), significant(high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
