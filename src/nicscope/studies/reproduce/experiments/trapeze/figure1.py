"""Trapeze Figure 1: bandwidth of single DMA transfers by size, both directions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.drivers.simulate.log import Engine
from nicscope.studies.delivery_measures import (
    PLATFORMS,
    PS_PER_US,
    platform_costs,
    policy,
    stream,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.delivery_measures import Costs
    from nicscope.studies.reproduce.verdict import Item

SIZES = tuple(128 << power for power in range(10))  # to 64 KB
DIRECTIONS = {"send": Engine.HOST_TX, "receive": Engine.HOST_RCV}
GOOD = ("p6-natoma", "pentium2-440lx")
RECORDS = 64


def dma_mbytes_s(costs: Costs, size: int) -> dict[str, float]:
    """Bandwidth of one transfer of ``size`` bytes in each direction, set-up included."""
    log = stream([costs, costs], policy("store-and-forward", size), size, 1, keep_log=RECORDS).log
    found = {}
    for direction, engine in DIRECTIONS.items():
        (transfer,) = log[log["engine"] == engine]
        found[direction] = size * PS_PER_US / float(transfer["end"] - transfer["start"])
    return found


def run(item: Item) -> Outcome:
    """One message per size and platform between idle hosts, so that DMA has the bus alone."""
    printed = item.printed
    costs = platform_costs()
    curves = {
        (name, direction): [dma_mbytes_s(costs[name], size)[direction] for size in SIZES]
        for name in PLATFORMS
        for direction in DIRECTIONS
    }
    largest = {key: curve[-1] for key, curve in curves.items()}
    outcome = Outcome()
    outcome.shape(
        "good-pci-over-120",
        all(
            largest[name, direction] > printed["p6_and_pentium2_mbytes_s_over"]
            for name in GOOD
            for direction in DIRECTIONS
        ),
        _listed({key: value for key, value in largest.items() if key[0] in GOOD}),
    )
    peak = max(max(curve) for curve in curves.values())
    outcome.shape(
        "bus-is-the-limit", peak <= printed["pci_peak_mbytes_s"][1], f"at most {peak:.1f} MB/s"
    )
    outcome.shape(
        "rises-with-size",
        all(a < b for curve in curves.values() for a, b in pairwise(curve)),
        "; ".join(
            f"{name} {direction} {curve[0]:.0f} to {curve[-1]:.0f} MB/s"
            for (name, direction), curve in curves.items()
        ),
    )
    alcor = largest["alcor", "receive"] / printed["link_mbytes_s"]
    outcome.shape(
        "alcor-receives-at-half",
        abs(alcor - float(printed["alcor_receive_share_of_link"])) < 1 / 8,
        f"{largest['alcor', 'receive']:.1f} MB/s, {100 * alcor:.0f} % of the link",
    )
    return outcome


def _listed(rates: dict[tuple[str, str], float]) -> str:
    return ", ".join(f"{name} {direction} {rate:.1f}" for (name, direction), rate in rates.items())
