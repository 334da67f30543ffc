"""Packets in virtual time on a terminal: tables within 100 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.reports.palette import PART_COLOURS
from nicscope.reports.wording import byte_size, in_words, significant, whole
from nicscope.studies.flow.parts import PART_NAMES, WAITS, Part
from nicscope.studies.flow.report import evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.table import Table
    from rich.text import Text

    from nicscope.studies.flow.report import FlowReport

WIDEST = 100
FIRST, LAST = 8, 4  # packets that are listed, if there are more than both
GAP = 2  # between two columns of the table of parts
BAR, LEAST_BAR = 20, 6  # characters of the longest bar
PS_PER_US, PS_PER_MS = 10**6, 10**9
FLOWS_LISTED = 2  # whose nodes' engines are told


def print_flow(report: FlowReport) -> None:
    """Print everything that people want of ``report`` on stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    for part in flow_parts(report):
        console.print(part)


def flow_parts(report: FlowReport) -> Iterator[Any]:
    """What ``print_flow`` prints, piece by piece."""
    from rich.text import Text

    yield _headline(report)
    yield Text(_result_line(report))
    yield Text()
    yield _packet_table(report)
    if (report.detailed["read"] >= 0).any():
        yield Text()
        yield _part_table(report)
        yield Text(
            "an instant is the part's that is furthest downstream; busy: what each took in all, "
            "overlaps too",
            style="dim",
        )
    yield Text()
    yield _engine_table(report)
    yield Text()
    yield _memory_table(report)
    for line in _notes(report):
        yield Text(line, style="dim")


def us(ps: int) -> str:
    """Picoseconds as microseconds, every digit of them."""
    return f"{ps // PS_PER_US:,}.{ps % PS_PER_US:06d}"


def _headline(report: FlowReport) -> Text:
    from rich.text import Text

    ask = report.question
    names = list(dict.fromkeys(each.name for each in ask.platforms))
    senders = len(ask.flows)
    traffic = in_words(ask.count, "message")
    traffic += f" from each of {senders} senders" if senders > 1 else ""
    gap = f", {us(ask.gap_ps).rstrip('0').rstrip('.')} us apart" if ask.gap_ps else ""
    headline = Text(f"{' to '.join(names)}, {ask.policy}", style="bold")
    return headline.append(
        f": {traffic} of {whole(ask.payload)} bytes{gap}, {ask.topology.name}", style="not bold"
    )


def _result_line(report: FlowReport) -> str:
    latencies = report.latencies
    if not len(latencies):
        return "nothing was delivered"
    text = f"latency {significant(float(np.median(latencies)) / PS_PER_US)} us"
    if len(latencies) > 1:
        low, high = (significant(x / PS_PER_US) for x in (latencies.min(), latencies.max()))
        text += f" (median; {low} to {high} us)" if low != high else " each"
    text += f", bandwidth {significant(report.bandwidth)} MB/s"
    if len(latencies) > 1:
        text += " from first to last read"
    return text


def _packet_table(report: FlowReport) -> Table:
    several = len(report.question.flows) > 1
    table = _new_table("Packets, us")
    if several:
        table.add_column("from", justify="right")
        table.add_column("to", justify="right")
    for heading in ("packet", "posted", "read", "latency"):
        table.add_column(heading, justify="right", no_wrap=True)
    count = len(report.messages)
    shown = list(range(count))
    if count > FIRST + LAST + 1:
        shown = [*range(FIRST), -1, *range(count - LAST, count)]
    for row in shown:
        if row < 0:
            table.add_row(*(["..."] * (6 if several else 4)), style="dim")
            continue
        message = report.messages[row]
        posted, read = int(message["posted"]), int(message["read"])
        cells = [str(message["sender"]), str(message["destination"])] if several else []
        cells += [str(message["packet"]), us(posted)]
        cells += [us(read), us(read - posted)] if read >= 0 else ["aborted", ""]
        table.add_row(*cells)
    return table


