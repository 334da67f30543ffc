"""The oracle of regions that a trace registers: examples worked by hand."""

from oracle.replay import DEFAULTS
from oracle.replay_regions import replay

PAGE = 4096
SMALL = {**DEFAULTS, "scheme": "rnic", "entries": 8, "ways": 4, "line": 2, "mpt_entries": 2}
WRITABLE = {"local_write"}


def register(page, pages, size=None, rights=None, pid=1):
    return (0, pid, "register", page * PAGE, pages * PAGE, size, rights)


def deregister(page, pages, size=None, pid=1):
    return (0, pid, "deregister", page * PAGE, pages * PAGE, size, None)


def touch(page, pages=1, op="send", pid=1):
    return (0, pid, op, page * PAGE, pages * PAGE, None, None)


def counted(rows, **changes):
    [counts] = replay(rows, {**SMALL, **changes}).values()
    return {name: count for name, count in counts.items() if count}


def test_tables_are_of_what_is_registered_and_lookups_of_what_is_touched():
    # ten pages from page 3 on are five lines; page 5 is the region's page 2, of its line 1
    got = counted([register(3, 10), touch(5), touch(6)])
    assert got == {
        "requests": 2,
        "lookups": 2,
        "ni_misses": 1,
        "ni_misses_send": 1,
        "ni_misses_compulsory": 1,
        "entries_fetched": 2,
        "pins": 10,
        "pin_calls": 1,
        "peak_pinned_pages": 10,
        "mtt_l0_hits": 1,
        "mtt_l0_misses": 1,
        "mpt_lookups": 2,
        "mpt_l0_hits": 1,
        "mpt_l0_misses": 1,
        "icm_fetches": 2,
        "regions": 1,
        "mtt_entries": 10,
        "icm_bytes": 64 + 10 * 8,
    }


def test_what_is_given_back_leaves_the_caches_and_must_not_be_touched():
    rows = [register(0, 4), touch(0), touch(2), deregister(0, 4), touch(0), register(0, 4)]
    got = counted([*rows, touch(0)])
    assert got["entries_invalidated"] == 3  # two lines and the region
    assert got["rejected"] == got["rejected_deregistered"] == 1
    assert got["ni_misses"] == got["ni_misses_compulsory"] == 3  # its entries are new ones
    assert (got["pins"], got["unpins"], got["peak_pinned_pages"]) == (8, 4, 4)
    assert (got["pin_calls"], got["unpin_calls"], got["icm_bytes"]) == (2, 1, 64 + 4 * 8)


def test_an_access_needs_one_region_with_all_its_bytes_and_the_right():
    rows = [register(0, 2, rights=WRITABLE), register(2, 2, rights=WRITABLE)]
    rows += [touch(0, 2, "recv"), touch(1, 2), touch(0, op="serve_read"), touch(0, pid=2)]
    got = counted(rows)
    assert got["rejected"] == 3
    assert got["rejected_unregistered"] == 2  # over the end of one, and another process
    assert got["rejected_rights"] == 1
    assert got["mpt_lookups"] == 1


def test_of_regions_that_overlap_a_request_has_the_newest_that_allows_it():
    # the second may only be read by its own process: what is received goes by the first
    rows = [register(0, 8), register(0, 8, rights={"local_read"})]
    got = counted([*rows, touch(0), touch(0, op="recv"), touch(0)])
    assert (got["mpt_lookups"], got["mpt_l0_misses"]) == (3, 2)
    assert got["ni_misses"] == 2


def test_the_same_range_with_larger_pages_has_fewer_entries():
    rows = [register(0, 512, size=PAGE), deregister(0, 512), register(0, 512, size=512 * PAGE)]
    got = counted([*rows, touch(0, 512)])
    assert got["mtt_entries"] == 513
    assert got["lookups"] == 1
    assert got["pins"] == 1024  # of the host's pages
    assert got["icm_bytes"] == 64 + 512 * 8


def test_a_region_of_large_pages_pins_all_of_them():
    got = counted([register(3, 2, size=4 * PAGE), touch(3)])
    assert (got["mtt_entries"], got["pins"]) == (2, 8)
