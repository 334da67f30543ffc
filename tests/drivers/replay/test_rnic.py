"""An RDMA NIC in replay: what must hold for any trace and any sizes of its caches."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_against_oracle import columns_of, design_of, pieces

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.replay import lowest_addresses, replay
from nicscope.errors import DesignError
from oracle.strategies import cases

RNIC = cases(schemes=("rnic",), max_bursts=10)
EVERY = 4096  # entries: more lines than any drawn trace touches


def found(rows, flat, **changes):
    return replay([columns_of(rows)], [design_of({**flat, **changes})])[0]


@given(case=RNIC)
def test_what_is_looked_up_is_found_or_missed_at_every_level(case):
    rows, flat = case
    design = design_of(flat)
    for counts in found(rows, flat).nodes:
        levels = [("mtt", design.l1_entries is not None)]
        levels.append(("mpt", bool(design.l1_shared) or design.mpt_l1_entries is not None))
        fetched = 0
        for table, has_more in levels:
            hits, misses = counts[f"{table}_l0_hits"], counts[f"{table}_l0_misses"]
            again = counts[f"{table}_l1_hits"] + counts[f"{table}_l1_misses"]
            assert again == (misses if has_more else 0)
            fetched += counts[f"{table}_l1_misses"] if has_more else misses
            if table == "mpt":
                assert hits + misses == counts["mpt_lookups"]
            elif not counts["rejected"]:
                assert hits + misses == counts["lookups"]
        assert counts["icm_fetches"] == fetched
        assert counts["entries_fetched"] == counts["ni_misses"] * design.line
        assert counts["indirect_lookups"] * 2 == (counts["mpt_lookups"] if design.indirect else 0)


@given(case=RNIC, bits=st.integers(0, 4))
def test_a_larger_cache_without_sets_never_misses_more(case, bits):
    rows, flat = case
    entries = flat["line"] << bits
    both = [
        found(rows, flat, entries=size, ways=size // flat["line"]).total
        for size in (entries, 2 * entries)
    ]
    assert both[0]["mtt_l0_misses"] >= both[1]["mtt_l0_misses"]
    if not flat.get("l1_entries"):
        assert both[0]["icm_fetches"] >= both[1]["icm_fetches"]


@given(case=RNIC)
def test_no_process_is_served_by_what_another_registered(case):
    rows, flat = case
    assume("registered" not in flat)
    # One after the other, and of caches that lose nothing: each fetches all of its own.
    ordered = sorted(rows, key=lambda row: (row[1], row[2]))
    ordered = [(0, *rest) for _, *rest in ordered]
    room = {"entries": EVERY, "ways": EVERY // flat["line"], "mpt_entries": 64, "mpt_ways": 64}
    room |= {"l1_entries": None, "l1_shared": False, "mpt_l1_entries": None}
    plain = {name: value for name, value in flat.items() if name not in room} | {
        name: value for name, value in room.items() if value is not None and value is not False
    }
    together = found(ordered, plain).total
    owners = sorted({(node, pid) for _, node, pid, *_ in ordered})
    apart = [found([row for row in ordered if row[1:3] == owner], plain).total for owner in owners]
    for name in ("ni_misses", "icm_fetches", "regions", "mtt_entries", "icm_bytes"):
        assert together[name] == sum(each[name] for each in apart)
    assert together["ni_misses"] == together["ni_misses_compulsory"]


@given(case=RNIC, cuts=st.lists(st.integers(0, 50), max_size=3))
def test_pools_begin_at_the_same_place_however_the_trace_is_cut(case, cuts):
    rows, _ = case
    columns = columns_of(rows)
    lowest = lowest_addresses(pieces(columns, cuts))
    assert lowest == lowest_addresses([columns])
    assert sorted(low for node in lowest for low in node) == sorted(
        min(row[4] for row in rows if row[1:3] == owner) // 512 * 512
        for owner in {row[1:3] for row in rows}
    )


@given(case=RNIC)
def test_a_pool_that_all_requests_lie_in_changes_no_lookup(case):
    rows, flat = case
    pool = found(rows, flat, registered=2**59).total
    assume(not pool["rejected"])
    touched = found(rows, flat, registered=None).total if "registered" not in flat else None
    if touched is not None:
        for name in pool:
            if name.startswith(("mtt_l", "mpt_", "ni_", "icm_fetches", "indirect")):
                assert pool[name] == touched[name]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["ways=4096"], "line (8) times ways (4096) must not exceed entries (16384)"),
        (["mpt_ways=2048"], "mpt_ways (2048) must not exceed mpt_entries (1024)"),
        (["l1_entries=16", "l1_ways=4"], "l1_ways (4) times line (8) must not exceed"),
        (["l1_shared=true"], "l1_shared needs l1_entries"),
        (["l1_shared=true", "l1_entries=64", "mpt_l1_entries=4"], "leave one out"),
        (["indirect=16KiB", "page_size=4096"], "must be at least a line of pages (32768 bytes)"),
    ],
)
def test_sizes_that_do_not_go_together_are_told_in_a_line(settings, told):
    with pytest.raises(DesignError) as caught:
        with_settings(load_design("rnic"), settings)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_shorter_than_a_line_of_the_traces_pages_are_told_when_these_are_known():
    design = with_settings(load_design("rnic"), ["indirect=16KiB"])
    with pytest.raises(DesignError, match="at least a line of pages"):
        design.at_page_size(4096)
    assert design.at_page_size(512).indirect == 16384
