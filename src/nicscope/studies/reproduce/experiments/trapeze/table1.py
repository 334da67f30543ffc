"""Trapeze Table 1: latency and bandwidth of 4 and 8 KB, store-and-forward and cut-through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.calibrate.anchors import POLICY_OF, SIZES
from nicscope.studies.calibrate.fit import all_together
from nicscope.studies.delivery_measures import (
    PAIRS,
    bandwidth_mbytes_s,
    latency_us,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.studies.delivery_measures import Costs
    from nicscope.studies.reproduce.verdict import Item

    Cells = dict[tuple[str, str, str, str], float]  # kind, size, quantity, pair

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


def run(item: Item) -> Outcome:
    """Measure all cells with the catalog's costs, and again with those fitted to all cells."""
    found = cells(platform_costs())
    together = cells(all_together())
    printed = {
        key: item.printed[f"{key[0]}_{key[1]}_{COLUMNS[key[2]]}"][list(PAIRS).index(key[3])]
        for key in found
    }
    outcome = Outcome()
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
    return outcome


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
