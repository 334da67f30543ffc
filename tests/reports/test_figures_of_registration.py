"""Figures of registering, paging and paths: each is drawn, and shows the numbers of its tables."""

import io
import json

import numpy as np
import pytest

import nicscope as ns
from drawn_figures import drawn
from nicscope.cli.app import main
from nicscope.reports.figures.style import LOOKS, MOST_ROWS, save
from nicscope.reports.registration import spelt_seconds
from nicscope.traces.writer import write_trace

PAGE = 4096
PAGES = [place % 8 for place in range(40)] + [3, 11, 40]
HYPOTHESES = "ksm,table,pool"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "ring.parquet"
    count = len(PAGES)
    columns = {"time_ns": range(count), "node": [0] * count, "pid": [1] * count}
    columns |= {"op": ["send"] * count, "address": [PAGE * (1 + page) for page in PAGES]}
    write_trace(path, columns | {"length": [64] * count})
    return path


@pytest.fixture(scope="module")
def found(trace):
    """A result of each command, by the figures that it must have."""
    counters = trace.with_name("counters.json")
    counters.write_text(json.dumps({"hits": 32, "misses": 11}))
    limits = {"max_mr": "512GiB", "max_entries": "24M", "kv_block": "2MiB"}
    return {
        "registrations parts": ns.rdma.register("1TiB", nics="8", threads="1,8", touched="no,yes"),
        "plans": ns.rdma.plan("789GiB", **limits, page_size="4K,2MiB"),
        "caches": ns.rdma.cache(str(trace), entries="2..16"),
        "waits resident": ns.rdma.odp(str(trace), resident="16KiB,none"),
        "paths": ns.rdma.path(str(trace), reads=32),
        "predictions": ns.rdma.explain("24GiB", hypothesis=HYPOTHESES),
        "caches (fit)": ns.rdma.fit(str(counters), str(trace)),
    }


NAMES = (
    *("registrations parts", "plans", "caches", "waits resident", "paths"),
    *("predictions", "caches (fit)"),
)


@pytest.mark.parametrize("names", NAMES)
def test_each_figure_is_a_slide_with_something_on_it(names, found):
    figures = found[names].figures()

    assert [*figures] == names.removesuffix(" (fit)").split()
    for figure in figures.values():
        pixels = drawn(figure)
        assert pixels.shape[1] == 1920
        coloured = np.ptp(pixels[..., :3], axis=2) > 0.2
        assert 0.001 < coloured.mean() < 0.8
        assert np.all(pixels[[0, -1], :, :3] == 1.0)  # nothing runs over the edge
        assert np.all(pixels[:, [0, -1], :3] == 1.0)


@pytest.mark.parametrize("names", NAMES)
def test_the_same_result_is_the_same_figure(names, found):
    assert svg(found[names].figure()) == svg(found[names].figure())


def svg(figure):
    picture = io.BytesIO()
    save(figure, picture, "svg")
    return picture.getvalue()


