"""The oracle itself, UTLB in its three forms: examples worked by hand."""

import pytest

from oracle.replay import replay
from oracle.touches import counted, total, touch


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


def test_utlb_unpins_for_what_it_pins_ahead_too_but_nothing_that_its_call_wants():
    rows = [touch(0), touch(10), touch(1), touch(0, 2)]
    # limit 4, prepin 4.  0: one call pins 0 .. 3.  10: unpins all of them for 10 .. 13, which go
    # for 1 .. 4.  0-1: 1 becomes most recent; 2 is the oldest, but one of the four from 0 on, so
    # 4 goes; 0 had left the NIC when it was unpinned; 1 hits
    assert counted(rows, scheme="utlb", entries=8, prepin=4, pin_limit=4, index_offset=False) == {
        "requests": 4,
        "lookups": 5,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_invalidated": 1,
        "entries_fetched": 4,
        "check_misses": 4,
        "pins": 13,
        "pin_calls": 4,
        "unpins": 9,
        "unpin_calls": 9,
        "peak_pinned_pages": 4,
    }


def test_utlb_counts_the_pages_of_a_run_towards_those_to_pin_ahead():
    # prepin 3: the run 0-1 takes 2 along, the run 10-13 is long enough
    got = counted([touch(0, 2), touch(10, 4)], scheme="utlb", entries=16, prepin=3)
    assert (got["pins"], got["pin_calls"], got["check_misses"]) == (7, 2, 6)


def test_a_page_that_was_only_pinned_ahead_counts_as_used_then():
    # limit 4, prepin 2: 0 1 and 4 5 pinned, all used once; 8 and 9 take the older ones, 0 and 1
    design = {"scheme": "utlb", "entries": 8, "pin_limit": 4, "prepin": 2, "replacement": "lfu"}
    history = [touch(0), touch(4), touch(8)]
    again = {page: total([*history, touch(page)], design)["check_misses"] for page in (0, 1, 4, 5)}
    assert again == {0: 4, 1: 4, 4: 3, 5: 3}


def test_as_many_pages_are_pinned_ahead_as_the_limit_has_beside_those_of_the_request():
    # limit 4, prepin 8: three pages and one ahead; then 1 .. 4, for which 0 alone goes
    rows = [touch(0, 3), touch(1, 4)]
    got = counted(rows, scheme="utlb", entries=8, prepin=8, pin_limit=4)
    assert (got["pins"], got["pin_calls"], got["unpins"]) == (5, 2, 1)


def test_utlb_pins_ahead_from_each_run_of_a_request():
    # limit 6, prepin 2.  11: pins 11 12.  10-13: runs 10 and 13; of 10's two pages 11 is
    # pinned; 13 takes 14 along: 5 pinned.  20 takes 21 along, for which 11 goes; 30 and 31
    # take the places of 12 and 10
    rows = [touch(11), touch(10, 4), touch(20), touch(21), touch(30)]
    got = counted(rows, scheme="utlb", entries=8, prepin=2, pin_limit=6)
    assert (got["pins"], got["pin_calls"], got["check_misses"]) == (9, 5, 5)
    assert (got["unpins"], got["peak_pinned_pages"]) == (3, 6)


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
