"""The oracle itself: what must hold for any trace and design."""

from hypothesis import given
from hypothesis import strategies as st

from oracle.replay import COUNTS, SCHEMES, replay
from oracle.strategies import cases, designs, traces
from oracle.touches import total

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
    interrupted = total(rows, design, pin_limit=None, served_by="nic")
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
    bare = total(rows, design, victim_entries=0, most_valid=None)
    assert bare == total(rows, design, scheme="interrupt", index_offset=False)


@given(cases(schemes=("handle",)))
def test_handle_with_single_lines_misses_as_the_interrupt_scheme_does(case):
    rows, design = case
    handled = total(rows, design, line=1)
    interrupted = total(rows, design, scheme="interrupt", index_offset=False, served_by="nic")
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
