"""The two constants of sonic-via that are fitted: what they must be for EDT's Figure 8.

    python bench/fit_edt.py            fits both, and says what comes out
    python bench/fit_edt.py --check    says what comes out of the platform as it is

``dma_init`` + ``dma_interrupt`` decides the gain at 64 bytes, ``cache_supply`` that at 4096; each
moves the other's a little, so they are found in turn, in steps of 10 ns, one bus cycle.  Lower
rates of the DMA engine are no part of this: those gains are predictions.
"""

from __future__ import annotations

import functools
import sys

from nicscope.studies.latency.ping_pong import Setting, ping_pong

PLATFORM = "sonic-via"
EDT, OTHER = "edt", "cc-dma-intervention"
SMALL, LARGE = 64, 4096  # bytes
ASKED = {SMALL: 17.0, LARGE: 38.0}  # percent; EDT, abstract and 7.2
STEP = 10_000  # ps
HIGHEST = 100 * STEP
MEASURED = 8  # messages, once caches are warm


@functools.cache
def latency(mechanism: str, byte_count: int, surround: int, supply: int) -> int:
    """Ps of some messages, with ``surround`` for set-up and interrupt together."""
    changes = {
        "dma_init": surround // (2 * STEP) * STEP,
        "dma_interrupt": surround - surround // (2 * STEP) * STEP,
        "cache_supply": supply,
    }
    return ping_pong(Setting(PLATFORM, mechanism, changes), byte_count, MEASURED).total


def gain(byte_count: int, surround: int, supply: int) -> float:
    """Percent by which EDT's latency is below that of DMA with intervention."""
    edt, other = (latency(name, byte_count, surround, supply) for name in (EDT, OTHER))
    return 100 * (1 - edt / other)


def nearest(asked: float, gain_at: functools.partial[float]) -> int:
    """The step at which a gain that rises is nearest to ``asked``."""
    low, high = 0, HIGHEST
    while high - low > STEP:
        middle = (low + high) // (2 * STEP) * STEP
        low, high = (middle, high) if gain_at(middle) < asked else (low, middle)
    return min((low, high), key=lambda at: abs(gain_at(at) - asked))


def fit() -> tuple[int, int]:
    """Both constants, when neither moves any more."""
    surround, supply, before = 180_000, 110_000, (-1, -1)
    while (surround, supply) != before:
        before = surround, supply
        at_supply = functools.partial(lambda kept, at: gain(SMALL, at, kept), supply)
        surround = nearest(ASKED[SMALL], at_supply)
        at_surround = functools.partial(lambda kept, at: gain(LARGE, kept, at), surround)
        supply = nearest(ASKED[LARGE], at_surround)
        print(f"dma_init + dma_interrupt {surround // 1000} ns, cache_supply {supply // 1000} ns")
    return surround, supply


def main(words: list[str]) -> None:
    """Fit, or check."""
    from nicscope.config.platform import load_platform

    costs = load_platform(PLATFORM).costs
    stated = costs["dma_init"].high_ps + costs["dma_interrupt"].high_ps
    found = (stated, costs["cache_supply"].high_ps) if "--check" in words else fit()
    for size in ASKED:
        print(f"{size} bytes: {gain(size, *found):.1f} %, printed {ASKED[size]:.0f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
