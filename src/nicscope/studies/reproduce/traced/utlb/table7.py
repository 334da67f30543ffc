"""Table 7: what pinning and unpinning cost per lookup, on demand and with 16 pages pinned ahead.

NIC misses cost neither, so the size of the cache does not matter; it is the prototype's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.traced.measuring import per_lookup
from nicscope.studies.reproduce.traced.study import Layout, Line, Study, pages_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from nicscope.studies.reproduce.traced.measuring import Findings
    from nicscope.studies.reproduce.traced.study import Row, Spec
    from nicscope.studies.reproduce.verdict import Item

LIMIT_MBYTES = 16
PAGES = (1, 16)
STEPS = {"pin": "user_pin", "unpin": "user_unpin"}  # of the cost model
KEYS = {
    (step, pages): f"{step}_{pages}_page{'s' * (pages > 1)}_us_per_lookup"
    for step in STEPS
    for pages in PAGES
}


def designs(page_size: int) -> Mapping[Hashable, Spec]:
    """One design for each number of pages pinned ahead."""
    limit = f"pin_limit={pages_of(LIMIT_MBYTES, page_size)}"
    return {pages: ("utlb", limit, f"prepin={pages}") for pages in PAGES}


def rows(found: Findings) -> list[Row]:
    """One row: pin and unpin, each with 1 and with 16 pages."""
    row: Row = {}
    for (step, pages), key in KEYS.items():
        parts = found.cost(pages).components
        [total_ps] = [part.low_ps for part in parts if part.name == STEPS[step]]
        row[key] = per_lookup(total_ps / 1e6, found.measured.lookups)
    return [row]


def printed(items: Mapping[str, Item]) -> list[Row]:
    """The paper's cells, of six applications."""
    cells = items["table7"].printed
    return [
        {
            "application": app,
            **{
                key: cells[f"{step}_us_{pages}_page{'s' * (pages > 1)}"][column]
                for (step, pages), key in KEYS.items()
            },
        }
        for column, app in enumerate(cells["app"])
    ]


STUDY = Study(
    unit="us per lookup",
    conditions=f"UTLB, {LIMIT_MBYTES} MB pinned per process, unpinning page by page, costs of "
    "Table 1",
    layout=Layout(
        axes=(),
        columns=("",),
        lines=tuple(
            Line(f"{step}, {pages} page{'s' * (pages > 1)}", (key,))
            for (step, pages), key in KEYS.items()
        ),
    ),
    designs=designs,
    rows=rows,
    printed=printed,
)
