"""EDT's Figures 8 and 9, and slower DMA: each latency of its three mechanisms simulated once."""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import TYPE_CHECKING

from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.bus.state import unfitted
from nicscope.studies.latency.parts import Part
from nicscope.studies.latency.report import PLATFORM, ask, measure

if TYPE_CHECKING:
    from nicscope.studies.latency.report import Latency
    from nicscope.studies.reproduce.verdict import Item, Outcome

EDT, INTERVENTION, RETRY = MEASURED = ("edt", "cc-dma-intervention", "cc-dma-retry")
SIZES = (64, 128, 256, 512, 1024, 2048, 4096)  # bytes; the plotted ones are not stated
MTU = 1500


PEAK = 1600  # MB/s


@functools.cache
def latency(
    mechanism: str, byte_count: int, dma_rate: int = PEAK, changes: tuple[str, ...] = ()
) -> Latency:
    """Of that mechanism and size on the platform of the paper, with ``changes`` of its settings."""
    question = ask(
        mechanisms=mechanism, sizes=str(byte_count), dma_rate=dma_rate, overrides=changes
    )
    return measure(question).latencies[0]


def gain(
    byte_count: int,
    dma_rate: int = PEAK,
    changes: tuple[str, ...] = (),
    *,
    over: str = INTERVENTION,
) -> float:
    """Percent by which EDT's latency is below that of another; the receiver's loads are in none."""
    edt, other = (latency(name, byte_count, dma_rate, changes) for name in (EDT, over))
    return 100 * (1 - edt.until_seen() / other.until_seen())


def gain_with_loads(
    byte_count: int, changes: tuple[str, ...] = (), *, over: str = INTERVENTION
) -> float:
    """The same of messages that have been read."""
    edt, other = (latency(name, byte_count, changes=changes) for name in (EDT, over))
    return 100 * (1 - edt.cycles() / other.cycles())


def same(counts: list[float], within: float = 0.01) -> bool:
    """Whether no two differ by more than that share of the larger."""
    return max(counts) - min(counts) <= within * max(counts)


def rising(counts: list[float]) -> bool:
    """Whether each is larger than the one before."""
    return all(low < high for low, high in pairwise(counts))


def listed(counts: list[float], digits: int = 0) -> str:
    """Numbers in a line of evidence."""
    return ", ".join(f"{count:,.{digits}f}" for count in counts)


def figure8(outcome: Outcome, item: Item) -> None:
    """Figure 8: latency of three mechanisms from 64 to 4096 bytes, and what EDT gains.

    Play ping-pong at every size and look at the parts.
    """
    gains = [gain(size) for size in SIZES]
    for size in item.printed["message_bytes"]:
        outcome.point("gain", "%", gains[SIZES.index(size)], bytes=size)
        outcome.point("gain_with_loads", "%", gain_with_loads(size), bytes=size)
    largest = item.printed["message_bytes"][-1]
    slowest = max(gain(largest, over=one) for one in (INTERVENTION, RETRY))
    outcome.point("gain_over_both", "%", slowest, bytes=largest)
    _with_loads(outcome, item)
    outcome.shape("gain-grows", rising(gains), f"{listed(gains, 1)} % at {listed(list(SIZES))} B")
    by_size = {size: {name: latency(name, size) for name in MEASURED} for size in SIZES}
    outcome.shape(
        "order",
        all(rising([one[name].until_seen() for name in MEASURED]) for one in by_size.values()),
        "; ".join(
            f"cycles at {size} B: {listed([by_size[size][name].until_seen() for name in MEASURED])}"
            for size in (64, 4096)
        ),
    )
    written = {size: [one[name].user_data() for name in MEASURED] for size, one in by_size.items()}
    outcome.shape(
        "user-data-equal",
        all(same(counts) for counts in written.values())
        and rising([counts[0] for counts in written.values()]),
        f"cycles of EDT: {listed([counts[0] for counts in written.values()])}",
    )
    moved = {size: [one[name].transport() for name in MEASURED] for size, one in by_size.items()}
    outcome.shape(
        "transport-equal",
        all(same(counts) for counts in moved.values()),
        "cycles at 4096 B: " + listed(moved[4096]),
    )
    steps = [latency(EDT, size).transport() for size in (64, MTU, MTU + 1, 2 * MTU, 2 * MTU + 1)]
    outcome.shape(
        "transport-steps-at-the-mtu",
        steps[0] == steps[1] < steps[2] == steps[3] < steps[4],
        f"cycles at 64, 1500, 1501, 3000, 3001 B: {listed(steps)}",
    )
    blocks = [one[EDT].cycles(Part.COHERENCE) for one in by_size.values()]
    whole = [one[EDT].data_transfer() for one in by_size.values()]
    outcome.shape(
        "edt-transfers-by-write-back",
        all(same(list(pair)) for pair in zip(blocks, whole, strict=True)),
        f"cycles of write-back and of all Data Transfer at 4096 B: {blocks[-1]:,.0f}, "
        f"{whole[-1]:,.0f}",
    )


