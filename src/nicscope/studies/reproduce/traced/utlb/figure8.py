"""Figure 8: NIC misses and cost per lookup by the entries that a miss fetches.

Its axes are lost.  The widths are those whose cost Table 2 prints, the caches those of Table 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.overheads import CACHE_ENTRIES, ENTRIES, UTLB
from nicscope.studies.reproduce.traced.study import Axis, Layout, Line, Study

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings
    from nicscope.studies.reproduce.traced.study import Row, Spec

WIDTHS = (1, 2, 4, 8, 16, 32)
MISSES, COST = "ni_misses_per_lookup", "cost_us_per_lookup"


def designs(page_size: int) -> Mapping[Hashable, Spec]:  # noqa: ARG001 - no limit in pages
    """A design for each size and width; without prefetch it is Table 4's."""
    return {
        (entries, width): (UTLB, f"entries={entries}", *([f"prefetch={width}"] * (width > 1)))
        for entries in CACHE_ENTRIES
        for width in WIDTHS
    }


def rows(found: Findings) -> list[Row]:
    """One row per size and width."""
    listed = []
    for entries in CACHE_ENTRIES:
        for width in WIDTHS:
            bounds = found.cost((entries, width)).per_lookup_us()
            listed.append(
                {
                    "cache_entries": entries,
                    "entries_fetched": width,
                    MISSES: found.rate((entries, width), "ni_misses"),
                    COST: None if bounds is None else float(bounds[0]),
                }
            )
    return listed


STUDY = Study(
    unit="NI misses per lookup; us per lookup",
    conditions="UTLB, unlimited host memory, direct-mapped cache with index offset, costs of "
    "section 6.2 and Tables 1 and 2",
    layout=Layout(
        axes=(ENTRIES, Axis("entries_fetched", "fetched")),
        columns=("misses", "us"),
        lines=(Line("", (MISSES, COST)),),
    ),
    designs=designs,
    rows=rows,
)
