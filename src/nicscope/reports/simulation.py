"""Simulated traces and programs: tables, results.json, times.parquet, and a timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Printed, Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, of_totals, table_of, tidy
from nicscope.reports.wording import byte_size, in_words, listed, significant, whole
from nicscope.studies.sources import COUNT_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nicscope.studies.programs import ProgramRuns
    from nicscope.studies.simulating import Simulated, Simulation, TimedDesign

PS_PER_US = 1_000_000
PLACES = ("first", "second", "third")  # of runs, one sentence each
SEVERAL_MACHINES = "They are on several machines; --platform NAME takes one for all."
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

    found: Simulation[Simulated]
    topic = "simulate"

    def summary(self) -> list[str]:
        """What a request took."""
        ordered = sorted(self.found.found, key=lambda each: each.busy_ps / max(each.requests, 1))
        first, last = ordered[0], ordered[-1]
        lasts = f"{_us(last, last.busy_ps)} us, {_most(last)}"
        if len(ordered) == 1:
            return [f"A request takes {lasts}, under {_name(last)}."]
        sentences = [
            f"A request takes least under {_name(first)}, {_us(first, first.busy_ps)} us, "
            f"{_most(first)}; and most under {_name(last)}, {lasts}."
        ]
        if len({each.platform for each in ordered}) > 1:
            sentences.append(SEVERAL_MACHINES)
        return sentences

    def parts(self) -> Iterator[Printed]:
        """The trace, both tables, and what their headings mean."""
        found, trace = self.found, self.found.trace
        yield heading(
            f"{Path(trace['file']).name}: {in_words(trace['requests'], 'request')}, "
            f"{in_words(trace['nodes'], 'node')}, {_pages(found)}"
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
        sentences = []
        for place, run in zip(PLACES, self.found.runs, strict=False):
            work = run.total
            where = "On" if len(self.found.runs) == 1 else f"In the {place} run, on"
            told = (
                f"{where} {run.platform}, {in_words(work.messages_in, 'message')} with "
                f"{whole(work.bytes_in)} bytes came in within {run.elapsed_us:,.1f} us of "
                "virtual time"
            )
            if work.lookups is not None and work.misses is not None and work.lookups.total:
                looked, missed = work.lookups.total, work.misses.total
                told += f"; of {whole(looked)} lookups on NICs {whole(missed)} missed"
            sentences.append(f"{told}.")
        if len(self.found.runs) > len(PLACES):
            sentences.append("Tables of all runs follow.")
        return sentences

    def parts(self) -> Iterator[Printed]:
        """Run after run, each with its tables and their notes."""
        for run in self.found.runs:
            yield from run.parts()
            yield ""


def time_rows(found: Simulation[Simulated]) -> Rows:
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


def work_rows(found: Simulation[Simulated]) -> Rows:
    """Request rates, and the work of NICs and hosts."""
    return rows_of(
        "requests per second of virtual time, and the work of all",
        found.found,
        {
            "design": _name,
            "per s": lambda each: f"{each.requests_per_s:,.0f}",
            **{heading: _count(name) for heading, name in WORK.items()},
            "repeated": lambda each: whole(sum(node.repeated for node in each.nodes)),
            "NIC memory": lambda each: byte_size(each.nic_bytes),
        },
        words=("design",),
        least=("repeated", "rejected", "NIC memory", "unpins", "pins", "interrupts", "lookups"),
    )


def _count(name: str) -> Callable[[Simulated | TimedDesign], str]:
    return lambda each: whole(each.total[name])


def _pages(found: Simulation[Any]) -> str:
    sizes = sorted({each.design.page_size or 0 for each in found.found})
    return f"{listed([*map(byte_size, sizes)])} pages"


def _most(each: Simulated) -> str:
    part, ps = max(each.times_ps.items(), key=lambda item: item[1])
    return f"of which {_us(each, ps)} go to '{part}', the largest part"


def _us(each: Simulated, ps: int) -> str:
    return significant(ps / (PS_PER_US * max(each.requests, 1)))


def _name(each: Simulated | TimedDesign) -> str:
    return each.design.name


def timeline_text(timeline: dict[str, Any]) -> str:
    """A timeline's file: one JSON object on one line."""
    return json.dumps(timeline) + "\n"


