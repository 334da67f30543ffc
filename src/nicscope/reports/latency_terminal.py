"""Latencies on a terminal: one table."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from nicscope.reports.printing import show
from nicscope.reports.table import Rows
from nicscope.studies.latency.report import Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.latency.report import LatencyReport
    from nicscope.studies.latency.translation import Translating

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
    show(latency_parts(report))


def latency_parts(report: LatencyReport) -> Iterator[Printed]:
    """What ``print_latencies`` prints, piece by piece."""
    from rich.text import Text

    yield Text(
        f"{report.platform}: DMA at {report.dma_mbytes_s:,} MB/s, MTU {report.mtu:,} bytes, "
        f"{report.delivery}; host cycles of 1 ns",
        style="bold",
    )
    if report.translation is not None:
        yield Text("\n".join(_of_translations(report, report.translation)))
    yield latency_rows(report)
    yield Text(
        "write: user data.  init, exec, intr (DMA), blocks (coherent), copy (by the CPU): "
        "data transfer.  send, recv: transport, by the NICs.  vipl: the library posts and polls.",
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


def latency_rows(report: LatencyReport) -> Rows:
    """Every latency and its parts, sizes parted by a blank line if each has several."""
    shown = {
        name: parts
        for name, parts in COLUMNS.items()
        if name in ALWAYS or any(one.cycles(*parts) for one in report.latencies)
    }
    cells: list[list[str]] = []
    gaps: list[int] = []
    for size, group in groupby(report.latencies, key=lambda one: one.byte_count):
        rows = list(group)
        if len(rows) > 1 and cells:
            gaps.append(len(cells))
        for one in rows:
            parts = [_cycles(one.cycles(*parts)) for parts in shown.values()]
            cells.append([f"{size:,}", one.mechanism, _cycles(one.cycles()), *parts])
    return Rows(
        "",
        ["bytes", "mechanism", "latency", *shown],
        cells,
        left=(1,),
        key=2,
        prose=(),
        least=("vipl", "write", "intr", "init", "wait", "xlat", "blocks", "exec", "copy"),
        grouped=True,
        gaps=tuple(gaps),
    )


def _cycles(count: float) -> str:
    return f"{count:,.0f}" if count else ""
