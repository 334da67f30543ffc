"""Rates by queue pairs and outstanding operations: summary, table, figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of
from nicscope.reports.wording import between, in_words, whole
from nicscope.studies.connections import best_of, cliff_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.connections import ConnectionReport, Found

BINDING = {
    "NIC": "the NIC executes no more",
    "work requests": "the NIC fetches work requests once more",
    "contexts": "the NIC fetches contexts of queue pairs",
    "doorbells": "threads wait for locks",
    "read window": "reads wait for their queue pair's window",
    "outstanding": "no more are outstanding",
}
AXES = {"queue_pairs": "queue pairs", "outstanding": "outstanding operations of a thread"}


class ShownConnections(Report):
    """Rates of several ways to post to one NIC."""

    found: ConnectionReport
    topic = "connections"
    drawn: ClassVar = {"connections": "rdma.draw_connections"}

    def summary(self) -> list[str]:
        """Which way has the highest rate, what binds it, and where the cliff is along each axis."""
        every = self.found.found
        best = best_of(every)
        asked = best.asked
        told = [
            f"{in_words(asked.queue_pairs, 'queue pair').capitalize()} and "
            f"{whole(asked.outstanding)} outstanding {asked.operation}s of each of "
            f"{in_words(asked.threads, 'thread')} give {_millions(best)} million/s: "
            f"{BINDING[best.low.bound_by]}."
        ]
        for axis, name in AXES.items():
            line = _line(every, best, axis)
            if len(line) > 1:
                told.append(_cliff(line, axis, name))
        return told

    def parts(self) -> Iterator[Printed]:
        """A table: each way."""
        nic = self.found.nic
        yield heading(f"{nic.name}: {nic.title}")
        yield way_rows(self.found)
        kinds: dict[str, list[str]] = {}
        for name, origin in nic.origins.items():
            kinds.setdefault(origin.evidence.value, []).append(name)
        told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in sorted(kinds.items()))
        yield remark(
            f"Ranges: from the highest costs and smallest caches to the lowest and largest "
            f"that are known.  Numbers that went in are {told}."
        )
        yield remark(
            "On the machine: ICM Cache Miss and Receive WQE Cache Miss (Neo-Host), "
            "outbound_pci_stalled_rd (ethtool -S); perftest with -q and -t."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each way."""
        columns: dict[str, Column] = {
            "operation": ("string", "asked.operation"),
            "threads": ("int64", "asked.threads"),
            "queue_pairs": ("int64", "asked.queue_pairs"),
            "outstanding": ("int64", "asked.outstanding"),
            "read_window": ("int64", "asked.window"),
            "doorbells": ("string", "asked.doorbells"),
            "nic_replacement": ("string", "asked.replacement"),
        }
        for end in ("low", "high"):
            columns |= {
                f"millions_per_s_{end}": ("float64", f"{end}.millions"),
                f"nic_us_{end}": ("float64", f"{end}.us"),
                f"refetches_per_operation_{end}": ("float64", f"{end}.work_request_misses"),
                f"context_misses_per_operation_{end}": ("float64", f"{end}.context_misses"),
                f"bound_by_{end}": ("string", f"{end}.bound_by"),
            }
        yield "connections", table_of(self.found.found, columns)


def way_rows(found: ConnectionReport) -> Rows:
    """A row for each way; columns equal for all are left out."""
    every = found.found
    said: dict[str, Callable[[Found], str]] = {
        "operation": lambda one: one.asked.operation,
        "threads": lambda one: whole(one.asked.threads),
        "QPs": lambda one: whole(one.asked.queue_pairs),
        "outstanding": lambda one: whole(one.asked.outstanding),
        "window": lambda one: whole(one.asked.window),
        "doorbells": lambda one: one.asked.doorbells,
        "replaced": lambda one: one.asked.replacement,
    }
    shown = {
        name: spell
        for name, spell in said.items()
        if name in ("QPs", "outstanding") or len({spell(one) for one in every}) > 1
    }
    return rows_of(
        "By way to post",
        every,
        {
            **shown,
            "million/s": _millions,
            "us in the NIC": lambda one: _span(one.high.us, one.low.us),
            "refetched": lambda one: _span(
                one.high.work_request_misses, one.low.work_request_misses
            ),
            "contexts missed": lambda one: _span(one.high.context_misses, one.low.context_misses),
            "bound by": lambda one: (
                one.low.bound_by
                if one.low.bound_by == one.high.bound_by
                else f"{one.low.bound_by}, {one.high.bound_by}"
            ),
        },
        words=("operation", "doorbells", "replaced", "bound by"),
        key=len(shown),
        least=("us in the NIC", "refetched", "contexts missed"),
    )


def _span(one: float, other: float) -> str:
    return between(min(one, other), max(one, other))


def _millions(one: Found) -> str:
    return _span(one.low.millions, one.high.millions)


def _line(every: Sequence[Found], best: Found, axis: str) -> list[Found]:
    """The ways that differ from the best along ``axis`` alone, ascending."""
    at = best.asked._asdict() | {axis: 0}
    line = [one for one in every if one.asked._asdict() | {axis: 0} == at]
    return sorted(line, key=lambda one: getattr(one.asked, axis))


def _cliff(line: Sequence[Found], axis: str, name: str) -> str:
    """Where the rate drops along a line."""
    last, first = cliff_of(line)
    if first is None:
        return f"Up to {whole(getattr(last.asked, axis))} {name} it does not fall."
    end = line[-1]
    return (
        f"It falls beyond {whole(getattr(last.asked, axis))} {name}: with "
        f"{whole(getattr(first.asked, axis))} it is {_millions(first)} "
        f"({BINDING[first.low.bound_by]})"
        + (
            "."
            if first is end
            else f", with {whole(getattr(end.asked, axis))} {_millions(end)} million/s."
        )
    )
