"""What the catalog's expectations and the experiments give today, item by item."""

from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest

from nicscope.config.costs import Evidence
from nicscope.config.design import load_design
from nicscope.config.platform import load_platform
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.experiments.utlb import interrupt_counts, utlb_counts
from nicscope.studies.reproduce.harness import reproduce
from nicscope.studies.reproduce.verdict import load_paper


def points_of(item):
    return {point.quantity: point for point in reproduce([item]).points}


def as_printed(value):
    return Decimal(f"{value:.12g}").quantize(Decimal("0.1"), rounding=ROUND_HALF_UP)


@pytest.mark.requirement("UT-87")
def test_all_twelve_cells_of_utlb_table_6_round_to_the_print():
    points = points_of("utlb/table6")

    assert len(points) == 12
    for point in points.values():
        assert as_printed(point.reproduced) == Decimal(str(point.published)), point.quantity
    # To the last digit of its formulas.
    assert points["utlb[app=fft, entries=1024] us"].reproduced == 8.95
    assert points["utlb[app=barnes, entries=16384] us"].reproduced == 2.452
    assert points["intr[app=fft, entries=1024] us"].reproduced == 21.65
    assert points["intr[app=barnes, entries=4096] us"].reproduced == 2.45


def test_table_6_is_fed_with_table_4s_rates():
    items = load_paper("utlb").items
    rates, fed = items["table4"].printed, items["table6"].printed
    rows = [rates["cache_entries"].index(entries) for entries in fed["cache_entries"]]

    for app in fed["app"]:
        column = [name.lower() for name in rates["app"]].index(app)
        assert fed["check_misses"][app] == rates["check_misses_utlb"][column]
        assert fed["ni_misses"][app] == [rates["ni_misses_both"][row][column] for row in rows]
        assert fed["unpins_intr"][app] == [rates["unpins_intr"][row][column] for row in rows]


@pytest.mark.requirement("UT-83a", "UT-87")
def test_only_the_interrupt_cells_of_table_6_rest_on_fitted_costs():
    platform = load_platform("utlb-prototype")
    half = Decimal("0.5")

    utlb = price(utlb_counts(half, half), load_design("utlb"), platform)
    intr = price(interrupt_counts(half, half), load_design("vmmc-interrupt"), platform)

    assert {part.evidence for part in utlb.components if part.count} == {Evidence.PUBLISHED}
    assert Evidence.FITTED in {part.evidence for part in intr.components}
    assert platform.costs["kernel_pin"].high_ps < platform.costs["user_pin"].each(Fraction(1))[0]
    assert (
        platform.costs["kernel_unpin"].high_ps < platform.costs["user_unpin"].each(Fraction(1))[0]
    )
    for name, point in points_of("utlb/table6").items():
        assert point.basis == ("identity" if name.startswith("utlb[") else "fitted")


@pytest.mark.parametrize(
    ("item", "some"),
    [
        pytest.param(
            "table1",
            {"pin[pages=32] us": 115, "check_max[pages=1] us": 0.4},
            marks=pytest.mark.requirement("UT-71"),
        ),
        pytest.param(
            "table2",
            {"hit us": 0.8, "miss[entries=32] us": 3.2},
            marks=pytest.mark.requirement("UT-72"),
        ),
    ],
)
def test_utlbs_tables_are_handed_back_and_nearly_straight_lines(item, some):
    points = points_of(f"utlb/{item}")

    assert {name: points[name].reproduced for name in some} == some
    assert all(point.ok for point in points.values())
    lines = [abs(p.relative_error or 0) for name, p in points.items() if "_line" in name]
    assert item == "table2" or 0 < max(lines) < 0.05


@pytest.mark.parametrize("item", ["utlb/table1", "utlb/table2", "unet_mm/table1"])
def test_constants_handed_back_are_not_counted(item):
    found = reproduce([item])
    identities = [point for point in found.points if point.basis == "identity"]

    assert identities
    words = [point for point in identities if "_in_the_text" in point.quantity]
    assert all(point.reproduced == point.published for point in identities if point not in words)
    assert all(point.tolerance == 0.1 for point in words)  # "almost 50"
    assert found.summary().points == len(found.points) - len(identities)


@pytest.mark.requirement("UT-70")
def test_the_three_prices_of_a_hit_are_told():
    (shape,) = reproduce(["utlb/fast_path"]).shapes

    assert shape.ok
    assert "1.3 us" in shape.evidence
    assert "0.9 us" in shape.evidence


@pytest.mark.requirement("UM-82")
def test_unet_mm_sums_are_those_of_the_rows_and_contradictions_have_their_numbers():
    found = reproduce(["unet_mm/table1"])

    sums = {point.quantity: point.reproduced for point in found.points}
    assert sums["plain_miss_with_unpin[path=pca200] us"] == 24 + 10 + 11 + 4
    assert sums["plain_miss_with_unpin[path=nt-ahead] us"] == 37 + 4
    assert sums["copy_on_write_miss[path=pca200] us"] == 24 + 10 + 44 + 4
    assert sums["send_with_hit[path=nt-send] us"] == 6.8
    evidence = [shape.evidence for shape in found.shapes]
    assert any("45, 49, 74, 82 us" in text for text in evidence)
    assert any("1.67" in text and "1.51" in text for text in evidence)


def test_every_check_that_needs_no_replay_is_met_today_and_what_nothing_reproduces_named():
    items = ["utlb/fast_path", "utlb/table1", "utlb/table2", "utlb/table6", "unet_mm/table1"]
    assert reproduce(items).misses() == []
    found = reproduce(["trapeze/netperf", "edt/table1", "mini/table3"])
    assert not found.points
    assert len(found.missing) == 3
    assert all(gap.why for gap in found.missing)
