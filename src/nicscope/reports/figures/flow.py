"""Packets in pictures: transfers on the four bands, and bandwidth over time (Trapeze, 3 to 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch

from nicscope.reports.figures.style import INK, legend, note, plain, sheet, styled
from nicscope.reports.wording import BAND_SHADES, GREY, whole
from nicscope.studies.flow.parts import BANDS, NET_RCV, bandwidth_steps, is_moving, receptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from nicscope.studies.flow.report import FlowReport

HEIGHT = 5.6  # inches
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


def title(report: FlowReport) -> str:
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
        figure, (axes,) = sheet(title(report), height=HEIGHT)
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
                _thin_patch(),
            ],
            loc="outside lower left",
            ncols=3,
            frameon=False,
            fontsize=13,
        )
    return figure


def _thin_patch() -> Patch:
    return Patch(facecolor="white", edgecolor=GREY, label="thin: receive posted, nothing coming in")


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
        figure, (axes,) = sheet(title(report), height=BANDWIDTH_HEIGHT)
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