PS_PER_MS = 1_000_000_000
SHARES = {  # heading: parts of the processes' time
    "compute": ("compute",),
    "stolen": ("stolen",),
    "library": ("library",),
    "fetch": ("fetch",),
    "deposit": ("deposit",),
    "message": ("send", "receive"),
    "lock": ("lock",),
    "barrier": ("barrier",),
    "over": ("over",),
}
MOST_PROCESSES = 16  # that are told one by one
UNTOLD = "-"
DESIGN_COLUMNS: dict[str, Column] = {
    "design": ("string", "design.name"),
    "scheme": ("string", "design.scheme.value"),
    "platform": ("string", "platform"),
    "page_size_bytes": ("int64", "design.page_size"),
    "elapsed_us": ("float64", lambda each: each.elapsed_ps / PS_PER_US),
    "sequential_us": ("float64", lambda each: each.outcome.compute_ps / PS_PER_US),
    "speed_up": ("float64", "speed_up"),
    **of_totals("lookups", "ni_misses", "pins", "unpins"),
    "interrupts": ("int64", "interrupts"),
    "mean_miss_us": ("float64", "miss_time.mean"),
    "failed": ("int64", "outcome.failed"),
    "nic_memory_bytes": ("int64", "nic_bytes"),
}
TIME_COLUMNS = {
    "design": "string",
    "node": "int32",
    "process": "int32",
    "part": "string",
    "part_ps": "int64",
}


class ShownTiming(Report):
    """A timed program: its duration, its processes' time by part, and the NICs' work."""

    found: Simulation[TimedDesign]
    topic = "timing"

    def summary(self) -> list[str]:
        """How long it takes, and under which design least."""
        ordered = sorted(self.found.found, key=lambda each: each.elapsed_ps)
        first, last = ordered[0], ordered[-1]
        one = processes_in_words(len(first.nodes))
        if len(ordered) == 1:
            return [
                f"The program takes {_ms(first)} ms with {one} under {_name(first)}, "
                f"{significant(first.speed_up)} times as fast as its computing on one processor."
            ]
        told = [
            f"With {one} the program takes least under {_name(first)}, {_ms(first)} ms, "
            f"{significant(first.speed_up)} times as fast as its computing on one processor; and "
            f"most under {_name(last)}, {_ms(last)} ms, {significant(last.speed_up)} times."
        ]
        if len({each.platform for each in ordered}) > 1:
            told.append(SEVERAL_MACHINES)
        return told

    def parts(self) -> Iterator[Printed]:
        """The program, its tables, and what is left out."""
        found, trace = self.found, self.found.trace
        yield heading(
            f"{Path(trace['file']).name}: {in_words(trace['operations'], 'operation')}, "
            f"{processes_in_words(trace['processes'])} on {in_words(trace['nodes'], 'node')}, "
            f"{_pages(found)}"
        )
        yield share_rows(found)
        yield operation_rows(found)
        yield nic_rows(found)
        if any(each.outcome.misses for each in found.found):
            yield miss_rows(found)
        if len(found.found) == 1 and len(found.found[0].nodes) <= MOST_PROCESSES:
            yield process_rows(found.found[0])
        yield ""
        for line in found.left_out or ():
            yield remark(line)
        for line in found.skipped:
            yield remark(f"left out: {line}")

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row per design; and one per design, process and part of its time."""
        yield "designs", table_of(self.found.found, DESIGN_COLUMNS)
        rows = (
            (each.design.name, node, process, name, ps)
            for each in self.found.found
            for process, node in enumerate(each.nodes)
            for name, ps in zip(each.parts_ps, each.outcome.times_ps[process].tolist(), strict=True)
        )
        yield "times", tidy(TIME_COLUMNS, rows)


def processes_in_words(count: int) -> str:
    """``count`` processes."""
    return f"{whole(count)} process{'' if count == 1 else 'es'}"


def share_rows(found: Simulation[TimedDesign]) -> Rows:
    """Duration, and the percentage of the processes' time in each part."""

    def share(parts: tuple[str, ...]) -> Callable[[TimedDesign], str]:
        return lambda each: f"{100 * each.share(*parts):.1f}"

    used = {
        heading: parts
        for heading, parts in SHARES.items()
        if any(each.share(*parts) for each in found.found)
    }
    return rows_of(
        "Time of the program, and per cent of its processes' time by what it went into",
        found.found,
        {
            "design": _name,
            "ms": _ms,
            "speed-up": lambda each: significant(each.speed_up),
            **{heading: share(parts) for heading, parts in used.items()},
        },
        words=("design",),
        least=("over", "stolen", "library", "deposit", "message", "lock", "fetch"),
    )


