"""Simulated traces and programs on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.reports.printing import show
from nicscope.reports.table import Rows
from nicscope.reports.wording import byte_size, in_words, listed, significant, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
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


def print_trace_simulation(found: TraceSimulation) -> None:
    """Print everything that people want of ``found`` on stdout."""
    show(trace_parts(found))


def print_program_runs(found: ProgramRuns) -> None:
    """Print what each run has cost on stdout."""
    show(program_parts(found))


def trace_parts(found: TraceSimulation) -> Iterator[Printed]:
    """What ``print_trace_simulation`` prints, piece by piece."""
    from rich.text import Text

    trace = found.trace
    sizes = sorted({each.design.page_size or 0 for each in found.found})
    yield Text(
        f"{Path(trace['file']).name}: {in_words(trace['requests'], 'request')}, "
        f"{in_words(trace['nodes'], 'node')}, {listed([*map(byte_size, sizes)])} pages",
        style="bold",
    )
    yield Text()
    yield time_rows(found)
    yield Text()
    yield work_rows(found)
    yield Text()
    yield Text(
        "library: on the CPU (post, check, pin, poll).  miss: until the translation is there.  "
        "queues: the NIC's processor.  dma, network, peer: what nothing before covers.  "
        "waiting: for time-outs, or for a request's time.",
        style="dim",
    )
    for line in found.skipped:
        yield Text(f"left out: {line}", style="dim")


def time_rows(found: TraceSimulation) -> Rows:
    """What a request took, and its parts."""
    return Rows(
        "us per request, by what it went into",
        ["design", "us", *PARTS],
        [_times(each) for each in found.found],
        least=("waiting", "peer", "queues", "network", "dma", "lookup", "library", "miss"),
    )


def work_rows(found: TraceSimulation) -> Rows:
    """How fast requests followed each other, and what they had NICs and hosts do."""
    return Rows(
        "requests per second of virtual time, and the work of all",
        ["design", "per s", *WORK, "repeated", "NIC memory"],
        [_work(each) for each in found.found],
        least=("repeated", "rejected", "NIC memory", "unpins", "pins", "interrupts", "lookups"),
    )


def _times(each: Simulated) -> list[str]:
    per = PS_PER_US * max(each.requests, 1)
    parts = each.times_ps
    cells = [significant(each.busy_ps / per), *(significant(parts[name] / per) for name in PARTS)]
    return [each.design.name, *cells]


def _work(each: Simulated) -> list[str]:
    counts = each.total
    repeated = sum(node.repeated for node in each.nodes)
    cells = [whole(counts[name]) for name in WORK.values()]
    return [
        each.design.name,
        f"{each.requests_per_s:,.0f}",
        *cells,
        whole(repeated),
        byte_size(each.nic_bytes),
    ]


def program_parts(found: ProgramRuns) -> Iterator[Printed]:
    """What ``print_program_runs`` prints, piece by piece."""
    from rich.text import Text

    for run in found.runs:
        yield Text(run.headline(), style="bold")
        for table in run.tables():
            yield Text()
            yield Rows(
                table.title,
                table.headings,
                table.cells,
                left=tuple(range(1, table.key)),  # words; the first are numbers of nodes
                key=table.key,
                least=table.least,
                prose=(),
                grouped=table.key > 1,
            )
            for note in table.notes:
                yield Text(note, style="dim")
        yield Text()
