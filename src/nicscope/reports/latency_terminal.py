"""Latencies on a terminal: one table within 100 columns."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.via.journal import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from nicscope.studies.latency.report import LatencyReport

WIDEST = 100
COLUMNS = {
    Part.USER_DATA: "write",
    Part.LIBRARY: "vipl",
    Part.DMA_INIT: "init",
    Part.DMA_EXEC: "exec",
    Part.DMA_INTERRUPT: "intr",
    Part.COHERENCE: "blocks",
    Part.COPY: "copy",
    Part.SEND: "send",
    Part.RECEIVE: "recv",
    Part.WAIT: "wait",
}
ALWAYS = (Part.USER_DATA, Part.LIBRARY, Part.SEND, Part.RECEIVE)


def print_latencies(report: LatencyReport) -> None:
    """Print the table and what it means on stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    for part in latency_parts(report):
        console.print(part)


def latency_parts(report: LatencyReport) -> Iterator[Any]:
    """What ``print_latencies`` prints, piece by piece."""
    from rich.text import Text

    yield Text(
        f"{report.platform}: DMA at {report.dma_mbytes_s:,} MB/s, MTU {report.mtu:,} bytes; "
        "host cycles of 1 ns",
        style="bold",
    )
    yield _table(report)
    yield Text(
        "write: user data.  init, exec, intr (DMA), blocks (coherent), copy (by the CPU): "
        "data transfer.\nsend, recv: transport, the NICs' messaging.  vipl: the library posts and polls.",
        style="dim",
    )
    fitted = report.evidence.get("fitted", 0)
    assumed = report.evidence.get("assumed", 0)
    yield Text(
        f"{fitted} of the platform's times are fitted, {assumed} assumed: differences say more than "
        "any one latency.",
        style="dim",
    )


def _table(report: LatencyReport) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = [part for part in COLUMNS if part in ALWAYS or _spent(report, part)]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("mechanism", no_wrap=True)
    table.add_column("latency", justify="right", no_wrap=True)
    for part in shown:
        table.add_column(COLUMNS[part], justify="right", no_wrap=True)
    for size, group in groupby(report.latencies, key=lambda one: one.byte_count):
        rows = list(group)
        for number, one in enumerate(rows):
            cells = [f"{size:,}" if not number else "", one.mechanism, _cycles(one.cycles())]
            cells += [_cycles(one.cycles(part)) for part in shown]
            last = number == len(rows) - 1 and len(rows) > 1
            table.add_row(*(Text(cell) for cell in cells), end_section=last)
    return table


def _spent(report: LatencyReport, part: Part) -> bool:
    return any(one.cycles(part) for one in report.latencies)


def _cycles(count: float) -> str:
    return f"{count:,.0f}" if count else ""
