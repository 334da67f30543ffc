"""Statements of miNI's Figures 5, 6 and 7 are judged: rows made to meet them do, others do not.

The rows are made up, so nothing here shows what the paper states of its programs.
"""

import json

import msgspec
import numpy as np
import pytest
from mini_program_samples import (
    alike,
    changed,
    eight_programs,
    figure_5_rows,
    slower,
)

from nicscope.studies.reproduce.traced.mini import (
    DELAY_US,
    EIGHT,
    NO_MISSES,
    POINTS,
    Timed,
    TimedProgram,
    distribution,
    figure5,
    figure6,
    figure7,
    miss_penalty_of_programs,
    rank_correlation,
)
from nicscope.studies.reproduce.verdict import Outcome, load_paper

ITEMS = load_paper("mini").items
PLACES = np.array(POINTS)
SIZE, LINE, WAYS = PLACES.T


def failing(fill, found):
    """The statements that do not hold."""
    outcome = Outcome()
    fill(
        outcome,
        {name: one.rows() if isinstance(one, TimedProgram) else one for name, one in found.items()},
    )
    assert set(outcome.shapes) == {shape.id for shape in ITEMS[fill.__name__].shapes}
    assert all(told for _, told in outcome.shapes.values())
    return {name for name, (holds, _) in outcome.shapes.items() if not holds}


def rows_but(names, change):
    """All programs' rows, of which ``change`` says what is another in those of ``names``."""
    return {
        name: [{**row, **change(row)} for row in rows] if name in names else rows
        for name, rows in figure_5_rows().items()
    }


def times(factor):
    """Every share so many times."""
    return lambda row: {key: factor * row[key] for key in row if key.endswith("_percent")}


def at(factor, **where):
    """Those of rows at a place."""
    return lambda row: times(factor)(row) if where.items() <= row.items() else {}


OF_ONE = [
    ("Radix", at(1.2, cache_entries=8192, line_entries=8, ways=2), "nothing-over-40"),
    ("Ocean", at(1.8, cache_entries=8192, line_entries=8, ways=2), "small-ocean"),
    ("Volrend", at(1.8, cache_entries=8192, line_entries=8, ways=2), "small-volrend"),
    ("FFT", times(0.03), "large-group-misses-more"),
    ("FFT", at(2.0, cache_entries=32768, line_entries=128, ways=8), "fft-halves-at-32k"),
    ("LUContiguous", at(2.0, cache_entries=32768, line_entries=128), "lu-halves-at-32k"),
    ("Ocean", lambda _: {"send_noncold_percent": 0.01}, "ocean-conflicts-in-long-lines"),
    (
        "Ocean",
        lambda row: {"receive_noncold_percent": 0.05 * (row["line_entries"] == 128)},
        "ocean-is-well-with-32k",
    ),
]
OF_ALL = [
    (at(0.5, line_entries=8), "forty-is-reached"),
    (at(2.0, line_entries=128), "longer-lines-help"),
    (at(0.9, ways=2), "four-ways-help"),
    (at(0.8, ways=8), "eight-ways-help-less"),
    (at(0.95, ways=2, cache_entries=8192), "ways-matter-in-small-caches"),
    (at(4.0, line_entries=128, cache_entries=32768), "size-matters-with-long-lines"),
]


@pytest.mark.parametrize(
    ("names", "change", "broken"),
    [*(([name], *rest) for name, *rest in OF_ONE), *((EIGHT, *rest) for rest in OF_ALL)],
)
def test_programs_that_miss_otherwise_break_their_statement_of_figure_5(names, change, broken):
    assert broken in failing(figure5, rows_but(names, change))


def test_every_statement_of_figure_5_holds_of_rows_as_the_paper_describes_them():
    assert failing(figure5, figure_5_rows()) == set()
    # A program without misses takes no part in the shares that are taken away.
    assert failing(figure5, rows_but(["Raytrace"], times(0.0))) == set()


def test_every_statement_of_figures_6_and_7_holds_of_runs_as_the_paper_describes_them():
    programs = eight_programs()

    assert failing(figure6, programs) == set()
    assert failing(figure7, programs) == set()


def evened(one):
    """Of a program whose time no cache changes."""
    return changed(one, seconds=10.5)


def upside_down(one):
    """Of a program that is the faster the more it misses."""
    return one._replace(caches=[run._replace(seconds=20.0 - run.seconds / 5) for run in one.caches])


