"""Simulated traces and programs on a terminal: tables within 100 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.wording import byte_size, in_words, listed, significant, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from nicscope.studies.programs import ProgramRuns
    from nicscope.studies.simulating import Simulated, TraceSimulation

WIDEST = 100
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
    _print(trace_parts(found))


def print_program_runs(found: ProgramRuns) -> None:
    """Print what each run has cost on stdout."""
    _print(program_parts(found))


def _print(parts: Iterator[Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    for part in parts:
        console.print(part)


def trace_parts(found: TraceSimulation) -> Iterator[Any]:
    """What ``print_trace_simulation`` prints, piece by piece."""
    from rich.text import Text

    trace = found.trace
    sizes = sorted({each.design.page_size or 0 for each in found.found})
    yield Text(
        f"{Path(trace['file']).name}: {in_words(trace['requests'], 'request')}, "
        f"{in_words(trace['nodes'], 'node')}, {listed([*map(byte_size, sizes)])} pages",
        style="bold",
    )
    yield Text("\nus per request, by what it went into", style="dim")
    yield _table(["design", "us", *PARTS], [_times(each) for each in found.found])
    yield Text("\nrequests per second of virtual time, and the work of all", style="dim")
    heads = ["design", "per s", *WORK, "repeated", "NIC memory"]
    yield _table(heads, [_work(each) for each in found.found])
    yield Text(
        "\nlibrary: on the CPU (post, check, pin, poll).  miss: until the translation is there.\n"
        "queues: the NIC's processor.  dma, network, peer: what nothing before covers.\n"
        "waiting: for time-outs, or for a request's time.",
        style="dim",
    )
    for line in found.skipped:
        yield Text(f"left out: {line}", style="dim")


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


def program_parts(found: ProgramRuns) -> Iterator[Any]:
    """What ``print_program_runs`` prints, piece by piece."""
    from rich.text import Text

    for run in found.runs:
        yield Text(run.headline(), style="bold")
        for heads, rows in run.tables():
            yield Text()
            yield _table(heads, rows)
        yield Text()


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for number, heading in enumerate(headings):
        if number == 0:
            table.add_column(heading, no_wrap=True)
        else:
            table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
