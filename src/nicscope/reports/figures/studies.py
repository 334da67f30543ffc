"""The papers' figures for any traces: which drawing belongs to which study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.breakdown import draw_breakdown
from nicscope.reports.figures.cache_sweep import draw_sweep
from nicscope.reports.figures.prefetch import draw_prefetch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from nicscope.studies.reproduce.traced.running import StudyTable

EACH = {  # a figure for each application
    ("utlb", "figure8"): draw_prefetch,
    ("mini", "figure5"): draw_sweep,
}
TOGETHER = {("utlb", "figure7"): draw_breakdown}  # panels of some applications on each page


def draw_study(table: StudyTable) -> Iterator[tuple[str, Figure]]:
    """Yield (what to add to the file's name, figure) of each drawing; none for a mere table."""
    key = (table.paper, table.id)
    if key in TOGETHER:
        yield from TOGETHER[key](table)
    if key in EACH:
        for application in dict.fromkeys(row["application"] for row in table.rows):
            rows = [row for row in table.rows if row["application"] == application]
            yield f"_{application}", EACH[key](application, rows)
