"""The best points of a sweep: summary and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Note, Printed, Rows
from nicscope.reports.result import Report
from nicscope.reports.wording import (
    UNKNOWN,
    byte_size,
    in_words,
    per_hundred,
    significant,
    whole,
)
from nicscope.studies.pricing import Denominator
from nicscope.studies.replaying import AT_LEAST
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.studies.sweep.grid import Axis
    from nicscope.studies.sweep.sweeping import Done, Sweep
    from nicscope.studies.sweep.table import Table, Unpriced

BEST = 5  # points shown of each kind
BEST_EACH = 2  # of each of several traces
MISSES = {Denominator.LOOKUP: "miss_ratio", Denominator.REQUEST: "misses_per_request"}


class ShownSweep(Report):
    """A finished sweep: its best points by misses and by cost, and the command to repeat it."""

    found: Sweep
    topic = "sweep"

    def __init__(self, found: Sweep, table: Table, command: list[str], done: Done) -> None:
        super().__init__(found, command)
        self.points = table
        self.done = done
        self.names = [name for name, _ in found.traces]

    def as_json(self) -> dict[str, Any]:
        """One object."""
        grid, table = self.found.grid, self.points
        unpriced = {name: table.unpriced(name) for name in self.names}
        return {
            "table": str(self.found.out),
            "rows": table.rows,
            "columns": table.columns,
            "design": grid.fixed,
            "grid": {axis.column: list(axis.shown) for axis in grid.axes},
            "traces": [
                {"name": name, "file": trace.name, "requests": trace.rows}
                for name, trace in self.found.traces
            ],
            "fewest_misses": self._best(table.fewest_misses, BEST),
            "cheapest": self._best(table.cheapest, BEST),
            "summary": self.summary(),
            "rates_per": table.denominator.value,
            "not_priced_whole": [
                {"trace": name, **found._asdict()} for name, found in unpriced.items() if found
            ],
            "repeat": repeat(self.command or ()),
        }

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row per point and trace, in the grid's order."""
        yield "points", self.points.whole()

    def _best(self, best: Callable[[str, int], list[dict[str, Any]]], count: int) -> list[Any]:
        return [row for name in self.names for row in best(name, count)]

    def summary(self) -> list[str]:
        """Which points are best, a sentence for each trace."""
        return [self._best_of(name) for name in self.names]

    def parts(self) -> Iterator[Printed]:
        """The grid, the best points of both kinds, and which points have no whole price."""
        grid, table = self.found.grid, self.points
        axes = ", ".join(f"{len(axis.values)} {axis.key}" for axis in grid.axes)
        yield Note(f"{grid.base.name}: {grid.size:,} points ({axes}) on {self._traces()}")
        several = len(self.names) > 1
        kinds = {"Fewest misses": table.fewest_misses, "Cheapest": table.cheapest}
        for title, best in kinds.items():
            if rows := self._best(best, BEST_EACH if several else BEST):
                yield Note()
                yield Note(title)
                yield point_rows(rows, grid.axes, table.denominator, several_traces=several)
        for name in self.names:
            if found := table.unpriced(name):
                yield Note()
                for line in unpriced_note(found):
                    yield Note(f"{name}: {line}" if several else line)

    def _best_of(self, name: str) -> str:
        """The best points of the trace ``name`` by totals, in a sentence."""
        grid, table = self.found.grid, self.points
        most, cheapest = table.fewest_misses(name, 1), table.cheapest(name, 1)
        if not most:
            return "Nothing was counted."
        [best] = most
        misses, where = best["ni_misses"], _said(best, grid.axes)
        text = f"Fewest misses: {where}, {whole(misses)} in all"
        if best["rejected"]:
            text += f", with {whole(best['rejected'])} turned away"
        if not cheapest:
            text += "; no point has a whole price, so none is called the cheapest"
        elif all(best[axis.column] == cheapest[0][axis.column] for axis in grid.axes):
            text += f"; also the cheapest, {_time(best, 'cost_us')} us in all"
        else:
            [cheap] = cheapest
            text += (
                f". Cheapest: {_said(cheap, grid.axes)}, {_time(cheap, 'cost_us')} us in all, "
                f"{whole(cheap['ni_misses'])} misses"
            )
        return (f"{name}: " if len(self.names) > 1 else "") + f"{text}."

    def _traces(self) -> str:
        if len(self.names) > 1:
            return f"{len(self.names)} traces"
        [(name, trace)] = self.found.traces
        return f"{name}, {trace.rows:,} requests"


def _said(row: dict[str, Any], axes: Sequence[Axis]) -> str:
    """A point by the values of the varied axes, as ``--set`` spells them."""
    varying = [axis for axis in axes if len(axis.values) > 1] or list(axes)
    return ", ".join(f"{_heading(axis)} {_value(axis, row[axis.column])}" for axis in varying)


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
    words = {
        place
        for place, axis in enumerate(varying, several_traces)
        if any(isinstance(row[axis.column], str) for row in rows)
    }
    return Rows(
        "",
        headings,
        cells,
        left=(*range(several_traces), *sorted(words)),
        key=several_traces + len(varying),
        # What ranks stays longest.
        least=(
            *("ns per byte", "pinned in hosts", "on the NIC", f"us per {per.value}"),
            *(f"per 100 {per.plural}", "rejected", "us in all"),
        ),
    )


def unpriced_note(found: Unpriced) -> list[str]:
    """The points without a complete price, and why, in lines."""
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
    if row["cost_bound"] == AT_LEAST:
        return f"≥ {significant(low)}"
    ends = [significant(low), significant(high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
