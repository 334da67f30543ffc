"""``nicscope curve`` as a user and as a program see it."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.colors import to_hex
from trace_files import write

from drawn_figures import is_a_slide
from nicscope.cli.app import main
from nicscope.reports.figures.misses import FULL, LOOKS, draw_curves
from nicscope.reports.figures.style import MOST_PANELS
from nicscope.studies.curves import ask, report
from nicscope.traces.reader import open_trace

FILES = ["curves.parquet", "curves.png", "curves.svg", "kinds.png", "kinds.svg", "results.json"]


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "t.parquet", count=300)


def run(capsys, *arguments):
    assert main(["curve", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def run_json(capsys, *arguments):
    return json.loads(run(capsys, *arguments, "--json"))


def test_the_json_adds_up_and_names_what_was_asked(trace, capsys):
    found = run_json(capsys, trace, "--ways", "1,4", "--entries", "4..32")

    assert list(found) == ["traces", "curves", "repeat"]
    [one] = found["curves"]
    assert (one["trace"], one["node"], one["pid"], one["nics"]) == ("t", None, None, 2)
    points = one["set_associative"]
    assert [(p["entries"], p["ways"]) for p in points] == [
        (entries, ways) for ways in (1, 4) for entries in (4, 8, 16, 32)
    ]
    for point in points:
        parts = (point[f"ni_misses_{kind}"] for kind in ("compulsory", "capacity", "conflict"))
        assert point["ni_misses"] == sum(parts)
        assert point["ni_misses_compulsory"] == one["ni_misses_compulsory"]
    full = one["fully_associative"]
    assert (full["entries"][0], full["entries"][-1]) == (4, 32)
    assert full["ni_misses"] == sorted(full["ni_misses"], reverse=True)


def test_what_repeats_the_result_does_repeat_it(trace, capsys):
    options = ["--ways", "2", "--line", "2", "--entries", "8..64", "--by", "node", "--no-offset"]
    first = run_json(capsys, trace, *options, "--page-size", "8KiB")

    assert first["repeat"]["command"][0] == "nicscope"
    assert {one["page_size_bytes"] for one in first["curves"]} == {8192}
    assert main([*first["repeat"]["command"][1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_requests_that_are_skipped_are_those_of_the_whole_trace_less_the_rest(trace, capsys):
    options = [trace, "--ways", "1,4", "--entries", "4..32"]
    [whole], [rest] = (
        run_json(capsys, *options, *more)["curves"] for more in ([], ["--skip", "120"])
    )

    assert rest["skipped_requests"] == 120
    assert rest["lookups"] < whole["lookups"]
    assert rest["footprint_lines"] == whole["footprint_lines"] > rest["ni_misses_compulsory"]
    text = run(capsys, *options, "--skip", "120")
    assert f"{rest['lookups']:,} lookups after 120 requests that fill the caches" in text


def test_several_traces_have_a_curve_each_in_the_order_given(trace, capsys, tmp_path):
    other = write(tmp_path / "a.parquet", count=80)

    found = run_json(capsys, trace, other, "--by", "node")

    assert [(one["trace"], one["node"]) for one in found["curves"]] == [
        *(("t", 0), ("t", 1), ("a", 0), ("a", 1))
    ]
    assert [one["requests"] for one in found["traces"]] == [300, 80]


def test_the_text_shows_the_numbers_of_the_json(trace, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    options = [trace, "--ways", "1,4", "--entries", "4..32"]
    [one] = run_json(capsys, *options)["curves"]

    text = run(capsys, *options)

    lines = [line.split() for line in text.splitlines()]
    full = dict(zip(*one["fully_associative"].values(), strict=True))
    for point in one["set_associative"]:
        [cells] = [line for line in lines if line and line[0] == str(point["entries"])]
        shown = float(cells[3 + (1, 4).index(point["ways"])])
        assert shown == pytest.approx(100 * point["ni_misses"] / one["lookups"], abs=0.005)
        if point["ways"] == 1:
            assert cells[6:8] == [f"{point['ni_misses']:,}", f"{full[point['entries']]:,}"]
    assert "knee" in text


def test_a_sample_of_a_small_trace_says_that_it_is_pointless(trace, capsys):
    text = run(capsys, trace, "--sample", "0.1")

    assert "too few pages to sample at 0.1, so all were counted: exact" in text


def test_out_holds_json_table_and_figure_and_again_the_same_bytes(trace, capsys, tmp_path):
    folder, again = tmp_path / "deep" / "results", tmp_path / "again"
    options = [trace, "--by", "node", "--entries", "4..32"]
    run(capsys, *options, "--out", again)
    printed = run_json(capsys, *options, "--out", folder)

    assert sorted(file.name for file in folder.iterdir()) == FILES
    for name in FILES:
        assert (folder / name).read_bytes() == (again / name).read_bytes(), name
    assert json.loads((folder / "results.json").read_text()) == printed
    rows = pq.read_table(folder / "curves.parquet").to_pylist()
    for one in printed["curves"]:
        mine = [row for row in rows if row["node"] == one["node"]]
        for point in one["set_associative"]:
            place = (point["entries"], point["ways"])
            [row] = [row for row in mine if (row["entries"], row["ways"]) == place]
            assert {name: row[name] for name in point} == point
            assert row["miss_ratio"] == point["ni_misses"] / one["lookups"]
        full = {row["entries"]: row["ni_misses"] for row in mine if row["ways"] is None}
        steps = sorted(full)
        for entries, misses in zip(*one["fully_associative"].values(), strict=True):
            below = [step for step in steps if step <= entries]
            assert full[below[-1]] == misses


def test_the_figure_is_a_slide_whose_lines_are_the_numbers_of_the_table(trace):
    found = report([("t", open_trace(trace))], ask(entries="4..256", ways="1,2,4"))
    [one] = found.curves

    figure = draw_curves(found)

    [axes] = figure.axes
    assert axes.get_xscale() == "log"
    lines = {line.get_label(): line for line in axes.lines}
    for ways, label in ((1, "1 way"), (2, "2 ways"), (4, "4 ways")):
        points = [point for point in one.points if point.ways == ways]
        shown = lines[label].get_xydata().tolist()
        assert shown == [[point.entries, point.misses / one.lookups] for point in points]
        assert to_hex(lines[label].get_color()) == LOOKS[ways][0].lower()
    assert lines[FULL].get_xdata().tolist() == one.sizes.entries.tolist()
    ratios = (one.sizes.misses / one.lookups).tolist()
    assert lines[FULL].get_ydata().tolist() == pytest.approx(ratios)
    assert one.knee is not None
    assert any(f"knee: {one.knee} entries" in text.get_text() for text in axes.texts)
    floor = one.compulsory / one.lookups
    assert any(np.allclose(line.get_ydata(), floor) for line in axes.lines)
    assert "t" in figure.get_suptitle()
    assert is_a_slide(figure, most=0.8)


def test_a_figure_of_more_curves_than_fit_shows_those_with_most_lookups(trace):
    found = report([("t", open_trace(trace))], ask(by="process", line="1,2"))
    assert len(found.curves) > MOST_PANELS

    figure = draw_curves(found)

    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == MOST_PANELS
    assert f"({MOST_PANELS} of {len(found.curves)} curves)" in figure.get_suptitle()
    assert is_a_slide(figure)


@pytest.mark.compiled
def test_a_sample_of_many_pages_has_its_interval_everywhere(capsys, tmp_path):
    count = 60_000
    page = np.random.default_rng(2).integers(0, 20_000, count)
    ones = [1] * count
    large = {"node": ones, "pid": ones, "length": ones, "address": page * 4096}
    trace = write(tmp_path / "large.parquet", count, **large)
    options = [trace, "--sample", "0.2", "--entries", "1024..16384"]

    [one] = run_json(capsys, *options, "--out", tmp_path / "o")["curves"]

    full = one["fully_associative"]
    assert one["set_associative"] == []
    assert one["sample"]["rate"] == 0.2
    bands = (full[f"ni_misses{end}"] for end in ("_low", "", "_high"))
    for low, misses, high in zip(*bands, strict=True):
        assert one["ni_misses_compulsory"] <= low <= misses <= high <= one["lookups"]
    assert full["ni_misses_low"][5] < full["ni_misses_high"][5]
    rows = pq.read_table(tmp_path / "o" / "curves.parquet").to_pydict()
    assert rows["entries"] == full["entries"]
    assert rows["ni_misses_high"] == pytest.approx(full["ni_misses_high"], abs=0.001)
    assert set(rows["ways"]) == set(rows["ni_misses_conflict"]) == {None}
    text = run(capsys, *options)
    assert "95 % interval" in text
    assert max(map(len, text.splitlines())) <= 100
    [axes] = draw_curves(
        report([("large", open_trace(trace))], ask(sample=0.2, entries="1024..16384"))
    ).axes
    [band] = [area for area in axes.collections if area.get_label() == "95 % interval"]
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(max(full["ni_misses_high"]) / one["lookups"], abs=1e-6)
    assert heights.min() == pytest.approx(min(full["ni_misses_low"]) / one["lookups"], abs=1e-6)
