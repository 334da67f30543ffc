"""Ways are checked one at a time, and paid for one at a time (UTLB 6.3, miNI IV.B.2)."""

from fractions import Fraction
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform, program_costs, transfer_costs
from nicscope.drivers.onepass.grid import SetAssociativeGrid
from nicscope.drivers.replay import replay
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.drivers.simulate.tracing import partition_trace, simulate_node
from nicscope.errors import PlatformError
from nicscope.studies.pricing import price
from nicscope.studies.reproduce.verdict import load_paper
from nicscope.studies.size_survey import Grid
from nicscope.traces.bundled import bundled_traces
from nicscope.traces.reader import open_trace
from refusals import refused
from trace_columns import design_of

ROWS = 4000  # of each bundled trace
PROTOTYPE = load_platform("utlb-prototype")
WAY, MISS = (PROTOTYPE.costs[name].each(Fraction(1))[0] for name in ("ni_further_way", "ni_miss"))


def first_rows(name):
    batch = next(iter(open_trace(bundled_traces()[name]).batches(max_rows=ROWS)))
    return SimpleNamespace(**{key: value[:ROWS] for key, value in batch._asdict().items()})


def pages_of(places):
    """A process's requests of 64 bytes at the beginnings of pages."""
    many = len(places)
    return SimpleNamespace(
        node=np.zeros(many, np.int32),
        pid=np.zeros(many, np.int32),
        receive=np.zeros(many, np.uint8),
        address=np.array(places, np.uint64) * np.uint64(4096),
        length=np.full(many, 64, np.uint32),
    )


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


@pytest.mark.compiled
@pytest.mark.requirement("UT-28")
@pytest.mark.parametrize("name", bundled_traces())
def test_at_the_published_size_a_direct_mapped_cache_is_the_cheapest_on_recorded_traces(name):
    columns = first_rows(name)
    one, two, four = (on_nic(columns, f"ways={ways}") for ways in (1, 2, 4))
    assert one < two < four


@pytest.mark.compiled
def test_where_nearly_all_misses_are_conflicts_two_ways_are_cheaper_all_the_same():
    columns = first_rows("rsync_transfer")  # two processes whose areas meet in 1 K sets
    one, two, four = (on_nic(columns, "entries=1024", f"ways={ways}") for ways in (1, 2, 4))
    assert two < four < one


@pytest.mark.compiled
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


@given(
    places=st.lists(st.integers(0, 40), min_size=1, max_size=80),
    sets=st.sampled_from((1, 2, 8)),
    ways=st.sampled_from((1, 2, 4, 8, 16)),
)
def test_a_further_way_is_checked_whenever_so_many_ways_would_miss(places, sets, ways):
    columns = pages_of(places)

    design = design_of({"scheme": "utlb", "entries": sets * ways, "ways": ways})
    counts = replay([columns], [design.at_page_size(4096)], kinds=False)[0].total
    bits = sets.bit_length() - 1
    grid = SetAssociativeGrid(bits, 16, split=False, min_set_bits=bits)
    numbers = np.array(places, np.uint32)
    found = Grid(1, bits, grid.feed(numbers, numbers.astype(np.int64)).result().misses, {})
    assert found.misses_of(sets * ways, ways) == counts["ni_misses"]
    assert found.extra_probes_of(sets * ways, ways) == counts["further_ways"]


@pytest.mark.compiled
def test_sets_with_an_index_have_no_ways_to_check():
    columns = first_rows(next(iter(bundled_traces())))
    counts, _, cost = priced(columns, "entries=1024", "ways=32")
    assert counts["further_ways"] == 0
    assert cost.not_applicable["further_ways"].startswith("sets of more than 16 ways")


def timed(columns, service, design):
    """The one node's outcome."""
    # Where links start at once, each message waits for its lookups, and not for the one before it.
    transfers = {**transfer_costs(load_platform(design.platform)), "link_start": 0}
    (outcome,) = (
        simulate_node(node, design, transfers, service) for node in partition_trace([columns])
    )
    return outcome


@pytest.mark.requirement("UT-28", "MI-59")
@pytest.mark.parametrize("name", ["utlb", "utlb-shared", "vmmc-interrupt", "mini"])
def test_in_virtual_time_too_each_further_way_takes_its_time(name):
    # Pages of one set again and again: found second, third and last, and missed.
    places = [0, 1, 0, 1, 2, 0, 3, 1, 4, 0]
    design = load_design(name)
    settings = ["entries=16", "ways=4", *(["line=1"] if name == "mini" else [])]
    design = with_settings(design, settings).at_page_size(4096)
    columns = pages_of([4 * place for place in places])
    columns.receive[1::2] = 1
    service = service_costs(program_costs(load_platform(design.platform), design.scheme), design)
    way = service.steps["further_way"]
    free = service._replace(steps=service.steps | {"further_way": 0})

    with_ways, without = timed(columns, service, design), timed(columns, free, design)

    assert way > 0
    checked = with_ways.counts["further_ways"]
    assert (
        checked
        == without.counts["further_ways"]
        == replay([columns], [design])[0].total["further_ways"]
    )
    # A lookup that a retry repeats takes its time again: by then its entry is the first.
    assert with_ways.times_ps["lookup"] - without.times_ps["lookup"] == way * checked
    later = with_ways.elapsed_ps - without.elapsed_ps
    # A packet that miNI dropped comes again by its sender's timer, whenever it was dropped.
    assert 0 < later <= way * checked
    assert later == way * checked or name == "mini"


def test_a_platform_that_does_not_say_what_a_way_takes_runs_direct_mapped_designs_only():
    platform = load_platform("utlb-prototype")
    costs = {name: cost for name, cost in platform.costs.items() if name != "ni_further_way"}
    silent = msgspec.structs.replace(platform, costs=costs)
    design = load_design("utlb")
    found = program_costs(silent, design.scheme)

    assert service_costs(found, design).steps["further_way"] == 0
    with refused(PlatformError, "4 ways"):
        service_costs(found, with_settings(design, ["ways=4"]))
