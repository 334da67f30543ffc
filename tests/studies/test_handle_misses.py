"""A ping-pong with a controlled miss ratio, and what a miss adds to it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from nicscope.config.design import load_design, with_settings
from nicscope.interfaces.mini.cluster import TIME_OUT_PS
from nicscope.studies.handle_misses import measure

SMALL = with_settings(load_design("mini"), ["entries=64", "line=4", "ways=2"])


@pytest.mark.requirement("MI-52")
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_the_ratio_is_the_one_asked_for_and_on_one_side(ratio):
    found = measure(64, ratio, 10, SMALL)

    assert (found.misses, found.other_misses) == (round(10 * ratio), 0)
    assert sum(trip.parts is not None for trip in found.trips) == found.misses


@pytest.mark.requirement("MI-52")
@pytest.mark.requirement("MI-27")
def test_a_miss_adds_a_first_try_and_the_timer():
    hits, misses = (measure(4096, ratio, 5, SMALL) for ratio in (0.0, 1.0))
    parts = misses.parts
    assert parts is not None
    assert hits.hit_us is not None

    # The timer runs from when the packet has left: the payload passes by meanwhile.
    waited = parts.delay + parts.processing + parts.timer
    assert TIME_OUT_PS / 1e6 < waited < TIME_OUT_PS / 1e6 + hits.hit_us
    assert parts.sending_again == pytest.approx(hits.hit_us, rel=0.05)
    assert 2 * misses.latency_us == pytest.approx(sum(parts))


@pytest.mark.requirement("MI-58")
@pytest.mark.parametrize(("place", "delay", "processing"), [(0, 0, 5), (1, 50, 500)])
def test_delay_and_processing_are_the_ends_of_the_ranges(place, delay, processing):
    parts = measure(64, 1.0, 3, SMALL, Fraction(place)).parts
    assert parts is not None

    assert (parts.delay, parts.processing) == pytest.approx((delay, processing), abs=1e-6)


@pytest.mark.requirement("MI-58")
def test_a_busy_processor_lengthens_the_delay_and_not_the_processing():
    idle, busy = (measure(64, 1.0, 5, SMALL, busy_us=busy).trips for busy in (0.0, 100.0))

    delays, processings = (
        [[getattr(trip.parts, part) for trip in trips] for trips in (idle, busy)]
        for part in ("delay", "processing")
    )
    assert max(delays[1]) > max(delays[0])
    assert processings[1] == pytest.approx(processings[0])


@pytest.mark.requirement("MI-50")
def test_messages_of_pages_go_at_almost_the_rate_of_the_papers_bus():
    assert 95 < measure(8192, 0.0, 1, SMALL).mbytes_s < 133


def test_a_message_longer_than_a_line_is_refused():
    with pytest.raises(ValueError, match="20000 bytes do not fit in a line of 4 pages"):
        measure(20_000, 0.5, 1, SMALL)
