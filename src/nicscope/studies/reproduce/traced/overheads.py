"""Tables 4 and 5 of the UTLB paper, which differ in what a process may pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.study import Axis, Layout, Line, Study, pages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings
    from nicscope.studies.reproduce.traced.study import Row, Spec
    from nicscope.studies.reproduce.verdict import Item

CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)
ENTRIES = Axis("cache_entries", "entries")
UTLB, INTR = "utlb", "vmmc-interrupt"
LAYOUT = Layout(
    axes=(ENTRIES,),
    columns=("UTLB", "Intr"),
    lines=(
        Line("check misses", ("check_misses_utlb_per_lookup", None)),
        Line("NI misses", ("ni_misses_utlb_per_lookup", "ni_misses_intr_per_lookup")),
        Line("unpins", ("unpins_utlb_per_lookup", "unpins_intr_per_lookup")),
    ),
)


def overhead_study(
    limit_mbytes: int | None,
    memory: str,
    printed: Callable[[Mapping[str, Item]], list[Row]],
) -> Study:
    """Both schemes at the five sizes; each process may pin ``limit_mbytes``, or all it likes."""

    def designs(page_size: int) -> Mapping[Hashable, Spec]:
        limit = () if limit_mbytes is None else (f"pin_limit={pages_of(limit_mbytes, page_size)}",)
        return {
            (scheme, entries): (scheme, f"entries={entries}", *limit)
            for scheme in (UTLB, INTR)
            for entries in CACHE_ENTRIES
        }

    return Study(
        unit="events per lookup",
        conditions=f"{memory}, direct-mapped cache with index offset, no prefetch",
        layout=LAYOUT,
        designs=designs,
        rows=_rows,
        printed=printed,
    )


def _rows(found: Findings) -> list[Row]:
    return [
        {
            "cache_entries": entries,
            "check_misses_utlb_per_lookup": found.rate((UTLB, entries), "check_misses"),
            "ni_misses_utlb_per_lookup": found.rate((UTLB, entries), "ni_misses"),
            "ni_misses_intr_per_lookup": found.rate((INTR, entries), "ni_misses"),
            "unpins_utlb_per_lookup": found.rate((UTLB, entries), "unpins"),
            "unpins_intr_per_lookup": found.rate((INTR, entries), "unpins"),
        }
        for entries in CACHE_ENTRIES
    ]
