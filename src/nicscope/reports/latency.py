"""Latencies by mechanism: table, results.json, latency.parquet and a figure."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Printed, Rows, heading, remark, said
from nicscope.reports.result import Report, tidy
from nicscope.studies.latency import LatencyReport, Part, Translating

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    "net": (Part.NETWORK,),
    "read": (Part.USER_READ,),
    "wait": (Part.WAIT,),
}
ALWAYS = ("write", "vipl", "send", "recv", "read")
TABLE = {
    "mechanism": "string",
    "payload_bytes": "int64",
    "messages": "int64",
    "total_ps": "int64",
    "part": "string",
    "part_ps": "int64",
}


class ShownLatencies(Report):
    """Latencies by mechanism: a table, latency.parquet and a figure."""

    found: LatencyReport
    topic = "latency"
    drawn: ClassVar = {"latency": "messages.draw_latency"}

    def summary(self) -> list[str]:
        """The fastest mechanism for the smallest and for the largest messages."""
        groups = [
            (size, list(each))
            for size, each in groupby(self.found.latencies, lambda one: one.byte_count)
        ]
        sentences = []
        for size, rows in dict([groups[0], groups[-1]]).items():
            fastest, slowest = (pick(rows, key=lambda one: one.cycles()) for pick in (min, max))
            told = (
                f"A message of {size:,} bytes takes {fastest.cycles():,.0f} cycles by "
                f"{fastest.mechanism}"
            )
            if slowest is not fastest:
                told += f", the fastest way, and {slowest.cycles():,.0f} by {slowest.mechanism}"
                told += ", the slowest"
            sentences.append(f"{told}.")
        return [*sentences, "A cycle is 1 ns."]

    def parts(self) -> Iterator[Printed]:
        """What was measured, the table, and what it means."""
        report = self.found
        yield heading(
            f"{report.platform}: DMA at {report.dma_mbytes_s:,} MB/s, MTU {report.mtu:,} bytes, "
            f"{report.delivery}; host cycles of 1 ns"
        )
        if report.translation is not None:
            yield said("\n".join(_of_translations(report, report.translation)))
        yield latency_rows(report)
        yield remark(
            "write: user data; read: the receiver loads it.  init, exec, intr (DMA), blocks "
            "(coherent), copy (by the CPU): data transfer.  send, recv: transport, by the NICs.  "
            "vipl: the library posts and polls."
        )
        fitted, assumed = (report.evidence.get(kind, 0) for kind in ("fitted", "assumed"))
        yield remark(
            f"{fitted} of the platform's times are fitted, {assumed} assumed: differences say "
            "more than any one latency."
        )

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield one row per mechanism, size and part, of all messages together."""
        rows = (
            (one.mechanism, one.byte_count, one.messages, one.total_ps, name, ps)
            for one in self.found.latencies
            for name, ps in one.parts_ps.items()
        )
        yield "latency", tidy(TABLE, rows)


def _of_translations(report: LatencyReport, made: Translating) -> Iterator[str]:
    """Where translations were looked up, and the miss ratio."""
    size = "" if made.entries is None else f", {made.entries:,} entries"
    yield (
        f"translations: {made.design} ({made.scheme}{size}) at the costs of {made.platform}; "
        f"buffers in turn: {made.pages:,}"
    )
    lookups = sum(one.lookups for one in report.latencies)
    misses = sum(one.misses for one in report.latencies)
    yield f"misses: {misses:,} of {lookups:,} lookups; xlat: pinning, looking up and missing"


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
