"""Ways are checked one at a time, and paid for one at a time (UTLB 6.3, miNI IV.B.2)."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import pytest

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.drivers.replay import replay
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.expectation import load_paper
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace

ROWS = 4000  # of each bundled trace
PROTOTYPE = load_platform("utlb-prototype")
WAY, MISS = (PROTOTYPE.costs[name].each(Fraction(1))[0] for name in ("ni_further_way", "ni_miss"))


def first_rows(name):
    batch = next(iter(open_trace(bundled_traces()[name]).batches(max_rows=ROWS)))
    return SimpleNamespace(**{key: value[:ROWS] for key, value in batch._asdict().items()})


def priced(columns, *chosen_settings, design="utlb", platform="utlb-prototype"):
    """Counts, and the price by component, of a design as set."""
    chosen = with_settings(load_design(design), list(chosen_settings)).at_page_size(4096)
    counts = {key: n for key, n in replay([columns], [chosen])[0].total.items() if n is not None}
    cost = price(counts, chosen, load_platform(platform))
    return counts, {part.name: part for part in cost.components}, cost


@pytest.mark.requirement("UT-28")
@pytest.mark.parametrize("ways", ["two_way", "four_way"])
def test_in_the_printed_table_the_ways_of_misses_alone_outweigh_the_misses_saved(ways):
    printed = load_paper("utlb").items["table8"].printed
    further = {"two_way": 1, "four_way": 3}[ways]
    # Columns cannot be told apart in the printed table, so rows are compared as sums.
    for direct, associative in zip(printed["direct"], printed[ways], strict=True):
        saved = MISS * Fraction(sum(direct) - sum(associative))
        spent = WAY * further * Fraction(sum(associative))
        assert spent > saved


def on_nic(columns, *chosen_settings):
    """What the NIC spends on lookups and misses, in ps."""
    _, parts, _ = priced(columns, *chosen_settings)
    steps = ("ni_check", "further_ways", "ni_miss")
    return sum(parts[step].low_ps for step in steps if step in parts)


@pytest.mark.requirement("UT-28")
@pytest.mark.parametrize("name", bundled_traces())
def test_at_the_published_size_a_direct_mapped_cache_is_the_cheapest_on_recorded_traces(name):
    columns = first_rows(name)
    one, two, four = (on_nic(columns, f"ways={ways}") for ways in (1, 2, 4))
    assert one < two < four


def test_where_nearly_all_misses_are_conflicts_two_ways_are_cheaper_all_the_same():
    columns = first_rows("rsync_transfer")  # two processes whose areas meet in 1 K sets
    one, two, four = (on_nic(columns, "entries=1024", f"ways={ways}") for ways in (1, 2, 4))
    assert two < four < one


@pytest.mark.requirement("MI-59")
@pytest.mark.parametrize("name", bundled_traces())
def test_of_the_same_lines_more_ways_cost_more_to_look_up(name):
    columns = first_rows(name)
    spent = []
    for ways in (1, 2, 4, 8):
        counts, parts, cost = priced(
            columns,
            f"ways={ways}",
            "line=8",
            "entries=1024",
            design="mini",
            platform="mini-cluster",
        )
        assert counts["further_ways"] >= (ways - 1) * counts["ni_misses"]
        if ways == 1:
            assert cost.not_applicable["further_ways"] == "sets have one way"
            spent.append(0)
        else:
            assert parts["further_ways"].count == counts["further_ways"]
            spent.append(parts["further_ways"].low_ps)
    assert spent == sorted(spent)
    assert spent[-1] > spent[1] > 0


def test_sets_with_an_index_have_no_ways_to_check():
    columns = first_rows(next(iter(bundled_traces())))
    counts, _, cost = priced(columns, "entries=1024", "ways=32")
    assert counts["further_ways"] == 0
    assert cost.not_applicable["further_ways"].startswith("sets of more than 16 ways")
