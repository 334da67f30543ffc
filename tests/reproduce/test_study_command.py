"""``nicscope reproduce`` with studies: text, JSON, files, figures, and mistakes."""

import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.image import imread
from study_samples import ALL, tables_of, write_sample

from nicscope.cli.app import main
from nicscope.reports.figures.studies import GRAPHS, KINDS, MOST_PANELS, draw_study
from nicscope.reports.figures.style import save
from nicscope.reports.printing import lines_of
from nicscope.reports.reproduction import study_parts, study_rows
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.traced.measuring import find_study
from pressing import has_loaded, interrupted
from refusals import refused_command

# Laying out the NICs of 83 designs takes minutes for each trace without the compiler.
pytestmark = pytest.mark.compiled
NAMES = ["alpha", "a_name_that_is_far_too_long_for_a_column", "c", "d", "e", "f", "g", "h", "i"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("traces")
    for seed, name in enumerate(NAMES):
        write_sample(made / f"{name}.parquet", seed=seed, rows=80 if seed else 500)
    (made / "notes.txt").write_text("not a trace")
    return made


@pytest.fixture(scope="module")
def tables(folder):
    return tables_of(*(folder / f"{name}.parquet" for name in NAMES))


def rows_of(table, **at):
    """The table's rows of the first trace, there."""
    return [
        row
        for row in table.rows
        if row["application"] == "alpha" and all(row[key] == at[key] for key in at)
    ]


def grid_of(layout, rows):
    return [str(line) for line in lines_of([study_rows(layout, rows)], 100)]


@pytest.mark.parametrize("key", [f"{paper}/{name}" for paper, name in ALL])
def test_the_text_fits_100_columns_and_says_that_nothing_is_compared(key, tables):
    text = [str(line) for line in lines_of(study_parts(tables[key]), 100)]
    grid = grid_of(tables[key].layout, tables[key].rows)

    assert all(len(line) <= 100 for line in text)
    assert any("NOT COMPARABLE" in line for line in text)
    together = find_study(tables[key].paper, tables[key].id).together
    named = ["all"] if together else NAMES  # all traces at once have one name
    assert all(any(name in line.split() for line in grid) for name in named)


def test_the_text_has_the_cells_of_the_table(tables):
    table = tables["utlb/table4"]
    lines = grid_of(table.layout, rows_of(table))
    first = table.rows[0]

    assert lines[0].split() == ["alpha"]
    assert lines[1].split() == ["entries", "UTLB", "Intr"]
    assert lines[2].split()[-2:] == [f"{first['check_misses_utlb_per_lookup']:.2f}", "-"]
    assert lines[3].split()[-2:] == [
        f"{first[f'ni_misses_{scheme}_per_lookup']:.2f}" for scheme in ("utlb", "intr")
    ]
    assert len(lines) == 2 + 5 * 3


def test_a_folder_of_traces_makes_a_table_on_the_command_line(folder, capsys):
    assert main(["reproduce", "utlb/table4", "--trace", str(folder)]) == 0

    out, err = capsys.readouterr()
    assert err == ""
    assert all(len(line) <= 100 for line in out.splitlines())
    # Of the paper's table, for orientation.
    assert all(words in out for words in ("over 9 traces", "NOT COMPARABLE", "Raytrace"))


def test_the_json_holds_rows_with_units_and_files_hold_the_same(folder, tmp_path, capsys):
    out = tmp_path / "new" / "results"
    command = ["reproduce", "utlb/table7", "utlb/figure7", "--trace", str(folder / "alpha.parquet")]

    assert main([*command, "--json", "--out", str(out)]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert json.loads((out / "results.json").read_text()) == printed
    table, figure = printed["tables"]
    assert (table["id"], figure["id"]) == ("table7", "figure7")
    assert list(table["rows"][0])[:2] == ["application", "pin_1_page_us_per_lookup"]
    assert table["printed"]["comparable"] == []
    assert table["printed"]["not_comparable"]
    assert table["designs"] == ["utlb pin_limit=256 prepin=1", "utlb pin_limit=256 prepin=16"]
    assert printed["points"] == []
    for one in (table, figure):
        assert pq.read_table(out / f"utlb_{one['id']}.parquet").to_pylist() == one["rows"]
    names = {path.name for path in out.iterdir()}
    assert names == {"index.html", "results.json", "results.md"} | {
        *("utlb_figure7.parquet", "utlb_figure7.png", "utlb_figure7.svg", "utlb_table7.parquet")
    }
    page = (out / "results.md").read_text()
    assert f"`nicscope reproduce utlb/table7 utlb/figure7 --trace {folder}/alpha.parquet`" in page


def test_a_paper_with_traces_means_its_studies(folder, capsys):
    assert main(["reproduce", "mini", "--trace", str(folder / "c.parquet"), "--json"]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert [(table["paper"], table["id"]) for table in printed["tables"]] == [("mini", "figure5")]
    assert printed["missing"] == printed["points"] == []


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Folders: whole, empty, unreadable, and broken, of which a row is wrong."""
    place = tmp_path_factory.mktemp("given")
    for name in ("whole", "empty", "unreadable", "broken"):
        (place / name).mkdir()
        if name != "empty":
            write_sample(place / name / "a.parquet", rows=10)
    (place / "unreadable" / "b.parquet").write_text("time_ns,node\n")
    with_lengths(place / "broken" / "a.parquet", 0, place / "broken" / "b.parquet")
    return place


def with_lengths(file, length, to):
    """Write ``file`` with requests of another length."""
    table = pq.read_table(file)
    place = table.schema.get_field_index("length")
    lengths = np.full(len(table), length, np.uint32)
    pq.write_table(table.set_column(place, table.schema.field(place), [lengths]), to)


@pytest.mark.parametrize(
    ("item", "traces", "facts"),
    [
        ("utlb/table4", ["empty"], ["/empty: ", "*.parquet"]),
        ("utlb/table4", ["nowhere"], ["/nowhere: ", "folder"]),
        ("utlb/table4", ["unreadable"], ["/unreadable/b.parquet: "]),
        ("utlb/table4", ["broken"], ["/broken/b.parquet: row 0 "]),
        ("utlb/table4", ["whole", "whole/a.parquet"], ["/whole/a.parquet: ", "'a'"]),
        ("utlb/table6", ["whole/a.parquet"], ["utlb/table6", "mini/figure5, today/t1"]),
        ("trapeze", ["whole/a.parquet"], ["trapeze", "--trace"]),
        ("utlb/tabel4", ["whole/a.parquet"], ["'tabel4'", "'table4'"]),
        ("utlb/table4", ["bundled:redis_servr"], ["'redis_servr'", "'redis_server'"]),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(item, traces, facts, given, tmp_path, capsys):
    words = ["reproduce", item, "--out", str(tmp_path / "new")]
    for name in traces:
        words += ["--trace", name if name.startswith("bundled:") else str(given / name)]

    refused_command(capsys, words, *facts)

    assert not (tmp_path / "new").exists()


def test_ctrl_c_leaves_nothing(tmp_path):
    file = write_sample(tmp_path / "long.parquet", rows=1000)
    with_lengths(file, 2**32 - 1, file)  # a request is 65536 pages: minutes of replay
    out = tmp_path / "results"
    command = [sys.executable, "-m", "nicscope", "reproduce", "utlb", "mini", "--trace", str(file)]

    done = interrupted(
        [*command, "--out", str(out)], lambda: has_loaded("libarrow", file), more_s=1.0
    )

    assert done == (130, "", "nicscope: interrupted; nothing half-written was left\n")
    assert list(tmp_path.iterdir()) == [file]


def figures_of(table):
    return dict(draw_study(table))


def assert_drawn(figure, path):
    save(figure, path, "png")
    pixels = imread(path)
    assert pixels.shape[:2] == (1080, 1920)
    assert 0.002 < (np.ptp(pixels[..., :3], axis=2) > 0.3).mean() < 0.8
    for edge in (pixels[[0, -1]], pixels[:, [0, -1]]):
        assert np.all(edge[..., :3] == 1.0)  # nothing runs over the edge


@pytest.mark.requirement("UT-89")
def test_figure_7_stacks_the_tables_kinds(tables, tmp_path):
    table = tables["utlb/figure7"]
    assert len(NAMES) > MOST_PANELS

    figures = figures_of(table)

    assert list(figures) == ["_1", "_2"]
    shown = {axes.get_title("left"): axes for f in figures.values() for axes in f.axes}
    assert set(shown) - {""} == set(NAMES)
    bars = shown["alpha"].containers
    rows = rows_of(table)
    for kind, container in zip(KINDS, bars, strict=True):
        heights = [bar.get_height() for bar in container]
        assert container.get_label() == kind
        assert heights == pytest.approx([row[f"{kind}_per_lookup"] for row in rows])
    tops = [bar.get_y() + bar.get_height() for bar in bars[-1]]
    assert tops == pytest.approx([row["ni_misses_per_lookup"] for row in rows])
    assert_drawn(figures["_1"], tmp_path / "figure.png")


@pytest.mark.requirement("UT-90")
def test_figure_8_draws_the_tables_lines(tables, tmp_path):
    table = tables["utlb/figure8"]

    figures = figures_of(table)

    assert list(figures) == [f"_{name}" for name in NAMES]
    figure = figures["_alpha"]
    for axes, measure in zip(figure.axes, GRAPHS, strict=True):
        assert len(axes.lines) == 5
        for line in axes.lines:
            size = 1024 * int(str(line.get_label()).split()[0])
            rows = rows_of(table, cache_entries=size)
            expected = [[row["entries_fetched"], row[measure]] for row in rows]
            assert line.get_xydata().tolist() == expected
    assert_drawn(figure, tmp_path / "figure.png")


FOUR = ("send_cold", "send_noncold", "receive_cold", "receive_noncold")


@pytest.mark.requirement("MI-53", "MI-54")
def test_the_sweep_stacks_the_tables_parts(tables, tmp_path):
    table = tables["mini/figure5"]

    ending, figure = next(iter(draw_study(table)))

    assert ending == "_alpha"
    for axes, size in zip(figure.axes, (8192, 16384, 32768), strict=True):
        rows = rows_of(table, cache_entries=size)
        assert axes.get_title("left") == f"C: {size // 1024} K entries"
        for part, container in zip(FOUR, axes.containers, strict=True):
            heights = [bar.get_height() for bar in container]
            assert heights == pytest.approx([row[f"{part}_percent"] for row in rows])
    assert_drawn(figure, tmp_path / "figure.png")


def test_a_mere_table_has_no_figure_and_what_is_not_printed_is_blank(tables):
    assert figures_of(tables["utlb/table4"]) == {}
    items = load_papers()["utlb"].items
    layout = items["figure7"].table
    lines = grid_of(layout, layout.printed_rows(items, "figure7"))
    assert lines[2].split() == ["capacity", *["-"] * 7]