def operation_rows(found: Simulation[TimedDesign]) -> Rows:
    """Durations of operations, from begin to end."""

    def mean(name: str) -> Callable[[TimedDesign], str]:
        return lambda each: _mean_us(each.means_us[name])

    used = [
        name
        for name in found.found[0].means_us
        if name not in ("compute", "unlock")
        and any(each.means_us[name] is not None for each in found.found)
    ]
    return rows_of(
        "us per operation, from its beginning to its end",
        found.found,
        {
            "design": _name,
            **{name: mean(name) for name in used},
            "failed": lambda each: whole(each.outcome.failed),
        },
        words=("design",),
        least=("failed", "barrier"),
    )


def nic_rows(found: Simulation[TimedDesign]) -> Rows:
    """The work of NICs and hosts."""
    return rows_of(
        "Work of all NICs and hosts",
        found.found,
        {
            "design": _name,
            "lookups": _count("lookups"),
            "misses": _count("ni_misses"),
            "of sends": _count("ni_misses_send"),
            "of receives": _count("ni_misses_receive"),
            "pins": _count("pins"),
            "unpins": _count("unpins"),
            "interrupts": lambda each: whole(each.interrupts),
            "NIC memory": lambda each: byte_size(each.nic_bytes),
        },
        words=("design",),
        least=("NIC memory", "unpins", "of receives", "of sends", "pins"),
    )


def miss_rows(found: Simulation[TimedDesign]) -> Rows:
    """Durations of misses: until service begins, and of the service."""
    columns = [
        "mean",
        "min",
        *(f"{rank} %" for rank in found.found[0].miss_delay.percentiles),
        "max",
    ]
    cells = []
    for each in found.found:
        if not each.outcome.misses:
            continue
        for what, spread in (
            ("delay", each.miss_delay),
            ("processing", each.miss_processing),
        ):
            times = [spread.mean, spread.least, *spread.percentiles.values(), spread.most]
            cells.append([_name(each), what, *map(_mean_us, times)])
    return Rows(
        "us per miss: until it was attended to, and then until it was served",
        ["design", "part of a miss", *columns],
        cells,
        left=(0, 1),
        key=2,
        least=("min", "90 %"),
    )


def process_rows(each: TimedDesign) -> Rows:
    """The time of each process by part."""
    times, names = each.outcome.times_ps, [*each.parts_ps]
    places = {heading: [names.index(part) for part in parts] for heading, parts in SHARES.items()}
    used = {heading: at for heading, at in places.items() if times[:, at].any()}
    cells = [
        [
            str(process),
            str(node),
            *(significant(int(times[process, at].sum()) / PS_PER_MS) for at in used.values()),
        ]
        for process, node in enumerate(each.nodes)
    ]
    return Rows(
        "ms of each process, by what they went into",
        ["process", "node", *used],
        cells,
        left=(),
        key=2,
        least=("over", "stolen", "library", "deposit", "message", "lock", "fetch"),
    )


def _mean_us(value: float | None) -> str:
    return UNTOLD if value is None else significant(value)


def _ms(each: TimedDesign) -> str:
    return significant(each.elapsed_ps / PS_PER_MS)
