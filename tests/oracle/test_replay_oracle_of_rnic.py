"""The oracle of RDMA NICs: examples worked by hand."""

from oracle.touches import PAGE, counted, touch

SMALL = {"scheme": "rnic", "entries": 4, "line": 2, "mpt_entries": 2}


def test_a_line_serves_all_its_pages_and_regions_are_looked_up_once_a_request():
    # lines 0 (pages 0, 1), 1 (2, 3), 2: two sets.  0-2 fetches lines 0, 1; 1 hits;
    # 4 is line 2 in place of line 0; 0 is line 0, which two lines without sets would have kept
    rows = [touch(0, 3), touch(1), touch(4), touch(0)]
    assert counted(rows, **SMALL) == {
        "requests": 4,
        "lookups": 6,
        "ni_misses": 4,
        "ni_misses_send": 4,
        "ni_misses_compulsory": 3,
        "ni_misses_noncompulsory": 1,
        "ni_misses_conflict": 1,
        "entries_fetched": 8,
        "mtt_l0_hits": 2,
        "mtt_l0_misses": 4,
        "mpt_lookups": 4,
        "mpt_l0_hits": 3,
        "mpt_l0_misses": 1,
        "icm_fetches": 5,
        "regions": 1,
        "mtt_entries": 6,
        "pins": 6,
        "pin_calls": 1,
        "peak_pinned_pages": 6,
        "icm_bytes": 64 + 6 * 8,
    }


def test_level_1_is_asked_what_level_0_missed_and_keeps_what_comes():
    # 0 and 4 share a set of level 0, not of level 1, which has them when they come back
    rows = [touch(0), touch(4), touch(0), touch(4)]
    got = counted(rows, **SMALL, l1_entries=8, l1_ways=4)
    assert (got["mtt_l0_misses"], got["mtt_l1_misses"], got["mtt_l1_hits"]) == (4, 2, 2)
    assert got["ni_misses"] == 2
    assert got["icm_fetches"] == 3  # and the region


def test_regions_in_a_shared_level_take_the_lines_of_pages():
    # one place in each level: the region and the line put each other out of level 1
    rows = [touch(0), touch(0, pid=2), touch(0)]
    tiny = {"scheme": "rnic", "entries": 1, "mpt_entries": 1, "l1_entries": 1, "l1_shared": True}
    got = counted(rows, **tiny)
    assert got["mpt_l1_misses"] == got["mtt_l1_misses"] == 3
    assert got["icm_fetches"] == 6


def test_each_packet_looks_its_region_up():
    rows = [(0, 0, 1, "send", 0, 2500)]  # packets of 1000, 1000, 500
    got = counted(rows, **SMALL, mtu=1000)
    assert (got["mpt_lookups"], got["mpt_l0_misses"]) == (3, 1)


def test_an_indirect_region_is_one_lookup_more_and_its_parts_are_regions():
    # parts of two pages: the request touches two; the third packet finds what the second did
    rows = [touch(1, 3)]
    got = counted(rows, **SMALL | {"mpt_entries": 4, "mpt_ways": 4}, indirect=2 * PAGE, mtu=PAGE)
    assert (got["mpt_lookups"], got["indirect_lookups"]) == (6, 3)
    assert got["mpt_l0_misses"] == 3
    assert got["regions"] == 3
    assert got["pin_calls"] == 2
    assert got["icm_bytes"] == 3 * 64 + 4 * 8 + 2 * 16


def test_a_pool_has_tables_for_all_of_it_and_rejects_what_lies_beyond():
    # from page 3 on four pages, in three lines of two; page 7 is not one of them
    rows = [touch(4), touch(3), touch(6, 2), touch(0, pid=2)]
    got = counted(rows, **SMALL, registered=4 * PAGE)
    assert got["rejected"] == 1
    assert (got["lookups"], got["mtt_l0_misses"]) == (5, 3)
    assert got["mpt_lookups"] == 3
    assert (got["regions"], got["mtt_entries"]) == (2, 8)
    assert got["icm_bytes"] == 2 * 64 + (3 + 2) * 2 * 8
