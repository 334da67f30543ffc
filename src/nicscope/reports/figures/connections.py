"""Rates of one NIC by queue pairs, or by outstanding operations where these vary more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.connections import AXES
from nicscope.reports.figures.style import INK, legend, plain, sheet, styled
from nicscope.reports.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from nicscope.reports.wording import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.connections import ConnectionReport, Found

LOOKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (ORANGE, "D"), (PURPLE, "v"), (SKY, "P"))


def draw_connections(report: ConnectionReport) -> Figure:
    """A line for each way to post that differs in something else, up to six, between its ends."""
    asked = [one.asked._asdict() for one in report.found]
    many = {name: len({one[name] for one in asked}) for name in asked[0]}
    axis = max(AXES, key=lambda name: many[name])
    lines: dict[str, list[Found]] = {}
    for one in report.found:
        others = one.asked._asdict()
        name = ", ".join(
            f"{key.replace('_', ' ')} {value}"
            for key, value in others.items()
            if key != axis and many[key] > 1
        )
        lines.setdefault(name or f"{others['operation']}s", []).append(one)
    with styled():
        figure, [axes] = sheet(f"Operations of {report.nic.name} by {AXES[axis]}")
        for (name, line), (colour, marker) in zip(lines.items(), LOOKS, strict=False):
            line.sort(key=lambda one: getattr(one.asked, axis))
            places = [getattr(one.asked, axis) for one in line]
            low, high = ([getattr(one, end).millions for one in line] for end in ("low", "high"))
            axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(places, low, color=colour, marker=marker, label=name)
            axes.plot(places, high, color=colour, linewidth=1)
        axes.set_xscale("log", base=2)
        ticks = sorted({getattr(one.asked, axis) for one in report.found})
        axes.set_xticks(ticks, [whole(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel(AXES[axis], color=INK)
        axes.set_title("million operations a second", loc="left", fontsize=15, color=INK)
        plain(axes, "y", labelsize=12)
        legend(figure, axes, columns=3)
    return figure
