"""The three constants of sonic-via that are fitted: what they must be for EDT's Figure 8 and 7.2.

    python bench/fit_edt.py            fits them, and says what comes out
    python bench/fit_edt.py --check    says what comes out of the platform as it is

``dma_init`` + ``dma_interrupt`` decides the gain at 64 bytes, ``cache_supply`` that at 4096; each
moves the other's a little, so they are found in turn, in steps of 10 ns, one bus cycle.  Then
``background_bytes`` decides the gain at 64 bytes where another master has a quarter of the bus, in
steps of 16 bytes, one bus cycle too.  The other gains at lower rates are no part of this.  The
clock is the paper's: it stops when the receiver knows that the message is there.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

from nicscope.studies.latency import Setting, ping_pong

if TYPE_CHECKING:
    from collections.abc import Callable

PLATFORM = "sonic-via"
EDT, OTHER = "edt", "cc-dma-intervention"
SMALL, LARGE = 64, 4096  # bytes
ASKED = {SMALL: 17.0, LARGE: 38.0}  # percent; EDT, abstract and 7.2
STEP = 10_000  # ps
HIGHEST = 100 * STEP
CONTENDED = {"dma_mbytes_s": 1200, "background_percent": 25}  # EDT, 7.2: 75 % of the peak
CONTENDED_GAIN = 27.0  # percent, at 64 bytes
BEAT = 16  # bytes
LONGEST = 1024 * BEAT


@functools.cache
def latency(
    mechanism: str, byte_count: int, surround: int, supply: int, burst: int | None = None
) -> float:
    """Ps of a message; ``surround`` is set-up and interrupt together, ``burst`` None for none."""
    changes = {
        "dma_init": surround // (2 * STEP) * STEP,
        "dma_interrupt": surround - surround // (2 * STEP) * STEP,
        "cache_supply": supply,
    }
    if burst is not None:
        changes |= CONTENDED | {"background_bytes": burst}
    found = ping_pong(Setting(PLATFORM, mechanism, changes), byte_count)
    return found.until_seen / found.messages


def gain(byte_count: int, surround: int, supply: int, burst: int | None = None) -> float:
    """Percent by which EDT's latency is below that of DMA with intervention."""
    edt, other = (latency(name, byte_count, surround, supply, burst) for name in (EDT, OTHER))
    return 100 * (1 - edt / other)


def nearest(
    asked: float, gain_at: Callable[[int], float], step: int = STEP, highest: int = HIGHEST
) -> int:
    """The step at which a gain that rises is nearest to ``asked``."""
    low, high = 0, highest
    while high - low > step:
        middle = (low + high) // (2 * step) * step
        low, high = (middle, high) if gain_at(middle) < asked else (low, middle)
    return min((low, high), key=lambda at: abs(gain_at(at) - asked))


def fit() -> tuple[int, int, int]:
    """Both constants, when neither moves any more, and then the third."""
    surround, supply, before = 180_000, 110_000, (-1, -1)
    while (surround, supply) != before:
        before = surround, supply
        at_supply = functools.partial(lambda kept, at: gain(SMALL, at, kept), supply)
        surround = nearest(ASKED[SMALL], at_supply)
        at_surround = functools.partial(lambda kept, at: gain(LARGE, kept, at), surround)
        supply = nearest(ASKED[LARGE], at_surround)
        print(f"dma_init + dma_interrupt {surround // 1000} ns, cache_supply {supply // 1000} ns")
    at_both = functools.partial(gain, SMALL, surround, supply)
    burst = nearest(CONTENDED_GAIN, lambda at: at_both(max(at, BEAT)), BEAT, LONGEST)
    print(f"background_bytes {burst}")
    return surround, supply, burst


def main(words: list[str]) -> None:
    """Fit, or check."""
    from nicscope.config.platform import load_platform

    platform = load_platform(PLATFORM)
    costs = platform.costs
    stated = costs["dma_init"].high_ps + costs["dma_interrupt"].high_ps
    kept = stated, costs["cache_supply"].high_ps, platform.machine["background_bytes"].value
    found = kept if "--check" in words else fit()
    for size in ASKED:
        print(f"{size} bytes: {gain(size, *found[:2]):.1f} %, printed {ASKED[size]:.0f} %")
    print(f"{SMALL} bytes, contended: {gain(SMALL, *found):.1f} %, printed {CONTENDED_GAIN:.0f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
