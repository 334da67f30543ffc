"""miNI Figure 4: what misses on one side do to latency and bandwidth."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nicscope.studies.handle_misses import ROUND_TRIPS, measure
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.handle_misses import MissPoint
    from nicscope.studies.reproduce.verdict import Item

SIZES = (64, 256, 1024, 4096, 16384, 65536)  # bytes
RATIOS = tuple(tenth / 10 for tenth in range(11))
HALF = 5  # place of the ratio 0.5
LINEAR = 0.99
# How far the second sending of a message may differ from a round trip without a miss: it needs no
# post, and its packets no translation.
LIKE_A_ROUND_TRIP = 0.25


def run(item: Item) -> Outcome:  # noqa: ARG001 - sizes and ratios stand in its notes, in words
    """Play every size at every ratio."""
    curves = {size: [measure(size, ratio) for ratio in RATIOS] for size in SIZES}
    outcome = Outcome()
    _latency(outcome, curves)
    _bandwidth(outcome, curves)
    _sides(outcome, curves)
    _parts(outcome, curves)
    return outcome


def _latency(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    fits = {size: _line([point.latency_us for point in curve]) for size, curve in curves.items()}
    outcome.shape(
        "latency-is-linear",
        all(fit[1] >= LINEAR for fit in fits.values()),
        f"R^2 of {min(fit[1] for fit in fits.values()):.6f} or more",
    )
    slopes = [fit[0] for fit in fits.values()]
    outcome.shape(
        "larger-messages-rise-more",
        slopes[0] > 0 and all(small < large for small, large in pairwise(slopes)),
        ", ".join(f"{size} B {fit[0]:.1f} us" for size, fit in fits.items()),
    )


def _bandwidth(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    rates = {size: [point.mbytes_s for point in curve] for size, curve in curves.items()}
    falls = {size: [a - b for a, b in pairwise(rate)] for size, rate in rates.items()}
    outcome.shape(
        "bandwidth-falls",
        all(fall > 0 for each in falls.values() for fall in each),
        ", ".join(f"{size} B {rate[0]:.1f} to {rate[-1]:.2f} MB/s" for size, rate in rates.items()),
    )
    outcome.shape(
        "bandwidth-falls-fastest-at-first",
        all(each[0] == max(each) for each in falls.values()),
        ", ".join(
            f"{size} B {each[0]:.2f}, then {max(each[1:]):.2f} MB/s" for size, each in falls.items()
        ),
    )
    lost = [rate[0] - rate[HALF] for rate in rates.values()]
    outcome.shape(
        "larger-messages-lose-more",
        all(small < large for small, large in pairwise(lost)),
        ", ".join(f"{size} B {each:.1f} MB/s" for size, each in zip(SIZES, lost, strict=True)),
    )


def _sides(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    points = [point for curve in curves.values() for point in curve]
    worst = max(abs(point.misses - point.asked * ROUND_TRIPS) for point in points)
    other = max(point.other_misses for point in points)
    outcome.shape(
        "misses-on-one-side",
        other == 0 and worst <= 1,
        f"{other} misses where the ping-pong begins, elsewhere off by {worst:.2g} of {ROUND_TRIPS}",
    )


def _parts(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    """Of the missing trips by their stations, of the others by themselves."""
    off, unlike = 0.0, 0.0
    for curve in curves.values():
        whole = curve[0].hit_us
        assert whole is not None
        for point in curve:
            hits = [trip.round_trip_us for trip in point.trips if trip.parts is None]
            parts = point.parts
            missed = len(point.trips) - len(hits)
            added = 0.0 if parts is None else missed * sum(parts)
            latency = (sum(hits) + added) / len(point.trips) / 2
            off = max(off, abs(latency / point.latency_us - 1))
            if parts is not None:
                unlike = max(unlike, abs(parts.sending_again / whole - 1))
    large = curves[SIZES[-1]][-1].parts
    assert large is not None
    outcome.shape(
        "parts-add-up",
        off < 1e-9 and unlike < LIKE_A_ROUND_TRIP,
        f"to {off:.1g}; sending again is a round trip without a miss to {100 * unlike:.0f} %; "
        f"{SIZES[-1]} B: "
        + ", ".join(f"{name} {value:.1f} us" for name, value in large._asdict().items()),
    )


def _line(latencies: Sequence[float]) -> tuple[float, float]:
    """Slope and R^2 of the straight line through latency by ratio."""
    ratios = np.array(RATIOS)
    measured = np.array(latencies)
    slope, start = np.polyfit(ratios, measured, 1)
    left = measured - (start + slope * ratios)
    return float(slope), float(1 - (left**2).sum() / ((measured - measured.mean()) ** 2).sum())
