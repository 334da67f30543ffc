"""Counts times costs: the published formulas are instances, and nothing unknown counts as 0."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.costs import COSTS, Evidence
from nicscope.config.design import Scheme, design_names, load_design
from nicscope.config.platform import load_platform, platform_names
from nicscope.studies.pricing import MODELS, STEP_NAMES, price


def utlb_counts(lookups, pins, misses, unpins=0):
    return {
        "lookups": lookups,
        "pins": pins,
        "pin_calls": pins,
        "ni_misses": misses,
        "entries_fetched": misses,
        "unpins": unpins,
        "unpin_calls": unpins,
    }


def interrupt_counts(lookups, misses, unpins):
    return {"lookups": lookups, "interrupts": misses, "pins": misses, "unpins": unpins}


def unet_mm_counts(send, receive, send_misses, receive_misses, unpins):
    misses = send_misses + receive_misses
    return {
        "lookups": send + receive,
        "lookups_send": send,
        "lookups_receive": receive,
        "ni_misses": misses,
        "ni_misses_send": send_misses,
        "ni_misses_receive": receive_misses,
        "interrupts": misses,
        "pins": misses,
        "unpins": unpins,
    }


def on(design, platform, counts):
    return price(counts, load_design(design), load_platform(platform))


def part(cost, name):
    return next(component for component in cost.components if component.name == name)


def us_of(component):
    assert component.low_ps == component.high_ps
    return Decimal(component.low_ps) / 10**6


def to_tenths(cost):
    bounds = cost.per_lookup_us()
    assert bounds is not None
    assert bounds[0] == bounds[1]
    return str(bounds[0].quantize(Decimal("0.1"), ROUND_HALF_UP))


@pytest.mark.requirement("UT-83a")
def test_pinning_in_the_kernel_has_costs_of_its_own_below_those_of_a_system_call():
    costs = load_platform("utlb-prototype").costs
    by_call = {name: costs[name].each(Fraction(1))[0] for name in ("user_pin", "user_unpin")}
    assert costs["kernel_pin"].each()[0] < by_call["user_pin"]
    assert costs["kernel_unpin"].each()[0] < by_call["user_unpin"]

    intr = on("vmmc-interrupt", "utlb-prototype", interrupt_counts(10, 3, 2))
    assert part(intr, "kernel_pin").cost == "kernel_pin"
    assert us_of(part(intr, "kernel_unpin")) == 30


@pytest.mark.requirement("UM-82")
def test_a_miss_of_unet_mm_takes_what_the_rows_of_table_1_add_up_to():
    one_miss = unet_mm_counts(send=1, receive=0, send_misses=1, receive_misses=0, unpins=1)
    pca200 = on("unet-mm-pca200", "pca200-linux", one_miss)
    assert pca200.total_us() == (49, 49)  # 24 + 10 + 11 + 4

    nt = on("unet-mm-dc21140", "dc21140-nt", one_miss)
    assert nt.total_us() == (20, 20)  # 16 + 4: the kernel needs neither handshake nor interrupt
    assert set(nt.not_applicable) >= {"ni_handshake", "interrupt"}
    assert not nt.is_lower_bound


@pytest.mark.requirement("UM-82")
def test_a_hit_of_unet_mm_costs_one_microsecond_to_send_and_two_to_receive():
    hits = unet_mm_counts(send=3, receive=5, send_misses=0, receive_misses=0, unpins=0)
    cost = on("unet-mm-pca200", "pca200-linux", hits)
    assert us_of(part(cost, "ni_hit_send")) == 3
    assert us_of(part(cost, "ni_hit_receive")) == 10


def test_the_receive_path_of_nt_pins_at_its_own_price():
    misses = unet_mm_counts(send=1, receive=1, send_misses=1, receive_misses=1, unpins=0)
    assert on("unet-mm-dc21140", "dc21140-nt", misses).total_us() == (16 + 37, 16 + 37)


@pytest.mark.parametrize(
    ("step", "counts", "us", "evidence"),
    [
        ("user_pin", {"pins": 16, "pin_calls": 1}, 70, Evidence.PUBLISHED),
        # 3 pages a call: between 30 and 36 us.
        ("user_pin", {"pins": 18, "pin_calls": 6}, 6 * 33, Evidence.DERIVED),
        # By the entries that a fetch brings.
        ("ni_miss", {"ni_misses": 10, "entries_fetched": 160}, 28, Evidence.PUBLISHED),
    ],
)
def test_what_is_tabulated_by_size_is_priced_by_the_size_in_the_mean(step, counts, us, evidence):
    found = part(on("utlb", "utlb-prototype", utlb_counts(100, 0, 0) | counts), step)
    assert (us_of(found), found.evidence) == (us, evidence)


def test_copies_are_priced_per_byte_and_per_request():
    counts = {"lookups": 9, "requests": 5, "rejected": 1, "bytes_copied": 4000}
    cost = on("unet", "dc21140-linux", counts)
    assert us_of(part(cost, "copy")) == 54
    assert us_of(part(cost, "copy_start")) == Decimal("3.04")


@pytest.mark.requirement("UM-80")
@pytest.mark.parametrize(
    ("platform", "length", "printed"),
    [
        ("dc21140-linux", 40, "1.3"),
        ("dc21140-linux", 1498, "21.0"),
        ("dc21140-nt", 40, "1.2"),
        ("dc21140-nt", 1498, "42.0"),
    ],
)
def test_a_copied_message_takes_what_table_1_prints(platform, length, printed):
    counts = {"lookups": 1, "requests": 1, "rejected": 0, "bytes_copied": length}
    assert to_tenths(on("unet", platform, counts)) == printed


@pytest.mark.requirement("MI-58")
def test_a_printed_range_makes_the_total_a_range():
    counts = {"lookups": 100, "interrupts": 2, "dropped": 0, "pins": 128, "unpins": 0}
    cost = on("mini", "mini-cluster", counts)
    # 2 misses of 5 us, each with a delay of 0 to 50 us, and 128 pages of 1.8 us.
    assert cost.total_us() == (Decimal("240.4"), Decimal("340.4"))
    assert cost.to_json()["per_lookup"] == [2.404, 3.404]


@pytest.mark.requirement("MI-39")
def test_misses_are_dearer_by_the_pages_that_they_pin():
    counts = {"lookups": 100, "interrupts": 2, "dropped": 0, "unpins": 0}
    few, many = (on("mini", "mini-cluster", counts | {"pins": pins}) for pins in (16, 256))
    assert many.low_ps - few.low_ps == many.high_ps - few.high_ps == 240 * 1_800_000


def test_a_miss_thread_that_nobody_timed_takes_what_its_pins_take():
    counts = {"lookups": 100, "interrupts": 2, "dropped": 0, "pins": 4, "unpins": 0}
    cost = on("mini", "utlb-prototype", counts | {"further_ways": 0})
    assert cost.unpriced == ()
    assert us_of(part(cost, "kernel_pin")) == 4 * 17
    assert cost.not_applicable["miss_processing"].startswith("utlb-prototype states no miss_proc")


def test_a_step_without_a_price_makes_the_total_a_lower_bound_and_says_which():
    counts = {"lookups": 100, "interrupts": 2, "dropped": 2, "pins": 128, "unpins": 0}
    counts["further_ways"] = 6
    cost = on("mini", "mini-cluster", counts)
    assert cost.is_lower_bound
    assert [(step.name, step.count) for step in cost.unpriced] == [
        ("ni_check", 100),
        ("retransmission", 2),
    ]
    assert cost.to_json()["lower_bound"] is True


def test_a_step_that_never_happened_needs_no_price():
    names = ("lookups", "interrupts", "dropped", "pins", "unpins", "further_ways")
    cost = on("mini", "mini-cluster", dict.fromkeys(names, 0))
    assert cost.unpriced == ()
    assert cost.per_lookup_us() is None


def test_where_nothing_that_happened_has_a_price_the_total_is_unknown_and_not_zero():
    cost = on("vmmc-static", "mini-cluster", {"lookups": 5, "pins": 5, "pin_calls": 5})
    assert cost.components == ()
    assert cost.total_us() is None
    assert cost.to_json()["total"] is None
    assert cost.to_json()["per_lookup"] is None


def test_steps_of_other_schemes_and_without_a_count_say_so():
    counts = utlb_counts(10, 3, 2)
    cost = on("utlb", "utlb-prototype", counts)
    assert cost.not_applicable["interrupt"] == "scheme utlb has no such step"
    assert {component.name for component in cost.components}.isdisjoint(cost.not_applicable)
    del counts["entries_fetched"]
    cost = on("utlb", "utlb-prototype", counts)
    assert [step.why for step in cost.unpriced] == ["needs the counts ni_misses, entries_fetched"]


COUNTS = sorted(
    {
        name
        for steps in MODELS.values()
        for step in steps
        for term in step.terms
        for name in (*term.count, term.size)
        if name is not None
    }
)


@given(
    counts=st.fixed_dictionaries({name: st.integers(0, 10**12) for name in COUNTS}),
    design=st.sampled_from(design_names()),
    platform=st.sampled_from(platform_names()),
)
def test_the_parts_add_up_exactly_to_the_total(counts, design, platform):
    counts["lookups_send"] += counts["ni_misses_send"]
    counts["lookups_receive"] += counts["ni_misses_receive"]
    counts["requests"] += counts["rejected"]
    counts["pins"] += counts["pin_calls"]
    cost = on(design, platform, counts)
    assert sum(part.low_ps for part in cost.components) == cost.low_ps
    assert sum(part.high_ps for part in cost.components) == cost.high_ps
    for component in cost.components:
        low, high = (component.count * unit for unit in component.unit_ps)
        assert abs(low - component.low_ps) <= Fraction(1, 2)
        assert abs(high - component.high_ps) <= Fraction(1, 2)


@pytest.mark.parametrize("design", design_names())
def test_every_step_that_happened_is_accounted_for_exactly_once(design):
    counts = dict.fromkeys(COUNTS, 4) | {"requests": 8, "lookups_send": 8, "lookups_receive": 8}
    for platform in platform_names():
        cost = on(design, platform, counts)
        accounted = [part.name for part in (*cost.components, *cost.unpriced)]
        accounted += cost.not_applicable
        assert sorted(accounted) == sorted(STEP_NAMES), platform


def test_every_scheme_has_a_model_made_of_known_costs():
    assert set(MODELS) == set(Scheme)
    for steps in MODELS.values():
        for step in steps:
            for term in step.terms:
                assert (COSTS[term.cost].size_of is None) == (term.size is None), term


def test_json_carries_the_evidence_of_each_component():
    shown = on("vmmc-interrupt", "utlb-prototype", interrupt_counts(4, 2, 1)).to_json()
    assert shown["platform"] == "utlb-prototype"
    pin = next(part for part in shown["components"] if part["name"] == "kernel_pin")
    assert pin["evidence"] == "fitted"
    assert (pin["count"], pin["unit_cost_us"], pin["total_us"]) == (2, 17.0, 34.0)
    assert "Table 6" in pin["source"]
    assert shown["total"] == pytest.approx(4 * 0.8 + 2 * 27 + 15)


def test_prices_from_a_file_are_used_like_the_catalogs(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        "[costs.ni_check]\nvalue = 100\nunit = 'ns'\nevidence = 'assumed'\nsource = 'a guess'\n"
    )
    cost = price({"lookups": 10}, load_design("vmmc-interrupt"), load_platform(file))
    assert cost.platform == "mine"
    assert cost.total_us() == (1, 1)
