"""Figure 7: NIC misses by kind, 1 K to 16 K entries; the plotted values are lost.

Exact from one pass over the trace, as Table 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.measuring import per_lookup
from nicscope.studies.reproduce.traced.overheads import CACHE_ENTRIES, ENTRIES
from nicscope.studies.reproduce.traced.study import OFFSET, Layout, Line, Study

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings
    from nicscope.studies.reproduce.traced.study import Row
    from nicscope.studies.reproduce.verdict import Item

KINDS = ("compulsory", "capacity", "conflict")
ALL = "ni_misses_per_lookup"


def rows(found: Findings) -> list[Row]:
    """One row per size; the kinds add up to all misses."""
    lookups = found.measured.lookups
    points = {entries: found.cache(OFFSET, entries, 1) for entries in CACHE_ENTRIES}
    return [
        {
            "cache_entries": entries,
            **{f"{kind}_per_lookup": per_lookup(getattr(point, kind), lookups) for kind in KINDS},
            ALL: per_lookup(point.misses, lookups),
        }
        for entries, point in points.items()
    ]


def printed(items: Mapping[str, Item]) -> list[Row]:
    """What Table 4 tells of it: first touches are check misses, and all misses are printed."""
    cells = items["table4"].printed
    return [
        {
            "application": app,
            "cache_entries": entries,
            "compulsory_per_lookup": cells["check_misses_utlb"][column],
            ALL: cells["ni_misses_both"][row][column],
        }
        for column, app in enumerate(cells["app"])
        for row, entries in enumerate(cells["cache_entries"])
    ]


STUDY = Study(
    unit="NI misses per lookup",
    conditions="UTLB, unlimited host memory, direct-mapped cache with index offset, no prefetch",
    layout=Layout(
        axes=(ENTRIES,),
        columns=("",),
        lines=(*(Line(kind, (f"{kind}_per_lookup",)) for kind in KINDS), Line("all", (ALL,))),
    ),
    caches=(OFFSET,),
    rows=rows,
    printed=printed,
    printed_note="from Table 4: check misses are the compulsory ones; the rest was only plotted",
)
