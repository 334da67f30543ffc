"""Trapeze's Table 1, Figure 6 and abstract: latency and bandwidth by policy and size."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from nicscope.studies.delivery_measures import (
    PAIRS,
    POLICY_OF,
    SIZES,
    all_together,
    bandwidth_mbytes_s,
    latency_us,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.experiments.trapeze.transfers import dma_mbytes_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.delivery_measures import Costs
    from nicscope.studies.reproduce.verdict import Item, Outcome

    Cell = tuple[str, str, str, str]  # kind, size, quantity, pair
    Cells = dict[Cell, float]

PAYLOADS = tuple(1024 << power for power in range(7))  # 1 to 64 KB
POLICIES = ("store-and-forward", "cut-through", "adaptive")
WITHIN = 0.03
LARGE = 8192  # bytes, from which on adaptive should near the bus
SHARE_OF_BUS = 0.85

Curves = dict[str, list[float]]  # by policy


def figure6(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the statements need no printed number
    """Trapeze Figure 6: bandwidth by payload size under three policies, and latency when idle.

    A stream per pair, policy and payload, and a message alone for the latencies.
    """
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


GOOD_PAIR = "pentium2-440lx"
PAYLOAD = 4096  # bytes
NOT_GOOD = "alcor"  # 109 us in Table 1


def headline(outcome: Outcome, item: Item) -> None:
    """Trapeze's abstract: 4 KB in 70 us, and 126 MB/s, under adaptive delivery.

    One message of 4 KB on each pair, a stream of 64 KB on Pentium-II/440LX.
    """
    costs = platform_costs()
    latency = {pair: latency_us(pair_costs(costs, pair), "adaptive", PAYLOAD) for pair in PAIRS}
    largest = 1024 * item.printed["bandwidth_packet_kbytes"]
    bandwidth = bandwidth_mbytes_s(pair_costs(costs, GOOD_PAIR), "adaptive", largest)
    outcome.point("latency_4k", "us", latency[GOOD_PAIR], pair=GOOD_PAIR)
    outcome.point("bandwidth_64k", "MB/s", bandwidth, pair=GOOD_PAIR)
    below = item.printed["latency_4k_us_good_pci_below"]
    outcome.shape(
        "below-80-on-good-pci",
        all((latency[pair] < below) == (pair != NOT_GOOD) for pair in PAIRS),
        ", ".join(f"{pair} {value:.1f} us" for pair, value in latency.items()),
    )


UNITS = {"latency": "us", "bandwidth": "MB/s"}
COLUMNS = {"latency": "us", "bandwidth": "mbytes_s"}
MEAN_PREDICTED, WORST_PREDICTED, MEAN_TOGETHER = 0.05, 0.10, 0.025


def cells(costs: Mapping[str, Costs]) -> Cells:
    """The 32 numbers of the table with ``costs`` by platform."""
    found: Cells = {}
    for pair in PAIRS:
        ends = pair_costs(costs, pair)
        for size, payload in SIZES.items():
            for kind, name in POLICY_OF.items():
                found[kind, size, "latency", pair] = latency_us(ends, name, payload)
                found[kind, size, "bandwidth", pair] = bandwidth_mbytes_s(ends, name, payload)
    return found


def table1(outcome: Outcome, item: Item) -> None:
    """Trapeze Table 1: latency and bandwidth of 4 and 8 KB, store-and-forward and cut-through.

    Measure all cells with the catalog's costs, and again with those fitted to all cells.
    """
    found = cells(platform_costs())
    together = cells(all_together())
    printed = {
        key: item.printed[f"{key[0]}_{key[1]}_{COLUMNS[key[2]]}"][list(PAIRS).index(key[3])]
        for key in found
    }
    for (kind, size, quantity, pair), value in found.items():
        outcome.point(f"{kind}_{size}_{quantity}", UNITS[quantity], value, pair=pair)
    predicted = [abs(found[key] / printed[key] - 1) for key in found if key[1] == "8k"]
    mean, worst = sum(predicted) / len(predicted), max(predicted)
    outcome.shape(
        "predicted-half",
        mean <= MEAN_PREDICTED and worst <= WORST_PREDICTED,
        f"mean {100 * mean:.2f} %, worst {100 * worst:.2f} %",
    )
    errors = [abs(together[key] / printed[key] - 1) for key in together]
    mean = sum(errors) / len(errors)
    outcome.shape(
        "fitted-together",
        mean <= MEAN_TOGETHER,
        f"mean {100 * mean:.2f} %, worst {100 * max(errors):.2f} %",
    )
    _gains(outcome, item, found)
    _ranking(outcome, found, printed)


def _ranking(outcome: Outcome, found: Cells, printed: Mapping[Cell, float]) -> None:
    """Pairs whose order at 8 KB is not the printed one."""
    swapped = [
        f"{one} and {other} in {kind} {quantity}: "
        f"{found[kind, '8k', quantity, one]:.1f} and {found[kind, '8k', quantity, other]:.1f} "
        f"{UNITS[quantity]} for {printed[kind, '8k', quantity, one]} and "
        f"{printed[kind, '8k', quantity, other]}"
        for kind in POLICY_OF
        for quantity in UNITS
        for one, other in combinations(PAIRS, 2)
        if (found[kind, "8k", quantity, one] < found[kind, "8k", quantity, other])
        != (printed[kind, "8k", quantity, one] < printed[kind, "8k", quantity, other])
    ]
    outcome.shape("ranking-at-8k", not swapped, "; ".join(swapped) or "none is swapped")


def _gains(outcome: Outcome, item: Item, found: Cells) -> None:
    gain = {
        pair: 1 - found["cut", "8k", "latency", pair] / found["store", "8k", "latency", pair]
        for pair in PAIRS
    }
    outcome.shape(
        "gain-by-platform",
        max(gain, key=gain.__getitem__) == "pentium2-440lx"
        and min(gain, key=gain.__getitem__) == "alcor",
        ", ".join(f"{pair} {100 * value:.1f} %" for pair, value in gain.items()),
    )
    kept = {
        (pair, size): found["cut", size, "bandwidth", pair]
        / found["store", size, "bandwidth", pair]
        for pair in PAIRS
        for size in SIZES
    }
    outcome.shape(
        "cut-through-costs-bandwidth",
        max(kept.values()) < 1,
        f"it keeps {100 * min(kept.values()):.0f} to {100 * max(kept.values()):.0f} %",
    )
    smallest = item.printed["latency_gain_percent"][0]
    by_size = [item.derived[f"latency_gain_{size}_percent"] for size in SIZES]
    outcome.shape(
        "gain-is-31",
        all(min(gains) != smallest for gains in by_size)
        and all(smallest not in gains for gains in by_size),
        f"the text says {smallest} %; least {min(by_size[0])} % at 4 KB, {min(by_size[1])} % at 8",
    )
