"""Packets in virtual time: tables, JSON, files, figures and a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.reports.printing import Bar, Piece, Printed, Rows, heading, remark, said
from nicscope.reports.result import Report
from nicscope.reports.simulation import timeline_text
from nicscope.reports.wording import PART_COLOURS, byte_size, in_words, significant, whole
from nicscope.studies.flow import FlowReport, evidence_of, timeline
from nicscope.studies.flow_parts import BANDS, PART_NAMES, WAITS, Part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rich.text import Text


FIRST, LAST = 8, 4  # packets that are listed, if there are more than both
BAR = 20  # characters of the longest bar
PS_PER_US, PS_PER_MS = 10**6, 10**9
FLOWS_LISTED = 2  # whose nodes' engines are told


class ShownFlow(Report):
    """Packets in virtual time: four tables, two of Parquet, figures and a timeline."""

    found: FlowReport
    topic = "flow"

    def summary(self) -> list[str]:
        """How long a message takes, and where most of that goes."""
        report = self.found
        if not len(report.latencies):
            return ["Nothing was delivered."]
        rows = np.flatnonzero(report.detailed["read"] >= 0)
        totals = report.parts[rows].sum(axis=0)
        median = significant(float(np.median(report.latencies)) / PS_PER_US)
        told = [
            f"A message of {whole(report.question.payload)} bytes is read {median} us after it was "
            f"posted (median); {significant(report.bandwidth)} MB/s arrive."
        ]
        if len(rows):
            part = Part(int(totals.argmax()))
            share = f"{100 * int(totals[part]) / max(int(totals.sum()), 1):.1f} %"
            told.append(f"The largest part of the latency, {share}, is '{PART_NAMES[part]}'.")
        return told

    def parts(self) -> Iterator[Printed]:
        """The result, the packets, the parts of their latency, the engines and NIC memory."""
        report = self.found
        yield _headline(report)
        yield said(_result_line(report))
        yield packet_rows(report)
        if (report.detailed["read"] >= 0).any():
            yield part_rows(report)
            yield remark(
                "an instant is the part's that is furthest downstream; busy: what each took in "
                "all, overlaps too"
            )
        yield engine_rows(report)
        yield memory_rows(report)
        for line in _notes(report):
            yield remark(line)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row per message with its parts; and one per transfer."""
        yield "messages", _messages(self.found)
        yield "transfers", _transfers(self.found)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield tables, the timeline and figures."""
        from nicscope.reports.figures.messages import draw_bandwidth, draw_flow

        yield from super().files()
        # Made when they are written: whoever wants a figure alone does not wait for them.
        yield "timeline.json", self._write_timeline
        yield "flow", draw_flow(self.found)
        yield "bandwidth", draw_bandwidth(self.found)

    def _write_timeline(self, file: Any) -> None:
        file.write(timeline_text(timeline(self.found)).encode())


def us(ps: int) -> str:
    """Picoseconds as microseconds, every digit of them."""
    return f"{ps // PS_PER_US:,}.{ps % PS_PER_US:06d}"


def _headline(report: FlowReport) -> Text:
    ask = report.question
    names = list(dict.fromkeys(each.name for each in ask.platforms))
    senders = len(ask.flows)
    traffic = in_words(ask.count, "message")
    traffic += f" from each of {senders} senders" if senders > 1 else ""
    gap = f", {us(ask.gap_ps).rstrip('0').rstrip('.')} us apart" if ask.gap_ps else ""
    headline = heading(f"{' to '.join(names)}, {ask.policy}")
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


def packet_rows(report: FlowReport) -> Rows:
    """When each message was posted and read; of many the first and the last."""
    several = len(report.question.flows) > 1
    headings = ["from", "to"] * several + ["packet", "posted", "read", "latency"]
    count = len(report.messages)
    shown = list(range(count))
    if count > FIRST + LAST + 1:
        shown = [*range(FIRST), -1, *range(count - LAST, count)]
    cells = [_packet(report, row, several) if row >= 0 else ["..."] * 4 for row in shown]
    return Rows(
        "Packets, us",
        headings,
        [["..."] * (len(headings) - len(row)) + row for row in cells],
        left=(),
        key=3 if several else 1,
        least=("posted", "read"),
    )


def _packet(report: FlowReport, row: int, several: bool) -> list[str]:
    message = report.messages[row]
    posted, read = int(message["posted"]), int(message["read"])
    cells = [str(message["sender"]), str(message["destination"])] if several else []
    cells += [str(message["packet"]), us(posted)]
    return cells + ([us(read), us(read - posted)] if read >= 0 else ["aborted", ""])


def part_rows(report: FlowReport) -> Rows:
    """The latency parts, with a bar by their share."""
    rows = np.flatnonzero(report.detailed["read"] >= 0)
    chosen = report.parts[rows]
    totals, busy = chosen.sum(axis=0), report.busy[rows].sum(axis=0)
    columns = _columns(chosen)
    took = ["" if part in WAITS else significant(int(busy[part]) / PS_PER_US) for part in Part]
    every = max(int(totals.sum()), 1)
    most = max(int(totals.max(initial=0)), 1)
    cells, bars = [], []
    for part in Part:
        total = int(totals[part])
        numbers = [us(int(column[part])) for column in columns.values()]
        cells.append([PART_NAMES[part], *numbers, f"{100 * total / every:.1f} %", took[part]])
        texture = "░" if part in WAITS else "█"
        bars.append(Bar((Piece(texture, PART_COLOURS[part.name], total / most),)))
    sums = [us(int(column.sum())) for column in columns.values()]
    cells.append(["latency", *sums, "100.0 %", ""])
    return Rows(
        "Where the latency goes, us",
        ["part", *columns, "share", "busy"],
        cells,
        least=("first packet", "last packet", "busy", "all packets", "packet"),
        bars=bars,
        longest_bar=BAR,
        gaps=(len(Part),),
        row_styles={
            len(Part): "bold",
            **{place: "dim" for place, part in enumerate(Part) if not totals[part]},
        },
    )


def _columns(chosen: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Latency parts (ps) of the first packet, the last, and all, the most informative last."""
    if len(chosen) == 1:
        return {"packet": chosen[0]}
    return {
        "first packet": chosen[0],
        "last packet": chosen[-1],
        "all packets": chosen.sum(axis=0),
    }


