"""Messages in time: latency by part, size and miss ratio, and packets on the four bands."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.style import (
    FAINT,
    INK,
    TICKS,
    doubling,
    draw_lines,
    dressed,
    hatched,
    legend,
    note,
    plain,
    sheet,
    slide,
    stacked,
    styled,
    titled,
)
from nicscope.reports.wording import (
    BAND_SHADES,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    byte_size,
    whole,
)
from nicscope.studies.flow_parts import BANDS, NET_RCV, bandwidth_steps, is_moving, receptions
from nicscope.studies.latency import Latency, LatencyReport, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from nicscope.studies.flow import FlowReport
    from nicscope.studies.handle_misses import MissPoint
    from nicscope.studies.verbs_measures import AllLatencies, Bandwidths

MOST_PANELS = 8
NS_PER_US = 1000
# From the bottom; hatches tell apart what colour does not.
LOOKS: dict[str, tuple[tuple[Part, ...], str, str]] = {
    "user data": ((Part.USER_DATA,), SKY, ""),
    "library": ((Part.LIBRARY,), GREY, ""),
    "transport, send": ((Part.SEND,), BLUE, ""),
    "transport, receive": ((Part.RECEIVE,), GREEN, ""),
    "blocks, coherent": ((Part.COHERENCE, Part.BLOCK_WAIT), YELLOW, ""),
    "DMA set-up, interrupt": ((Part.DMA_INIT, Part.DMA_INTERRUPT), PURPLE, ""),
    "DMA execution": ((Part.DMA_EXEC,), VERMILION, ""),
    "copied by the processor": ((Part.COPY,), ORANGE, ""),
    "translation": ((Part.PIN, Part.TRANSLATION, Part.MISS), INK, ""),
    "network": ((Part.NETWORK,), FAINT, ""),
    "user reads": ((Part.USER_READ,), SKY, "//"),
    "waiting": ((Part.WAIT,), "white", "//"),
}


def draw_latency(report: LatencyReport) -> Figure:
    """A panel for each size, at most eight spread over those asked for; a bar per mechanism."""
    sizes = _chosen(list(dict.fromkeys(one.byte_count for one in report.latencies)))
    columns = min(len(sizes), 4)
    rows = math.ceil(len(sizes) / columns)
    title = f"User-to-user latency on {report.platform}, DMA at {report.dma_mbytes_s:,} MB/s"
    with styled():
        figure, panels = sheet(title, rows, columns, sharey=True)
        used = [
            name
            for name, (parts, _, _) in LOOKS.items()
            if any(one.cycles(*parts) for one in report.latencies)
        ]
        for axes, size in zip(panels, sizes, strict=False):
            _draw_parts(axes, [one for one in report.latencies if one.byte_count == size], used)
            axes.set_title(f"{size:,} bytes", loc="left", fontsize=14, color=INK)
        for axes in panels[len(sizes) :]:
            axes.set_visible(False)
        for place, axes in enumerate(panels[: len(sizes)]):
            if place + columns >= len(sizes):
                axes.set_xlabel("us", color=INK)
        legend(figure, panels[0], columns=4)
    return figure


def _chosen(sizes: list[int]) -> list[int]:
    """All sizes if they fit, else as many from the smallest to the largest."""
    if len(sizes) <= MOST_PANELS:
        return sizes
    step = (len(sizes) - 1) / (MOST_PANELS - 1)
    return [sizes[round(place * step)] for place in range(MOST_PANELS)]


def _draw_parts(axes: Axes, latencies: Sequence[Latency], used: Sequence[str]) -> None:
    series = []
    for name in used:
        parts, colour, hatch = LOOKS[name]
        look = hatched(name, colour, hatch) | {"edgecolor": INK if hatch else "white"}
        widths = [one.cycles(*parts) / NS_PER_US for one in latencies]
        series.append((widths, look | {"linewidth": 0.4}))
    ends = stacked(axes.barh, range(len(latencies)), 0.72, series)
    for row, one in enumerate(latencies):
        note(axes, f"{one.us:.1f}", (one.us, row), (4, 0), va="center", fontsize=11, ha="left")
    axes.set_yticks(range(len(latencies)), [one.mechanism for one in latencies])
    axes.set_ylim(len(latencies) - 0.4, -0.6)
    axes.set_xlim(0, 1.2 * max(ends))
    plain(axes, "x", labelsize=12)


SIZE_LOOKS = ((SKY, "o"), (BLUE, "s"), (GREEN, "^"), (ORANGE, "D"), (VERMILION, "v"), (PURPLE, "P"))
EDGE = 0.02  # so that no marker is cut
ROOM = 1.16  # of the axis, for the sizes at the ends of the lines


def draw_miss_ratio(curves: Mapping[int, Sequence[MissPoint]], platform: str) -> Figure:
    """Two panels: latency, bandwidth.  ``curves``: by bytes of a message, up to six of them.

    Errors: ``ValueError`` for more.
    """
    if len(curves) > len(SIZE_LOOKS):
        raise ValueError(
            f"there are {len(SIZE_LOOKS)} looks of lines, {len(curves)} sizes were given"
        )
    with styled():
        figure, (latency, bandwidth) = slide(
            f"Ping-pong on {platform}, lookups missing on one side", 1, 2
        )
        for (size, points), (colour, marker) in zip(curves.items(), SIZE_LOOKS, strict=False):
            ratios = [point.asked for point in points]
            for axes, values in (
                (latency, [point.latency_us for point in points]),
                (bandwidth, [point.mbytes_s for point in points]),
            ):
                axes.plot(ratios, values, color=colour, marker=marker, label=byte_size(size))
        _name_ends(latency, -1)
        _name_ends(bandwidth, 0)
        latency.set_title("latency, one way, us", loc="left", fontsize=15, color=INK)
        bandwidth.set_title("bandwidth, MB/s", loc="left", fontsize=15, color=INK)
        for axes in (latency, bandwidth):
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_formatter(PercentFormatter(1.0))
            axes.set_xlabel("lookups that miss", color=INK)
            axes.grid(axis="y", color=FAINT, linewidth=0.8)
        latency.set_xlim(-EDGE, ROOM)
        bandwidth.set_xlim(1 - ROOM, 1 + EDGE)
        for axes in (latency, bandwidth):
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    return figure


def _name_ends(axes: Axes, end: int) -> None:
    """Write each line's size beside its end, with room between one and the next."""
    top = max(float(line.get_ydata()[end]) for line in axes.lines)  # type: ignore[index, arg-type]
    least = 0.04 * top
    last = -least
    ends = [(float(line.get_ydata()[end]), line) for line in axes.lines]  # type: ignore[index, arg-type]
    for height, line in sorted(ends, key=lambda one: one[0]):
        last = max(height, last + least)
        note(
            axes,
            str(line.get_label()),
            (1.0 if end else 0.0, last),
            (9 if end else -9, 0),
            ha="left" if end else "right",
            va="center",
            color=line.get_color(),
        )


