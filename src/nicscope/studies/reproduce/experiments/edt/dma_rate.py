"""The gain of EDT with DMA at 75 and 50 % of its peak rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.edt_latencies import EDT, SIZES, gain, latency, listed, rising
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item


def run(item: Item) -> Outcome:
    """Repeat Figure 8 at lower rates; nothing is fitted here."""
    outcome = Outcome()
    rates = item.printed["dma_mbytes_s"]
    gains = {rate: [gain(size, rate) for size in SIZES] for rate in rates}
    for rate in rates[1:]:
        outcome.point("high_end", "%", max(gains[rate]), mbytes_s=rate)
        outcome.point("low_end", "%", min(gains[rate]), mbytes_s=rate)
    by_size = [[gains[rate][place] for rate in rates] for place in range(len(SIZES))]
    outcome.shape(
        "slower-dma-larger-gain",
        all(rising(row) for row in by_size),
        f"at 1600, 1200, 800 MB/s: {listed(by_size[0], 2)} % at 64 B, "
        f"{listed(by_size[-1], 2)} % at 4096 B",
    )
    # Let x be T_intervention / T_EDT: what slower DMA must add, in latencies of EDT, and in cycles.
    lows = [1 / (1 - percent / 100) for percent in item.printed["gain_percent_low"]]
    asked = (lows[-1] - lows[0]) * latency(EDT, 64).cycles()
    # Descriptor and message out, message in: 48 + 64 + 64 bytes, at 1/800 - 1/1600 us each.
    given = (48 + 64 + 64) * (1000 / 800 - 1000 / 1600)
    outcome.shape(
        "low-end-moves-too-far",
        given < asked / 4,
        f"printed: {asked:,.0f} cycles more at 800 MB/s; 176 bytes at half the rate: {given:,.0f}",
    )
    return outcome