def lines(axes):
    """(x, y) of each line that the legend names."""
    return {
        line.get_label(): (list(map(float, line.get_xdata())), list(map(float, line.get_ydata())))
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def rows(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_times_of_registering_are_those_of_the_table_over_the_page_size(found):
    shown = found["registrations parts"]
    table = shown.table().to_pylist()

    [axes] = shown.figure("registrations").axes

    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert len(lines(axes)) == 4
    for name, (pages, seconds) in lines(axes).items():
        mine = [
            one
            for one in table
            if name == f"threads {one['threads']}, touched {'yes' if one['touched'] else 'no'}"
        ]
        assert pages == [one["page_size_bytes"] for one in mine]
        assert seconds == [one["register_total_s_low"] for one in mine]


def test_parts_of_registering_are_shares_of_the_upper_end(found):
    shown = found["registrations parts"]

    [axes] = shown.figure("parts").axes

    bars = {bar.get_label(): [each.get_width() for each in bar] for bar in axes.containers}
    assert [*bars] == ["calls", "touching", "pinning", "entering"]  # no backlog here
    assert np.sum([*bars.values()], axis=0) == pytest.approx(1.0)
    for row, one in enumerate(shown.found.found):
        assert bars["touching"][row] == pytest.approx(one.parts["touching"].high / one.total.high)
        assert axes.texts[row].get_text() == spelt_seconds(one.total)


def test_more_threads_than_page_sizes_make_them_the_axis():
    [axes] = ns.rdma.register("1GiB", page="4K", threads="1,2,4,8", touched="yes").figure().axes

    assert axes.get_xlabel() == "threads"
    assert lines(axes)["in all"][0] == [1, 2, 4, 8]


def test_what_does_not_fit_on_a_figure_is_counted():
    shown = ns.rdma.register(
        "1GiB", nics="1,2,4", threads="1,2", touched="no,yes", at_once="no,yes", page="4K,2M"
    )
    ways = len(shown.found.found)

    assert ways > MOST_ROWS
    assert f"the first {MOST_ROWS} of {ways}" in shown.figure("parts").get_suptitle()
    assert len(rows(shown.figure("parts").axes[0])) == MOST_ROWS
    assert f"({len(LOOKS)} of 16 lines)" in shown.figure("registrations").get_suptitle()
    assert len(lines(shown.figure("registrations").axes[0])) == len(LOOKS)


def test_plans_are_marked_by_whether_they_fit_and_limits_are_lines(found):
    shown = found["plans"]

    entries, regions = shown.figure().axes

    small, large = shown.found.plans
    assert lines(entries)["fits"] == ([large.page], [large.entries])
    assert lines(entries)["does not fit"] == ([small.page], [small.entries])
    assert set(lines(entries)["limit"][1]) == {24_000_000}
    assert set(lines(regions)["limit"][1]) == {512 << 30}
    assert lines(regions)["fits"][1] == [large.largest]


def test_a_pool_that_cannot_be_cut_has_no_points():
    figure = ns.rdma.plan("1MiB", page_size="4K,1G", kv_block="64K", max_mr="4K").figure()

    for axes in figure.axes:
        assert lines(axes)["fits"] == lines(axes)["does not fit"] == ([], [])
    assert drawn(figure).shape[1] == 1920


def test_caches_are_the_tables_over_their_limits(found):
    shown = found["caches"]
    table = shown.table().to_pylist()

    hits, kept, takes = shown.figure().axes

    for policy in ("exact", "page", "merge"):
        mine = [one for one in table if one["policy"] == policy]
        percents = [100 * one["hits"] / one["lookups"] for one in mine]
        assert lines(hits)[policy][1] == pytest.approx(percents)
        assert lines(kept)[policy][1] == pytest.approx([one["kept_bytes"] / 1024 for one in mine])
        assert lines(takes)[policy][1] == [one["registration_us_low"] for one in mine]
    assert kept.get_title(loc="left") == "KiB kept registered"
    assert [label.get_text() for label in hits.get_xticklabels()] == ["2", "4", "8", "16"]


def test_one_limit_leaves_a_mark_for_each_policy(trace):
    [hits, *_] = ns.rdma.cache(str(trace)).figure().axes

    assert [label.get_text() for label in hits.get_xticklabels()] == ["exact", "page", "merge"]
    assert [places for places, _ in lines(hits).values()] == [[0], [1], [2]]


def test_waits_are_ranges_below_what_registering_ahead_takes(found):
    shown = found["waits resident"]

    [axes] = shown.figure("waits").axes

    spans = [shown.found.ahead.seconds, *(one.waits for one in shown.found.demand)]
    assert len(rows(axes)) == len(spans)
    assert rows(axes)[:3] == [
        "registering ahead",
        "4 KiB, no advice, within 16 KiB",
        "4 KiB, sync, within 16 KiB",
    ]
    ranges = [list(line.get_xdata()) for line in axes.lines]
    assert ranges == [pytest.approx(list(span)) for span in spans]


def test_waits_over_what_may_be_resident_are_shares_of_what_is_touched(found, trace):
    [axes] = found["waits resident"].figure("resident").axes

    touched = len(set(PAGES))
    shares, waits = lines(axes)["4 KiB, no advice"]
    assert shares == pytest.approx([4 / touched, 1.0])
    assert waits[0] > waits[1]
    assert "resident" not in ns.rdma.odp(str(trace), prefetch="sync", resident="none").figures()


def test_each_part_of_a_path_is_a_range_and_the_least_is_said_to_bound(found):
    shown = found["paths"]

    [axes] = shown.figure().axes

    drawn_ranges = [tuple(line.get_xdata()) for line in axes.lines]
    assert drawn_ranges == [
        tuple(span) for one in shown.found.found for span in one.allows.values()
    ]
    assert [text.get_text().split()[0] for text in axes.texts] == [
        one["bound"] for one in shown.table().to_pylist()
    ]
    assert set(lines(axes)) == {"PCIe", "IOMMU", "window"}


def test_each_hypothesis_has_a_panel_with_its_limit_its_bars_and_its_counter(found):
    shown = found["predictions"]

    panels = shown.figure().axes

    for axes, one in zip(panels, shown.found.hypotheses, strict=True):
        settings = [*shown.found.asked, *shown.found.tests]
        assert set(lines(axes)["slow from"][0]) == {one.least}
        told = [text.get_text() for text in axes.texts if text.get_text() in ("slow", "fast")]
        assert told.count("slow") == sum(each.predicted(one) for each in settings)
        assert len(told) == len(settings)
        below = " ".join(text.get_text() for text in axes.texts).replace("\n", " ")
        assert one.counter in below


def test_shapes_of_caches_stand_beside_the_ratio_that_was_counted(found):
    shown = found["caches (fit)"]

    ratios, entries = shown.figure().axes

    explaining = [one for one in shown.found.shapes[:MOST_ROWS] if one.explains]
    assert explaining
    assert lines(ratios)["explains"][0] == [one.ratios[0] for one in explaining]
    [counted] = [line for line in ratios.lines if set(line.get_xdata()) == {11 / 43}]
    assert counted
    bests = [line.get_xdata()[0] for line in entries.lines if len(line.get_xdata()) == 1]
    assert bests == [one.best for one in shown.found.shapes[:MOST_ROWS]]


@pytest.mark.usefixtures("no_pixels")
def test_the_folder_has_them_twice(tmp_path, capsys):
    assert main(["rdma", "register", "1GiB", "--out", str(tmp_path / "found")]) == 0

    assert "parts.svg" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "found").iterdir()} == {
        "results.json",
        "registrations.parquet",
        *(f"{name}.{end}" for name in ("registrations", "parts") for end in ("png", "svg")),
    }