def draw_bandwidths(found: Bandwidths) -> Figure:
    """The average, by size."""
    title = f"RC {found.operation}, {found.depth:,} outstanding"
    return _drawn(title, "MiB/s", found.rows, lambda one: one.average_mib_s)


def draw_latencies(found: AllLatencies) -> Figure:
    """The typical one, by size."""
    title = f"RC {found.operation}, one at a time"
    return _drawn(title, "us, typical", found.rows, lambda one: one.typical / NS_PER_US)


def _drawn(title: str, unit: str, rows: Sequence[Any], value: Callable[[Any], float]) -> Figure:
    lines: dict[str, list[Any]] = {}
    for one in rows:
        lines.setdefault(one.design, []).append(one)
    with styled():
        figure, [axes] = sheet(titled(title, lines))
        draw_lines(axes, lines, lambda one: one.payload_bytes, lambda one: (value(one),) * 2)
        doubling(axes, [one.payload_bytes for one in rows], byte_size, 2 * TICKS, rotation=45)
        axes.set_ylim(bottom=0)
        dressed(axes, unit, "bytes of a message")
        legend(figure, axes, columns=3)
    return figure


FLOW_HEIGHT = 5.6  # inches
FULL, THIN = 0.74, 0.12  # heights of a transfer, and of a receive that only waits
NARROWEST = 0.012  # share of the width that a packet's number needs
PS_PER_US = 10**6
MOST_DRAWN = 20  # of a picture; more would be too narrow to tell apart


def drawn_transfers(report: FlowReport) -> NDArray[Any]:
    """Transfers (TRANSFER) of the first flow's ``MOST_DRAWN`` packets that moved data."""
    sender, receiver = report.question.flows[0]
    transfers = report.transfers[is_moving(report.transfers)]
    mine = np.isin(transfers["node"], (sender, receiver)) & (transfers["sender"] == sender)
    shown: NDArray[Any] = transfers[mine & (transfers["packet"] < MOST_DRAWN)]
    return shown


