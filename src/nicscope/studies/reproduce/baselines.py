"""Pencil and paper beside every prediction: what printed numbers alone give for it.

A baseline sees one paper's printed numbers and nothing that runs.  The catalog says each formula in
words (``baseline`` of its item), and where there is none.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from nicscope.studies.reproduce.verdict import Outcome, quantity_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.studies.reproduce.verdict import Paper

Numbers = dict[str, Decimal]  # by quantity

KB = 1024
# Trapeze's pairs as its Table 1 orders them, by the names of our platforms.
PAIRS = ("p6-natoma", "pentium2-440lx", "alcor", "alcor-to-miata")
P6, PENTIUM2, ALCOR = 0, 1, 2
HALF = 4 * KB  # bytes that an 8 KB payload has more than one of 4 KB


def trapeze_table1(paper: Paper) -> Numbers:
    """The 8 KB half from the 4 KB half and the buses' and the link's printed rates."""
    printed = paper.items["table1"].printed
    bus = Decimal(paper.items["figure1"].printed["p6_and_pentium2_mbytes_s_over"])
    link = Decimal(paper.items["figure1"].printed["link_mbytes_s"])
    store = printed["store_4k_us"]
    # What Alcor takes longer than P6/Natoma at 4 KB is its receiving bus.
    receiving_us = HALF / bus + store[ALCOR] - store[P6]
    found = Outcome()
    for place, pair in enumerate(PAIRS):
        slower_us = receiving_us if place == ALCOR else HALF / bus
        rest_us = {"store": HALF / bus + HALF / link + slower_us, "cut": slower_us}
        for kind, longer_us in rest_us.items():
            latency = printed[f"{kind}_4k_us"][place] + longer_us
            apart_us = Decimal(HALF) / printed[f"{kind}_4k_mbytes_s"][place] + slower_us
            found.point(f"{kind}_8k_latency", "us", latency, pair=pair)
            found.point(f"{kind}_8k_bandwidth", "MB/s", 2 * HALF / apart_us, pair=pair)
    return found.values


def trapeze_headline(paper: Paper) -> Numbers:
    """64 KB from the 8 KB of Table 1 and the bus's peak rate."""
    small = Decimal(8 * KB)
    large = Decimal(KB * paper.items["headline"].printed["bandwidth_packet_kbytes"])
    peak = paper.items["figure1"].printed["pci_peak_mbytes_s"][1]
    apart_us = small / paper.items["table1"].printed["store_8k_mbytes_s"][PENTIUM2]
    found = Outcome()
    apart_us += (large - small) / peak
    found.point("bandwidth_64k", "MB/s", large / apart_us, pair=PAIRS[PENTIUM2])
    return found.values


def trapeze_figure4(paper: Paper) -> Numbers:
    """When the second payload arrives, by the time of the first hostTx and printed rates."""
    printed, adapter = paper.items["figure4"].printed, paper.items["figure1"].printed
    pulse = Decimal(printed["minpulse_bytes"])
    rate = Decimal(printed["payload_bytes"]) / printed["host_tx_second_us"]
    arrives_us = printed["host_tx_first_us"] + pulse / rate
    begins_us = arrives_us + adapter["switch_us"] + pulse / adapter["link_mbytes_s"]
    found = Outcome()
    found.point("second_arrival", "us", arrives_us)
    found.point("second_host_rcv", "us", begins_us)
    return found.values


def trapeze_figure5(paper: Paper) -> Numbers:
    """Adaptive's bandwidth as store-and-forward's, which 3.4 calls equal."""
    printed = paper.items["figure5"].printed
    found = Outcome()
    found.point("without_logging", "MB/s", Decimal(printed["store_and_forward_mbytes_s"]))
    return found.values


def mini_figure3(paper: Paper) -> Numbers:
    """The cache as its entries alone."""
    printed = paper.items["figure3"].printed
    entries_kb = Decimal(printed["best_cache_entries"] * printed["entry_bits"] // 8) / KB
    return {quantity_name("best_cache_memory", "KB", cache="C16.L64.A4"): entries_kb}


def edt_dma_rate(paper: Paper) -> Numbers:
    """The gains at full rate, whatever the rate."""
    printed = paper.items["dma_rate"].printed
    found = Outcome()
    for rate in printed["dma_mbytes_s"][1:]:
        for end in ("high", "low"):
            gain = Decimal(printed[f"gain_percent_{end}"][0])
            found.point(f"{end}_end", "%", gain, mbytes_s=rate)
    return found.values


def edt_contention(paper: Paper) -> Numbers:
    """The same of what another master's bursts do."""
    low, high = (paper.items["figure8"].printed["gain_percent"][end] for end in (0, 1))
    found = Outcome()
    for rate in paper.items["contention"].printed["dma_mbytes_s"]:
        found.point("low_end_page", "%", Decimal(low), mbytes_s=rate)
        found.point("high_end_page", "%", Decimal(high), mbytes_s=rate)
        found.point("high_end_fitted", "%", Decimal(high), mbytes_s=rate)
    found.point("low_end_fitted_at_800", "%", Decimal(low))
    return found.values


BASELINES: dict[tuple[str, str], Callable[[Paper], Numbers]] = {
    ("edt", "contention"): edt_contention,
    ("edt", "dma_rate"): edt_dma_rate,
    ("mini", "figure3"): mini_figure3,
    ("trapeze", "figure4"): trapeze_figure4,
    ("trapeze", "figure5"): trapeze_figure5,
    ("trapeze", "headline"): trapeze_headline,
    ("trapeze", "table1"): trapeze_table1,
}


def by_hand(paper: Paper, item: str) -> Numbers:
    """What pencil and paper give for numbers of ``item``; empty where there is no formula."""
    formula = BASELINES.get((paper.key, item))
    return {} if formula is None else formula(paper)
