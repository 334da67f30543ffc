"""A ping-pong with a controlled miss ratio, and what a miss adds to it."""

from fractions import Fraction

import pytest

from nicscope.config.design import load_design, with_settings
from nicscope.interfaces.mini import TIME_OUT_PS
from nicscope.studies.handle_misses import measure
from refusals import refused

pytestmark = pytest.mark.compiled  # messages by the hundred

SMALL = with_settings(load_design("mini"), ["entries=64", "line=4", "ways=2"])


@pytest.mark.requirement("MI-52")
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_the_ratio_is_the_one_asked_for_and_on_one_side(ratio):
    found = measure(64, ratio, 10, SMALL)

    assert (found.misses, found.other_misses) == (round(10 * ratio), 0)
    assert sum(trip.parts is not None for trip in found.trips) == found.misses


@pytest.mark.requirement("MI-52")
@pytest.mark.parametrize(("line", "misses"), [(1, 3), (4, 1)])
def test_in_lines_of_a_page_a_message_misses_once_for_each_of_its_pages(line, misses):
    found = measure(3 * 4096, 0.5, 4, with_settings(SMALL, [f"line={line}"]))

    assert (found.misses, found.other_misses) == (2 * misses, 0)
    longer, shorter = found.trips[1].round_trip_us, found.trips[0].round_trip_us
    # Each waits for the sender's timer, which runs again from when that has sent again.
    assert misses * TIME_OUT_PS / 1e6 < longer - shorter < (misses + 0.5) * TIME_OUT_PS / 1e6


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
@pytest.mark.parametrize(("place", "delay"), [(0, 0), (1, 50)])
def test_the_delay_is_within_its_range_and_entries_that_the_host_has_are_only_copied(place, delay):
    parts = measure(64, 1.0, 3, SMALL, Fraction(place)).parts
    assert parts is not None

    assert (parts.delay, parts.processing) == pytest.approx((delay, 5), abs=1e-6)


@pytest.mark.requirement("MI-36", "MI-39", "MI-58")
@pytest.mark.parametrize("line", [1, 2, 8])
def test_a_miss_that_pins_takes_longer_by_each_page_of_its_line(line):
    design = with_settings(SMALL, [f"line={line}"])
    parts = measure(64, 1.0, 3, design, pinned=False).parts
    assert parts is not None

    assert parts.processing == pytest.approx(5 + line * 1.8, abs=1e-6)


@pytest.mark.requirement("MI-58")
def test_a_woken_thread_preempts_so_busy_processors_lengthen_neither_delay_nor_processing():
    idle, one, both = (
        measure(64, 1.0, 5, SMALL, busy_us=100.0, busy_programs=programs).trips
        for programs in (0, 1, 2)
    )

    delays, processings = (
        [[getattr(trip.parts, part) for trip in trips] for trips in (idle, one, both)]
        for part in ("delay", "processing")
    )
    for parts in (delays, processings):
        for other in parts[1:]:
            assert other == pytest.approx(parts[0])


@pytest.mark.requirement("MI-50")
def test_messages_of_pages_go_at_almost_the_rate_of_the_papers_bus():
    assert 95 < measure(8192, 0.0, 1, SMALL).mbytes_s < 133


def test_a_message_that_leaves_no_set_for_what_hits_is_refused():
    with refused(ValueError, "70000 bytes"):
        measure(70_000, 0.5, 1, SMALL)
