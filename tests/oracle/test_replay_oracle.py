"""The oracle itself: examples worked by hand, then what must hold for any trace and design."""

import pytest

from oracle.replay import replay
from oracle.touches import PAGE, counted, total, touch

# --- requests and nodes ---------------------------------------------------------------------


def test_a_request_of_two_bytes_over_a_page_boundary_is_two_lookups():
    rows = [(0, 0, 1, "send", PAGE - 1, 2), (0, 0, 1, "send", PAGE, PAGE)]
    # pages 0, 1; then page 1 alone
    assert total(rows, {"scheme": "utlb", "entries": 4})["lookups"] == 3
    # with pages of 512 bytes: bytes 4095 and 4096 are pages 7 and 8, then pages 8 .. 15
    assert total(rows, {"scheme": "utlb", "entries": 4, "page_size": 512})["lookups"] == 10


def test_a_page_size_that_is_given_also_rules_pinning():
    # 1025 bytes are pages 0, 1, 2 of 512 bytes
    row = (0, 0, 1, "recv", 0, 1025)
    assert total([row], {"scheme": "utlb", "entries": 4, "page_size": 512})["pins"] == 3


def test_the_paths_are_told_apart_by_the_operation():
    ops = ("send", "write", "serve_read", "recv", "read", "serve_write")
    for op, path in zip(ops, ["send"] * 3 + ["receive"] * 3, strict=True):
        got = counted([touch(0, op=op)], scheme="utlb", entries=4)
        assert got["ni_misses"] == got["ni_misses_" + path] == 1


def test_nodes_have_nics_of_their_own_and_their_peaks_are_added():
    rows = [touch(0, 2), touch(0, 2, node=3), touch(2, 2), touch(0, 2)]
    got = replay(rows, {"scheme": "interrupt", "entries": 2, "index_offset": False})
    # node 0: 0 1 | 2 3 | 0 1 all miss in two entries: 6 pins, 4 evictions, never more than 2
    # pinned; node 3: 2 pins
    assert [node["node"] for node in got["nodes"]] == [0, 3]
    assert [node["pins"] for node in got["nodes"]] == [6, 2]
    assert [node["peak_pinned_pages"] for node in got["nodes"]] == [2, 2]
    assert got["total"]["peak_pinned_pages"] == 4
    assert got["total"]["unpins"] == 4


# --- pinned ---------------------------------------------------------------------------------


def test_pinned_copies_what_fits_the_area():
    rows = [
        (0, 0, 1, "send", 0, 8192),  # 2 pages, fits exactly
        (0, 0, 1, "recv", 0, 8193),  # 3 pages, one byte too long
        (0, 0, 2, "send", 5, 100),  # another process, another area
    ]
    # lookups 2 + 3 + 1; copied 8192 + 100; two areas of two pages each
    assert counted(rows, scheme="pinned", area_bytes=8192) == {
        "requests": 3,
        "lookups": 6,
        "rejected": 1,
        "bytes_copied": 8292,
        "pins": 4,
        "pin_calls": 2,
        "peak_pinned_pages": 4,
    }


def test_pinned_areas_are_whole_pages_and_as_many_as_processes():
    rows = [touch(0, pid=1), touch(0, pid=2), touch(9, pid=1), touch(0, pid=1, node=1)]
    # 4097 bytes are 2 pages; two processes on node 0 and one on node 1: 4 + 2
    assert counted(rows, scheme="pinned", area_bytes=4097) == {
        "requests": 4,
        "lookups": 4,
        "bytes_copied": 4 * PAGE,
        "pins": 6,
        "pin_calls": 3,
        "peak_pinned_pages": 6,
    }


# --- static ---------------------------------------------------------------------------------


def test_static_rejects_each_page_that_finds_the_table_full():
    rows = [touch(0, 2), touch(1, 2), touch(3, 3), touch(0), touch(4)]
    # 0 1 enter; 1 is there, 2 enters; 3 takes the last of 4 entries, 4 and 5 find none;
    # 0 is still there; 4 finds none.  Lookups 2 + 2 + 3 + 1 + 1; runs 0-1, 2, 3
    assert counted(rows, scheme="static", entries=4) == {
        "requests": 5,
        "lookups": 9,
        "pins": 4,
        "pin_calls": 3,
        "rejected": 3,
        "peak_pinned_pages": 4,
    }


