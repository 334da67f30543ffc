"""Bandwidth and latency of verbs: perftest's columns, busy engines, translation costs."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, table_of, tidy
from nicscope.reports.wording import byte_size, whole
from nicscope.studies.latency import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.verbs_measures import (
        AllLatencies,
        Bandwidth,
        Bandwidths,
        Latencies,
        Measured,
    )

NS_PER_US = 1000
ENGINES = {"cpu": "CPU", "nic": "NIC", "bus": "bus", "link": "link"}
BILL = ("lookups", "ni_misses", "pins", "unpins", "interrupts")
# The parts of ``nicscope latency``, some together.
PARTS: dict[str, tuple[Part, ...]] = {
    "library": (Part.LIBRARY, Part.USER_DATA, Part.COPY, Part.USER_READ),
    "pinning": (Part.PIN,),
    "sending": (Part.SEND,),
    "DMA": (
        Part.DMA_INIT,
        Part.DMA_EXEC,
        Part.DMA_INTERRUPT,
        Part.COHERENCE,
        Part.BLOCK_WAIT,
    ),
    "lookup": (Part.TRANSLATION,),
    "missing": (Part.MISS,),
    "network": (Part.NETWORK,),
    "receiving": (Part.RECEIVE,),
    "waiting": (Part.WAIT,),
}


def busy_share(one: Bandwidth | Latencies, who: str) -> float:
    """The share of the time that an engine is busy."""
    return one.costs.busy_percent(who) / 100


def in_us(one: Latencies, name: str) -> float:
    """One of its times, in microseconds."""
    ns: float = getattr(one, name)
    return ns / NS_PER_US


# Columns of both tables: which row it is, and what the engines and translations did meanwhile.
WHICH: dict[str, Column] = {
    "design": ("string", "design"),
    "platform": ("string", "platform"),
    "payload_bytes": ("int64", "payload_bytes"),
    "iterations": ("int64", "iterations"),
}
MEANWHILE: dict[str, Column] = {
    **{f"{who}_share": ("double", partial(busy_share, who=who)) for who in ENGINES},
    **{name: ("int64", f"costs.{name}") for name in BILL},
}
_TIMES = {
    "t_min_us": "least",
    "t_max_us": "most",
    "t_typical_us": "typical",
    "t_avg_us": "average",
    "t_stdev_us": "deviation",
    "t_99_us": "p99",
    "t_99_9_us": "p99_9",
}
TIMES: dict[str, Column] = {
    column: ("double", partial(in_us, name=name)) for column, name in _TIMES.items()
}

SAID = {  # in sentences, where the heading alone would not do
    "library": "the library's",
    "sending": "the NIC's for what goes",
    "lookup": "the NIC's lookups",
    "missing": "waiting for misses",
    "receiving": "the NIC's for what comes",
}


class ShownBandwidths(Report):
    """Bandwidth by design and size."""

    found: Bandwidths
    topic = "verbs"
    drawn: ClassVar = {"bandwidth": "messages.draw_bandwidths"}

    def summary(self) -> list[str]:
        """What each design reaches, and who is busiest then."""
        told = []
        for design, rows in _by_design(self.found.rows):
            best = max(rows, key=lambda one: one.average_mib_s)
            who = max(ENGINES, key=best.costs.busy_percent)
            told.append(
                f"On {design} messages of {_bytes(best)} bytes reach {best.average_mib_s:.2f} "
                f"MiB/s, when the {ENGINES[who]} is busy {_busy(best, who)} of the time."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """Perftest's columns with the busy engines, design by design; the bill; what it means."""
        yield from _headed(self.found, f"bandwidth, {self.found.depth:,} outstanding")
        for design, rows in _by_design(self.found.rows):
            yield bandwidth_rows(design, rows)
            yield ""
        yield bill_rows(self.found.rows)
        yield _note(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each design and size."""
        rates = dict.fromkeys(("peak_mib_s", "average_mib_s", "rate_mpps"), "double")
        columns = {name: (kind, name) for name, kind in rates.items()}
        yield "bandwidth", table_of(self.found.rows, WHICH | columns | MEANWHILE)


class ShownVerbsLatencies(Report):
    """Latencies by design and size."""

    found: AllLatencies
    topic = "verbs"
    drawn: ClassVar = {"latency": "messages.draw_latencies"}

    def summary(self) -> list[str]:
        """What the smallest message takes on each design, and where most of that goes."""
        told = []
        for design, rows in _by_design(self.found.rows):
            least = min(rows, key=lambda one: one.payload_bytes)
            most = max(PARTS, key=lambda name: least.us(*PARTS[name]))
            told.append(
                f"On {design} an operation {self.found.operation!r} of {_bytes(least)} bytes takes "
                f"{_us(least.typical)} us, typically; most of the mean is "
                f"{SAID.get(most, most)}, {least.us(*PARTS[most]):.2f} us."
            )
        return told

    def parts(self) -> Iterator[Printed]:
        """Perftest's columns and where time went, design by design; the bill; what it means."""
        yield from _headed(self.found, "latency, one message at a time")
        for design, rows in _by_design(self.found.rows):
            yield latency_rows(design, rows)
            yield ""
            yield part_rows(rows)
            yield ""
        yield bill_rows(self.found.rows)
        yield _note(self.found)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each design and size, and one for each part of each."""
        yield "latency", table_of(self.found.rows, WHICH | TIMES | MEANWHILE)
        kinds = dict.fromkeys(("design", "platform"), "string") | {
            "payload_bytes": "int64",
            "part": "string",
            "part_ns": "double",
        }
        parts = (
            (one.design, one.platform, one.payload_bytes, part, ns)
            for one in self.found.rows
            for part, ns in one.parts_ns.items()
        )
        yield "parts", tidy(kinds, parts)


def _by_design(rows: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    for design, several in groupby(rows, key=lambda one: one.design):
        yield design, list(several)


def _headed(found: Measured, what: str) -> Iterator[Printed]:
    pairs = "1 queue pair" if found.queue_pairs == 1 else f"{found.queue_pairs:,} queue pairs"
    inline = f", inline up to {byte_size(found.inline_bytes)}" if found.inline_bytes else ""
    yield heading(f"RC {found.operation} {what}: {pairs}{inline}")
    yield ""


def _note(found: Measured) -> Printed:
    classes = "; ".join(
        f"{platform}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        for platform, counts in found.evidence.items()
    )
    return remark(
        "Virtual time.  One node sends to itself: its NIC, bus and processor do the work of both "
        f"ends.  Costs by evidence: {classes}.  Differences say more than any one number."
    )


def _bytes(one: Bandwidth | Latencies) -> str:
    return whole(one.payload_bytes)


def _us(ns: float) -> str:
    return f"{ns / NS_PER_US:,.2f}"


def _busy(one: Bandwidth | Latencies, who: str) -> str:
    return f"{one.costs.busy_percent(who):.1f} %"


def bandwidth_rows(design: str, rows: list[Bandwidth]) -> Rows:
    """Perftest's columns, and the utilization of engines meanwhile."""
    return rows_of(
        f"{design} on {rows[0].platform}",
        rows,
        {
            "bytes": _bytes,
            "iterations": lambda one: whole(one.iterations),
            "peak MiB/s": lambda one: f"{one.peak_mib_s:,.2f}",
            "average MiB/s": lambda one: f"{one.average_mib_s:,.2f}",
            "Mpps": lambda one: f"{one.rate_mpps:.4f}",
            **{title: partial(_busy, who=who) for who, title in ENGINES.items()},
        },
        least=("link", "CPU"),
    )


def latency_rows(design: str, rows: list[Latencies]) -> Rows:
    """Perftest's columns, in us."""
    return rows_of(
        f"{design} on {rows[0].platform}, us",
        rows,
        {
            "bytes": _bytes,
            "iterations": lambda one: whole(one.iterations),
            "t_min": lambda one: _us(one.least),
            "t_max": lambda one: _us(one.most),
            "t_typical": lambda one: _us(one.typical),
            "t_avg": lambda one: _us(one.average),
            "t_stdev": lambda one: _us(one.deviation),
            "99%": lambda one: _us(one.p99),
            "99.9%": lambda one: _us(one.p99_9),
        },
        least=("iterations",),
    )


def part_rows(rows: list[Latencies]) -> Rows:
    """The breakdown of the mean message's time, in us."""
    shown = {name: parts for name, parts in PARTS.items() if any(one.us(*parts) for one in rows)}
    return rows_of(
        "Where the us of the mean message went",
        rows,
        {"bytes": _bytes} | {name: partial(_in, parts=each) for name, each in shown.items()},
        least=("waiting",),
    )


def _in(one: Latencies, parts: tuple[Part, ...]) -> str:
    return f"{one.us(*parts):,.2f}"


def bill_rows(rows: Iterable[Bandwidth | Latencies]) -> Rows:
    """The total cost of translation for each design and size."""
    return rows_of(
        "Translations",
        rows,
        {
            "design": lambda one: one.design,
            "bytes": _bytes,
            "lookups": lambda one: whole(one.costs.lookups),
            "misses": lambda one: whole(one.costs.ni_misses),
            "missed": lambda one: f"{one.costs.missed_percent:.1f} %",
            "pins": lambda one: whole(one.costs.pins),
            "unpins": lambda one: whole(one.costs.unpins),
            "interrupts": lambda one: whole(one.costs.interrupts),
        },
        words=("design",),
        key=2,
        grouped=True,
        least=("unpins",),
    )
