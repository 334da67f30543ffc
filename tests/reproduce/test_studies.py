"""Tables of the papers over any traces: their cells, and what must hold of them."""

import contextlib

import numpy as np
import pytest
from study_samples import ALL, tables_of, write_sample

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.drivers.replay import replay
from nicscope.studies.curves import Question, curves_of
from nicscope.studies.replaying import Subject, compare
from nicscope.studies.reproduce.harness import (
    load_papers,
    reproduce,
    study,
)
from nicscope.studies.reproduce.traced.measuring import find_study
from nicscope.traces.reader import open_trace

pytestmark = pytest.mark.compiled
SIZES = [1024, 2048, 4096, 8192, 16384]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("traces")
    write_sample(made / "alpha.parquet", rows=3600)
    write_sample(made / "beta.parquet", seed=2, rows=800)
    return made


@pytest.fixture(scope="module")
def tables(folder):
    return tables_of(folder / "alpha.parquet", folder / "beta.parquet")


def rows_of(table, application="alpha", **at):
    return [
        row
        for row in table.rows
        if row["application"] == application and all(row[key] == at[key] for key in at)
    ]


def column(table, measure, application="alpha", **at):
    return [row[measure] for row in rows_of(table, application, **at)]


def replayed(folder, name, *settings):
    """Counts as ``nicscope replay alpha.parquet --design NAME --set ...`` tells them."""
    trace = open_trace(folder / "alpha.parquet")
    design = with_settings(load_design(name), settings) if settings else load_design(name)
    [result] = replay(trace.batches(), [design], page_size=trace.metadata.page_size)
    return result.total


def rate(counts, name):
    count, lookups = counts[name], counts["lookups"]
    assert count is not None
    assert lookups
    return pytest.approx(count / lookups, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "entries", "limit"),
    [
        pytest.param("table4", 2048, (), marks=pytest.mark.requirement("UT-85", "UT-83")),
        # 4 MB of each process.
        pytest.param("table5", 4096, ("pin_limit=64",), marks=pytest.mark.requirement("UT-86")),
    ],
)
def test_tables_4_and_5_are_what_replay_counts_one_design_at_a_time(
    name, entries, limit, folder, tables
):
    [row] = rows_of(tables[f"utlb/{name}"], cache_entries=entries)
    utlb = replayed(folder, "utlb", f"entries={entries}", *limit)
    intr = replayed(folder, "vmmc-interrupt", f"entries={entries}", *limit)

    for measure in ("check_misses", "ni_misses", "unpins"):
        assert row[f"{measure}_utlb_per_lookup"] == rate(utlb, measure)
    for measure in ("ni_misses", "unpins"):
        assert row[f"{measure}_intr_per_lookup"] == rate(intr, measure)
    if limit:
        assert row["unpins_intr_per_lookup"] > row["unpins_utlb_per_lookup"] > 0


def test_the_limit_of_table_5_is_1024_pages_of_4_kb():
    specs = find_study("utlb", "table5").designs(4096).values()

    limits = [[word for word in spec if word.startswith("pin_limit")] for spec in specs]
    assert [] in limits  # beside what it prints: programs that may pin all they like
    assert [limit for limit in limits if limit and limit != ["pin_limit=1024"]] == []
    assert limits.count(["pin_limit=1024"]) >= len(SIZES)


def test_table_7_is_what_replay_prices_per_lookup(folder, tables):
    [row] = rows_of(tables["utlb/table7"])
    trace = open_trace(folder / "alpha.parquet")
    for pages, label in ((1, "1_page"), (16, "16_pages")):
        design = with_settings(load_design("utlb"), ["pin_limit=256", f"prepin={pages}"])
        [priced] = compare(trace, [Subject(design, load_platform("utlb-prototype"))]).priced
        lookups = priced.total("lookups")
        assert lookups
        us = {part.name: part.low_ps / 1e6 / lookups for part in priced.cost.components}
        assert row[f"pin_{label}_us_per_lookup"] == pytest.approx(us["user_pin"], rel=1e-12)
        assert row[f"unpin_{label}_us_per_lookup"] == pytest.approx(us["user_unpin"], rel=1e-12)
        assert us["user_pin"] > 0
        assert us["user_unpin"] > 0


@pytest.mark.requirement("UT-88")
@pytest.mark.parametrize(
    ("measure", "settings"),
    [
        ("direct", ["ways=1"]),
        ("two_way", ["ways=2"]),
        ("four_way", ["ways=4"]),
        ("direct_nohash", ["ways=1", "index_offset=false"]),
    ],
)
def test_table_8_is_what_replay_counts_one_cache_at_a_time(measure, settings, folder, tables):
    for entries in SIZES:
        [row] = rows_of(tables["utlb/table8"], cache_entries=entries)
        counts = replayed(folder, "utlb", f"entries={entries}", *settings)
        assert row[f"{measure}_ni_misses_per_lookup"] == rate(counts, "ni_misses")


