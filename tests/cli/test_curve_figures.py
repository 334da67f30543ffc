"""The stacked kinds of misses, and the map over size and line, that ``nicscope curve`` draws."""

import json

import numpy as np
import pytest
from matplotlib.colors import to_hex
from trace_files import write

from drawn_figures import is_a_slide
from nicscope.cli.app import main
from nicscope.reports.figures.misses import (
    KINDS,
    draw_heat,
    draw_kinds,
    has_lines,
    maps_of,
    panels_of,
)
from nicscope.reports.wording import KIND_COLOURS, per_hundred
from nicscope.studies.curves import ask, report
from nicscope.traces.reader import open_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write(tmp_path_factory.mktemp("curve") / "t.parquet", count=150)


def found(trace, **words):
    return report([("t", open_trace(trace))], ask(**words))


def shown_in(figure):
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_title(loc="left")]


def test_the_kinds_stack_up_to_the_misses_of_the_table(trace):
    curves = found(trace, ways="1,2,4", entries="4..64")
    [curve] = curves.curves

    figure = draw_kinds(curves)

    assert is_a_slide(figure)
    panels = shown_in(figure)
    assert [axes.get_title(loc="left") for axes in panels] == ["1 way", "2 ways", "4 ways"]
    for axes, ways in zip(panels, (1, 2, 4), strict=True):
        points = [point for point in curve.points if point.ways == ways]
        tops = np.zeros(len(points))
        for container, kind in zip(axes.containers, KINDS, strict=True):
            heights = [bar.get_height() for bar in container]
            counts = [getattr(point, kind) for point in points]
            assert heights == pytest.approx([100 * count / curve.lookups for count in counts])
            assert [bar.get_y() for bar in container] == pytest.approx(tops.tolist())
            assert to_hex(container[0].get_facecolor()) == KIND_COLOURS[kind].lower()
            tops += heights
        ratios = [100 * point.misses / curve.lookups for point in points]
        assert tops == pytest.approx(ratios)
        assert [text.get_text() for text in axes.texts] == [per_hundred(rate) for rate in ratios]
    assert "per 100 lookups" in panels[0].get_ylabel()


def test_of_many_curves_the_fewest_ways_are_stacked(trace):
    curves = found(trace, ways="2,4", entries="16..64", by="process")

    panels = panels_of(curves)

    assert len(panels) == 6
    assert {point.ways for panel in panels for point in panel.points} == {2}
    assert len(shown_in(draw_kinds(curves))) == 6


def test_the_map_holds_the_misses_of_every_size_and_line(trace):
    curves = found(trace, ways="1,2", line="1,2,8", entries="4..64")

    figure = draw_heat(curves)

    assert is_a_slide(figure)
    panels = shown_in(figure)
    titles = [axes.get_title(loc="left") for axes in panels]
    assert titles == ["1 way", "2 ways", "fully associative"]
    for axes, ways in zip(panels, (1, 2, None), strict=True):
        [image] = axes.images
        cells = np.ma.filled(image.get_array(), np.nan)
        assert cells.shape == (3, 5)
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        for row, curve in enumerate(curves.curves):
            for column, entries in enumerate((4, 8, 16, 32, 64)):
                misses = [p.misses for p in curve.points if (p.entries, p.ways) == (entries, ways)]
                if ways is None and entries >= curve.line:
                    misses = [curve.sizes.at(entries)]
                if not misses:
                    assert np.isnan(cells[row, column])
                    assert (column, row) not in texts
                    continue
                rate = 100 * misses[0] / curve.lookups
                assert cells[row, column] == pytest.approx(rate)
                assert texts[column, row] == per_hundred(rate)
    lines = [label.get_text() for label in panels[0].get_yticklabels()]
    assert lines == ["1", "2", "8"]


def test_of_several_nodes_the_fully_associative_maps_are_drawn(trace):
    curves = found(trace, line="1,4", entries="8..64", by="node")

    shown = maps_of(curves)

    assert [one.title for one in shown] == ["t node 0", "t node 1"]
    assert "fully associative" in draw_heat(curves).get_suptitle()


def test_one_line_gives_no_map(trace):
    assert not has_lines(found(trace, by="node"))


@pytest.mark.usefixtures("no_pixels")
def test_the_folder_has_the_figures_that_make_sense(trace, capsys, tmp_path):
    for name, options in (("one", []), ("lines", ["--line", "1,2"])):
        assert main(["curve", str(trace), *options, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()

    pictures = {
        name: sorted(f.name for f in (tmp_path / name).glob("*.png")) for name in ("one", "lines")
    }

    assert pictures == {
        "one": ["curves.png", "kinds.png"],
        "lines": ["curves.png", "heat.png", "kinds.png"],
    }


def run_json(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_seed_samples_other_pages_and_the_same_each_time(capsys, tmp_path):
    count = 4000
    page = np.random.default_rng(2).integers(0, 3000, count)
    ones = [1] * count
    large = {"node": ones, "pid": ones, "length": ones, "address": page * 4096}
    trace = write(tmp_path / "large.parquet", count, **large)

    command = ["curve", trace, "--sample", "0.5"]
    runs = [run_json(capsys, *command, *option) for option in ([], ["--seed", 1], ["--seed", 2])]

    curves = [one["curves"][0] for one in runs]
    assert [curve["sample"]["seed"] for curve in curves] == [0, 1, 2]
    misses = [curve["fully_associative"]["ni_misses"] for curve in curves]
    assert misses[0] != misses[1] != misses[2]
    assert run_json(capsys, *runs[2]["repeat"]["command"][1:]) == runs[2]
