"""Descriptors of a trace and the bottleneck of their transfer: summary, table, Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Report, table_of_rows
from nicscope.reports.wording import (
    between,
    byte_size,
    in_words,
    listed,
    of_trace,
    significant,
    whole,
)
from nicscope.studies.descriptors import BOUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.descriptors import DescriptorReport, Transfer

BINDING = {
    "posting": "posting them binds",
    "NIC": "the NIC executes no more",
    "work requests": "fetching work requests binds",
    "PCIe": "PCIe binds",
    "link": "the link binds",
    "read window": "the window of reads binds",
}
LITTLE = 1.02  # times faster: not worth a sentence


class ShownDescriptors(Report):
    """The descriptors of several engines over one trace."""

    found: DescriptorReport
    topic = "descriptors"

    def summary(self) -> list[str]:
        """What the first engine makes of the trace and what binds it, and what would be faster."""
        every = self.found.found
        first = every[0]
        told = [
            f"{_called(first)} makes {whole(first.moved.descriptors)} descriptors of "
            f"{_mean(first)} on the average: {_rate(first)} GB/s, as {BINDING[first.bound_by(1)]}."
        ]
        best = max(every, key=lambda one: one.gbytes_per_s(1))
        if best.gbytes_per_s(1) > LITTLE * first.gbytes_per_s(1):
            told.append(
                f"Fastest is {_called(best)}{_differences(best, first)}: "
                f"{whole(best.moved.descriptors)} descriptors, "
                f"{_rate(best)} GB/s, as {BINDING[best.bound_by(1)]}."
            )
        needed = _sufficient_threads(first)
        if needed is not None:
            told.append(
                f"With {in_words(needed, 'thread')} posting, or descriptors "
                f"{significant(needed / first.through.threads)} times as large, posting would not "
                f"bind {_called(first)}."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """A table of descriptors and rates, and one of bounds."""
        trace, nic = self.found.trace, self.found.nic
        yield heading(f"{of_trace(trace)}; {nic.name}: {nic.title}")
        yield engine_rows(self.found)
        yield bound_rows(self.found)
        first = self.found.found[0]
        needed = _sufficient_threads(first)
        if needed is not None:
            yield remark(
                f"Posting would bind {_called(first)} no more with {in_words(needed, 'thread')}, "
                f"{significant(needed / first.through.threads)} times as many."
            )
        absent = [name for name in BOUNDS if name not in first.bounds]
        if absent:
            yield remark(f"Not known of this NIC, and left out: {listed(absent)}.")
        kinds: dict[str, list[str]] = {}
        for name, origin in nic.origins.items():
            kinds.setdefault(origin.evidence.value, []).append(name)
        told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in sorted(kinds.items()))
        yield remark(f"Numbers that went in are {told}.")

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each engine and way."""
        rows = []
        for one in self.found.found:
            row: dict[str, Any] = {
                "engine": one.through.engine,
                "threads": one.through.threads,
                "nics": one.through.nics,
                "queue_pairs": one.through.queue_pairs,
                "descriptors": one.moved.descriptors,
                "descriptor_bytes": one.moved.byte_count,
                "packets": one.moved.packets,
                "smallest_bytes": one.smallest,
                "largest_bytes": one.largest,
                "transfer_gbytes_per_s_low": one.gbytes_per_s(1),
                "transfer_gbytes_per_s_high": one.gbytes_per_s(0),
                "bound_by_low": one.bound_by(1),
                "bound_by_high": one.bound_by(0),
            }
            for name in BOUNDS:
                span = one.bounds.get(name)
                key = name.lower().replace(" ", "_")
                row[f"bound_{key}_s_low"] = None if span is None else span.low
                row[f"bound_{key}_s_high"] = None if span is None else span.high
            rows.append(row)
        words = ("engine", "bound_by_low", "bound_by_high")
        yield "descriptors", table_of_rows(rows, words=words)


def engine_rows(found: DescriptorReport) -> Rows:
    """A row for each engine and way; columns equal for all are left out."""
    every = found.found
    ways: dict[str, Callable[[Transfer], str]] = {
        "threads": lambda one: whole(one.through.threads),
        "NICs": lambda one: whole(one.through.nics),
        "QPs": lambda one: whole(one.through.queue_pairs),
    }
    shown = {name: spell for name, spell in ways.items() if len({spell(one) for one in every}) > 1}
    return rows_of(
        "By engine",
        every,
        {
            "engine": lambda one: one.through.engine,
            **shown,
            "descriptors": lambda one: whole(one.moved.descriptors),
            "mean": _mean,
            "smallest": lambda one: byte_size(one.smallest),
            "largest": lambda one: byte_size(one.largest),
            "GB/s": _rate,
            "bound by": lambda one: (
                one.bound_by(1)
                if one.bound_by(0) == one.bound_by(1)
                else f"{one.bound_by(1)}, {one.bound_by(0)}"
            ),
        },
        words=("engine", "bound by"),
        key=1 + len(shown),
        least=("smallest", "largest"),
    )


def bound_rows(found: DescriptorReport) -> Rows:
    """The lower bounds of the transfer time, by engine and way."""
    every = found.found
    names = [name for name in BOUNDS if name in every[0].bounds]
    return rows_of(
        "Seconds that it takes at least",
        every,
        {
            "engine": lambda one: one.through.engine,
            **{
                name: lambda one, name=name: between(*one.bounds[name])  # type: ignore[misc]
                for name in names
            },
        },
        words=("engine",),
    )


def _sufficient_threads(one: Transfer) -> int | None:
    """Threads with which posting is no bottleneck; None if it is none."""
    needed = one.threads_needed(1)
    return needed if one.bound_by(1) == "posting" and needed > one.through.threads else None


def _called(one: Transfer) -> str:
    names = {"nixl": "NIXL", "mooncake": "Mooncake", "joined": "joining what adjoins"}
    return names[one.through.engine]


def _differences(one: Transfer, first: Transfer) -> str:
    """The options in which it differs from the first."""
    through, before = one.through, first.through
    told = []
    if through.threads != before.threads:
        told.append(in_words(through.threads, "thread"))
    if through.nics != before.nics:
        told.append(in_words(through.nics, "NIC"))
    if through.queue_pairs != before.queue_pairs:
        told.append(in_words(through.queue_pairs, "queue pair"))
    return f" with {listed(told)}" if told else ""


def _mean(one: Transfer) -> str:
    return byte_size(round(one.mean_bytes))


def _rate(one: Transfer) -> str:
    return between(one.gbytes_per_s(1), one.gbytes_per_s(0))
