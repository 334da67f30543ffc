"""miNI V.C: delay and processing of misses, from the kernel thread of a running node."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import load_design, with_settings
from nicscope.studies.handle_misses import measure
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Item

BYTES = 64
TRIPS = 20
PLACES = {"low": Fraction(0), "high": Fraction(1)}
CACHES = ((8192, 8, 2), (8192, 128, 8), (16384, 64, 4), (32768, 16, 8), (32768, 128, 2))
PROGRAM_US = 100.0  # a busy program works without rest, so long at a time


class Penalties(NamedTuple):
    """Of every miss of a run, in us."""

    delays: list[float]
    processings: list[float]


def run(item: Item) -> Outcome:
    """Measure at both ends of the ranges, for several caches, and beside a busy program."""
    outcome = Outcome()
    ends = {name: _penalties(place=place) for name, place in PLACES.items()}
    for name, found in ends.items():
        mean = (sum(found.delays) + sum(found.processings)) / len(found.delays)
        outcome.point("penalty_without_other_work", "us", mean, place=name)
    delay, processing = item.printed["delay_us"], item.printed["processing_us"]
    delays = [each for found in ends.values() for each in found.delays]
    processings = [each for found in ends.values() for each in found.processings]
    outcome.shape(
        "ranges-hold-on-an-idle-host",
        _within(delays, delay) and _within(processings, processing),
        f"{_span(delays)} and {_span(processings)} us",
    )
    _caches(outcome)
    _busy(outcome)
    return outcome


def _caches(outcome: Outcome) -> None:
    found = {
        f"C{entries // 1024} L{line} A{ways}": _penalties(entries, line, ways)
        for entries, line, ways in CACHES
    }
    ours = [
        (
            sorted(round(each, 6) for each in one.delays),
            sorted(round(each, 6) for each in one.processings),
        )
        for one in found.values()
    ]
    outcome.shape(
        "cache-does-not-matter",
        all(one == ours[0] for one in ours),
        f"{', '.join(found)}: {_span(ours[0][0])} and {_span(ours[0][1])} us",
    )


def _busy(outcome: Outcome) -> None:
    idle, busy = _penalties(), _penalties(busy_us=PROGRAM_US)
    outcome.shape(
        "a-busy-host-delays",
        max(busy.delays) > max(idle.delays) and _span(busy.processings) == _span(idle.processings),
        f"{_span(idle.delays)} us idle, {_span(busy.delays)} busy; "
        f"processing {_span(idle.processings)} and {_span(busy.processings)} us",
    )


def _penalties(
    entries: int = 16384,
    line: int = 64,
    ways: int = 4,
    place: Fraction | None = None,
    busy_us: float = 0.0,
) -> Penalties:
    settings = [f"entries={entries}", f"line={line}", f"ways={ways}"]
    design = with_settings(load_design("mini"), settings)
    found = measure(BYTES, 1.0, TRIPS, design, place, busy_us)
    parts = [trip.parts for trip in found.trips if trip.parts is not None]
    return Penalties([each.delay for each in parts], [each.processing for each in parts])


def _within(values: list[float], bounds: list[float]) -> bool:
    slack = 1e-6  # of adding floats
    return bounds[0] - slack <= min(values) and max(values) <= bounds[1] + slack


def _span(values: list[float]) -> str:
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return low if low == high else f"{low} to {high}"
