"""Statements of miNI's Figures 5, 6 and 7 are judged: rows made to meet them do, others do not.

The rows are made up, so nothing here shows what the paper states of its programs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from mini_program_samples import (
    alike,
    changed,
    eight_programs,
    figure_5_rows,
    slower,
)

from nicscope.studies.reproduce.mini_programs.misses import EIGHT, figure5
from nicscope.studies.reproduce.mini_programs.penalties import miss_penalty_of_programs
from nicscope.studies.reproduce.mini_programs.runs import (
    DELAY_US,
    NONE,
    Timed,
    distribution,
    programs_of,
)
from nicscope.studies.reproduce.mini_programs.times import figure6, figure7, rank_correlation
from nicscope.studies.reproduce.traced.mini import POINTS
from nicscope.studies.reproduce.verdict import Outcome, load_paper

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.studies.reproduce.mini_programs.runs import Distribution, Program
    from nicscope.studies.reproduce.traced.measuring import Row

ITEMS = load_paper("mini").items
PLACES = np.array(POINTS)
SIZE, LINE, WAYS = PLACES.T


def failing(fill: Callable[[Outcome, Any], None], found: Any) -> set[str]:
    """The statements that do not hold."""
    outcome = Outcome()
    fill(outcome, found)
    assert set(outcome.shapes) == {shape.id for shape in ITEMS[fill.__name__].shapes}
    assert all(told for _, told in outcome.shapes.values())
    return {name for name, (holds, _) in outcome.shapes.items() if not holds}


def rows_but(name: str, change: Callable[[Row], dict[str, float]]) -> dict[str, list[Row]]:
    """All programs' rows, of which ``change`` says what is another in those of ``name``."""
    rows = figure_5_rows()
    rows[name] = [{**row, **change(row)} for row in rows[name]]
    return rows


def times(factor: float) -> Callable[[Row], dict[str, float]]:
    """Every share so many times."""
    return lambda row: {key: factor * row[key] for key in row if key.endswith("_percent")}


def at(factor: float, **where: int) -> Callable[[Row], dict[str, float]]:
    """Those of rows at a place."""
    return lambda row: times(factor)(row) if where.items() <= row.items() else {}


def test_every_statement_of_figure_5_holds_of_rows_as_the_paper_describes_them() -> None:
    assert failing(figure5, figure_5_rows()) == set()


@pytest.mark.parametrize(
    ("name", "change", "broken"),
    [
        ("Radix", at(1.2, cache_entries=8192, line_entries=8, ways=2), "nothing-over-40"),
        ("Ocean", at(1.8, cache_entries=8192, line_entries=8, ways=2), "small-ocean"),
        ("Volrend", at(1.8, cache_entries=8192, line_entries=8, ways=2), "small-volrend"),
        ("FFT", times(0.03), "large-group-misses-more"),
        ("FFT", at(2.0, cache_entries=32768, line_entries=128, ways=8), "fft-halves-at-32k"),
        ("LUContiguous", at(2.0, cache_entries=32768, line_entries=128), "lu-halves-at-32k"),
        (
            "Ocean",
            lambda _: {"send_noncold_percent": 0.01},
            "ocean-conflicts-in-long-lines",
        ),
        (
            "Ocean",
            lambda row: {"receive_noncold_percent": 0.05 * (row["line_entries"] == 128)},
            "ocean-is-well-with-32k",
        ),
    ],
)
def test_a_program_that_misses_otherwise_breaks_its_statement_of_figure_5(
    name: str, change: Callable[[Row], dict[str, float]], broken: str
) -> None:
    assert broken in failing(figure5, rows_but(name, change))


@pytest.mark.parametrize(
    ("where", "factor", "broken"),
    [
        ({"line_entries": 8}, 0.5, "forty-is-reached"),
        ({"line_entries": 128}, 2.0, "longer-lines-help"),
        ({"ways": 2}, 0.9, "four-ways-help"),
        ({"ways": 8}, 0.8, "eight-ways-help-less"),
        ({"ways": 2, "cache_entries": 8192}, 0.95, "ways-matter-in-small-caches"),
        ({"line_entries": 128, "cache_entries": 32768}, 4.0, "size-matters-with-long-lines"),
    ],
)
def test_programs_that_all_miss_otherwise_break_its_statements_of_all(
    where: dict[str, int], factor: float, broken: str
) -> None:
    rows = {
        name: [{**row, **at(factor, **where)(row)} for row in own]
        for name, own in figure_5_rows().items()
    }

    assert broken in failing(figure5, rows)


def test_a_program_without_misses_takes_no_part_in_the_shares_that_are_taken_away() -> None:
    rows = figure_5_rows()
    rows["Raytrace"] = [{**row, **times(0.0)(row)} for row in rows["Raytrace"]]

    assert failing(figure5, rows) == set()


def test_every_statement_of_figures_6_and_7_holds_of_runs_as_the_paper_describes_them() -> None:
    programs = eight_programs()

    assert failing(figure6, programs) == set()
    assert failing(figure7, programs) == set()


def evened(one: Program) -> Program:
    """Of a program whose time no cache changes."""
    return changed(one, seconds=10.5)


