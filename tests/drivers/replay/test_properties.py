"""What must hold for any trace and design, on the engine itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_against_oracle import columns_of, design_of, pieces

from nicscope.config.design import Scheme
from nicscope.drivers.replay import COUNT_NAMES, KIND_NAMES, replay
from oracle.strategies import cases, designs, traces

SCHEMES = [scheme.value for scheme in Scheme]
UTLBS = ("utlb", "utlb-shared")
INTERRUPTING = ("interrupt", "unet-mm", "handle")
NOT_BY_THREAD = [scheme for scheme in SCHEMES if scheme != "handle"]  # nor by an interrupt alone
CACHED = (*INTERRUPTING, *UTLBS)


def results(rows, *flats, cuts=(), kinds=True):
    return replay(pieces(columns_of(rows), cuts), [design_of(flat) for flat in flats], kinds=kinds)


def total(rows, flat, **changes):
    return results(rows, {**flat, **changes})[0].total


@given(case=cases(max_bursts=10), data=st.data())
def test_batches_of_any_length_give_the_same_result(case, data):
    rows, flat = case
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=6))
    assert results(rows, flat, cuts=cuts) == results(rows, flat)


@given(rows=traces(max_bursts=5), data=st.data())
def test_designs_replayed_together_give_what_each_gives_alone(rows, data):
    flats = [data.draw(designs(scheme)) for scheme in data.draw(st.permutations(SCHEMES))]
    flats += flats[:1]
    assert results(rows, *flats) == [results(rows, flat)[0] for flat in flats]


@given(case=cases(max_bursts=10))
def test_counts_add_up(case):
    rows, flat = case
    result = results(rows, flat)[0]
    for counts in (result.total, *result.nodes):
        assert counts["lookups"] == counts["lookups_send"] + counts["lookups_receive"]
        for kind in ("", "_compulsory"):
            paths = [counts[f"ni_misses_{path}{kind}"] for path in ("send", "receive")]
            assert counts["ni_misses" + kind] == sum(paths)
        repeated = counts["ni_misses_noncompulsory"]
        assert repeated == sum(counts[name] for name in KIND_NAMES)
        assert counts["ni_misses"] == counts["ni_misses_compulsory"] + repeated
        assert counts["ni_misses"] + counts["victim_hits"] <= counts["lookups"]
        assert 0 <= counts["pins"] - counts["unpins"] <= counts["peak_pinned_pages"]
        assert counts["pin_calls"] <= counts["pins"]
        assert counts["unpin_calls"] <= counts["unpins"]
        assert min(counts[name] for name in COUNT_NAMES) >= 0
    for name in COUNT_NAMES:
        assert result.total[name] == sum(node[name] for node in result.nodes)
    assert result.total["requests"] == len(rows)


@given(case=cases(schemes=CACHED, max_bursts=10))
def test_without_kinds_exactly_three_counts_are_unknown(case):
    rows, flat = case
    told, untold = (results(rows, flat, kinds=kinds)[0] for kinds in (True, False))
    unknown = dict.fromkeys(KIND_NAMES)
    assert untold.total == {**told.total, **unknown}
    assert untold.nodes == [{**node, **unknown} for node in told.nodes]


@pytest.mark.requirement("UT-82")
@given(case=cases(schemes=INTERRUPTING, max_bursts=10))
def test_where_the_host_serves_misses_each_is_one_interrupt(case):
    counts = total(*case, served_by="nic")
    assert counts["interrupts"] == counts["ni_misses"]
    assert counts["entries_fetched"] == 0


@pytest.mark.requirement("UM-71")
@given(case=cases(max_bursts=10, schemes=NOT_BY_THREAD))
def test_a_kernel_that_translates_interrupts_nobody_and_takes_nothing_on_the_nic(case):
    rows, flat = case
    by_nic, by_kernel = (results(rows, flat | {"served_by": who})[0] for who in ("nic", "kernel"))
    assert by_kernel.total == by_nic.total | {"interrupts": 0}
    assert by_nic.nic_memory_bytes
    assert by_kernel.nic_memory_bytes == {}


@pytest.mark.requirement("UT-4", "UT-22")
@given(case=cases(schemes=(*UTLBS, "utlb-process"), max_bursts=10))
def test_utlb_never_interrupts_and_calls_the_system_only_to_pin_and_unpin(case):
    rows, flat = case
    counts = total(rows, flat)
    assert counts["interrupts"] == counts["dropped"] == 0
    # Each miss reads its own entry by DMA, and reads no other unless it fetches ahead.
    alone = total(rows, flat, **({} if flat["scheme"] == "utlb-process" else {"prefetch": 1}))
    assert alone["entries_fetched"] == alone["ni_misses"]
    assert counts["entries_fetched"] >= counts["ni_misses"]
    assert (counts["pin_calls"] == 0) == (counts["pins"] == 0)
    assert counts["unpin_calls"] == counts["unpins"]


@pytest.mark.requirement("UT-93", "UT-81")
@given(case=cases(schemes=UTLBS, max_bursts=10), data=st.data())
def test_check_misses_do_not_depend_on_the_cache(case, data):
    rows, flat = case
    other = {
        "entries": data.draw(st.sampled_from((16, 64))),
        "ways": data.draw(st.sampled_from((1, 16))),
        "prefetch": data.draw(st.integers(1, 5)),
        "index_offset": data.draw(st.booleans()),
    }
    one, two = total(rows, flat), total(rows, flat, **other)
    for name in ("check_misses", "pins", "unpins", "pin_calls", "unpin_calls", "rejected"):
        assert one[name] == two[name]


@pytest.mark.requirement("UT-93", "UT-83", "UT-44")
@given(case=cases(schemes=("interrupt",), max_bursts=10))
def test_without_a_limit_utlb_never_unpins_and_misses_as_the_interrupt_scheme_does(case):
    rows, flat = case
    flat.pop("pin_limit", None)
    interrupted, fetched = total(rows, flat), total(rows, flat, scheme="utlb")
    assert fetched["unpins"] == 0
    for name in interrupted:
        if name.startswith("ni_misses"):
            assert interrupted[name] == fetched[name]


@pytest.mark.requirement("UT-93", "UT-82")
@given(case=cases(schemes=("interrupt",), max_bursts=10))
def test_the_interrupt_scheme_has_pinned_what_its_cache_holds(case):
    rows, flat = case
    for node in results(rows, flat)[0].nodes:
        assert node["ni_misses"] - node["unpins"] <= flat["entries"]
        assert node["peak_pinned_pages"] <= flat["entries"]


@pytest.mark.requirement("UM-56", "UM-59c")
@given(case=cases(schemes=("unet-mm",), max_bursts=10), pids=st.integers(1, 40))
def test_unet_mm_pins_no_more_than_its_tables_hold_however_many_processes(case, pids):
    rows, flat = case
    rows = [(t, node, pid % 97 + i % pids, *rest) for i, (t, node, pid, *rest) in enumerate(rows)]
    room = min(flat["entries"] + flat["victim_entries"], flat.get("most_valid", 2**63))
    for node in results(rows, flat)[0].nodes:
        assert node["peak_pinned_pages"] <= room


@pytest.mark.requirement("UM-56")
@given(case=cases(schemes=("unet-mm",), max_bursts=10), most=st.integers(1, 12))
def test_a_kernel_pins_no_more_than_the_entries_that_it_lets_be_valid(case, most):
    rows, flat = case
    [free], [capped] = (
        results(rows, flat | {"most_valid": cap})[0].nodes[:1] for cap in (None, most)
    )
    assert capped["peak_pinned_pages"] == min(most, free["peak_pinned_pages"])
    assert capped["pins"] - capped["unpins"] <= most
    assert capped["ni_misses_compulsory"] == free["ni_misses_compulsory"]


@pytest.mark.requirement("UT-42")
@given(case=cases(schemes=("interrupt", *UTLBS), max_bursts=10), limit=st.integers(1, 6))
def test_no_process_pins_more_than_its_limit(case, limit):
    rows, flat = case
    rows = [(t, 0, 1, *rest) for t, _, _, *rest in rows]
    assert total(rows, flat, pin_limit=limit)["peak_pinned_pages"] <= limit


@pytest.mark.requirement("UT-10", "UT-14")
@given(case=cases(schemes=("utlb-process",), max_bursts=10))
def test_the_table_of_a_process_is_its_pin_limit(case):
    rows, flat = case
    own = total(rows, flat)
    limited = total(rows, flat, scheme="utlb", pin_limit=flat["entries"])
    for name in ("check_misses", "pins", "unpins", "pin_calls", "unpin_calls", "rejected"):
        assert own[name] == limited[name]
    assert own["ni_misses"] == 0
