"""What ways of registering make of a region, beside where each hypothesis says that it is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nicscope.config.rdma_costs import BYTES
from nicscope.reports.figures.shares import NAME_SIZE, first_rows, say
from nicscope.reports.figures.style import INK, hatched, legend, row_sheet, styled
from nicscope.reports.printing import wrapped
from nicscope.reports.region_sizes import setting_name
from nicscope.reports.wording import BLUE, VERMILION, byte_size, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.config.rdma_costs import Hypothesis
    from nicscope.studies.region_sizes import RegionSizes, Setting

MOST_HYPOTHESES = 4
LOOKS = ((False, "fast", BLUE, ""), (True, "slow", VERMILION, "//"))
CHARACTERS = 84  # of a line over all panels
ABOVE: Any = {"loc": "left", "fontsize": 13, "color": INK}
BELOW: Any = {  # of a panel: the counter that shows it
    "xy": (0, 0),
    "xycoords": "axes fraction",
    "xytext": (0, -52),
    "textcoords": "offset points",
    "va": "top",
    "fontsize": 10,
    "color": INK,
}
LINE = 0.17  # inches of a line of that
ROOM = 30.0  # times the longest bar, for words


def draw_hypotheses(found: RegionSizes) -> Figure:
    """A panel for each hypothesis, a bar for each way: the largest region, and from where slow."""
    shown = found.hypotheses[:MOST_HYPOTHESES]
    title = f"{byte_size(found.byte_count)} registered, by {len(shown)} hypotheses"
    if len(shown) < len(found.hypotheses):
        title += f" of {len(found.hypotheses)}"
    title, settings = first_rows(title, [*found.asked, *found.tests])
    with styled():
        names = [setting_name(one) for one in settings]
        width = CHARACTERS // len(shown)
        counters = ["\n".join(wrapped(f"look at: {one.counter}", width)) for one in shown]
        below = LINE * max(told.count("\n") + 1 for told in counters)
        figure, panels = row_sheet(title, names, len(shown), below, fontsize=NAME_SIZE)
        for axes, hypothesis, counter in zip(panels, shown, counters, strict=True):
            _draw(axes, hypothesis, settings)
            axes.set_title(
                "\n".join(wrapped(f"{hypothesis.name}: {hypothesis.title}", width)), **ABOVE
            )
            axes.annotate(counter, **BELOW)
        fullest = max(panels, key=lambda axes: len(axes.get_legend_handles_labels()[0]))
        legend(figure, fullest, columns=3)
    return figure


def _draw(axes: Axes, hypothesis: Hypothesis, settings: Sequence[Setting]) -> None:
    by_bytes = hypothesis.of == BYTES
    spell = byte_size if by_bytes else whole
    sizes = [one.slice_bytes if by_bytes else -(-one.slice_bytes // one.page) for one in settings]
    axes.set_xscale("log", base=2)
    for slow, label, colour, hatch in LOOKS:
        rows = [row for row, one in enumerate(settings) if one.predicted(hypothesis) is slow]
        if rows:
            widths = [sizes[row] for row in rows]
            axes.barh(rows, widths, 0.7, **hatched(label, colour, hatch))
        for row in rows:
            say(axes, row, (sizes[row],), label)
    axes.axvline(hypothesis.least, color=INK, lw=1.5, ls=(0, (4, 3)), label="slow from")
    axes.set_xlim(min([*sizes, hypothesis.least]) / 4, max([*sizes, hypothesis.least]) * ROOM)
    axes.xaxis.set_major_locator(LogLocator(2, numticks=3))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: spell(round(size))))
    axes.tick_params(axis="x", labelsize=11)
    what = "bytes" if by_bytes else "entries"
    axes.set_xlabel(f"{what} of the largest region", fontsize=12)
