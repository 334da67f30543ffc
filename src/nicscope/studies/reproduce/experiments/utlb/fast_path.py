"""The price of a lookup that hits everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.design import load_design
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

HIT = {
    "lookups": 1,
    "pin_calls": 0,
    "pins": 0,
    "unpin_calls": 0,
    "unpins": 0,
    "ni_misses": 0,
    "entries_fetched": 0,
}


def run(item: Item) -> Outcome:
    """Price one hit by 6.2's constants and set section 5's price beside it."""
    cost = price(HIT, load_design("utlb"), load_platform("utlb-prototype")).per_lookup_us()
    if cost is None:
        raise RuntimeError("a hit on the UTLB prototype has no price")
    printed = item.printed
    outcome = Outcome()
    outcome.shape(
        "three-prices",
        cost[0] != printed["total_us"],
        f"6.2's constants: {cost[0]} us; section 5: {printed['total_us']} us, "
        f"{printed['user_us']} for the user and {printed['ni_us']} on the NIC",
    )
    return outcome
