"""What miNI says that its dynamic handle lookup does, in traces short enough to follow."""

import pytest
from test_mechanisms import counted, total, touch


@pytest.mark.requirement("MI-21", "MI-38", "MI-48")
def test_processes_compete_for_the_sets_as_their_number_is_no_part_of_the_index():
    rows = [touch(0, pid=pid) for pid in range(4)] * 3
    names = "ni_misses ni_misses_conflict"
    assert counted(rows, names, scheme="handle", entries=64, ways=2) == (12, 8)
    assert counted(rows, names, scheme="handle", entries=64, ways=4) == (4, 0)


@pytest.mark.requirement("MI-36", "MI-39")
def test_a_miss_fills_the_whole_aligned_line_and_pins_what_is_not_pinned_yet():
    rows = [touch(6), touch(4), touch(7), touch(8)]
    names = "ni_misses pins pin_calls"
    assert counted(rows, names, scheme="handle", entries=32, line=4) == (2, 8, 2)


@pytest.mark.requirement("MI-26")
def test_a_miss_interrupts_and_drops_its_request_once():
    rows = [touch(0, 9)]
    names = "lookups ni_misses interrupts dropped"
    assert counted(rows, names, scheme="handle", entries=32, line=4) == (9, 3, 3, 3)


@pytest.mark.requirement("MI-30")
def test_one_cache_serves_both_paths():
    rows = [touch(0), touch(1, op="recv"), touch(0, op="recv")]
    names = "ni_misses_send ni_misses_receive"
    assert counted(rows, names, scheme="handle", entries=32, line=4) == (1, 0)


@pytest.mark.requirement("MI-20", "MI-36", "MI-42")
def test_a_line_that_was_displaced_stays_pinned_and_comes_back_without_a_pin():
    rows = [touch(0), touch(32), touch(0)]
    names = "ni_misses pins unpins"
    assert counted(rows, names, scheme="handle", entries=32, line=4) == (3, 8, 0)


@pytest.mark.requirement("MI-43")
def test_above_high_water_lines_that_left_the_nic_are_unpinned_and_no_others():
    rows = [touch(0), touch(1), touch(2), touch(3)]  # all in one set of two
    design = {"scheme": "handle", "entries": 2, "ways": 2}
    assert counted(rows, "pins unpins", **design, high_water=3) == (4, 1)
    assert counted(rows[:2], "pins unpins", **design, high_water=1) == (2, 0)
    assert total([*rows, touch(1)], **design, high_water=3)["pins"] == 4
    assert total([*rows, touch(0)], **design, high_water=3)["pins"] == 5


@pytest.mark.requirement("MI-47")
def test_communication_memory_may_exceed_the_cache_by_far():
    rows = [touch(64 * i, 64, pid=i % 50) for i in range(100)]
    names = "rejected pins"
    assert counted(rows, names, scheme="handle", entries=64, line=8, ways=2) == (0, 6400)
