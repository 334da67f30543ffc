"""Latencies on a terminal: one table within 100 columns."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from nicscope.studies.latency.report import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from nicscope.studies.latency.report import LatencyReport
    from nicscope.studies.latency.translation import Translating

WIDEST = 100
COLUMNS: dict[str, tuple[Part, ...]] = {
    "write": (Part.USER_DATA,),
    "vipl": (Part.LIBRARY,),
    "init": (Part.DMA_INIT,),
    "exec": (Part.DMA_EXEC,),
    "intr": (Part.DMA_INTERRUPT,),
    "blocks": (Part.COHERENCE, Part.BLOCK_WAIT),
    "copy": (Part.COPY,),
    "xlat": (Part.PIN, Part.TRANSLATION, Part.MISS),
    "send": (Part.SEND,),
    "recv": (Part.RECEIVE,),
    "wait": (Part.WAIT,),
}
ALWAYS = ("write", "vipl", "send", "recv")


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
        f"{report.platform}: DMA at {report.dma_mbytes_s:,} MB/s, MTU {report.mtu:,} bytes, "
        f"{report.delivery}; host cycles of 1 ns",
        style="bold",
    )
    if report.translation is not None:
        yield Text("\n".join(_of_translations(report, report.translation)))
    yield _table(report)
    yield Text(
        "write: user data.  init, exec, intr (DMA), blocks (coherent), copy (by the CPU): "
        "data transfer.\nsend, recv: transport, by the NICs.  vipl: the library posts and polls.",
        style="dim",
    )
    fitted = report.evidence.get("fitted", 0)
    assumed = report.evidence.get("assumed", 0)
    yield Text(
        f"{fitted} of the platform's times are fitted, {assumed} assumed: differences say more "
        "than any one latency.",
        style="dim",
    )


def _of_translations(report: LatencyReport, made: Translating) -> Iterator[str]:
    """What was looked up where, and how often it was not there."""
    size = "" if made.entries is None else f", {made.entries:,} entries"
    yield (
        f"translations: {made.design} ({made.scheme}{size}) at the costs of {made.platform}; "
        f"buffers in turn: {made.pages:,}"
    )
    lookups = sum(one.lookups for one in report.latencies)
    misses = sum(one.misses for one in report.latencies)
    yield f"misses: {misses:,} of {lookups:,} lookups; xlat: pinning, looking up and missing"
    for step, why in made.unpriced.items():
        yield f"not priced, {step}: {why}"


def _table(report: LatencyReport) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = {
        name: parts
        for name, parts in COLUMNS.items()
        if name in ALWAYS or any(one.cycles(*parts) for one in report.latencies)
    }
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("bytes", justify="right", no_wrap=True)
    table.add_column("mechanism", no_wrap=True)
    table.add_column("latency", justify="right", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for size, group in groupby(report.latencies, key=lambda one: one.byte_count):
        rows = list(group)
        for number, one in enumerate(rows):
            cells = [f"{size:,}" if not number else "", one.mechanism, _cycles(one.cycles())]
            cells += [_cycles(one.cycles(*parts)) for parts in shown.values()]
            last = number == len(rows) - 1 and len(rows) > 1
            table.add_row(*(Text(cell) for cell in cells), end_section=last)
    return table


def _cycles(count: float) -> str:
    return f"{count:,.0f}" if count else ""