@pytest.mark.parametrize(
    ("name", "change", "broken"),
    [
        ("FFT", evened, {"fft-varies", "line-matters-most", "speedup-follows-misses"}),
        ("Radix", evened, {"radix-varies", "line-matters-most", "speedup-follows-misses"}),
        ("LUContiguous", upside_down, {"lucontiguous-varies", "speedup-follows-misses"}),
        ("Ocean", upside_down, {"speedup-follows-few-misses", "ocean-is-content-with-8k"}),
        ("Volrend", np.where(SIZE == 8192, 1.06, 1.0), {"volrend-is-content-with-8k"}),
        (
            "WaterSpatial",
            np.where((LINE == 64) & (WAYS == 4), 1.0, 1.2),
            {"the-rest-is-not-sensitive"},
        ),
        ("Radix", np.where(SIZE == 8192, 8.0, 1.0), {"line-matters-most"}),
    ],
)
def test_a_program_that_takes_other_times_breaks_its_statement_of_figure_6(name, change, broken):
    programs = eight_programs()
    one = programs[name]
    programs[name] = change(one) if callable(change) else slower(one, change)

    assert broken <= failing(figure6, programs)


@pytest.mark.parametrize("name", [name for name in EIGHT if name != "Radix"])
def test_a_program_beyond_3_percent_of_static_tables_breaks_its_statement(name):
    programs = eight_programs()
    programs[name] = slower(programs[name], 1.035)

    assert failing(figure7, programs) == {f"{name.lower()}-within-3"}


def test_radix_within_3_percent_is_no_exception():
    programs = eight_programs()
    programs["Radix"] = changed(programs["Radix"], seconds=10.2)

    assert "radix-is-the-exception" in failing(figure7, programs)


@pytest.mark.parametrize(
    ("factors", "broken"),
    [
        (1.01, {"some-are-faster"}),
        (np.where((SIZE == 16384) & (LINE == 64) & (WAYS == 4), 1.2, 1.0), {"c16-l64-a4-is-best"}),
        (np.where(SIZE == 32768, 0.5, 1.0), set()),  # a larger cache that is better is no rival
    ],
)
def test_the_best_cache_and_what_is_faster_are_those_of_all_programs(factors, broken):
    programs = {name: slower(one, factors) for name, one in eight_programs().items()}

    failed = failing(figure7, programs)
    assert failed & {"some-are-faster", "c16-l64-a4-is-best"} == broken


@pytest.mark.parametrize(
    ("fields", "where", "broken"),
    [
        ({"delays": alike(25.0, beyond=2)}, None, "delay-is-usually-under-50"),
        (
            {"processings": alike(80.0, beyond=1, last=773.0)},
            None,
            "processing-within-5-to-500",
        ),
        ({"delays": alike(40.0)}, [3], "delay-whatever-the-cache"),
        ({"processings": alike(160.0)}, [3], "processing-whatever-the-cache"),
        ({"processings": alike(100.0)}, None, "programs-differ"),
    ],
)
def test_other_delays_and_processings_break_their_statement(fields, where, broken):
    programs = eight_programs()
    assert failing(miss_penalty_of_programs, programs) == set()
    for name in EIGHT:
        programs[name] = changed(programs[name], where=where, **fields)

    assert broken in failing(miss_penalty_of_programs, programs)


def test_a_distribution_is_told_by_its_percentiles_and_what_lies_in_the_printed_range():
    found = distribution(np.array([0.0, 10.0, 20.0, 50.0, 120.0]), DELAY_US)

    assert found[:3] == (5, 40.0, 4)
    assert found.percentiles == pytest.approx((0, 4, 10, 20, 50, 92, 120))
    assert distribution(np.array([]), DELAY_US) == NO_MISSES


def test_a_run_is_kept_whole_and_rows_tell_what_it_is_worth():
    fft = eight_programs()["FFT"]
    rows = fft.rows()

    for run in fft.caches:
        kept = json.loads(json.dumps(msgspec.to_builtins(run)))
        assert msgspec.convert(kept, Timed) == run
    assert rows[0]["speed_up"] == pytest.approx(60 / rows[0]["seconds"])
    assert rows[0]["longer_percent"] == pytest.approx(10 * (rows[0]["seconds"] - 10))


def test_what_is_equal_has_one_rank():
    rising = np.array([1.0, 2.0, 3.0, 4.0])

    assert rank_correlation(rising, -(rising**3)) == pytest.approx(-1)
    assert rank_correlation(rising, np.array([5.0, 1.0, 1.0, 5.0])) == pytest.approx(0)
    assert rank_correlation(rising, np.ones(4)) == 0
    # By hand: ranks 0, 1.5, 1.5, 3 beside 0, 1, 2, 3.
    assert rank_correlation(np.array([1.0, 2.0, 2.0, 9.0]), rising) == pytest.approx(
        4.5 / (4.5 * 5) ** 0.5
    )
