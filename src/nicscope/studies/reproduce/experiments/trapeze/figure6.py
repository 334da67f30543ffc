"""Trapeze Figure 6: bandwidth by payload size under three policies, and latency when idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.delivery_measures import (
    PAIRS,
    bandwidth_mbytes_s,
    latency_us,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.experiments.trapeze.figure1 import dma_mbytes_s
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.reproduce.verdict import Item

PAYLOADS = tuple(1024 << power for power in range(7))  # 1 to 64 KB
POLICIES = ("store-and-forward", "cut-through", "adaptive")
WITHIN = 0.03
LARGE = 8192  # bytes, from which on adaptive should near the bus
SHARE_OF_BUS = 0.85

Curves = dict[str, list[float]]  # by policy


def run(item: Item) -> Outcome:  # noqa: ARG001 - the statements need no printed number
    """A stream per pair, policy and payload, and a message alone for the latencies."""
    costs = platform_costs()
    rates: dict[str, Curves] = {}
    latencies: dict[str, Curves] = {}
    buses: dict[str, list[float]] = {}
    for pair in PAIRS:
        sender, receiver = ends = pair_costs(costs, pair)
        rates[pair] = {p: [bandwidth_mbytes_s(ends, p, n) for n in PAYLOADS] for p in POLICIES}
        latencies[pair] = {p: [latency_us(ends, p, n) for n in PAYLOADS] for p in POLICIES}
        buses[pair] = [
            min(dma_mbytes_s(sender, n)["send"], dma_mbytes_s(receiver, n)["receive"])
            for n in PAYLOADS
        ]
    outcome = Outcome()
    ratio = _furthest(rates, "adaptive", "store-and-forward")
    outcome.shape("adaptive-is-store-and-forward", *_near(ratio))
    ratio = _furthest(latencies, "adaptive", "cut-through")
    outcome.shape("adaptive-is-cut-through", *_near(ratio))
    below = {
        pair: max(
            cut / min(store, adaptive)
            for cut, store, adaptive in zip(
                found["cut-through"], found["store-and-forward"], found["adaptive"], strict=True
            )
        )
        for pair, found in rates.items()
    }
    outcome.shape(
        "pure-is-below",
        max(below.values()) < 1,
        "at most " + ", ".join(f"{100 * most:.0f} % on {pair}" for pair, most in below.items()),
    )
    bus = {
        pair: min(
            rate / limit
            for payload, rate, limit in zip(PAYLOADS, found["adaptive"], buses[pair], strict=True)
            if payload >= LARGE
        )
        for pair, found in rates.items()
    }
    outcome.shape(
        "adaptive-nears-the-bus",
        min(bus.values()) >= SHARE_OF_BUS,
        "at least " + ", ".join(f"{100 * least:.0f} % on {pair}" for pair, least in bus.items()),
    )
    return outcome


def _furthest(found: Mapping[str, Curves], one: str, other: str) -> dict[str, float]:
    """Per pair, the quotient of the two policies that is furthest from 1."""
    quotients = {
        pair: [a / b for a, b in zip(curves[one], curves[other], strict=True)]
        for pair, curves in found.items()
    }
    return {pair: max(each, key=lambda q: abs(q - 1)) for pair, each in quotients.items()}


def _near(quotients: Mapping[str, float]) -> tuple[bool, str]:
    """Whether all are within 3 % of 1, and how far they are."""
    text = ", ".join(f"{100 * (q - 1):+.2f} % on {pair}" for pair, q in quotients.items())
    return all(abs(q - 1) <= WITHIN for q in quotients.values()), f"furthest {text}"