def flow_title(report: FlowReport) -> str:
    """Who, how, how large; and which flow and how many packets, if not all are drawn."""
    ask = report.question
    names = " to ".join(dict.fromkeys(each.name for each in ask.platforms))
    text = f"{names}, {ask.policy}, {whole(ask.payload)} bytes"
    parts = []
    if len(ask.flows) > 1:
        sender, receiver = ask.flows[0]
        parts.append(f"node {sender} to node {receiver}, one of {len(ask.flows)} flows")
    if ask.count > MOST_DRAWN:
        parts.append(f"first {MOST_DRAWN} packets")
    return text + (f" ({'; '.join(parts)})" if parts else "")


def draw_flow(report: FlowReport) -> Figure:
    """Four bands of the first flow's first packets; packets alternate between dark and light."""
    shown = drawn_transfers(report)
    with styled():
        figure, (axes,) = sheet(flow_title(report), height=FLOW_HEIGHT)
        sender, receiver = report.question.flows[0]
        nodes = (sender, sender, receiver, receiver)
        labels = [f"{band}\nnode {node}" for band, node in zip(BANDS, nodes, strict=True)]
        axes.set_yticks(range(len(BANDS)), labels)
        axes.set_ylim(len(BANDS) - 0.5, -0.62)
        for band in range(len(BANDS)):
            mine = shown[shown["band"] == band]
            moving = mine
            if band == NET_RCV:
                _bars(axes, band, mine, THIN)
                moving = receptions(shown)
            _bars(axes, band, moving, FULL)
            _number(axes, band, mine, shown)
        axes.set_xlim(left=0)
        axes.margins(x=0.01)
        axes.set_xlabel("us", color=INK)
        plain(axes, "x")
        figure.legend(
            handles=[
                Patch(color=BAND_SHADES["hostTx"][0], label="packets 0, 2, 4, ..."),
                Patch(color=BAND_SHADES["hostTx"][1], label="packets 1, 3, 5, ..."),
                Patch(
                    facecolor="white",
                    edgecolor=GREY,
                    label="thin: receive posted, nothing coming in",
                ),
            ],
            loc="outside lower left",
            ncols=3,
            frameon=False,
            fontsize=13,
        )
    return figure


def _bars(axes: Axes, band: int, transfers: NDArray[Any], height: float) -> None:
    name = BANDS[band]
    for parity, shade in enumerate(BAND_SHADES[name]):
        mine = transfers[transfers["packet"] % 2 == parity]
        spans = [
            (int(start) / PS_PER_US, int(end - start) / PS_PER_US)
            for start, end in zip(mine["start"], mine["end"], strict=True)
        ]
        kind = "posted" if height == THIN else "moving"
        axes.broken_barh(
            spans,
            (band - height / 2, height),
            facecolors=shade,
            lw=0,
            gid=f"{name}-{kind}-{parity}",
        )


def _number(axes: Axes, band: int, transfers: NDArray[Any], shown: NDArray[Any]) -> None:
    """Write a packet's number over its first payload transfer, if it fits."""
    span = int(shown["end"].max(initial=1)) / PS_PER_US
    last = -np.inf
    for packet in np.unique(transfers["packet"]):
        mine = transfers[transfers["packet"] == packet]
        payload = mine[mine["control"] == 0]
        at = int((payload if len(payload) else mine)["moving"].min()) / PS_PER_US
        if at - last < NARROWEST * span:
            continue
        last = at
        note(axes, str(packet), (at, band - FULL / 2), (0, 2), fontsize=10, ha="left")


BANDWIDTH_HEIGHT = 6.4  # inches
HEADROOM = 1.08
# Colour is not all that tells them apart.
DASHES = {"hostTx": "-", "netTx": (0, (5, 1.5)), "netRcv": (0, (1, 1)), "hostRcv": "-"}
WIDTHS = {"hostTx": 3.2, "netTx": 1.6, "netRcv": 2.4, "hostRcv": 1.8}


def draw_bandwidth(report: FlowReport) -> Figure:
    """Steps of the four bands of the first flow, over its first packets."""
    with styled():
        figure, (axes,) = sheet(flow_title(report), height=BANDWIDTH_HEIGHT)
        top = 1.0
        for curve in bandwidth_steps(drawn_transfers(report)):
            axes.stairs(
                curve.mb_per_s,
                [int(edge) / PS_PER_US for edge in curve.edges],
                baseline=None,
                color=BAND_SHADES[curve.band][0],
                lw=WIDTHS[curve.band],
                ls=DASHES[curve.band],
                label=f"{curve.band}, node {curve.node}",
            )
            top = max(top, float(curve.mb_per_s.max()))
        axes.set_ylim(0, top * HEADROOM)
        axes.set_xlim(left=0)
        axes.set_xlabel("us", color=INK)
        axes.set_ylabel("MB/s, idle time included", color=INK)
        plain(axes, "y")
        legend(figure, axes, columns=4)
    return figure
