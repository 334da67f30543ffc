"""What registration caches do by how many regions they may keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.shares import draw_lines, dressed
from nicscope.reports.figures.style import legend, sheet, styled
from nicscope.reports.wording import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.registration_caches import CacheReport, Used

TICKS = 5  # of a panel, at most
EDGE = 0.5  # of the distance between ticks
HEADROOM = 1.08
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def draw_caches(report: CacheReport) -> Figure:
    """Three panels: requests that find their buffer, memory kept, time.

    A line for each policy over the limits, or a mark for each policy if there is one limit.
    """
    limits = sorted({one.library.entries for one in report.used}, key=_order)
    names = ["any" if limit is None else whole(limit) for limit in limits]
    lines: dict[str, list[Used]] = {}
    for one in report.used:
        lines.setdefault(one.library.policy, []).append(one)
    label = "regions kept at most"
    if len(limits) == 1:
        label, names = f"policy; {label}: {names[0]}", [*lines]

    def at(one: Used) -> int:
        if len(limits) == 1:
            return names.index(one.library.policy)
        return limits.index(one.library.entries)

    most = max(one.counts["most_bytes"] for one in report.used)
    size, unit = next((each for each in UNITS if most >= each[0]), UNITS[-1])
    with styled():
        title = f"Registration caches over {Path(report.trace['file']).stem}"
        figure, panels = sheet(title, 1, 3)
        found, kept, takes = panels
        draw_lines(found, lines, at, lambda one: (one.hit_percent,) * 2)
        draw_lines(kept, lines, at, lambda one: (one.counts["most_bytes"] / size,) * 2)
        draw_lines(takes, lines, at, lambda one: (one.us_low, one.us_high))
        found.yaxis.set_major_formatter(PercentFormatter(100))
        found.set_ylim(0, 100 * HEADROOM)
        kept.set_ylim(0, HEADROOM * max(most / size, 1e-3))
        takes.set_ylim(0, HEADROOM * max(*(one.us_high for one in report.used), 1e-3))
        shown = range(0, len(names), -(-len(names) // TICKS))
        told = ("find their buffer registered", f"{unit} kept registered", "us per request")
        for axes, what in zip(panels, told, strict=True):
            axes.set_xticks([*shown], [names[place] for place in shown])
            axes.set_xlim(-EDGE, len(names) - EDGE)
            dressed(axes, what, label)
            axes.xaxis.label.set_fontsize(13)
        legend(figure, found, columns=3)
    return figure


def _order(limit: int | None) -> tuple[bool, int]:
    """None, which is any number, after all numbers."""
    return limit is None, limit or 0
