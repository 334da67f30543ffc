"""UTLB's Tables 1, 2 and 6 and the price of a hit, by a platform's costs.

Pricing reads a table at the mean size of its events, which is exact only as far as the table
is a straight line: the line's residuals are what that costs.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import linear_regression
from typing import TYPE_CHECKING

from nicscope.config.design import load_design
from nicscope.config.platform import in_us, load_platform
from nicscope.studies.pricing import price

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from nicscope.config.platform import Platform
    from nicscope.studies.reproduce.verdict import Item, Outcome


def cost_at(platform: Platform, cost: str, size: int | None = None) -> Decimal:
    """Cost (us) of one event of ``size``; the lower bound, where the platform states a range."""
    low, _ = platform.costs[cost].each(None if size is None else Fraction(size))
    return in_us(low)


def nearest_line(platform: Platform, cost: str, sizes: Sequence[int]) -> list[float]:
    """At each of ``sizes``, the least-squares line through the costs (us) at those sizes."""
    slope, start = linear_regression(sizes, [float(cost_at(platform, cost, n)) for n in sizes])
    return [start + slope * size for size in sizes]


HIT = {
    "lookups": 1,
    "pin_calls": 0,
    "pins": 0,
    "unpin_calls": 0,
    "unpins": 0,
    "ni_misses": 0,
    "entries_fetched": 0,
}


def fast_path(outcome: Outcome, item: Item) -> None:
    """The price of a lookup that hits everywhere.

    Price one hit by 6.2's constants and set section 5's price beside it.
    """
    cost = price(HIT, load_design("utlb"), load_platform("utlb-prototype")).per_lookup_us()
    if cost is None:
        raise RuntimeError("a hit on the UTLB prototype has no price")
    printed = item.printed
    outcome.shape(
        "three-prices",
        cost[0] != printed["total_us"],
        f"6.2's constants: {cost[0]} us; section 5: {printed['total_us']} us, "
        f"{printed['user_us']} for the user and {printed['ni_us']} on the NIC",
    )


HOST_COSTS = {
    "check_min": "request_check_min",
    "check_max": "request_check_max",
    "pin": "user_pin",
    "unpin": "user_unpin",
}
LINES = {"pin_line": "user_pin", "unpin_line": "user_unpin"}


def table1(outcome: Outcome, item: Item) -> None:
    """UTLB Table 1: the host side, by pages of the buffer.

    Read the platform's costs at the printed sizes, and their lines.
    """
    platform = load_platform("utlb-prototype")
    sizes = item.printed["pages"]
    for quantity, cost in HOST_COSTS.items():
        for pages in sizes:
            outcome.point(quantity, "us", cost_at(platform, cost, pages), pages=pages)
    for quantity, cost in LINES.items():
        for pages, value in zip(sizes, nearest_line(platform, cost, sizes), strict=True):
            outcome.point(quantity, "us", value, pages=pages)


NIC_COSTS = {"dma": "ni_dma", "miss": "ni_miss"}


def table2(outcome: Outcome, item: Item) -> None:
    """UTLB Table 2: the NIC side, by entries fetched.

    Read the platform's costs at the printed widths, and their lines.
    """
    platform = load_platform("utlb-prototype")
    widths = item.printed["entries"]
    outcome.point("hit", "us", cost_at(platform, "ni_check"))
    for quantity, cost in NIC_COSTS.items():
        for entries in widths:
            outcome.point(quantity, "us", cost_at(platform, cost, entries), entries=entries)
        for entries, value in zip(widths, nearest_line(platform, cost, widths), strict=True):
            outcome.point(f"{quantity}_line", "us", value, entries=entries)


LOOKUPS = 100  # rates are printed with two decimals: whole counts per hundred lookups


def table6(outcome: Outcome, item: Item) -> None:
    """UTLB Table 6: Table 4's printed rates, priced as any replay's counts are.

    Price both programs under both schemes at the three sizes of the table.
    """
    printed = item.printed
    utlb: dict[str, list[Decimal]] = {}
    intr: dict[str, list[Decimal]] = {}
    for app in printed["app"]:
        checks, misses = printed["check_misses"][app], printed["ni_misses"][app]
        unpins = printed["unpins_intr"][app]
        utlb[app] = [_price(utlb_counts(checks, miss), "utlb") for miss in misses]
        intr[app] = [
            _price(interrupt_counts(miss, unpin), "vmmc-interrupt")
            for miss, unpin in zip(misses, unpins, strict=True)
        ]
        for index, entries in enumerate(printed["cache_entries"]):
            outcome.point("utlb", "us", utlb[app][index], app=app, entries=entries)
            outcome.point("intr", "us", intr[app][index], app=app, entries=entries)
    outcome.shape("fft-gains", _always_less(utlb["fft"], intr["fft"]), _pairs(utlb, intr, "fft"))
    outcome.shape(
        "barnes-does-not-always-gain",
        all(utlb["barnes"][late] > intr["barnes"][late] for late in (1, 2)),
        _pairs(utlb, intr, "barnes"),
    )


def utlb_counts(check_misses: Decimal, ni_misses: Decimal) -> dict[str, int]:
    """Counts of ``LOOKUPS`` lookups of single pages, nothing ever unpinned."""
    pins, misses = _count(check_misses), _count(ni_misses)
    return {
        "lookups": LOOKUPS,
        "pin_calls": pins,
        "pins": pins,
        "unpin_calls": 0,
        "unpins": 0,
        "ni_misses": misses,
        "entries_fetched": misses,
    }


def interrupt_counts(ni_misses: Decimal, unpins: Decimal) -> dict[str, int]:
    """Counts of ``LOOKUPS`` lookups; every miss interrupts and pins."""
    misses = _count(ni_misses)
    return {
        "lookups": LOOKUPS,
        "ni_misses": misses,
        "interrupts": misses,
        "pins": misses,
        "unpins": _count(unpins),
    }


def _count(rate: Decimal) -> int:
    return int(rate * LOOKUPS)


def _price(counts: Mapping[str, int], design: str) -> Decimal:
    cost = price(counts, load_design(design), load_platform("utlb-prototype"))
    per_lookup = cost.per_lookup_us()
    if per_lookup is None or cost.is_lower_bound:
        raise RuntimeError(f"Table 6's counts are not fully priced: {cost.unpriced}")
    return per_lookup[0]


def _always_less(ours: list[Decimal], theirs: list[Decimal]) -> bool:
    return all(one < other for one, other in zip(ours, theirs, strict=True))


def _pairs(utlb: Mapping[str, list[Decimal]], intr: Mapping[str, list[Decimal]], app: str) -> str:
    pairs = zip(utlb[app], intr[app], strict=True)
    return "UTLB against interrupts: " + ", ".join(f"{u:.2f} / {i:.2f}" for u, i in pairs) + " us"
