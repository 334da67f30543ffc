"""The oracle itself: examples worked by hand, then what must hold for any trace and design."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.replay import COUNTS, SCHEMES, replay
from oracle.strategies import cases, designs, traces

PAGE = 4096


def touch(page, pages=1, pid=1, node=0, op="send"):
    """A request for whole pages."""
    return (0, node, pid, op, page * PAGE, pages * PAGE)


def counted(rows, **design):
    """The total counts that are not zero: an example states all of them."""
    return {name: n for name, n in replay(rows, design)["total"].items() if n}


def total(rows, design, **changes):
    return replay(rows, {**design, **changes})["total"]


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


# --- utlb -----------------------------------------------------------------------------------


def test_utlb_prefetch_stops_at_the_table_end_and_brings_only_what_is_pinned():
    rows = [touch(1022, 4), touch(1026)]
    # 1022: reads 1022 1023, the table ends.  1023 hits.  1024: reads 1024 .. 1027 of which
    # 1024 1025 are pinned.  1025 hits.  1026 was not pinned then: misses, reads 4 more
    assert counted(rows, scheme="utlb", entries=8, prefetch=4) == {
        "requests": 2,
        "lookups": 5,
        "ni_misses": 3,
        "ni_misses_send": 3,
        "ni_misses_compulsory": 3,
        "entries_fetched": 10,
        "check_misses": 5,
        "pins": 5,
        "pin_calls": 2,
        "peak_pinned_pages": 5,
    }


def test_utlb_pins_ahead_only_where_the_limit_has_room():
    rows = [touch(0), touch(10), touch(1), touch(0, 2)]
    # limit 4, prepin 4.  0: one call pins 0 .. 3.  10: unpins 0, and room for nothing more.
    # 1: pinned, though its first lookup.  0-1: 1 becomes most recent, 2 is the oldest and
    # goes; 0 had left the NIC when it was unpinned; 1 hits
    assert counted(rows, scheme="utlb", entries=8, prepin=4, pin_limit=4, index_offset=False) == {
        "requests": 4,
        "lookups": 5,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_invalidated": 1,
        "entries_fetched": 4,
        "check_misses": 3,
        "pins": 6,
        "pin_calls": 3,
        "unpins": 2,
        "unpin_calls": 2,
        "peak_pinned_pages": 4,
    }


def test_utlb_counts_the_pages_of_a_run_towards_those_to_pin_ahead():
    # prepin 3: the run 0-1 takes 2 along, the run 10-13 is long enough
    got = counted([touch(0, 2), touch(10, 4)], scheme="utlb", entries=16, prepin=3)
    assert (got["pins"], got["pin_calls"], got["check_misses"]) == (7, 2, 6)


def test_a_page_that_was_only_pinned_ahead_has_not_been_used():
    # limit 4, prepin 2: 0 1 and 4 5 pinned, 1 and 5 unused; 8 unpins 1, the older of them
    design = {"scheme": "utlb", "entries": 8, "pin_limit": 4, "prepin": 2, "replacement": "lfu"}
    history = [touch(0), touch(4), touch(8)]
    assert total([*history, touch(0)], design)["check_misses"] == 3
    assert total([*history, touch(1)], design)["check_misses"] == 4


def test_utlb_pins_ahead_from_each_run_of_a_request():
    # limit 6, prepin 2.  11: pins 11 12.  10-13: runs 10 and 13; of 10's two pages 11 is
    # pinned; 13 takes 14 along: 5 pinned.  20: one more is all.  21, 30: unpin one each
    rows = [touch(11), touch(10, 4), touch(20), touch(21), touch(30)]
    got = counted(rows, scheme="utlb", entries=8, prepin=2, pin_limit=6)
    assert (got["pins"], got["pin_calls"], got["check_misses"]) == (8, 6, 6)
    assert (got["unpins"], got["peak_pinned_pages"]) == (2, 6)


def test_utlb_does_not_pin_beyond_the_last_page_of_memory():
    row = (0, 0, 1, "send", 2**64 - 1, 1)
    assert total([row], {"scheme": "utlb", "entries": 4, "prepin": 8})["pins"] == 1


def test_utlb_rejects_a_request_longer_than_the_limit_and_forgets_it():
    # three pages against two; page 2 is then looked up for the first time
    rows = [touch(0, 3), touch(2)]
    assert counted(rows, scheme="utlb", entries=4, pin_limit=2) == {
        "requests": 2,
        "lookups": 4,
        "rejected": 1,
        "ni_misses": 1,
        "ni_misses_send": 1,
        "ni_misses_compulsory": 1,
        "entries_fetched": 1,
        "check_misses": 1,
        "pins": 1,
        "pin_calls": 1,
        "peak_pinned_pages": 1,
    }


@pytest.mark.parametrize(
    ("policy", "victim"), [("lru", 0), ("mru", 3), ("lfu", 2), ("mfu", 1), ("random", 2)]
)
def test_utlb_unpins_by_the_policy_asked_for(policy, victim):
    # used 2, 3, 1, 2 times; least recent first: 0 1 2 3; a fifth page needs room for one
    history = [touch(page) for page in (0, 0, 1, 1, 1, 2, 3, 3, 4)]
    offered = []

    def third(candidates):
        offered.append(candidates)
        return candidates[2]

    design = {"scheme": "utlb", "entries": 8, "pin_limit": 4, "replacement": policy}
    for page in range(4):
        got = replay([*history, touch(page)], design, choose=third)["total"]
        assert got["check_misses"] == 5 + (page == victim)
    assert offered[:1] == ([[0, 1, 2, 3]] if policy == "random" else [])


@pytest.mark.parametrize("policy", ["lfu", "mfu"])
def test_utlb_breaks_ties_of_frequency_by_the_least_recent_use(policy):
    # 7 and 5 used once each, 7 earlier: 9 unpins 7, and 5 is still pinned
    design = {"scheme": "utlb", "entries": 8, "pin_limit": 2, "replacement": policy}
    assert total([touch(7), touch(5), touch(9), touch(5)], design)["check_misses"] == 3


def test_utlb_never_unpins_a_page_of_the_request_itself():
    # mru, limit 3: 0 1 2 pinned; 2-3 needs room for 3: of 0 and 1, 1 is the youngest
    design = {"scheme": "utlb", "entries": 8, "pin_limit": 3, "replacement": "mru"}
    history = [touch(0, 3), touch(2, 2)]
    assert [total([*history, touch(p)], design)["check_misses"] for p in range(4)] == [4, 5, 4, 4]


def test_utlb_entry_evicted_before_its_page_was_unpinned_is_not_invalidated():
    # one entry, limit 2: 1 evicts 0; 2 unpins 0, which is not on the NIC; 0 unpins 1.
    # The shadow of one holds 2: capacity
    rows = [touch(page) for page in (0, 1, 2, 0)]
    assert counted(rows, scheme="utlb", entries=1, pin_limit=2) == {
        "requests": 4,
        "lookups": 4,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_capacity": 1,
        "entries_fetched": 4,
        "check_misses": 4,
        "pins": 4,
        "pin_calls": 4,
        "unpins": 2,
        "unpin_calls": 2,
        "peak_pinned_pages": 2,
    }


def test_utlb_prefetch_may_throw_out_what_it_was_asked_for():
    # one entry, prefetch 2: page 0 is inserted, then 1 in its place, so 1 hits;
    # 0 misses again (capacity) and brings 1 once more, so 1 hits
    got = counted([touch(0, 2), touch(0), touch(1)], scheme="utlb", entries=1, prefetch=2)
    assert (got["ni_misses"], got["entries_fetched"]) == (2, 4)
    assert (got["ni_misses_compulsory"], got["ni_misses_capacity"]) == (1, 1)


# --- utlb-shared ----------------------------------------------------------------------------


def test_utlb_shared_hands_out_the_lowest_free_index_again():
    # limit 2: page 100 gets index 0, 200 index 1; 300 unpins 100 and gets index 0, a key
    # that was looked up before and left when its page was unpinned
    rows = [touch(100), touch(200), touch(300)]
    expected = {
        "requests": 3,
        "lookups": 3,
        "ni_misses": 3,
        "ni_misses_send": 3,
        "ni_misses_compulsory": 2,
        "ni_misses_noncompulsory": 1,
        "ni_misses_invalidated": 1,
        "entries_fetched": 3,
        "check_misses": 3,
        "pins": 3,
        "pin_calls": 3,
        "unpins": 1,
        "unpin_calls": 1,
        "peak_pinned_pages": 2,
    }
    assert counted(rows, scheme="utlb-shared", entries=4, pin_limit=2) == expected


def test_utlb_shared_prefetches_the_next_index_whatever_its_page():
    rows = [touch(7), touch(5000), touch(0, 2, pid=2), touch(7), touch(5000)]
    # two sets.  7 is index 0, 5000 index 1, each misses and reads 2 entries.  Process 2 takes
    # both sets by one fetch and hits once.  7 misses (capacity) and brings 5000 along
    assert counted(rows, scheme="utlb-shared", entries=2, prefetch=2, index_offset=False) == {
        "requests": 5,
        "lookups": 6,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_capacity": 1,
        "entries_fetched": 8,
        "check_misses": 4,
        "pins": 4,
        "pin_calls": 3,
        "peak_pinned_pages": 4,
    }


def test_utlb_shared_prefetch_stops_where_a_table_of_indices_ends():
    rows = [touch(0, 1023), touch(5000, 2)]
    # indices 0 .. 1022: a miss at each even one reads 2 entries, 512 misses; then index 1023
    # reads itself alone, index 1024 reads 2
    got = counted(rows, scheme="utlb-shared", entries=2048, prefetch=2, index_offset=False)
    assert (got["ni_misses"], got["entries_fetched"]) == (514, 1027)


# --- utlb-process ---------------------------------------------------------------------------


def test_utlb_process_replaces_in_its_own_table():
    # two entries: 0 1, 0 again, 2 unpins 1, 1 unpins 0
    rows = [touch(page) for page in (0, 1, 0, 2, 1)]
    assert counted(rows, scheme="utlb-process", entries=2) == {
        "requests": 5,
        "lookups": 5,
        "check_misses": 4,
        "pins": 4,
        "pin_calls": 4,
        "unpins": 2,
        "unpin_calls": 2,
        "peak_pinned_pages": 2,
    }


def test_utlb_process_tables_do_not_touch_each_other_and_bound_a_request():
    rows = [touch(0, pid=1), touch(0, pid=2), touch(0, 3, pid=2)]
    # two entries each, prepin 8: each process pins 0 and 1; three pages are too many
    assert counted(rows, scheme="utlb-process", entries=2, prepin=8) == {
        "requests": 3,
        "lookups": 5,
        "rejected": 1,
        "check_misses": 2,
        "pins": 4,
        "pin_calls": 2,
        "peak_pinned_pages": 4,
    }


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


# --- for any trace --------------------------------------------------------------------------

UTLBS = ("utlb", "utlb-shared")


@given(cases())
def test_counts_add_up(case):
    rows, design = case
    got = replay(rows, design)
    for counts in (got["total"], *got["nodes"]):
        misses = counts["ni_misses"]
        assert misses == counts["ni_misses_send"] + counts["ni_misses_receive"]
        assert misses == counts["ni_misses_compulsory"] + counts["ni_misses_noncompulsory"]
        assert counts["ni_misses_noncompulsory"] == sum(
            counts["ni_misses_" + kind] for kind in ("invalidated", "capacity", "conflict")
        )
        assert misses + counts["victim_hits"] <= counts["lookups"]
        assert counts["requests"] <= counts["lookups"]
        left = counts["pins"] - counts["unpins"]
        assert 0 <= left <= counts["peak_pinned_pages"] <= counts["pins"]
        assert counts["pin_calls"] <= counts["pins"]
        assert counts["unpin_calls"] <= counts["unpins"]
        assert min(counts[name] for name in COUNTS) >= 0
    for name in COUNTS:
        assert got["total"][name] == sum(node[name] for node in got["nodes"])
    assert got["total"]["requests"] == len(rows)


@given(cases())
def test_a_node_counts_the_same_alone(case):
    rows, design = case
    for node in replay(rows, design)["nodes"]:
        alone = [row for row in rows if row[1] == node["node"]]
        assert replay(alone, design)["nodes"] == [node]


@given(cases(schemes=UTLBS))
def test_check_misses_do_not_depend_on_the_nic(case):
    rows, design = case
    other = total(rows, design, entries=64, ways=2, prefetch=3, index_offset=False)
    host = ("check_misses", "pins", "unpins", "pin_calls", "unpin_calls", "peak_pinned_pages")
    for name in host:
        assert total(rows, design)[name] == other[name]


@given(cases(schemes=UTLBS))
def test_sharing_a_table_or_not_changes_nothing_on_the_host(case):
    rows, design = case
    pages = total(rows, design, scheme="utlb")
    indices = total(rows, design, scheme="utlb-shared")
    for name in ("check_misses", "pins", "unpins", "pin_calls", "rejected"):
        assert pages[name] == indices[name]


@given(cases(schemes=("utlb-process",)))
def test_a_table_per_process_is_a_pin_limit(case):
    rows, design = case
    limited = total(rows, design, scheme="utlb", pin_limit=design["entries"])
    own = total(rows, design)
    for name in ("check_misses", "pins", "unpins", "pin_calls", "unpin_calls", "rejected"):
        assert own[name] == limited[name]
    assert own["ni_misses"] == 0


@given(cases(schemes=("interrupt",)))
def test_without_a_limit_utlb_misses_as_the_interrupt_scheme_does(case):
    rows, design = case
    interrupted = total(rows, design, pin_limit=None)
    fetched = total(rows, design, pin_limit=None, scheme="utlb")
    for name in COUNTS:
        if name.startswith("ni_misses"):
            assert interrupted[name] == fetched[name]
    assert fetched["unpins"] == 0
    assert interrupted["pins"] == interrupted["interrupts"] == interrupted["ni_misses"]


@given(cases(schemes=("interrupt", "unet-mm")))
def test_pages_pinned_by_interrupt_fit_the_nic(case):
    rows, design = case
    room = design["entries"] + design.get("victim_entries", 0)
    assert all(n["peak_pinned_pages"] <= room for n in replay(rows, design)["nodes"])


@given(cases(schemes=("interrupt", *UTLBS)))
def test_a_process_never_pins_more_than_its_limit(case):
    rows, design = case
    limit = design.get("pin_limit", 2**63)
    for node in replay(rows, design)["nodes"]:
        pids = {row[2] for row in rows if row[1] == node["node"]}
        assert node["peak_pinned_pages"] <= limit * len(pids)


@given(cases(schemes=("interrupt", "handle")))
def test_a_fully_associative_cache_has_no_conflicts(case):
    rows, design = case
    assert (
        total(rows, design, ways=design["entries"] // design.get("line", 1))["ni_misses_conflict"]
        == 0
    )


@given(cases(schemes=("unet-mm",)))
def test_unet_mm_without_victims_is_the_direct_mapped_interrupt_scheme(case):
    rows, design = case
    bare = total(rows, design, victim_entries=0)
    assert bare == total(rows, design, scheme="interrupt", index_offset=False)


@given(cases(schemes=("handle",)))
def test_handle_with_single_lines_misses_as_the_interrupt_scheme_does(case):
    rows, design = case
    handled = total(rows, design, line=1)
    interrupted = total(rows, design, scheme="interrupt", index_offset=False)
    for name in ("ni_misses", "ni_misses_compulsory", "ni_misses_conflict", "interrupts"):
        assert handled[name] == interrupted[name]


@given(cases(schemes=("handle",)))
def test_handle_ends_at_high_water_or_with_the_nic_full(case):
    rows, design = case
    mark = design.get("high_water", 2**63)
    for node in replay(rows, design)["nodes"]:
        bound = max(mark, design["entries"])
        assert node["pins"] - node["unpins"] <= bound
        assert node["peak_pinned_pages"] <= bound + design["line"]
        assert node["dropped"] == node["interrupts"] == node["ni_misses"]
        assert node["ni_misses_invalidated"] == 0


@given(traces(), st.data())
def test_a_trace_has_the_same_requests_and_lookups_under_every_scheme(rows, data):
    seen = set()
    for scheme in SCHEMES:
        got = total(rows, data.draw(designs(scheme)), page_size=4096)
        seen.add((got["requests"], got["lookups"]))
    assert len(seen) == 1


@given(st.sampled_from((512, 4096)).flatmap(traces))
def test_traces_are_valid(rows):
    assert rows
    for time_ns, node, pid, op, address, length in rows:
        assert time_ns >= 0
        assert node >= 0
        assert 0 <= pid < 2**31
        assert op in {"send", "write", "serve_read", "recv", "read", "serve_write"}
        assert 1 <= length < 2**32
        assert address + length <= 2**64
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