def _part_table(report: FlowReport) -> Table:
    from rich.text import Text

    rows = np.flatnonzero(report.detailed["read"] >= 0)
    chosen = report.parts[rows]
    totals, busy = chosen.sum(axis=0), report.busy[rows].sum(axis=0)
    columns = _columns(chosen)
    took = ["" if part in WAITS else significant(int(busy[part]) / PS_PER_US) for part in Part]
    others = ["100.0 %", max([*took, "busy"], key=len), max(PART_NAMES.values(), key=len)]
    room = WIDEST - sum(len(text) + GAP for text in others)
    while room < (taken := sum(_width(*column) + GAP for column in columns.items())):
        columns.pop(next(iter(columns)))
    room -= taken
    table = _new_table("Where the latency goes, us", gap=1)
    table.add_column("part", no_wrap=True)
    for heading in (*columns, "share", "busy"):
        table.add_column(heading, justify="right", no_wrap=True)
    if room >= LEAST_BAR:
        table.add_column("", no_wrap=True, width=min(room, BAR))
    every = max(int(totals.sum()), 1)
    most = max(int(totals.max(initial=0)), 1)
    for part in Part:
        total = int(totals[part])
        cells = [us(int(column[part])) for column in columns.values()]
        cells += [f"{100 * total / every:.1f} %"]
        cells += [took[part]]
        texture = "░" if part in WAITS else "█"
        bar = Text(texture * round(min(room, BAR) * total / most), style=PART_COLOURS[part.name])
        if not bar and total:
            bar = Text("▏", style="dim")
        bars = [bar] if room >= LEAST_BAR else []
        table.add_row(PART_NAMES[part], *cells, *bars, style="" if total else "dim")
    table.add_section()
    sums = [us(int(column.sum())) for column in columns.values()]
    table.add_row("latency", *sums, "100.0 %", style="bold")
    return table


def _columns(chosen: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Parts (ps) of the first packet, the last, and all of them, the most telling last."""
    if len(chosen) == 1:
        return {"packet": chosen[0]}
    return {
        "first packet": chosen[0],
        "last packet": chosen[-1],
        "all packets": chosen.sum(axis=0),
    }


def _width(heading: str, column: NDArray[np.int64]) -> int:
    return max(len(heading), len(us(int(column.sum()))))


def _engine_table(report: FlowReport) -> Table:
    table = _new_table("Engines")
    table.add_column("engine", no_wrap=True)
    for heading in ("node", "transfers", "mean bytes", "largest", "busy, us", "in use", "MB/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    listed = [node for flow in report.question.flows[:FLOWS_LISTED] for node in flow]
    for use in report.engines:
        if use.node not in listed:
            continue
        payloads = use.transfers - use.control_transfers
        control = f" + {whole(use.control_transfers)}" if use.control_transfers else ""
        moves = use.byte_count > 0
        table.add_row(
            use.band,
            str(use.node),
            f"{whole(payloads)}{control}",
            significant(use.mean_bytes) if moves and payloads else "",
            whole(use.largest_bytes) if moves else "",
            significant(use.busy_ps / PS_PER_US),
            f"{100 * use.utilisation:.1f} %",
            significant(use.mb_per_s) if moves else "",
        )
    return table


def _memory_table(report: FlowReport) -> Table:
    table = _new_table("NIC memory, bytes")
    table.add_column("of each NIC", no_wrap=True)
    for heading in ("count", "each", "sender", "receiver"):
        table.add_column(heading, justify="right", no_wrap=True)
    accounts = report.memory["sender"], report.memory["receiver"]
    for sent, received in zip(*accounts, strict=True):
        counts = whole(sent.number)
        counts += "" if sent.number == received.number else f", {whole(received.number)}"
        sizes = (sent.each_bytes, sent.byte_count, received.byte_count)
        table.add_row(sent.what, counts, *map(whole, sizes))
    table.add_section()
    sums = [whole(sum(held.byte_count for held in account)) for account in accounts]
    table.add_row("in all", "", "", *sums, style="bold")
    return table


def _notes(report: FlowReport) -> Iterator[str]:
    ask = report.question
    if any(use.control_transfers for use in report.engines):
        yield "transfers: the payloads' + the control messages'; mean bytes of the payloads'"
    left = len(ask.flows) - FLOWS_LISTED
    if left > 0:
        yield f"engines of the nodes of {in_words(left, 'more flow')} are in --json"
    aborted = len(report.messages) - len(report.delivered)
    if aborted:
        yield f"{in_words(aborted, 'message')} aborted by the watchdog of the network"
    if not report.log_is_whole:
        yield (
            f"parts and engines are of the first {in_words(len(report.detailed), 'packet')} "
            f"of {whole(len(report.messages))}, until the last of them was read"
        )
    if ask.delivery.logging:
        held = report.memory["receiver"][-1]
        rate = held.byte_count * PS_PER_MS / report.end_ps
        yield (
            f"the firmware's log takes {byte_size(round(rate))} of the receiver's memory per ms, "
            f"{held.each_bytes} bytes a transfer"
        )
    for role, each in zip(("sender", "receiver"), ask.platforms, strict=True):
        if role == "receiver" and each.name == ask.sender.name:
            continue
        classes = evidence_of(ask, role)
        spelt = ", ".join(f"{count} {name}" for name, count in classes.items())
        yield f"costs of {each.name}: {spelt}"


def _new_table(title: str, gap: int = 2) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap, 0, 0),
    )
