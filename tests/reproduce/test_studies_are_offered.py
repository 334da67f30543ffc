"""Which studies there are, and which traces are the papers' own programs."""

import pytest
from study_samples import ALL, tables_of, write_sample

from nicscope.studies.reproduce.harness import load_papers, plan, reproduce, study
from nicscope.studies.reproduce.traced.programs import NONE, PAPER, WORKLOADS
from published_items import study_names

TIMED = {("mini", name) for name, item in load_papers()["mini"].items.items() if item.timed}

pytestmark = pytest.mark.compiled


@pytest.mark.requirement("UT-85")
def test_a_trace_that_says_it_is_the_papers_program_is_judged(tmp_path):
    origin = {"application": "FFT", "problem": "4M elements"}
    file = write_sample(tmp_path / "mine.parquet", rows=500, origin=origin)
    found = reproduce(["utlb"], traced=True)

    study(found, ["utlb"], [file])

    by_item = {name: [p for p in found.points if p.id == name] for _, name in ALL}
    assert {name: len(points) for name, points in by_item.items() if points} == {
        "table4": 25,
        "table5": 25,
        "table7": 4,
        "table8": 5,
    }
    [point] = [
        p
        for p in by_item["table4"]
        if p.quantity == "unpins_intr[app=FFT, cache_entries=16384] events/lookup"
    ]
    assert point.published == 0.25
    assert not point.ok
    assert point.tolerance == pytest.approx(0.005 / 0.25)
    assert found.misses()
    assert [t.comparable for t in found.tables if t.id == "table4"] == [["mine"]]


@pytest.mark.parametrize(
    "origin",
    [
        {"application": "FFT"},
        {"application": "FFT", "problem": "1M elements"},
        {"application": "Ocean", "problem": "4M elements"},
        {"description": "FFT, 4M elements"},
    ],
)
def test_another_problem_size_is_another_program(origin, tmp_path):
    file = write_sample(tmp_path / "fft.parquet", rows=200, origin=origin)
    found = reproduce(["utlb/table4"], traced=True)

    study(found, ["utlb/table4"], [file])

    assert found.points == []
    assert found.tables[0].comparable == []


def test_all_reproductions_run_the_studies_of_programs_and_offer_the_others():
    papers = load_papers()
    everything = plan(papers, [])
    nothing = plan(papers, [], programs=NONE)

    every = sorted([*ALL, *TIMED])
    assert sorted(everything.studies + everything.offered) == sorted(study_names()) == every
    assert {paper for paper, _ in everything.studies} == set(WORKLOADS)
    assert set(everything.offered) == TIMED
    assert (nothing.studies, sorted(nothing.offered)) == ([], every)
    assert sorted(plan(papers, [], programs=PAPER).studies) == every
    assert plan(papers, ["mini/figure6"]).studies == [("mini", "figure6")]
    found = reproduce(["utlb", "mini/figure5"], programs=NONE)
    assert {(one.paper, one.id) for one in found.missing}.isdisjoint(study_names())
    asked = [
        (paper, name)
        for paper, name in nothing.offered
        if paper == "utlb" or (paper, name) == ("mini", "figure5")
    ]
    assert [(one.paper, one.id) for one in found.studies] == asked
    assert found.summary().studies == len(asked)


def test_requests_above_the_pin_limit_are_told(tmp_path):
    from study_samples import write_requests

    from nicscope.studies.reproduce.experiments.utlb import requests_at

    pages = [16 * 70, 1, 1]  # the first is of 70 large pages, with room for 64
    file = write_requests(
        tmp_path / "long.parquet",
        requests_at(nodes=[0, 0, 0], pids=[1, 1, 1], pages=[16, 16, 32], page_counts=pages),
    )

    found = tables_of(file)

    assert found["utlb/table4"].notes == []
    [note] = found["utlb/table5"].notes
    assert note.startswith("long: up to 1 requests rejected")