@pytest.mark.requirement("UT-89")
def test_figure_7_parts_misses_as_replay_does(folder, tables):
    [row] = rows_of(tables["utlb/figure7"], cache_entries=1024)
    counts = replayed(folder, "utlb", "entries=1024")

    for kind in ("compulsory", "capacity", "conflict"):
        assert row[f"{kind}_per_lookup"] == rate(counts, f"ni_misses_{kind}")
        assert row[f"{kind}_per_lookup"] > 0


@pytest.mark.requirement("UT-90")
def test_figure_8_is_what_replay_counts_and_prices(folder, tables):
    [row] = rows_of(tables["utlb/figure8"], cache_entries=4096, entries_fetched=8)
    counts = replayed(folder, "utlb", "entries=4096", "prepin=16", "prefetch=8")
    found = {name: count / counts["lookups"] for name, count in counts.items()}

    assert row["ni_misses_per_lookup"] == rate(counts, "ni_misses")
    each = found["pins"] / found["pin_calls"]
    assert 1 < each <= 16
    pinning = found["pin_calls"] * np.interp(each, [1, 2, 4, 8, 16], [27, 30, 36, 47, 70])
    assert row["cost_us_per_lookup"] == pytest.approx(
        0.5 + 0.8 + pinning + 2.3 * found["ni_misses"], abs=0.01
    )


@pytest.mark.requirement("MI-53", "MI-54")
def test_the_sweep_of_mini_has_its_36_points_by_path_and_cold_or_not(folder, tables):
    table = tables["mini/figure5"]
    counts = replayed(folder, "mini", "entries=8192", "line=16", "ways=4")
    [row] = rows_of(table, cache_entries=8192, line_entries=16, ways=4)

    places = [(row["cache_entries"], row["line_entries"], row["ways"]) for row in rows_of(table)]
    assert len(set(places)) == len(places) == 36
    assert row["misses_percent"] / 100 == rate(counts, "ni_misses")
    for path in ("send", "receive"):
        cold = rate(counts, f"ni_misses_{path}_compulsory")
        assert row[f"{path}_cold_percent"] / 100 == cold
        both = row[f"{path}_cold_percent"] + row[f"{path}_noncold_percent"]
        assert both / 100 == rate(counts, f"ni_misses_{path}")


@pytest.mark.requirement("MI-53")
def test_the_sweep_of_mini_agrees_with_one_pass_over_the_trace(folder, tables):
    question = Question(ways=(2, 4, 8), lines=(8, 16, 64, 128), entries=(8192, 32768), offset=False)
    trace = open_trace(folder / "beta.parquet")
    curves = curves_of("beta", trace.batches, question, trace.metadata.page_size)
    expected = {
        (point.entries, curve.line, point.ways): curve.ratio(point.misses)
        for curve in curves
        for point in curve.points
    }

    found = {
        (row["cache_entries"], row["line_entries"], row["ways"]): row["misses_percent"] / 100
        for row in rows_of(tables["mini/figure5"], "beta")
    }
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.requirement("UT-93")
@pytest.mark.parametrize("application", ["alpha", "beta"])
def test_what_tables_4_and_5_imply_holds(application, tables, folder):
    free, tight = tables["utlb/table4"], tables["utlb/table5"]
    lookups = replayed(folder, "utlb")["lookups"] if application == "alpha" else None

    for table in (free, tight):
        assert len(set(column(table, "check_misses_utlb_per_lookup", application))) == 1
        assert len(set(column(table, "unpins_utlb_per_lookup", application))) == 1
    assert set(column(free, "unpins_utlb_per_lookup", application)) == {0}
    utlb = column(free, "ni_misses_utlb_per_lookup", application)
    assert utlb == column(free, "ni_misses_intr_per_lookup", application)
    assert min(utlb) >= column(free, "check_misses_utlb_per_lookup", application)[0]
    if lookups:  # under interrupts what is pinned is what the caches of two nodes hold
        for row in rows_of(free, application):
            held = row["ni_misses_intr_per_lookup"] - row["unpins_intr_per_lookup"]
            assert 0 < held * lookups <= 2 * row["cache_entries"]


