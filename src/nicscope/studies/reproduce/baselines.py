"""What pencil and paper give of numbers that are predicted; it sees printed numbers alone."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from nicscope.studies.reproduce.verdict import Outcome, Paper

if TYPE_CHECKING:
    from collections.abc import Callable


KB = 1024
# Trapeze's pairs as its Table 1 orders them, by the names of our platforms.
PAIRS = ("p6-natoma", "pentium2-440lx", "alcor", "alcor-to-miata")
P6, PENTIUM2, ALCOR = 0, 1, 2
HALF = 4 * KB  # bytes that an 8 KB payload has more than one of 4 KB


def trapeze_table1(found: Outcome, paper: Paper) -> None:
    """The 8 KB half from the 4 KB half and the buses' and the link's printed rates."""
    printed = paper.items["table1"].printed
    bus = Decimal(paper.items["figure1"].printed["p6_and_pentium2_mbytes_s_over"])
    link = Decimal(paper.items["figure1"].printed["link_mbytes_s"])
    store = printed["store_4k_us"]
    # What Alcor takes longer than P6/Natoma at 4 KB is its receiving bus.
    receiving_us = HALF / bus + store[ALCOR] - store[P6]
    for place, pair in enumerate(PAIRS):
        slower_us = receiving_us if place == ALCOR else HALF / bus
        rest_us = {"store": HALF / bus + HALF / link + slower_us, "cut": slower_us}
        for kind, longer_us in rest_us.items():
            latency = printed[f"{kind}_4k_us"][place] + longer_us
            apart_us = Decimal(HALF) / printed[f"{kind}_4k_mbytes_s"][place] + slower_us
            found.point(f"{kind}_8k_latency", "us", latency, pair=pair)
            found.point(f"{kind}_8k_bandwidth", "MB/s", 2 * HALF / apart_us, pair=pair)


def trapeze_headline(found: Outcome, paper: Paper) -> None:
    """64 KB from the 8 KB of Table 1 and the bus's peak rate."""
    small = Decimal(8 * KB)
    large = Decimal(KB * paper.items["headline"].printed["bandwidth_packet_kbytes"])
    peak = paper.items["figure1"].printed["pci_peak_mbytes_s"][1]
    apart_us = small / paper.items["table1"].printed["store_8k_mbytes_s"][PENTIUM2]
    apart_us += (large - small) / peak
    found.point("bandwidth_64k", "MB/s", large / apart_us, pair=PAIRS[PENTIUM2])


def trapeze_figure5(found: Outcome, paper: Paper) -> None:
    """Adaptive's bandwidth as store-and-forward's, which 3.4 calls equal."""
    printed = paper.items["figure5"].printed
    found.point("without_logging", "MB/s", Decimal(printed["store_and_forward_mbytes_s"]))


def mini_figure3(found: Outcome, paper: Paper) -> None:
    """The cache as its entries alone."""
    printed = paper.items["figure3"].printed
    entries_kb = Decimal(printed["best_cache_entries"] * printed["entry_bits"] // 8) / KB
    found.point("best_cache_memory", "KB", entries_kb, cache="C16.L64.A4")


def edt_dma_rate(found: Outcome, paper: Paper) -> None:
    """The gains at full rate, whatever the rate."""
    item = paper.items["dma_rate"]
    high, low = (item.printed[f"gain_percent_{end}"][0] for end in ("high", "low"))
    found.measure(item, high_end=Decimal(high), low_end=Decimal(low))


BASELINES: dict[tuple[str, str], Callable[[Outcome, Paper], None]] = {
    ("edt", "dma_rate"): edt_dma_rate,
    ("mini", "figure3"): mini_figure3,
    ("trapeze", "figure5"): trapeze_figure5,
    ("trapeze", "headline"): trapeze_headline,
    ("trapeze", "table1"): trapeze_table1,
}


def by_hand(paper: Paper, item: str) -> dict[str, Decimal]:
    """What pencil and paper give for numbers of ``item``; empty where there is no formula."""
    found = Outcome()
    formula = BASELINES.get((paper.key, item))
    if formula is not None:
        formula(found, paper)
    return found.values
