"""Effective bandwidth of each DMA engine over time, idle time included (Trapeze, Figure 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nicscope.reports.figures.style import FAINT, INK, PAD, WIDTH, legend, styled
from nicscope.reports.flow_shown import drawn_transfers, title
from nicscope.reports.palette import BAND_SHADES
from nicscope.studies.flow.bandwidth import bandwidth_steps

if TYPE_CHECKING:
    from nicscope.studies.flow.report import FlowReport

HEIGHT = 6.4  # inches
PS_PER_US = 10**6
HEADROOM = 1.08
# Colour is not all that tells them apart.
DASHES = {"hostTx": "-", "netTx": (0, (5, 1.5)), "netRcv": (0, (1, 1)), "hostRcv": "-"}
WIDTHS = {"hostTx": 3.2, "netTx": 1.6, "netRcv": 2.4, "hostRcv": 1.8}


def draw_bandwidth(report: FlowReport) -> Figure:
    """Steps of the four bands of the first flow, over its first packets."""
    with styled():
        figure = Figure(
            figsize=(WIDTH, HEIGHT), layout=ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD)
        )
        FigureCanvasAgg(figure)
        axes = figure.subplots()
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
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(FAINT)
        axes.tick_params(length=0, colors=INK)
        axes.grid(axis="y", color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
        figure.suptitle(title(report), x=0.01, ha="left", fontsize=20, fontweight="bold")
        legend(figure, axes, columns=4)
    return figure
