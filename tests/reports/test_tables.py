"""Tables of a comparison that are true to the counts, and sentences where results are alike.

What all tables and summaries have in common is in test_every_table.py.
"""

from types import SimpleNamespace

import msgspec
import pyarrow as pa
import pytest
from comparison_samples import DESIGNS, comparison

import nicscope as ns
from nicscope.config.costs import Evidence
from nicscope.reports import size, wording
from nicscope.reports.comparison import ReplayReport, miss_rates, notes, work_rows
from nicscope.reports.printing import BAR, lines_of
from nicscope.reports.wording import KIND_TEXTURES
from nicscope.studies.pricing import Denominator

WIDEST = 100


@pytest.fixture(scope="module")
def found():
    return comparison()


def printed(found):
    return [str(line) for line in lines_of(ReplayReport(found).parts(), WIDEST)]


def test_rates_are_counts_per_hundred_lookups_and_both_splits_add_up(found):
    for rates, priced in zip(miss_rates(found), found.priced, strict=True):
        total = priced.result.total
        assert rates.misses == 100 * total["ni_misses"] / total["lookups"]
        assert sum(rates.by_kind.values()) == pytest.approx(rates.misses)
        assert sum(rates.by_path.values()) == pytest.approx(rates.misses)


def test_pinned_host_memory_is_the_peak_times_the_page_size(found):
    for priced in found.priced:
        assert priced.pinned_host_bytes == priced.result.total["peak_pinned_pages"] * 4096
    large = comparison(["utlb"], overrides=["page_size=64KiB"]).priced[0]
    assert large.pinned_host_bytes == large.result.total["peak_pinned_pages"] * 65536


def test_the_evidence_shown_is_that_of_the_weakest_price_that_was_paid(found):
    by_name = {priced.name: priced for priced in found.priced}
    assert by_name["via-static"].weakest_evidence is None
    assert by_name["utlb"].weakest_evidence is Evidence.DERIVED
    assert comparison(["utlb-shared"]).priced[0].weakest_evidence is Evidence.ASSUMED


def test_costs_are_marked_as_lower_bounds_and_unknowns(found):
    shown = {cells[0]: cells[4] for cells in work_rows(found).cells}

    assert shown["mini"].startswith("≥ ")
    assert shown["via-static"] == "unknown"
    assert float(shown["utlb"]) > 0


def test_a_range_of_prices_is_shown_as_one():
    found = comparison(["mini"])
    cost = found.priced[0].cost
    whole = msgspec.structs.replace(cost, not_applicable={}, unpriced=())
    low, high = (wording.significant(float(bound)) for bound in whole.per_lookup_us())
    assert low != high
    assert wording.us_per(Denominator.LOOKUP, whole) == f"{low} to {high}"


def test_the_longest_bar_fills_its_column_and_the_kinds_show_in_proportion(found):
    lines = [line for line in printed(found) if line.split(" ")[0] in DESIGNS][: len(DESIGNS)]
    textures = set("".join(KIND_TEXTURES.values()))
    lengths = {line.split(" ")[0]: sum(c in textures for c in line) for line in lines}
    rates = {rate.design: rate.misses for rate in miss_rates(found)}

    most = max(rates, key=rates.__getitem__)
    assert lengths[most] == BAR
    for name, rate in rates.items():
        assert lengths[name] == pytest.approx(BAR * rate / rates[most], abs=0.51)


def test_steps_without_a_price_are_spelt_out_for_few_designs_and_hinted_at_for_many(found):
    assert any("no price for ni_check" in line for line in notes(comparison(["mini"])))
    assert not any("no price for" in line for line in notes(found))
    assert any(line.startswith("≥ or unknown") for line in notes(found))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *((0, "0"), (0.00608, "0.00608"), (0.5, "0.500"), (1.7, "1.70"), (39.31, "39.3")),
        *((123.4, "123"), (77_000.4, "77,000"), (2e-8, "0.0000000200")),
    ],
)
def test_numbers_have_three_significant_digits(number, text):
    assert wording.significant(number) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0, "0"), (0.001, "<0.01"), (0.005, "0.01"), (12.344, "12.34"), (100, "100.00")],
)
def test_a_rate_that_is_not_zero_does_not_look_like_it(rate, text):
    assert wording.per_hundred(rate) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1536, "1.5 KiB")]
)
def test_sizes_are_in_the_largest_unit_that_fits(count, text):
    assert wording.byte_size(count) == text


def trace(*addresses):
    count = len(addresses)
    columns = {"time_ns": [0] * count, "node": [0] * count, "pid": [1] * count}
    columns |= {"op": ["send"] * count, "length": [1] * count}
    return pa.table(columns | {"address": list(addresses)})


def test_designs_that_miss_alike_are_called_neither_fewest_nor_most():
    alike = ns.replay(trace(4096), ["mini", "utlb"]).summary()[0]
    others = ns.replay(trace(4096), ["unet", "mini", "utlb"]).summary()[0]

    assert alike == "Of 100 lookups on the NIC every design misses 100.00."
    assert others.endswith("unet misses nothing; of the others each misses 100.00.")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (["4KiB", "2MiB"], "4 KiB pages: 1 miss, as with any other;"),
        (["4KiB"], "4 KiB pages: 1 miss; more than"),
    ],
)
def test_page_sizes_that_miss_alike_are_called_neither_fewer_nor_more(sizes, said):
    found = ns.size(trace(4096), "64KiB", page_size=sizes, only="page-sizes")

    assert found.summary()[0].startswith(said)


@pytest.mark.parametrize(
    ("misses", "said"),
    [
        ((2, 2, 3), "4 KiB pages: 2 misses, as with pages of 64 KiB;"),
        ((2, 3, 3), "4 KiB pages: 2 misses, fewer than the 3 of 64 KiB pages;"),
        ((3, 3, 2), "2 MiB pages: 3 misses with pages of 64 KiB become 2;"),
        ((2, 2, 2), "4 KiB pages: 2 misses, as with any other;"),
    ],
)
def test_the_best_page_size_is_compared_with_todays(misses, said):
    sizes = [
        SimpleNamespace(page_size=size, misses=count, enough=2, pinned_bytes=0)
        for size, count in zip((1 << 12, 1 << 16, 1 << 21), misses, strict=True)
    ]

    assert size._of_pages(sizes, 1 << 16, 0).startswith(said)