@pytest.mark.requirement("UT-93", "UT-89")
def test_kinds_add_up_and_tables_share_their_cells(tables):
    checks = column(tables["utlb/table4"], "check_misses_utlb_per_lookup")
    misses = column(tables["utlb/table4"], "ni_misses_utlb_per_lookup")
    breakdown = rows_of(tables["utlb/figure7"])

    assert [row["compulsory_per_lookup"] for row in breakdown] == pytest.approx(checks)
    assert [row["ni_misses_per_lookup"] for row in breakdown] == pytest.approx(misses)
    for row in breakdown:
        kinds = sum(row[f"{kind}_per_lookup"] for kind in ("compulsory", "capacity", "conflict"))
        assert kinds == pytest.approx(row["ni_misses_per_lookup"])
    assert column(tables["utlb/table8"], "direct_ni_misses_per_lookup") == misses
    assert column(tables["utlb/figure8"], "ni_misses_per_lookup", entries_fetched=1) == misses


def test_a_larger_cache_never_misses_more_nor_does_one_without_conflicts(tables):
    """Sets that divide into smaller ones include them, as Hill and Smith showed."""
    for application in ("alpha", "beta"):
        rows = rows_of(tables["utlb/figure7"], application)
        misses = [row["ni_misses_per_lookup"] for row in rows]
        conflicts = [row["conflict_per_lookup"] for row in rows]
        others = [round(m - c, 12) for m, c in zip(misses, conflicts, strict=True)]
        for falling in (misses, others):
            assert falling == sorted(falling, reverse=True)
        assert misses[0] > misses[-1]


@pytest.mark.requirement("UT-26", "UT-90")
def test_fetching_ahead_brings_entries_before_they_are_missed(tables):
    misses = column(tables["utlb/figure8"], "ni_misses_per_lookup", cache_entries=1024)

    assert min(misses[1:]) < misses[0]


@pytest.mark.parametrize("key", [f"{paper}/{name}" for paper, name in ALL])
def test_every_cell_is_there_for_every_application_in_its_unit(key, tables):
    table = tables[key]
    measures = table.layout.measures

    together = find_study(table.paper, table.id).together
    named = ["all"] if together else ["alpha", "beta"]  # all traces at once have one name
    assert list(dict.fromkeys(row["application"] for row in table.rows)) == named
    head = ["application", *(axis.key for axis in table.layout.axes)]
    for row in table.rows:
        assert list(row)[: len(head)] == head
        assert sorted(row) == sorted([*head, *measures])
        assert all(row[name] >= 0 for name in measures)
    assert len(rows_of(table)) == len(rows_of(table, "beta"))
    assert table.rows != table.printed
    units = ("_per_lookup", "_percent", "_entries", "_kib", "_pages", "_lookups")
    assert all(name.endswith(units) for name in measures)
    assert table.comparable == []  # traces of others get no verdict
    assert table.why


def test_the_papers_rows_and_columns_are_ours():
    items = load_papers()["utlb"].items
    printed_of = {
        name: one.table.printed_rows(items, name) for name, one in items.items() if one.table
    }
    printed_of["table8"] = find_study("utlb", "table8").unlabelled(items)
    for name in ("table4", "table5", "table8"):
        printed = printed_of[name]
        assert [row["cache_entries"] for row in printed[:5]] == SIZES
        assert len(printed) == 7 * 5
        ours = {name for name in items[name].table.measures if "without_limit" not in name}
        assert set(printed[0]) == {"application", "cache_entries", *ours}
    cells = {(row["application"], row["cache_entries"]): row for row in printed_of["table5"]}
    assert float(cells["FFT", 16384]["unpins_intr_per_lookup"]) == 0.39
    assert float(cells["Radix", 4096]["ni_misses_utlb_per_lookup"]) == 0.58
    sevens = {row["application"]: row for row in printed_of["table7"]}
    assert float(sevens["FFT"]["unpin_16_pages_us_per_lookup"]) == 93.0
    assert "Volrend" not in sevens


@pytest.mark.requirement("UT-88")
def test_the_direct_rows_of_table_8_are_table_4s_as_multisets():
    items = load_papers()["utlb"].items
    unlabelled = find_study("utlb", "table8").unlabelled(items)
    labelled = items["table8"].table.printed_rows(items, "table8")
    for entries in SIZES:
        placed, known = (
            sorted(r["direct_ni_misses_per_lookup"] for r in rows if r["cache_entries"] == entries)
            for rows in (unlabelled, labelled)
        )
        assert placed == known


def test_who_watches_a_study_hears_of_all_rows(folder):
    found = reproduce(["utlb/table8"], traced=True)
    heard = []

    @contextlib.contextmanager
    def telling(verb, unit):
        assert (verb, unit) == ("replaying", "rows")
        yield lambda done, total: heard.append((done, total))

    study(found, ["utlb/table8"], [folder / "beta.parquet"], telling=telling)

    [table] = found.tables
    assert [trace["application"] for trace in table.traces] == ["beta"]
    assert found.points == []
    assert found.misses() == []
    assert heard[-1][0] == heard[-1][1] > 0
