"""UTLB Table 1: the host side, by pages of the buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.platform import load_platform
from nicscope.studies.reproduce.tabulated import cost_at, nearest_line
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

COSTS = {
    "check_min": "request_check_min",
    "check_max": "request_check_max",
    "pin": "user_pin",
    "unpin": "user_unpin",
}
LINES = {"pin_line": "user_pin", "unpin_line": "user_unpin"}


def run(item: Item) -> Outcome:
    """Read the platform's costs at the printed sizes, and their lines."""
    platform = load_platform("utlb-prototype")
    sizes = item.printed["pages"]
    outcome = Outcome()
    for quantity, cost in COSTS.items():
        for pages in sizes:
            outcome.point(quantity, "us", cost_at(platform, cost, pages), pages=pages)
    for quantity, cost in LINES.items():
        for pages, value in zip(sizes, nearest_line(platform, cost, sizes), strict=True):
            outcome.point(quantity, "us", value, pages=pages)
    return outcome
