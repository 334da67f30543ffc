"""Table 4: check misses, NIC misses and unpins per lookup, without a limit on pinned memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.overheads import overhead_study

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.reproduce.traced.study import Row
    from nicscope.studies.reproduce.verdict import Item


def printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells; both schemes miss equally often there."""
    cells = items["table4"].printed
    return [
        {
            "application": app,
            "cache_entries": entries,
            "check_misses_utlb_per_lookup": cells["check_misses_utlb"][column],
            "ni_misses_utlb_per_lookup": cells["ni_misses_both"][row][column],
            "ni_misses_intr_per_lookup": cells["ni_misses_both"][row][column],
            "unpins_utlb_per_lookup": cells["unpins_utlb"],
            "unpins_intr_per_lookup": cells["unpins_intr"][row][column],
        }
        for column, app in enumerate(cells["app"])
        for row, entries in enumerate(cells["cache_entries"])
    ]


STUDY = overhead_study(None, "unlimited host memory", printed)
