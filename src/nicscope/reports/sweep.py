"""The best points of a sweep as rows of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.table import Rows
from nicscope.reports.wording import (
    UNKNOWN,
    byte_size,
    in_words,
    per_hundred,
    significant,
    whole,
)
from nicscope.studies.pricing import Denominator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.sweep.grid import Axis
    from nicscope.studies.sweep.table import Unpriced

MISSES = {Denominator.LOOKUP: "miss_ratio", Denominator.REQUEST: "misses_per_request"}


def point_rows(
    rows: Sequence[dict[str, Any]], axes: Sequence[Axis], per: Denominator, *, several_traces: bool
) -> Rows:
    """A table: the axes that vary, misses, time and memory of each of ``rows``.

    Misses and time in all, as they rank, and per lookup or request, as ``per`` says.
    """
    varying = [axis for axis in axes if len(axis.values) > 1] or list(axes)
    by_byte = per is not Denominator.LOOKUP
    rejects = any(row["rejected"] for row in rows)
    headings = ["trace"] * several_traces + [_heading(axis) for axis in varying]
    headings += ["rejected"] * rejects
    headings += ["misses", f"per 100 {per.plural}", "us in all", f"us per {per.value}"]
    headings += ["ns per byte"] * by_byte + ["on the NIC", "pinned in hosts"]
    cells = [
        [row["trace"]] * several_traces
        + [_value(axis, row[axis.column]) for axis in varying]
        + [whole(row["rejected"])] * rejects
        + [
            whole(row["ni_misses"]),
            per_hundred(100 * row[MISSES[per]]),
            _time(row, "cost_us"),
            _time(row, f"cost_us_per_{per.value}"),
        ]
        + [_time(row, "cost_ns_per_byte")] * by_byte
        + [byte_size(row["nic_memory_bytes"]), byte_size(row["pinned_host_bytes"])]
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


def unpriced_note(found: Unpriced) -> list[str]:
    """Which points no cost ranks, and why, in lines."""
    every = found.points == found.of
    which = "no point" if every else f"{whole(found.points)} of {in_words(found.of, 'point')}"
    has = "has" if every else "have not"
    lines = [f"{which} {has} a whole price; ranked by misses alone: {'; '.join(found.reasons)}"]
    if not every and found.perhaps_cheaper:
        lines.append(f"{whole(found.perhaps_cheaper)} of them may be cheaper than the cheapest")
    return lines


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


def _time(row: dict[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None:
        return UNKNOWN
    if row["cost_is_lower_bound"]:
        return f"≥ {significant(low)}"
    ends = [significant(low), significant(high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
