"""The packet flow graph: which transfer ran when on the four bands (Trapeze, Figures 3 and 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from nicscope.reports.figures.style import FAINT, INK, PAD, WIDTH, styled
from nicscope.reports.flow_shown import drawn_transfers, title
from nicscope.reports.palette import BAND_SHADES, GREY
from nicscope.studies.flow.transfers import BANDS, NET_RCV, receptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from nicscope.studies.flow.report import FlowReport

HEIGHT = 5.6  # inches
FULL, THIN = 0.74, 0.12  # heights of a transfer, and of a receive that only waits
NARROWEST = 0.012  # share of the width that a packet's number needs
PS_PER_US = 10**6


def draw_flow(report: FlowReport) -> Figure:
    """Four bands of the first flow, its first packets; dark and light take turns by packet."""
    shown = drawn_transfers(report)
    with styled():
        figure = Figure(
            figsize=(WIDTH, HEIGHT), layout=ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD)
        )
        FigureCanvasAgg(figure)
        axes = figure.subplots()
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
        _dress(axes)
        figure.suptitle(title(report), x=0.01, ha="left", fontsize=20, fontweight="bold")
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
    """The packet's number over its first payload transfer, where there is room."""
    span = int(shown["end"].max(initial=1)) / PS_PER_US
    last = -np.inf
    for packet in np.unique(transfers["packet"]):
        mine = transfers[transfers["packet"] == packet]
        payload = mine[mine["control"] == 0]
        at = int((payload if len(payload) else mine)["moving"].min()) / PS_PER_US
        if at - last < NARROWEST * span:
            continue
        last = at
        axes.annotate(
            str(packet),
            (at, band - FULL / 2),
            (0, 2),
            textcoords="offset points",
            fontsize=10,
            color=INK,
        )


def _dress(axes: Axes) -> None:
    axes.set_xlim(left=0)
    axes.margins(x=0.01)
    axes.set_xlabel("us", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(length=0, colors=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