def engine_rows(report: FlowReport) -> Rows:
    """Bytes moved and busy time of the engines of the first flows."""
    listed = [node for flow in report.question.flows[:FLOWS_LISTED] for node in flow]
    cells = []
    for use in report.engines:
        if use.node not in listed:
            continue
        payloads = use.transfers - use.control_transfers
        control = f" + {whole(use.control_transfers)}" if use.control_transfers else ""
        moves = use.byte_count > 0
        cells.append(
            [
                use.band,
                str(use.node),
                f"{whole(payloads)}{control}",
                significant(use.mean_bytes) if moves and payloads else "",
                whole(use.largest_bytes) if moves else "",
                significant(use.busy_ps / PS_PER_US),
                f"{100 * use.utilisation:.1f} %",
                significant(use.mb_per_s) if moves else "",
            ]
        )
    return Rows(
        "Engines",
        ["engine", "node", "transfers", "mean bytes", "largest", "busy, us", "in use", "MB/s"],
        cells,
        key=2,
        least=("largest", "mean bytes", "busy, us", "transfers", "MB/s"),
    )


def memory_rows(report: FlowReport) -> Rows:
    """NIC memory of the delivery structures."""
    accounts = report.memory["sender"], report.memory["receiver"]
    cells = []
    for sent, received in zip(*accounts, strict=True):
        counts = whole(sent.number)
        counts += "" if sent.number == received.number else f", {whole(received.number)}"
        sizes = (sent.each_bytes, sent.byte_count, received.byte_count)
        cells.append([sent.what, counts, *map(whole, sizes)])
    sums = [whole(sum(held.byte_count for held in account)) for account in accounts]
    return Rows(
        "NIC memory, bytes",
        ["of each NIC", "count", "each", "sender", "receiver"],
        [*cells, ["in all", "", "", *sums]],
        least=("each", "count"),
        gaps=(len(cells),),
        row_styles={len(cells): "bold"},
    )


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


def _messages(report: FlowReport) -> Any:
    """A row per message with a breakdown: its times, then the parts, in ps."""
    import pyarrow as pa

    names = ("sender", "destination", "packet", "payload", "posted", "read")
    columns = {_unit(name): pa.array(report.detailed[name]) for name in names}
    for part in Part:
        columns[f"{part.name.lower()}_ps"] = pa.array(report.parts[:, part])
    return pa.table(columns)


def _transfers(report: FlowReport) -> Any:
    """A row per transfer of the four bands, by start."""
    import pyarrow as pa

    transfers = report.transfers
    names = (
        *("node", "sender", "packet", "control"),
        *("start", "moving", "end", "seen", "busy", "bytes"),
    )
    bands = pa.array([BANDS[band] for band in transfers["band"]], pa.string())
    columns: dict[str, Any] = {"band": bands}
    columns |= {_unit(name): pa.array(transfers[name]) for name in names}
    return pa.table(columns)


def _unit(name: str) -> str:
    """``name`` with the unit of what it measures."""
    if name in ("posted", "read", "start", "moving", "end", "seen", "busy"):
        return f"{name}_ps"
    return {"payload": "payload_bytes", "bytes": "moved_bytes"}.get(name, name)