def test_static_registers_each_run_of_new_pages_by_one_call_for_each_process():
    rows = [touch(1), touch(0, 3), touch(0, pid=2)]
    # 1; then 0 and 2 on either side of it: two runs; then page 0 of another address space
    assert counted(rows, scheme="static", entries=8) == {
        "requests": 3,
        "lookups": 5,
        "pins": 4,
        "pin_calls": 4,
        "peak_pinned_pages": 4,
    }


# --- interrupt ------------------------------------------------------------------------------


def test_interrupt_unpins_what_its_set_evicts_and_calls_it_a_conflict():
    # two sets; 0 and 2 share set 0; the shadow of two entries holds both when 0 returns
    rows = [touch(0), touch(2), touch(0)]
    assert counted(rows, scheme="interrupt", entries=2, index_offset=False) == {
        "requests": 3,
        "lookups": 3,
        "ni_misses": 3,
        "ni_misses_send": 3,
        "ni_misses_compulsory": 2,
        "ni_misses_noncompulsory": 1,
        "ni_misses_conflict": 1,
        "interrupts": 3,
        "pins": 3,
        "unpins": 2,
        "peak_pinned_pages": 1,
    }


def test_interrupt_under_a_pin_limit_unpins_the_page_least_recently_looked_up():
    # limit 2: 0 and 1 enter; 0 hits and becomes most recent; 2 drops 1; 1 comes back
    # (invalidated) and drops 0, for 2 is younger
    rows = [touch(0), touch(1), touch(0), touch(2), touch(1)]
    assert counted(rows, scheme="interrupt", entries=4, ways=4, pin_limit=2) == {
        "requests": 5,
        "lookups": 5,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_invalidated": 1,
        "interrupts": 4,
        "pins": 4,
        "unpins": 2,
        "further_ways": 13,  # three for each miss, and 1 stands before 0 at the hit
        "peak_pinned_pages": 2,
    }


def test_interrupt_drops_for_the_limit_before_it_evicts_for_room():
    # one entry, limit 1: page 1 finds 0 dropped already and evicts nothing, so 0 was
    # invalidated, although one entry would not have held it anyway
    got = counted([touch(0), touch(1), touch(0)], scheme="interrupt", entries=1, pin_limit=1)
    assert (got["unpins"], got["ni_misses_invalidated"]) == (2, 1)
    assert "ni_misses_capacity" not in got


def test_interrupt_evicts_pages_of_other_processes():
    rows = [touch(0, pid=1), touch(0, pid=2), touch(1, pid=1), touch(0, pid=1, op="recv")]
    # two ways: the third lookup evicts page 0 of process 1, the fourth page 0 of process 2;
    # the shadow held (2, 0) and (1, 1) by then: capacity
    assert counted(rows, scheme="interrupt", entries=2, ways=2) == {
        "requests": 4,
        "lookups": 4,
        "ni_misses": 4,
        "ni_misses_send": 3,
        "ni_misses_receive": 1,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_capacity": 1,
        "interrupts": 4,
        "pins": 4,
        "unpins": 2,
        "further_ways": 4,  # one for each miss
        "peak_pinned_pages": 2,
    }


@pytest.mark.parametrize(("index_offset", "misses"), [(True, 2), (False, 4)])
def test_an_index_offset_keeps_equal_pages_of_two_processes_apart(index_offset, misses):
    rows = [touch(0, pid=30), touch(0, pid=20)] * 2
    design = {"scheme": "interrupt", "entries": 2, "index_offset": index_offset}
    # ordinals 0 and 1, two sets: apart with the offset, in each other's way without
    assert replay(rows, design, offset=lambda o, _: o)["total"]["ni_misses"] == misses


# --- unet-mm --------------------------------------------------------------------------------


def test_unet_mm_swaps_a_victim_hit_with_what_it_displaces():
    # two slots, pages 0 2 4 all in slot 0, one victim.  0: slot 0.  2: victims 0.
    # 0: victim hit, 2 takes its place.  4: victims 2 0, head 2 leaves.
    # 2: a shadow of three held it, conflict; victims 0 4, head 0 leaves
    rows = [touch(0), touch(2), touch(0), touch(4), touch(2)]
    assert counted(rows, scheme="unet-mm", entries=2, victim_entries=1) == {
        "requests": 5,
        "lookups": 5,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_conflict": 1,
        "victim_hits": 1,
        "interrupts": 4,
        "pins": 4,
        "unpins": 2,
        "peak_pinned_pages": 2,
    }


