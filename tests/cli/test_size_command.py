"""``nicscope size`` as a user and as a program see it."""

import json
import shlex

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.colors import to_hex
from trace_files import write

from drawn_figures import is_a_slide
from nicscope.cli.app import main
from nicscope.config.design import Scheme
from nicscope.reports import size as say
from nicscope.reports.figures.designs import draw_sizing, height, shown_steps
from nicscope.reports.size import best_rows, memory_rows, page_rows, part_rows
from nicscope.reports.wording import FAMILY_LOOKS, GROUP_COLOURS, per_hundred
from nicscope.studies.size_search import report
from nicscope.studies.sizing import ask
from nicscope.traces.reader import open_trace
from refusals import refused_command

FILES = ["results.json", "size.png", "size.svg", "sizes.parquet"]
# With prices that do not have what RDMA NICs fetch.
FAMILIES = [scheme.value for scheme in Scheme if scheme is not Scheme.RNIC]
BUDGET = ["--nic-memory", "1KiB"]
PRICED = [*BUDGET, "--platform", "utlb-prototype"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return write(tmp_path_factory.mktemp("size") / "t.parquet", count=30)


@pytest.fixture(scope="module")
def found(trace):
    question = ask("1KiB", platform="utlb-prototype", page_sizes="4KiB,2MiB")
    return report([("t.parquet", open_trace(trace))], question)


def run(capsys, *arguments):
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_each_printed_command_counts_what_was_told(trace, capsys, tmp_path):
    options = [trace, *PRICED, "--page-size", "4KiB,2MiB"]
    text = run(capsys, "size", *options, "--out", tmp_path / "o")
    told = json.loads((tmp_path / "o" / "results.json").read_text())["sizings"][0]

    printed = [line.strip() for line in text.splitlines() if "nicscope replay" in line]

    families, pages = told["families"], told["page_sizes"]
    assert [shlex.join(one["command"]) for one in families] == printed[: len(FAMILIES)]
    for one in families:
        again = json.loads(run(capsys, *one["command"][1:], "--json"))
        best = one["best"]
        assert again["total"]["ni_misses"] == best["ni_misses"]
        assert again["total"]["rejected"] == best["rejected"]
        assert sum(again["nic_memory_bytes"].values()) == best["nic_memory_bytes"]
        assert again["cost_us"]["per_lookup"] == best["us_per_lookup"]
        assert again["cost_us"]["components"] == best["cost_us"]["components"]
        assert again["design"] == best["design"]
    for one in pages:
        assert {shlex.join(one["table_command"]), shlex.join(one["cache_command"])} <= set(printed)
        table = json.loads(run(capsys, *one["table_command"][1:], "--json"))
        assert sum(table["nic_memory_bytes"].values()) == one["table_bytes"]
        [part] = [p for p in table["cost_us"]["components"] if p["name"] == "registration"]
        assert part["total_us"] == one["registration_us"]
        cache = json.loads(run(capsys, *one["cache_command"][1:], "--json"))
        assert cache["total"]["ni_misses"] == one["ni_misses"]
        assert cache["cost_us"]["total"] == one["cache"]["us"]


@pytest.mark.compiled
def test_what_does_not_fit_or_is_turned_away_is_told(trace, capsys):
    text = run(capsys, "size", trace, "--nic-memory", "150B", "--pin-memory", "256KiB")

    assert "interrupt: nothing fits; its smallest design takes 192 B of NIC memory" in text
    assert "static*:" in text
    assert "lookups turned away of" in text


@pytest.mark.compiled
def test_the_text_tells_what_it_rests_on_and_out_holds_the_same_each_time(trace, capsys, tmp_path):
    options = [*PRICED, "--pin-memory", "1MiB", "--target-us", "10", "--page-size", "8KiB"]
    text = run(capsys, "size", trace, *options, "--out", tmp_path / "a")
    printed = json.loads(run(capsys, "size", trace, *options, "--json", "--out", tmp_path / "b"))

    for words in (
        *("of its cost rests on kernel_pin (fitted)", "assumed: what each further way takes"),
        *("knee", "doubled", "cheapest of those that carry out everything"),
    ):
        assert words in text
    assert "floor" in text[text.index("Least NIC memory for at most 10 us per lookup") :]
    again = [*printed["repeat"]["command"][1:], "--json"]
    assert json.loads(run(capsys, *again)) == printed
    folder = tmp_path / "a"
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert json.loads((folder / "results.json").read_text()) == printed
    for name in FILES:
        assert (folder / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    rows = pq.read_table(folder / "sizes.parquet").to_pylist()
    for one in printed["sizings"][0]["families"]:
        mine = [row for row in rows if row["family"] == one["family"]]
        for column in ("nic_memory_bytes", "ni_misses"):
            assert [row[column] for row in mine] == [step[column] for step in one["curve"]]
        [best] = [row for row in mine if row["is_best"]]
        assert best["nic_memory_bytes"] == one["best"]["nic_memory_bytes"]
        assert sum(row["is_knee"] for row in mine) == (one["knee"] is not None)
    assert printed["nic_memory_bytes"] == 1024
    assert printed["platform"] == "utlb-prototype"


@pytest.mark.compiled
def test_several_traces_are_sized_one_by_one(trace, capsys, tmp_path):
    other = write(tmp_path / "a.parquet", count=10)

    run(capsys, "size", trace, other, *BUDGET, "--out", tmp_path / "o")

    names = sorted(file.name for file in (tmp_path / "o").glob("*.png"))
    assert names == ["size_1_t.png", "size_2_a.png"]
    told = json.loads((tmp_path / "o" / "results.json").read_text())
    larger, smaller = told["sizings"]
    assert larger["lookups"] > smaller["lookups"]


def test_the_figure_is_a_slide_whose_data_are_those_of_the_tables(found):
    [sizing] = found.sizings
    figure = draw_sizing(sizing, found)

    assert is_a_slide(figure, most=0.8)
    groups = say.ranked_alike(sizing)
    *over_memory, parts, by_page = figure.axes[: len(groups) + 2]
    assert [len(group) for group in groups] == [6, 2]
    for axes, answers in zip(over_memory, groups, strict=True):
        assert (axes.get_xscale(), axes.get_ylabel()) == ("log", say.unit(answers))
        assert any(np.allclose(line.get_xdata(), 1024) for line in axes.lines)
        lines = {line.get_label(): line for line in axes.lines}
        memory = {row[0]: row for row in memory_rows(answers, found).cells}
        for answer in answers:
            check_steps(answer, lines, memory[answer.scheme.value])
    assert [tick.get_text() for tick in parts.get_yticklabels()] == FAMILIES
    widths = np.zeros(len(FAMILIES))
    for container in parts.containers:
        assert container.get_label() in GROUP_COLOURS
        widths += [bar.get_width() for bar in container]
    for row, width, cells in zip(
        sizing.answers, widths, best_rows(sizing, found).cells, strict=True
    ):
        us = row.best.us
        assert width == pytest.approx(0.0 if us is None else us[0])
        assert us is None or say.significant(width) in cells[-1]
    assert len(part_rows(sizing, found).cells) == len(FAMILIES)
    [bars] = by_page.containers
    assert [bar.get_width() for bar in bars] == [one.misses for one in sizing.page_sizes]
    sizes = [tick.get_text() for tick in by_page.get_yticklabels()]
    assert sizes == [cells[0] for cells in page_rows(sizing, found).cells]


def check_steps(answer, lines, cells):
    """The line of a family has its steps, and at the budget and the knee what its row says."""
    name, steps = answer.scheme.value, shown_steps(answer)
    if not steps:
        assert name not in lines
        return
    written = say.significant if answer.by_cost else per_hundred
    shown = lines[name].get_xydata().tolist()
    assert shown[:-1] == [[step.nic_bytes, height(step)] for step in steps]
    assert to_hex(lines[name].get_color()) == FAMILY_LOOKS[name][0].lower()
    best = [value for size, value in shown if size <= 1024][-1]
    assert written(best) in cells[2]
    if answer.knee is not None:
        ring = lines[f"_knee of {name}"].get_xydata().tolist()
        assert ring == [[answer.knee.nic_bytes, height(answer.knee)]]
        assert written(ring[0][1]) in cells[-1]


@pytest.mark.requirement("UM-71")
def test_a_cache_that_the_kernel_keeps_takes_no_nic_memory_and_stands_at_the_edge(trace):
    found = report(
        [("t.parquet", open_trace(trace))],
        ask("256B", platform="dc21140-nt", only=["unet-mm", "utlb"]),
    )
    [sizing] = found.sizings

    figure = draw_sizing(sizing, found)

    assert is_a_slide(figure, most=0.8)
    [answer] = [one for one in sizing.answers if one.scheme is Scheme.UNET_MM]
    assert {step.nic_bytes for step in shown_steps(answer)} == {0}
    assert answer.best.priced.total("interrupts") == 0
    [axes] = [one for one in figure.axes if "at the left edge: none" in one.get_xlabel()]
    [line] = [one for one in axes.lines if one.get_label() == "unet-mm"]
    assert line.get_xdata()[0] == axes.get_xlim()[0] > 0


@pytest.mark.compiled
@pytest.mark.parametrize("platform", [None, "mini-cluster"])
def test_a_figure_without_known_costs_is_drawn_too(platform, trace):
    found = report([("t.parquet", open_trace(trace))], ask("256B", platform=platform))
    [sizing] = found.sizings

    figure = draw_sizing(sizing, found)

    assert is_a_slide(figure, most=0.8)
    if platform is None:
        assert figure.axes[0].get_ylabel() == "misses per 100 lookups"


@pytest.mark.compiled
def test_a_budget_below_every_design_tells_the_smallest_that_would_do(trace, capsys, tmp_path):
    words = ["size", trace, "--nic-memory", "8", "--out", tmp_path / "o"]
    refused_command(capsys, words, "scheme 'pinned'", 48)
    assert list(tmp_path.iterdir()) == []
    assert main(["size", str(trace), "--nic-memory", "48"]) == 0
