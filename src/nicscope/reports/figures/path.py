"""What each part of a path between a NIC and memory allows, and which of them bounds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.reports.figures.shares import NAME_SIZE, draw_range, first_rows, logarithmic, say
from nicscope.reports.figures.style import legend, row_sheet, styled
from nicscope.reports.path import host_name, spelt_gbits
from nicscope.reports.wording import BLUE, GREEN, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.paths import PathReport

LOOKS = {"PCIe": (BLUE, "o"), "IOMMU": (ORANGE, "s"), "window": (GREEN, "^")}
APART = 0.26  # of a row, between one part and the next
ROOM = 4.0  # times the most, for words


def draw_paths(report: PathReport) -> Figure:
    """A row for each path, a range for each of its parts; beside it the least, which bounds."""
    name = Path(report.trace["file"]).stem
    title, shown = first_rows(f"What paths to memory allow: {name}", report.found)
    labelled: set[str] = set()
    with styled():
        figure, [axes] = row_sheet(
            title, [host_name(one.host) for one in shown], fontsize=NAME_SIZE
        )
        axes.set_xscale("log")
        for row, one in enumerate(shown):
            for place, (part, span) in enumerate(one.allows.items()):
                colour, marker = LOOKS[part]
                height = row + APART * (place - (len(one.allows) - 1) / 2)
                label = "" if part in labelled else part
                draw_range(axes, height, span, colour, marker, label)
                labelled.add(part)
            most = max(span.high for span in one.allows.values())
            say(axes, row, (most,), f"{one.bound} bounds: {spelt_gbits(one.gbits)}")
        ends = [end for one in shown for span in one.allows.values() for end in span]
        axes.set_xlim(min(ends) / 1.5, max(ends) * ROOM)
        logarithmic(axes.xaxis, axes.get_xlim(), lambda rate: f"{rate:,.9g}")
        axes.set_xlabel("Gb/s, from the highest to the lowest costs")
        legend(figure, axes, columns=3)
    return figure
