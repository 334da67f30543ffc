"""Each figure is drawn, is no blank sheet, and shows the numbers of the tables."""

import io

import numpy as np
import pytest
from comparison_samples import DESIGNS, comparison

from drawn_figures import drawn
from nicscope.reports.comparison import ReplayReport, memory_rows, miss_rows, work_rows
from nicscope.reports.figures.style import save
from nicscope.reports.result import drawing
from nicscope.reports.wording import (
    GROUP_COLOURS,
    KIND_COLOURS,
    STEP_GROUPS,
    byte_size,
    per_hundred,
    significant,
)
from nicscope.studies.pricing import STEP_NAMES

FIGURES = {name: drawing(place) for name, place in ReplayReport.drawn.items()}


@pytest.fixture(scope="module")
def found():
    return comparison()


def bars(axes):
    """Widths of the bars of each series, by its label."""
    return {
        container.get_label(): [float(bar.get_width()) for bar in container]
        for container in axes.containers
    }


def names_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


@pytest.fixture(scope="module")
def catalog():
    return comparison([])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_a_slide_that_names_designs_units_and_trace(name, found):
    figure = FIGURES[name](found)
    pixels = drawn(figure)

    assert pixels.shape[:2] == (720, 1920)
    coloured = np.ptp(pixels[..., :3], axis=2) > 0.3
    assert 0.005 < coloured.mean() < 0.8
    assert np.all(pixels[[0, -1], :, :3] == 1.0)  # nothing runs over the edge
    assert np.all(pixels[:, [0, -1], :3] == 1.0)
    assert names_of(figure.axes[0]) == DESIGNS
    for axes in figure.axes:
        assert "lookup" in axes.get_xlabel() or "bytes" in axes.get_xlabel()
    assert "sample" in figure.get_suptitle()


@pytest.mark.parametrize("name", FIGURES)
def test_the_whole_catalog_fills_a_slide(name, catalog):
    assert drawn(FIGURES[name](catalog)).shape[:2] == (1080, 1920)


@pytest.mark.parametrize("kinds", [True, False])
def test_the_bars_of_misses_are_the_numbers_of_the_table(kinds):
    found = comparison(kinds=kinds)
    rows = miss_rows(found)
    by_kind, by_path = FIGURES["misses"](found).axes

    shown = bars(by_kind) | bars(by_path)
    for place, heading in enumerate(rows.headings[2:], 2):
        assert [per_hundred(width) for width in shown[heading]] == [
            cells[place] for cells in rows.cells
        ]
    for axes in (by_kind, by_path):
        totals = np.sum(list(bars(axes).values()), axis=0)
        assert [per_hundred(total) for total in totals] == [cells[1] for cells in rows.cells]
    assert set(bars(by_kind)) <= set(KIND_COLOURS)


def test_the_bars_of_cost_add_up_to_the_lower_bound_of_the_table(found):
    shown = bars(FIGURES["costs"](found).axes[0])
    cells = {row[0]: row[4] for row in work_rows(found).cells}

    assert set(shown) <= set(GROUP_COLOURS)
    for priced, total in zip(found.priced, np.sum(list(shown.values()), axis=0), strict=True):
        assert total == pytest.approx(priced.cost.low_ps / 1e6 / priced.cost.lookups)
        if total:
            assert significant(total) in cells[priced.name]
        else:
            assert cells[priced.name] == "unknown"


def test_a_range_of_cost_is_a_line_to_its_upper_end(found):
    lines = [line.get_xydata() for line in FIGURES["costs"](found).axes[0].lines]

    mini = found.priced[DESIGNS.index("mini")]
    [(low, high)] = [line[:, 0] for line in lines if set(line[:, 1]) == {DESIGNS.index("mini")}]
    assert low == pytest.approx(mini.cost.low_ps / 1e6 / mini.cost.lookups)
    assert high == pytest.approx(mini.cost.high_ps / 1e6 / mini.cost.lookups)


def test_every_step_of_the_cost_model_is_in_one_group():
    assert sorted(step for steps in STEP_GROUPS.values() for step in steps) == sorted(STEP_NAMES)


def test_the_bars_of_memory_are_the_numbers_of_the_table(found):
    axes = FIGURES["memory"](found).axes[0]
    shown = bars(axes)

    assert axes.get_xscale() == "log"
    for place, label in ((1, "NIC memory"), (2, "pinned host memory")):
        assert [byte_size(int(width)) for width in shown[label]] == [
            cells[place] for cells in memory_rows(found).cells
        ]


def test_a_figure_of_one_design_that_never_misses_is_drawn_too():
    never = comparison(["unet"])
    for draw in FIGURES.values():
        save(draw(never), io.BytesIO(), "svg")
