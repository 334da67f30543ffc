"""U-Net/MM, 1 and 4.2: pinned memory is bounded by the table, not by who uses the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.unet_pinning import (
    ENTRIES,
    PAGES,
    VICTIMS,
    by_processes,
    mapped,
    original,
    static,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

PROCESSES = [1, 2, 4, 8, 16, 32, 64]


def run(item: Item) -> Outcome:
    """Let 1 to 64 processes use the network and rest, under three designs."""
    del item
    outcome = Outcome()
    room = ENTRIES + VICTIMS
    areas = by_processes(original, PROCESSES)
    tables = by_processes(static, PROCESSES)
    found = by_processes(mapped, PROCESSES)
    for count, seen in zip(PROCESSES, areas, strict=True):
        outcome.point("pinned_by_unet", "pages", seen.pages, processes=count)
    most = [seen.most for seen in found]
    beyond = [
        seen.pages for count, seen in zip(PROCESSES, found, strict=True) if count * PAGES > room
    ]
    outcome.shape(
        "bounded-by-the-tlb",
        max(most) <= room and len(set(beyond)) == 1,
        f"at most {', '.join(map(str, most))} pages by {', '.join(map(str, PROCESSES))} processes; "
        f"the table and its victims hold {room}",
    )
    last = found[-1]
    outcome.shape(
        "idle-pages-leave",
        last.present == last.mapped_present == last.pages and last.stale == 0,
        f"of the {PROCESSES[-1] * PAGES} pages of {PROCESSES[-1]} processes {last.present} stay, "
        f"{last.mapped_present} of them mapped; {last.stale} transfers met a page that had left",
    )
    each = [
        [seen.pages / count for count, seen in zip(PROCESSES, run_of, strict=True)]
        for run_of in (areas, tables)
    ]
    outcome.shape(
        "static-grows-with-processes",
        all(one == PAGES for row in each for one in row),
        f"{areas[0].pages} to {areas[-1].pages} pages under U-Net, {tables[0].pages} to "
        f"{tables[-1].pages} under a static table",
    )
    return outcome
