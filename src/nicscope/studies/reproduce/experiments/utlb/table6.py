"""UTLB Table 6: Table 4's printed rates, priced as any replay's counts are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.design import load_design
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from nicscope.studies.reproduce.verdict import Item

LOOKUPS = 100  # rates are printed with two decimals: whole counts per hundred lookups


def run(item: Item) -> Outcome:
    """Price both programs under both schemes at the three sizes of the table."""
    printed = item.printed
    outcome = Outcome()
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
    return outcome


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
