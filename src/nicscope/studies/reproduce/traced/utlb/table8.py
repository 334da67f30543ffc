"""Table 8: NIC misses per lookup by associativity, and without the index offset.

Without a pin limit nothing leaves UTLB's cache but by eviction, so that one pass over the trace
tells all twenty caches exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.measuring import per_lookup
from nicscope.studies.reproduce.traced.overheads import CACHE_ENTRIES, ENTRIES
from nicscope.studies.reproduce.traced.study import NO_OFFSET, OFFSET, Layout, Line, Study

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings
    from nicscope.studies.reproduce.traced.study import Row
    from nicscope.studies.reproduce.verdict import Item

# As the paper calls them: our name, the catalog's, the cache.
CACHES = {
    "direct": ("direct", "direct", (OFFSET, 1)),
    "2-way": ("two_way", "two_way", (OFFSET, 2)),
    "4-way": ("four_way", "four_way", (OFFSET, 4)),
    "direct-nohash": ("direct_nohash", "direct_without_offset", (NO_OFFSET, 1)),
}


def key_of(name: str) -> str:
    """The measure of that cache in a row."""
    return f"{name}_ni_misses_per_lookup"


def rows(found: Findings) -> list[Row]:
    """One row per size."""
    lookups = found.measured.lookups
    return [
        {
            "cache_entries": entries,
            **{
                key_of(name): per_lookup(found.cache(offset, entries, ways).misses, lookups)
                for name, _, (offset, ways) in CACHES.values()
            },
        }
        for entries in CACHE_ENTRIES
    ]


def printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells by their places: each row is sorted, so that its labels mean nothing."""
    cells = items["table8"].printed
    return [
        {
            "application": f"?{place + 1}",
            "cache_entries": entries,
            **{key_of(name): cells[theirs][row][place] for name, theirs, _ in CACHES.values()},
        }
        for place in range(len(cells["direct"][0]))
        for row, entries in enumerate(cells["cache_entries"])
    ]


def labelled(items: Mapping[str, Item]) -> list[Row]:
    """The cells of ``direct``: they stand in Table 4 as well, under labels that are right."""
    cells = items["table4"].printed
    return [
        {
            "application": app,
            "cache_entries": entries,
            key_of("direct"): cells["ni_misses_both"][row][column],
        }
        for column, app in enumerate(cells["app"])
        for row, entries in enumerate(cells["cache_entries"])
    ]


STUDY = Study(
    unit="NI misses per lookup",
    conditions="UTLB, unlimited host memory, no prefetch; with index offset but for direct-nohash",
    layout=Layout(
        axes=(ENTRIES,),
        columns=("",),
        lines=tuple(Line(label, (key_of(name),)) for label, (name, _, _) in CACHES.items()),
    ),
    caches=(OFFSET, NO_OFFSET),
    rows=rows,
    printed=printed,
    printed_note="each of its rows is sorted, so whose cell is which is not known: ?1 to ?7",
    labelled=labelled,
)
