"""Cache shapes that explain a NIC's counters: summary, tables, caches.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of
from nicscope.reports.wording import byte_size, in_words, listed, whole
from nicscope.studies.curves import MOST_ENTRIES
from nicscope.studies.fitting import FULL, RANDOM, Explained, FitReport

if TYPE_CHECKING:
    from collections.abc import Iterator

FAR = 0.01  # of the trace's lookups: counters of other traffic


class ShownFit(Report):
    """Cache shapes beside the NIC's counts."""

    found: FitReport
    topic = "fit"
    drawn: ClassVar = {"caches": "rdma.draw_fit"}

    def summary(self) -> list[str]:
        """Which caches explain the counts, what they leave open, and what would close it."""
        found = self.found
        explaining = [one for one in found.shapes if one.explains]
        if not explaining:
            best = found.shapes[0]
            told = [
                f"No cache explains what {found.cache} counted; nearest is "
                f"{_called(best)} of {best.best:,} entries, {best.off:.1f} times as far off as the "
                "counters leave open."
            ]
        else:
            nearest = f"{_called(explaining[0])} of {_entries(explaining[0])} entries"
            told = [f"What {found.cache} counted is explained by {nearest}."]
            if len(explaining) > 1:
                low = min(one.low for one in explaining)
                high = max(one.high for one in explaining)
                sizes = f"{low:,} or more" if high == MOST_ENTRIES else f"{low:,} to {high:,}"
                told = [
                    f"Caches of {sizes} entries, of several shapes, explain what "
                    f"{found.cache} counted; nearest is {nearest}."
                ]
        if len(explaining) > 1 and len(found.counted) == 1:
            told.append(
                "Counts of the same traffic in pages of another size would tell these apart."
            )
        if not found.random_tried:
            told.append(
                "Random replacement was not tried, as the trace is too long; give a part of it."
            )
        for one, lookups, size in zip(found.counted, found.lookups, found.page_sizes, strict=True):
            if lookups and abs(one.lookups / lookups - round(one.lookups / lookups)) > FAR:
                told.append(
                    f"Counted in pages of {byte_size(size)} are other lookups than the trace has: "
                    "it may not be the same traffic."
                )
        return told

    def parts(self) -> Iterator[Printed]:
        """Tables: the counts, and every shape of cache."""
        yield heading(f"{self.found.trace}: {self.found.cache}")
        yield count_rows(self.found)
        yield shape_rows(self.found)
        if self.found.unused:
            told = [f"{name} ({why})" for name, why in self.found.unused.items()]
            yield remark(f"Not used: {listed(told)}.")

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each shape of cache."""
        columns: dict[str, Column] = {
            "nic_replacement": ("string", "replacement"),
            "line_pages": ("int64", "line"),
            "ways": ("int64", lambda one: one.ways or None),
            "explains": ("bool", "explains"),
            "entries_low": ("int64", "low"),
            "entries_high": ("int64", "high"),
            "entries_best": ("int64", "best"),
            "open_off": ("float64", "off"),
        }
        yield "caches", table_of(self.found.shapes, columns)


def count_rows(found: FitReport) -> Rows:
    """A row for each count."""
    things = zip(found.counted, found.page_sizes, found.lookups, found.footprints, strict=True)
    return rows_of(
        "Counted",
        things,
        {
            "pages": lambda one: byte_size(one[1]),
            "hits": lambda one: whole(one[0].hits),
            "misses": lambda one: whole(one[0].misses),
            "missed": lambda one: _percent(one[0].ratio),
            "left open": lambda one: f"± {_percent(one[0].open(found.tolerance))}",
            "in the trace": lambda one: whole(one[2]),
            "distinct": lambda one: whole(one[3]),
        },
        words=("pages",),
        least=("distinct", "in the trace"),
    )


def shape_rows(found: FitReport) -> Rows:
    """A row for each cache shape, those that explain the counts first."""
    return rows_of(
        "Caches",
        found.shapes,
        {
            "replaced": lambda one: one.replacement,
            "line": lambda one: whole(one.line),
            "ways": lambda one: "full" if one.ways == FULL else whole(one.ways),
            "explains": lambda one: "yes" if one.explains else "no",
            "entries": _entries,
            "best": lambda one: whole(one.best),
            "misses there": lambda one: ", ".join(_percent(ratio) for ratio in one.ratios),
            "off": lambda one: f"{one.off:.2f}",
        },
        words=("replaced", "explains"),
        key=4,
        least=("best", "misses there"),
    )


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.3f} %"


def _called(one: Explained) -> str:
    shape = (
        "a fully associative cache" if one.ways == FULL else f"one of {in_words(one.ways, 'way')}"
    )
    how = "random replacement" if one.replacement == RANDOM else "LRU"
    lines = f" in lines of {one.line}" if one.line > 1 else ""
    return f"{shape} with {how}{lines}"


def shape_name(one: Explained) -> str:
    """A short name of a cache shape."""
    ways = "full" if one.ways == FULL else in_words(one.ways, "way")
    return f"{one.replacement}, {ways}" + (f", lines of {one.line}" if one.line > 1 else "")


def _entries(one: Explained) -> str:
    if one.high == MOST_ENTRIES and one.low < one.high:
        return f"{one.low:,} or more"
    return f"{one.low:,}" if one.low == one.high else f"{one.low:,} to {one.high:,}"
