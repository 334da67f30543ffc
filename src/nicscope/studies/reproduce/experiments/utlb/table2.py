"""UTLB Table 2: the NIC side, by entries fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.platform import load_platform
from nicscope.studies.reproduce.tabulated import cost_at, nearest_line
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

COSTS = {"dma": "ni_dma", "miss": "ni_miss"}


def run(item: Item) -> Outcome:
    """Read the platform's costs at the printed widths, and their lines."""
    platform = load_platform("utlb-prototype")
    widths = item.printed["entries"]
    outcome = Outcome()
    outcome.point("hit", "us", cost_at(platform, "ni_check"))
    for quantity, cost in COSTS.items():
        for entries in widths:
            outcome.point(quantity, "us", cost_at(platform, cost, entries), entries=entries)
        for entries, value in zip(widths, nearest_line(platform, cost, widths), strict=True):
            outcome.point(f"{quantity}_line", "us", value, entries=entries)
    return outcome
