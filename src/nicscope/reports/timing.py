"""Timed programs: where time went, the NICs' work, results.json and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Column, Report, of_totals, table_of, tidy
from nicscope.reports.wording import byte_size, in_words, listed, significant, whole
from nicscope.studies.timing import OPERATIONS, PART_NAMES, PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.reports.printing import Printed
    from nicscope.studies.timing import ProgramTiming, Spread, TimedDesign

PS_PER_MS = 1_000_000_000
PS_PER_US = 1_000_000
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

    found: ProgramTiming
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
            told.append("They are on several machines; --platform NAME takes one for all.")
        return told

    def parts(self) -> Iterator[Printed]:
        """The program, its tables, and what is left out."""
        found, trace = self.found, self.found.trace
        sizes = sorted({each.design.page_size or 0 for each in found.found})
        yield heading(
            f"{Path(trace['file']).name}: {in_words(trace['operations'], 'operation')}, "
            f"{processes_in_words(trace['processes'])} on {in_words(trace['nodes'], 'node')}, "
            f"{listed([*map(byte_size, sizes)])} pages"
        )
        yield share_rows(found)
        yield operation_rows(found)
        yield nic_rows(found)
        if any(each.outcome.misses for each in found.found):
            yield miss_rows(found)
        if len(found.found) == 1 and len(found.found[0].nodes) <= MOST_PROCESSES:
            yield process_rows(found.found[0])
        yield ""
        for line in found.left_out:
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
            for name, ps in zip(PART_NAMES, each.outcome.times_ps[process].tolist(), strict=True)
        )
        yield "times", tidy(TIME_COLUMNS, rows)


def processes_in_words(count: int) -> str:
    """``count`` processes."""
    return f"{whole(count)} process{'' if count == 1 else 'es'}"


def share_rows(found: ProgramTiming) -> Rows:
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


def operation_rows(found: ProgramTiming) -> Rows:
    """Durations of operations, from begin to end."""

    def mean(name: str) -> Callable[[TimedDesign], str]:
        return lambda each: _us(each.mean_us(name))

    used = [
        name
        for name in OPERATIONS
        if name not in ("compute", "unlock")
        and any(each.mean_us(name) is not None for each in found.found)
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


def nic_rows(found: ProgramTiming) -> Rows:
    """The work of NICs and hosts."""

    def count(name: str) -> Callable[[TimedDesign], str]:
        return lambda each: whole(each.total[name])

    return rows_of(
        "Work of all NICs and hosts",
        found.found,
        {
            "design": _name,
            "lookups": count("lookups"),
            "misses": count("ni_misses"),
            "of sends": count("ni_misses_send"),
            "of receives": count("ni_misses_receive"),
            "pins": count("pins"),
            "unpins": count("unpins"),
            "interrupts": lambda each: whole(each.interrupts),
            "NIC memory": lambda each: byte_size(each.nic_bytes),
        },
        words=("design",),
        least=("NIC memory", "unpins", "of receives", "of sends", "pins"),
    )


def miss_rows(found: ProgramTiming) -> Rows:
    """Durations of misses: until service begins, and of the service."""
    columns = ["mean", "min", *(f"{rank} %" for rank in PERCENTILES), "max"]
    cells = []
    for each in found.found:
        if not each.outcome.misses:
            continue
        for what, spread in (
            ("delay", each.miss_delay),
            ("processing", each.miss_processing),
        ):
            cells.append([_name(each), what, *_spelt(spread)])
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
    times = each.outcome.times_ps
    used = {
        heading: [PART_NAMES.index(part) for part in parts]
        for heading, parts in SHARES.items()
        if times[:, [PART_NAMES.index(part) for part in parts]].any()
    }
    cells = [
        [
            str(process),
            str(node),
            *(significant(_sum(times[process, places]) / PS_PER_MS) for places in used.values()),
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


def _sum(times_ps: NDArray[np.int64]) -> int:
    return int(times_ps.sum())


def _spelt(spread: Spread) -> list[str]:
    values = [spread.mean, spread.least, *spread.percentiles.values(), spread.most]
    return [_us(value) for value in values]


def _us(value: float | None) -> str:
    return UNTOLD if value is None else significant(value)


def _ms(each: TimedDesign) -> str:
    return significant(each.elapsed_ps / PS_PER_MS)


def _name(each: TimedDesign) -> str:
    return each.design.name
