"""Figure 5 of the miNI paper: miss ratio of the 36 caches of Table III; values are lost."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.measuring import Axis, Layout, Line, Study, per_lookup

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings, Row, Shown, Spec
    from nicscope.studies.reproduce.verdict import Outcome

CACHE_ENTRIES = (8192, 16384, 32768)
LINES = (8, 16, 64, 128)  # entries
WAYS = (2, 4, 8)
POINTS = tuple(product(CACHE_ENTRIES, LINES, WAYS))
PARTS = ("send_cold", "send_noncold", "receive_cold", "receive_noncold")
ALL = "misses_percent"


def designs(page_size: int) -> Mapping[Hashable, Spec]:  # noqa: ARG001 - no limit in pages
    """A design for each point of the sweep."""
    return {
        (entries, line, ways): ("mini", f"entries={entries}", f"line={line}", f"ways={ways}")
        for entries, line, ways in POINTS
    }


def rows(found: Findings) -> list[Row]:
    """One row per point; the four parts add up to all misses."""
    listed = []
    for point in POINTS:
        counts = {}
        for path in ("send", "receive"):
            cold = found.total(point, f"ni_misses_{path}_compulsory")
            counts[f"{path}_cold_percent"] = cold
            counts[f"{path}_noncold_percent"] = found.total(point, f"ni_misses_{path}") - cold
        counts[ALL] = found.total(point, "ni_misses")
        row = dict(zip(("cache_entries", "line_entries", "ways"), point, strict=True))
        lookups = found.measured.lookups
        shares = {name: 100 * per_lookup(count, lookups) for name, count in counts.items()}
        listed.append({**row, **shares})
    return listed


def state(outcome: Outcome, shown: Shown) -> None:
    """What the rows of the eight programs show of the statements."""
    from nicscope.studies.reproduce.mini_programs.misses import figure5

    if shown.are_the_papers:
        figure5(outcome, shown.by_application())


FIGURE5 = Study(
    unit="misses per 100 lookups",
    conditions="miNI's cache of C entries, L to a line, A lines to a set; s: send path, r: receive "
    "path; cold: the first lookup of a line",
    layout=Layout(
        axes=(Axis("cache_entries", "C"), Axis("line_entries", "L"), Axis("ways", "A")),
        columns=("s.cold", "s.rest", "r.cold", "r.rest", "all"),
        lines=(Line("", (*(f"{part}_percent" for part in PARTS), ALL)),),
    ),
    designs=designs,
    rows=rows,
    state=state,
)