def upside_down(one: Program) -> Program:
    """Of a program that is the faster the more it misses."""
    return one._replace(caches=[run._replace(seconds=20.0 - run.seconds / 5) for run in one.caches])


@pytest.mark.parametrize(
    ("name", "change", "broken"),
    [
        ("FFT", evened, {"fft-varies", "line-matters-most", "speedup-follows-misses"}),
        ("Radix", evened, {"radix-varies", "line-matters-most", "speedup-follows-misses"}),
        ("LUContiguous", upside_down, {"lucontiguous-varies", "speedup-follows-misses"}),
        ("Ocean", upside_down, {"speedup-follows-few-misses", "ocean-is-content-with-8k"}),
        (
            "Volrend",
            lambda one: slower(one, np.where(SIZE == 8192, 1.06, 1.0)),
            {"volrend-is-content-with-8k"},
        ),
        (
            "WaterSpatial",
            lambda one: slower(one, np.where((LINE == 64) & (WAYS == 4), 1.0, 1.2)),
            {"the-rest-is-not-sensitive"},
        ),
        (
            "Radix",
            lambda one: slower(one, np.where(SIZE == 8192, 8.0, 1.0)),
            {"line-matters-most"},
        ),
    ],
)
def test_a_program_that_takes_other_times_breaks_its_statement_of_figure_6(
    name: str, change: Callable[[Program], Program], broken: set[str]
) -> None:
    programs = eight_programs()
    programs[name] = change(programs[name])

    assert broken <= failing(figure6, programs)


@pytest.mark.parametrize("name", [name for name in EIGHT if name != "Radix"])
def test_a_program_beyond_3_percent_of_static_tables_breaks_its_statement(name: str) -> None:
    programs = eight_programs()
    programs[name] = slower(programs[name], 1.035)

    assert failing(figure7, programs) == {f"{name.lower()}-within-3"}


def test_radix_within_3_percent_is_no_exception() -> None:
    programs = eight_programs()
    programs["Radix"] = changed(programs["Radix"], seconds=10.2)

    assert "radix-is-the-exception" in failing(figure7, programs)


def test_if_no_program_is_faster_than_with_static_tables_none_is() -> None:
    programs = {name: slower(one, 1.01) for name, one in eight_programs().items()}

    assert failing(figure7, programs) == {"some-are-faster"}


def test_another_cache_of_16_k_entries_may_be_the_best() -> None:
    factors = np.where((SIZE == 16384) & (LINE == 64) & (WAYS == 4), 1.2, 1.0)
    programs = {name: slower(one, factors) for name, one in eight_programs().items()}

    assert "c16-l64-a4-is-best" in failing(figure7, programs)


def test_a_larger_cache_that_is_better_is_no_rival() -> None:
    large = SIZE == 32768
    programs = {
        name: slower(one, np.where(large, 0.5, 1.0)) for name, one in eight_programs().items()
    }

    assert "c16-l64-a4-is-best" not in failing(figure7, programs)


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
def test_other_delays_and_processings_break_their_statement(
    fields: dict[str, Distribution], where: list[int] | None, broken: str
) -> None:
    programs = eight_programs()
    assert failing(miss_penalty_of_programs, programs) == set()
    for name in EIGHT:
        programs[name] = changed(programs[name], where=where, **fields)

    assert broken in failing(miss_penalty_of_programs, programs)


def test_a_distribution_is_told_by_its_percentiles_and_what_lies_in_the_printed_range() -> None:
    found = distribution(np.array([0.0, 10.0, 20.0, 50.0, 120.0]), DELAY_US)

    assert found[:3] == (5, 40.0, 4)
    assert found.percentiles == pytest.approx((0, 4, 10, 20, 50, 92, 120))
    assert distribution(np.array([]), DELAY_US) == NONE


def test_rows_tell_all_that_statements_need() -> None:
    programs = eight_programs()
    rows = [{"application": name, **row} for name, one in programs.items() for row in one.rows()]

    again = programs_of(rows)

    for name, one in programs.items():
        assert again[name].caches == one.caches
        assert again[name].alone_seconds == one.alone_seconds
        assert again[name].static.seconds == one.static.seconds
        assert [Timed.of_json(json.loads(json.dumps(run.to_json()))) for run in one.caches] == [
            *one.caches
        ]
    assert rows[0]["speed_up"] == pytest.approx(60 / rows[0]["seconds"])
    assert rows[0]["longer_percent"] == pytest.approx(10 * (rows[0]["seconds"] - 10))


def test_what_is_equal_has_one_rank() -> None:
    rising = np.array([1.0, 2.0, 3.0, 4.0])

    assert rank_correlation(rising, -(rising**3)) == pytest.approx(-1)
    assert rank_correlation(rising, np.array([5.0, 1.0, 1.0, 5.0])) == pytest.approx(0)
    assert rank_correlation(rising, np.ones(4)) == 0
    # By hand: ranks 0, 1.5, 1.5, 3 beside 0, 1, 2, 3.
    assert rank_correlation(np.array([1.0, 2.0, 2.0, 9.0]), rising) == pytest.approx(
        4.5 / (4.5 * 5) ** 0.5
    )
