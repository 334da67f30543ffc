"""Summaries of one to three sentences for each kind of result, with its tables' numbers.

A number is spelt as the tables spell it, so whoever reads on finds it again.  What has no price is
said to have none, and prices of different machines are not compared without a word.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from nicscope.reports.wording import (
    listed,
    per_hundred,
    us_per,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.curves import MissCurve
    from nicscope.studies.latency.report import Latency, LatencyReport
    from nicscope.studies.replaying import Comparison, Priced

MOST = 3  # sentences of one kind
ESTIMATES = "These are estimates, from a sample of the pages."


class MissRates(NamedTuple):
    """NI misses per 100 lookups or requests: total, by path, and by kind, which add up."""

    design: str
    misses: float
    by_path: dict[str, float]
    by_kind: dict[str, float]


def of_replay(comparison: Comparison, rates: Sequence[MissRates]) -> list[str]:
    """Miss rates, and the cost of a lookup."""
    per = comparison.denominator
    if len(rates) == 1:
        [one], [priced] = rates, comparison.priced
        missed = f"Of 100 {per.plural}, {one.design}'s NIC misses {per_hundred(one.misses)}"
        first = one.by_kind["compulsory"]
        if one.misses:
            missed += f"; {per_hundred(first)} are first uses, which no size of cache avoids"
        return [f"{missed}.", _cost_of_one(comparison, priced)]
    nothing = [one.design for one in rates if not one.misses]
    ordered = sorted((one for one in rates if one.misses), key=lambda one: one.misses)
    told = []
    if nothing:
        told.append(f"{listed(nothing)} {'miss' if len(nothing) > 1 else 'misses'} nothing")
    if len(ordered) == 1:
        told.append(f"{ordered[0].design} misses {per_hundred(ordered[0].misses)}")
    elif ordered and per_hundred(ordered[0].misses) == per_hundred(ordered[-1].misses):
        whose = "each" if nothing else "every design"
        told.append(f"{whose} misses {per_hundred(ordered[0].misses)}")
    elif ordered:
        least, most = ordered[0], ordered[-1]
        told.append(
            f"{least.design} misses {per_hundred(least.misses)}, the fewest, and {most.design} "
            f"{per_hundred(most.misses)}, the most"
        )
    missed = f"Of 100 {per.plural} on the NIC {'; of the others '.join(told)}."
    return [missed, *_costs_of_several(comparison)]


def _cost_of_one(comparison: Comparison, priced: Priced) -> str:
    per, cost = comparison.denominator, priced.cost
    if priced.platform is None:
        return "No platform is named, so nothing is priced."
    if not cost.is_known:
        return f"What a {per.value} costs is unknown: {cost.reason}."
    us = us_per(per, cost)
    if cost.is_lower_bound:
        return f"A {per.value} costs at least {us.removeprefix('≥ ')} us: {cost.reason}."
    return f"A {per.value} costs {us} us on {priced.platform}."


def _costs_of_several(comparison: Comparison) -> list[str]:
    per = comparison.denominator
    able = [
        (bounds[1], priced)
        for priced in comparison.priced
        if not priced.cost.is_lower_bound and not priced.total("rejected")
        if (bounds := priced.cost.per_us(priced.cost.count_of(per))) is not None
    ]
    if not able:
        return ["No design has a whole price; the least that is known of each is marked ≥."]
    cheapest = min(able, key=lambda one: one[0])[1]
    told = (
        f"Of the designs with a whole price {cheapest.name} is the cheapest: "
        f"{us_per(per, cheapest.cost)} us per {per.value} on {cheapest.platform}"
    )
    others = {priced.platform for _, priced in able}
    if len(others) > 1:
        told += "; prices are of several machines, and --platform NAME takes one for all"
    return [f"{told}."]


def of_curves(curves: Sequence[MissCurve]) -> list[str]:
    """The cache size up to which growth pays."""
    sentences = [_curve(curve) for curve in curves[:MOST]]
    if any(curve.sample is not None for curve in curves):
        sentences.append(ESTIMATES)
    return sentences


def of_many_curves(curves: Sequence[MissCurve]) -> list[str]:
    """The range over the curves of the largest caches' misses."""
    rates = [(100 * curve.ratio(float(curve.sizes.misses[-1])), curve.name) for curve in curves]
    (low, least), (high, most) = min(rates), max(rates)
    told = [
        f"Of {whole(len(curves))} curves, the largest cache of {least} misses {per_hundred(low)} "
        f"of 100 lookups, the fewest, and that of {most} {per_hundred(high)}, the most."
    ]
    if any(curve.sample is not None for curve in curves):
        told.append(ESTIMATES)
    return told


def _curve(curve: MissCurve) -> str:
    def rate(misses: float) -> str:
        return per_hundred(100 * curve.ratio(misses))

    low, high = curve.powers()[0], curve.powers()[-1]
    least, most = (curve.sizes.at(entries) for entries in (high, low))
    if curve.knee is None:
        if rate(least) == rate(most):
            return (
                f"{curve.name}: a cache misses {rate(most)} of 100 lookups, whether it has "
                f"{whole(low)} entries or {whole(high)}."
            )
        return (
            f"{curve.name}: from {whole(low)} to {whole(high)} entries misses fall from "
            f"{rate(most)} to {rate(least)} of 100 lookups, and no size stands out."
        )
    told = (
        f"{curve.name}: misses fall fastest up to about {whole(curve.knee)} entries, where a fully "
        f"associative cache misses {rate(curve.sizes.at(curve.knee))} of 100 lookups"
    )
    simplest = [point for point in curve.points if point.entries == curve.knee]
    if simplest:
        told += f" and a {simplest[0].ways}-way one {rate(simplest[0].misses)}"
    if curve.knee != high:
        told += f"; {whole(high)} entries miss {rate(least)}"
    return f"{told}."


def of_latencies(report: LatencyReport) -> list[str]:
    """The fastest mechanism for the smallest and for the largest messages."""
    groups = [
        (size, list(each)) for size, each in groupby(report.latencies, lambda one: one.byte_count)
    ]
    sentences = []
    for size, rows in dict([groups[0], groups[-1]]).items():
        fastest, slowest = (pick(rows, key=_cycles) for pick in (min, max))
        told = f"A message of {size:,} bytes takes {_spelt(fastest)} cycles by {fastest.mechanism}"
        if slowest is not fastest:
            told += f", the fastest way, and {_spelt(slowest)} by {slowest.mechanism}, the slowest"
        sentences.append(f"{told}.")
    return [*sentences, "A cycle is 1 ns."]


def _cycles(one: Latency) -> float:
    return one.cycles()


def _spelt(one: Latency) -> str:
    return f"{one.cycles():,.0f}"


def of_flow(payload: int, median_us: str, megabytes: str, part: str, share: str) -> list[str]:
    """A message's latency and its largest part."""
    told = [
        f"A message of {whole(payload)} bytes is read {median_us} us after it was posted (median); "
        f"{megabytes} MB/s arrive."
    ]
    if part:
        told.append(f"The largest part of the latency, {share}, is '{part}'.")
    return told