def _with_loads(outcome: Outcome, item: Item) -> None:
    """Look for a time of a cache's answer that gives the large gain of messages that are read.

    The longest that leaves DMA with intervention no slower than with retry is found by halves: a
    block costs more the longer the answer takes, and with retry nobody waits for it.
    """
    size, asked = item.printed["message_bytes"][-1], item.printed["gain_percent"][-1]
    low, high = 0, MOST_SUPPLY
    while high - low > CYCLE:
        middle = (low + high) // (2 * CYCLE) * CYCLE
        by = (f"cache_supply={middle}",)
        fast, slow = (latency(name, size, changes=by).cycles() for name in (INTERVENTION, RETRY))
        low, high = (middle, high) if fast <= slow else (low, middle)
    most = gain_with_loads(size, (f"cache_supply={low}",))
    outcome.shape(
        "loads-leave-no-room",
        most < asked - 1,
        f"{most:.1f} % at most, with {low // 1000} ns",
    )


CYCLE = 10_000  # ps, of the bus
MOST_SUPPLY = 64 * CYCLE
BELOW_THE_MTU = (64, 128, 256, 512, 1024)
CONSTANT = (Part.DMA_INIT, Part.DMA_INTERRUPT, Part.SEND, Part.RECEIVE)


def figure9(outcome: Outcome, item: Item) -> None:
    """Figure 9: what a message of 256 bytes spends its latency on.

    Take one latency of each mechanism apart.
    """
    size = item.printed["message_bytes"]
    pies = {name: latency(name, size) for name in MEASURED}
    outcome.shape(
        "parts-add-up",
        all(sum(pie.parts_ps.values()) == pie.total_ps for pie in pies.values()),
        "; ".join(f"{name} {_shares(name, size)}" for name in MEASURED),
    )
    fixed = all(
        len({latency(name, one).cycles(part) for one in BELOW_THE_MTU}) == 1
        for name in (INTERVENTION, RETRY)
        for part in CONSTANT
    )
    growing = all(
        rising([latency(name, one).cycles(Part.DMA_EXEC) for one in BELOW_THE_MTU])
        for name in (INTERVENTION, RETRY)
    )
    constant = sum(pies[INTERVENTION].cycles(part) for part in CONSTANT)
    outcome.shape(
        "only-exec-grows",
        fixed and growing,
        f"64 to 1024 B with intervention: {constant:,.0f} cycles stay, DMA Exec goes from "
        f"{latency(INTERVENTION, 64).cycles(Part.DMA_EXEC):,.0f} to "
        f"{latency(INTERVENTION, 1024).cycles(Part.DMA_EXEC):,.0f}",
    )
    run_of = {name: pies[name].cycles(Part.DMA_EXEC) for name in MEASURED}
    outcome.shape(
        "exec-larger-with-retry",
        run_of[RETRY] > run_of[INTERVENTION],
        f"cycles: {run_of[RETRY]:,.0f} with retry, {run_of[INTERVENTION]:,.0f} with intervention",
    )
    engine = (Part.DMA_INIT, Part.DMA_EXEC, Part.DMA_INTERRUPT)
    outcome.shape(
        "edt-has-no-dma",
        pies[EDT].cycles(*engine) == 0,
        f"cycles of EDT in the DMA engine: {pies[EDT].cycles(*engine):.0f}",
    )


def _shares(name: str, size: int) -> str:
    """The slices, in percent, that are not empty."""
    pie = latency(name, size)
    slices = [
        f"{part.name.lower().replace('_', ' ')} {100 * pie.cycles(part) / pie.cycles():.0f} %"
        for part in Part
        if pie.cycles(part)
    ]
    return ", ".join(slices)


def fitted_bursts(rate: int) -> tuple[str, ...]:
    """Another master has what DMA at ``rate`` leaves of the bus, in bursts of the fitted length."""
    return bursts(rate, load_platform(PLATFORM).machine["background_bytes"].value)


def bursts(rate: int, byte_count: int | float) -> tuple[str, ...]:
    """The same in bursts of ``byte_count``."""
    return (f"background_percent={100 - 100 * rate // PEAK}", f"background_bytes={byte_count}")


def contention(outcome: Outcome, item: Item) -> None:
    """The gain of EDT where another master's bursts are why DMA is slower.

    Give the rest of the bus to a background master, in bursts of a page and of the fitted length.
    """
    small, large = item.printed["message_bytes"]
    for rate in item.printed["dma_mbytes_s"]:
        page, long = bursts(rate, unfitted().host["background_bytes"]), fitted_bursts(rate)
        outcome.point("low_end_page", "%", gain(small, rate, page), mbytes_s=rate)
        outcome.point("high_end_page", "%", gain(large, rate, page), mbytes_s=rate)
        outcome.point(f"low_end_fitted_at_{rate}", "%", gain(small, rate, long))
        outcome.point("high_end_fitted", "%", gain(large, rate, long), mbytes_s=rate)


def dma_rate(outcome: Outcome, item: Item) -> None:
    """The gain of EDT with DMA at 75 and 50 % of its peak rate.

    Repeat Figure 8 at lower rates; nothing is fitted here.
    """
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