def test_unet_mm_victims_leave_in_the_order_in_which_they_came():
    # one slot, two victims.  0 1 2: victims 0 1.  0: hit, victims 1 2.  3: victims 1 2 0,
    # 1 leaves.  1: the shadow of three holds 2 0 3, capacity; victims 2 0 3, 2 leaves
    rows = [touch(page) for page in (0, 1, 2, 0, 3, 1)]
    assert counted(rows, scheme="unet-mm", entries=1, victim_entries=2) == {
        "requests": 6,
        "lookups": 6,
        "ni_misses": 5,
        "ni_misses_send": 5,
        "ni_misses_compulsory": 4,
        "ni_misses_noncompulsory": 1,
        "ni_misses_capacity": 1,
        "victim_hits": 1,
        "interrupts": 5,
        "pins": 5,
        "unpins": 2,
        "peak_pinned_pages": 3,
    }


def test_unet_mm_without_victims_unpins_what_is_displaced_before_it_pins():
    got = counted([touch(0), touch(1)], scheme="unet-mm", entries=1, victim_entries=0)
    assert (got["pins"], got["unpins"], got["peak_pinned_pages"]) == (2, 1, 1)


# --- handle ---------------------------------------------------------------------------------


def test_handle_fills_whole_lines_and_keeps_evicted_ones_pinned():
    rows = [touch(5, 2), touch(7, 2), touch(0), touch(9)]
    # 8 entries in lines of 4: two lines, two sets.  5: line 1, pins 4 .. 7; 6, 7 hit.
    # 8: line 2, set 0.  0: line 0 evicts line 2.  9: line 2 again; the shadow of two lines
    # holds 2 and 0: conflict; its pages are pinned still
    assert counted(rows, scheme="handle", entries=8, line=4) == {
        "requests": 4,
        "lookups": 6,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_conflict": 1,
        "interrupts": 4,
        "dropped": 4,
        "pins": 12,
        "pin_calls": 3,
        "peak_pinned_pages": 12,
    }


def test_handle_above_high_water_unpins_page_by_page():
    rows = [touch(0), touch(2), touch(1), touch(3)]
    # one line of 2.  0: pins 0 1.  2: pins 2 3, four are over three: 0 goes.
    # 1: 0 is pinned again, four: 2 goes.  3: 2 is pinned again, four: 0 goes
    assert counted(rows, scheme="handle", entries=2, line=2, high_water=3) == {
        "requests": 4,
        "lookups": 4,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 2,
        "ni_misses_noncompulsory": 2,
        "ni_misses_capacity": 2,
        "interrupts": 4,
        "dropped": 4,
        "pins": 6,
        "pin_calls": 4,
        "unpins": 3,
        "unpin_calls": 3,
        "peak_pinned_pages": 4,
    }


def test_handle_unpins_the_line_whose_last_fill_is_longest_ago():
    # one entry, mark 2: fills 0 1 0, then 2: over by one, and 1 was filled before 0's second
    # time: 1 goes.  1 is pinned again: 0 goes.  (Had the first fill counted, 1 would be there.)
    rows = [touch(page) for page in (0, 1, 0, 2, 1)]
    got = counted(rows, scheme="handle", entries=1, high_water=2)
    assert (got["pins"], got["unpins"], got["peak_pinned_pages"]) == (4, 2, 3)


def test_handle_leaves_pinned_what_is_on_the_nic_however_low_the_mark():
    # two lines of 2, mark 1: 0 and 2 fill both and nothing may go; 4 evicts 0-1, which go
    rows = [touch(0), touch(2), touch(4)]
    got = counted(rows, scheme="handle", entries=4, line=2, ways=2, high_water=1)
    assert (got["pins"], got["unpins"], got["peak_pinned_pages"]) == (6, 2, 6)


def test_handle_does_not_index_by_process():
    # two sets, page 0 of both processes in set 0, whatever the offset; a shadow of two
    # would have held both
    rows = [touch(0, pid=1), touch(0, pid=2), touch(0, pid=1)]
    got = replay(rows, {"scheme": "handle", "entries": 2}, offset=lambda o, _: o)["total"]
    assert (got["ni_misses"], got["ni_misses_conflict"]) == (3, 1)
