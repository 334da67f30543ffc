"""Table 5: as Table 4, with 4 MB that each process may pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.overheads import overhead_study

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.reproduce.traced.study import Row
    from nicscope.studies.reproduce.verdict import Item

LIMIT_MBYTES = 4


def printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells."""
    cells = items["table5"].printed
    return [
        {
            "application": app,
            "cache_entries": entries,
            "check_misses_utlb_per_lookup": cells["check_misses_utlb"][column],
            "ni_misses_utlb_per_lookup": cells["ni_misses_utlb"][row][column],
            "ni_misses_intr_per_lookup": cells["ni_misses_intr"][row][column],
            "unpins_utlb_per_lookup": cells["unpins_utlb"][column],
            "unpins_intr_per_lookup": cells["unpins_intr"][row][column],
        }
        for column, app in enumerate(cells["app"])
        for row, entries in enumerate(cells["cache_entries"])
    ]


STUDY = overhead_study(LIMIT_MBYTES, f"{LIMIT_MBYTES} MB pinned per process", printed)
