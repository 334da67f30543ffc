"""Trapeze's abstract: 4 KB in 70 us, and 126 MB/s, under adaptive delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.delivery_measures import (
    PAIRS,
    bandwidth_mbytes_s,
    latency_us,
    pair_costs,
    platform_costs,
)
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

PAIR = "pentium2-440lx"
PAYLOAD = 4096  # bytes
NOT_GOOD = "alcor"  # 109 us in Table 1


def run(item: Item) -> Outcome:
    """One message of 4 KB on each pair, a stream of 64 KB on Pentium-II/440LX."""
    costs = platform_costs()
    latency = {pair: latency_us(pair_costs(costs, pair), "adaptive", PAYLOAD) for pair in PAIRS}
    largest = 1024 * item.printed["bandwidth_packet_kbytes"]
    bandwidth = bandwidth_mbytes_s(pair_costs(costs, PAIR), "adaptive", largest)
    outcome = Outcome()
    outcome.point("latency_4k", "us", latency[PAIR], pair=PAIR)
    outcome.point("bandwidth_64k", "MB/s", bandwidth, pair=PAIR)
    below = item.printed["latency_4k_us_good_pci_below"]
    outcome.shape(
        "below-80-on-good-pci",
        all((latency[pair] < below) == (pair != NOT_GOOD) for pair in PAIRS),
        ", ".join(f"{pair} {value:.1f} us" for pair, value in latency.items()),
    )
    return outcome
