"""Simulated traces and programs: tables, results.json, times.parquet, and a timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import heading, remark, rows_of
from nicscope.reports.result import Column, Report, of_totals, table_of, tidy
from nicscope.reports.summaries import of_program, of_simulation
from nicscope.reports.wording import byte_size, in_words, listed, significant, whole
from nicscope.studies.sources import COUNT_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.reports.printing import Printed, Rows
    from nicscope.studies.programs import ProgramRuns
    from nicscope.studies.simulating import Simulated, TraceSimulation

PS_PER_US = 1_000_000
PARTS = ("library", "lookup", "miss", "queues", "dma", "network", "peer", "waiting")
WORK = {  # heading: count
    "lookups": "lookups",
    "misses": "ni_misses",
    "pins": "pins",
    "unpins": "unpins",
    "interrupts": "interrupts",
    "rejected": "rejected",
}


COLUMNS: dict[str, Column] = {  # of the first table: a row per design
    "design": ("string", "design.name"),
    "scheme": ("string", "design.scheme.value"),
    "platform": ("string", "platform"),
    "page_size_bytes": ("int64", "design.page_size"),
    "requests_per_s": ("float64", "requests_per_s"),
    "elapsed_us": ("float64", lambda each: each.elapsed_ps / PS_PER_US),
    "busy_us": ("float64", lambda each: each.busy_ps / PS_PER_US),
    "busy_us_per_request": (
        "float64",
        lambda each: each.busy_ps / PS_PER_US / max(each.requests, 1),
    ),
    **of_totals(*COUNT_NAMES),  # null: not counted
    "repeated_lookups": ("int64", lambda each: sum(node.repeated for node in each.nodes)),
    "nic_memory_bytes": ("int64", "nic_bytes"),
}


class ShownTrace(Report):
    """A simulated trace: time per request, work of NICs and hosts, and times.parquet."""

    found: TraceSimulation
    topic = "simulate"

    def summary(self) -> list[str]:
        """What a request took."""
        return of_simulation(self.found)

    def parts(self) -> Iterator[Printed]:
        """The trace, both tables, and what their headings mean."""
        found, trace = self.found, self.found.trace
        sizes = sorted({each.design.page_size or 0 for each in found.found})
        yield heading(
            f"{Path(trace['file']).name}: {in_words(trace['requests'], 'request')}, "
            f"{in_words(trace['nodes'], 'node')}, {listed([*map(byte_size, sizes)])} pages"
        )
        yield time_rows(found)
        yield work_rows(found)
        yield ""
        yield remark(
            "library: on the CPU (post, check, pin, poll).  miss: until the translation is there.  "
            "queues: the NIC's processor.  dma, network, peer: what nothing before covers.  "
            "waiting: for time-outs, or for a request's time."
        )
        for line in found.skipped:
            yield remark(f"left out: {line}")

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row per design; and one per design, node and part of its time."""
        yield "designs", table_of(self.found.found, COLUMNS)
        rows = (
            (each.design.name, node.number, name, ps)
            for each in self.found.found
            for node in each.nodes
            for name, ps in node.times_ps.items()
        )
        kinds = {"design": "string", "node": "int32", "part": "string", "part_ps": "int64"}
        yield "times", tidy(kinds, rows)


class ShownProgram(Report):
    """The costs of each run of a program."""

    found: ProgramRuns
    topic = "program"

    def summary(self) -> list[str]:
        """What arrived, and when."""
        return of_program(self.found)

    def parts(self) -> Iterator[Printed]:
        """Run after run, each with its tables and their notes."""
        for run in self.found.runs:
            yield from run.parts()
            yield ""


def time_rows(found: TraceSimulation) -> Rows:
    """Time per request, and its parts."""

    def part(name: str) -> Callable[[Simulated], str]:
        return lambda each: _us(each, each.times_ps[name])

    return rows_of(
        "us per request, by what it went into",
        found.found,
        {"design": _name, "us": lambda each: _us(each, each.busy_ps)} | {p: part(p) for p in PARTS},
        words=("design",),
        least=("waiting", "peer", "queues", "network", "dma", "lookup", "library", "miss"),
    )


def work_rows(found: TraceSimulation) -> Rows:
    """Request rates, and the work of NICs and hosts."""

    def count(name: str) -> Callable[[Simulated], str]:
        return lambda each: whole(each.total[name])

    return rows_of(
        "requests per second of virtual time, and the work of all",
        found.found,
        {
            "design": _name,
            "per s": lambda each: f"{each.requests_per_s:,.0f}",
            **{heading: count(name) for heading, name in WORK.items()},
            "repeated": lambda each: whole(sum(node.repeated for node in each.nodes)),
            "NIC memory": lambda each: byte_size(each.nic_bytes),
        },
        words=("design",),
        least=("repeated", "rejected", "NIC memory", "unpins", "pins", "interrupts", "lookups"),
    )


def _us(each: Simulated, ps: int) -> str:
    return significant(ps / (PS_PER_US * max(each.requests, 1)))


def _name(each: Simulated) -> str:
    return each.design.name


def timeline_text(timeline: dict[str, Any]) -> str:
    """A timeline's file: one JSON object on one line."""
    return json.dumps(timeline) + "\n"
