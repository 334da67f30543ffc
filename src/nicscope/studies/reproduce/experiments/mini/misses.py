"""miNI V.B and V.C: what misses on one side do to latency and bandwidth, and what each takes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.config.design import load_design, with_settings
from nicscope.studies.handle_misses import PAGE, ROUND_TRIPS, by_page, measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.handle_misses import MissPoint
    from nicscope.studies.reproduce.verdict import Item, Outcome

SIZES = (64, 256, 1024, 4096, 16384, 65536)  # bytes
RATIOS = tuple(tenth / 10 for tenth in range(11))
HALF = 5  # place of the ratio 0.5
LINEAR = 0.99
# How far the second sending of a message may differ from a round trip without a miss: it needs no
# post, and its packets no translation.
LIKE_A_ROUND_TRIP = 0.25


AGREE = 0.02  # how far readings may differ that are of the same lookups


def figure4(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - sizes and ratios stand in its notes, in words
    """MiNI Figure 4: what misses on one side do to latency and bandwidth.

    Play every size at every ratio of lookups, and once more by messages.
    """
    curves = {size: [measure(size, ratio, design=by_page()) for ratio in RATIOS] for size in SIZES}
    _latency(outcome, curves)
    _bandwidth(outcome, curves)
    _by_message(outcome, curves)
    _sides(outcome, curves)
    _parts(outcome, curves)


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
        _losses(lost),
    )


def _losses(lost: Sequence[float]) -> str:
    return ", ".join(f"{size} B {each:.1f} MB/s" for size, each in zip(SIZES, lost, strict=True))


def _by_message(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    """The other reading: a message misses once, whatever its length, or not at all."""
    by_lookup, by_message = [], []
    for size, curve in curves.items():
        by_lookup.append(curve[0].mbytes_s - curve[HALF].mbytes_s)
        without, half = (measure(size, ratio) for ratio in (0.0, RATIOS[HALF]))
        by_message.append(without.mbytes_s - half.mbytes_s)
    pairs = [*zip(SIZES, by_lookup, by_message, strict=True)]
    outcome.shape(
        "per-message-loses-less",
        all(
            abs(other / each - 1) <= AGREE if size <= PAGE else other < each
            for size, each, other in pairs
        ),
        f"per message {_losses(by_message)}",
    )


def _sides(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    points = [point for curve in curves.values() for point in curve]
    pages = [-(-point.byte_count // PAGE) for point in points]
    worst = max(
        abs(point.misses / count - point.asked * ROUND_TRIPS)
        for point, count in zip(points, pages, strict=True)
    )
    other = max(point.other_misses for point in points)
    outcome.shape(
        "misses-on-one-side",
        other == 0 and worst <= 1,
        f"{other} misses where the ping-pong begins, elsewhere off by {worst:.2g} of "
        f"{ROUND_TRIPS} messages",
    )


def _parts(outcome: Outcome, curves: dict[int, list[MissPoint]]) -> None:
    """Of messages with one lookup: of the missing trips by their stations, else by themselves."""
    off, unlike = 0.0, 0.0
    for curve in (curve for size, curve in curves.items() if size <= PAGE):
        whole = curve[0].hit_us
        assert whole is not None
        for point in curve:
            hits = [trip.round_trip_us for trip in point.trips if not trip.missed]
            parts = point.parts
            missed = len(point.trips) - len(hits)
            added = 0.0 if parts is None else missed * sum(parts)
            latency = (sum(hits) + added) / len(point.trips) / 2
            off = max(off, abs(latency / point.latency_us - 1))
            if parts is not None:
                unlike = max(unlike, abs(parts.sending_again / whole - 1))
    large = curves[PAGE][-1].parts
    assert large is not None
    outcome.shape(
        "parts-add-up",
        off < 1e-9 and unlike < LIKE_A_ROUND_TRIP,
        f"to {off:.1g}; sending again is a round trip without a miss to {100 * unlike:.0f} %; "
        f"{PAGE} B: "
        + ", ".join(f"{name} {value:.1f} us" for name, value in large._asdict().items()),
    )


def _line(latencies: Sequence[float]) -> tuple[float, float]:
    """Slope and R^2 of the straight line through latency by ratio."""
    ratios = np.array(RATIOS)
    measured = np.array(latencies)
    slope, start = np.polyfit(ratios, measured, 1)
    left = measured - (start + slope * ratios)
    return float(slope), float(1 - (left**2).sum() / ((measured - measured.mean()) ** 2).sum())


BYTES = 64
TRIPS = 20
PLACES = {"low": Fraction(0), "high": Fraction(1)}
BEST = (16384, 64, 4)  # entries, entries of a line, ways
CACHES = ((8192, 8, 2), (8192, 128, 8), BEST, (32768, 16, 8), (32768, 128, 2))
FIRST_USES = 5
PROCESSORS = 2  # of a node (miNI, Table II)
PROGRAM_US = 100.0  # a busy program works without rest, so long at a time


class Penalties(NamedTuple):
    """Of every miss of a run, in us."""

    delays: list[float]
    processings: list[float]


def miss_penalty(outcome: Outcome, item: Item) -> None:
    """MiNI V.C: delay and processing of misses, from the kernel thread of a running node.

    Measure at both ends of the delay's range, for several caches, with pages pinned before or by
    the miss, and beside busy programs.
    """
    ends = {name: _penalties(place=place) for name, place in PLACES.items()}
    for name, found in ends.items():
        mean = (sum(found.delays) + sum(found.processings)) / len(found.delays)
        outcome.point("penalty_of_entries_that_the_host_has", "us", mean, place=name)
    pinning = {cache: _penalties(cache=cache, trips=FIRST_USES, pinned=False) for cache in CACHES}
    delay, processing = item.printed["delay_us"], item.printed["processing_us"]
    every = [*ends.values(), *pinning.values()]
    delays = [each for found in every for each in found.delays]
    processings = [each for found in every for each in found.processings]
    outcome.shape(
        "ranges-hold-on-an-idle-host",
        _within(delays, delay) and _within(processings, processing),
        f"{_span(delays)} and {_span(processings)} us",
    )
    _caches(outcome)
    _lines(outcome, pinning)
    _busy(outcome)


def _caches(outcome: Outcome) -> None:
    found = {cache: _penalties(cache=cache) for cache in CACHES}
    ours = [(_distribution(one.delays), _distribution(one.processings)) for one in found.values()]
    outcome.shape(
        "cache-does-not-matter-where-nothing-is-pinned",
        all(one == ours[0] for one in ours),
        f"{', '.join(map(_called, found))}: {_span(ours[0][0])} and {_span(ours[0][1])} us",
    )


def _lines(outcome: Outcome, pinning: dict[tuple[int, int, int], Penalties]) -> None:
    by_line: dict[int, set[float]] = {}
    for (_, line, _), found in pinning.items():
        by_line.setdefault(line, set()).update(round(each, 6) for each in found.processings)
    delays = [_distribution(found.delays) for found in pinning.values()]
    rising = [by_line[line] for line in sorted(by_line)]
    outcome.shape(
        "longer-lines-take-longer-to-pin",
        all(max(short) < min(long) for short, long in pairwise(rising))
        and all(one == delays[0] for one in delays),
        "; ".join(f"lines of {line}: {_span([*by_line[line]])} us" for line in sorted(by_line)),
    )


def _distribution(values: list[float]) -> list[float]:
    return sorted(round(each, 6) for each in values)


def _called(cache: tuple[int, int, int]) -> str:
    entries, line, ways = cache
    return f"C{entries // 1024} L{line} A{ways}"


def _busy(outcome: Outcome) -> None:
    idle, one, all_ = (_penalties(busy_programs=many) for many in range(PROCESSORS + 1))
    alike = [_span(found.processings) for found in (idle, one, all_)]
    outcome.shape(
        "a-busy-host-delays",
        max(all_.delays) > max(idle.delays)
        and _distribution(one.delays) == _distribution(idle.delays)
        and len(set(alike)) == 1,
        f"{_span(idle.delays)} us idle, {_span(one.delays)} with one processor busy, "
        f"{_span(all_.delays)} with both; processing {', '.join(alike)} us",
    )


def _penalties(
    cache: tuple[int, int, int] = BEST,
    place: Fraction | None = None,
    *,
    trips: int = TRIPS,
    busy_programs: int = 0,
    pinned: bool = True,
) -> Penalties:
    entries, line, ways = cache
    settings = [f"entries={entries}", f"line={line}", f"ways={ways}"]
    design = with_settings(load_design("mini"), settings)
    found = measure(
        BYTES, 1.0, trips, design, place,
        busy_us=PROGRAM_US if busy_programs else 0.0, busy_programs=busy_programs, pinned=pinned,
    )  # fmt: skip
    parts = [trip.parts for trip in found.trips if trip.parts is not None]
    return Penalties([each.delay for each in parts], [each.processing for each in parts])


def _within(values: list[float], bounds: list[float]) -> bool:
    slack = 1e-6  # of adding floats
    return bounds[0] - slack <= min(values) and max(values) <= bounds[1] + slack


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"
