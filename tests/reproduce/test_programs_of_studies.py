"""The papers' programs, run for their tables: kept, reduced, judged, and told."""

import json
import os
import re
import time

import pytest
from program_samples import TINY, have_tiny

from nicscope.cli.app import main
from nicscope.errors import StudyError
from nicscope.studies.applications import APPLICATIONS, made
from nicscope.studies.reproduce import verdict
from nicscope.studies.reproduce.harness import load_papers, plan, reproduce, study
from nicscope.studies.reproduce.traced import measuring, programs
from nicscope.studies.reproduce.traced.measuring import as_run, reduced
from nicscope.studies.reproduce.traced.programs import KEPT_S, PAPER, SMALL, WORKLOADS, run_programs

LABELS = ["Barnes", "FFT", "LU", "Radix", "Raytrace", "Volrend", "Water"]
FFT, LU, RADIX = (TINY._replace(programs=TINY.programs[place : place + 1]) for place in (1, 2, 3))
THREE = TINY._replace(programs=TINY.programs[1:4])


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where traces of programs are kept, all of which are tiny."""
    have_tiny(monkeypatch, tmp_path)
    return tmp_path / "programs"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Where traces are kept for all tests that do not look at how they come about."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def tiny(shelf, monkeypatch):
    """The papers' programs are tiny."""
    have_tiny(monkeypatch, shelf)


@pytest.fixture
def begun(monkeypatch):
    """Programs that are run."""
    names = []
    real = programs.run_application
    monkeypatch.setattr(
        programs, "run_application", lambda name, *a, **b: names.append(name) or real(name, *a, **b)
    )
    return names


@pytest.mark.requirement("UT-84", weak="how many pages they use and how often")
def test_utlbs_programs_at_the_papers_sizes_are_those_of_table_3():
    printed = load_papers()["utlb"].items["table3"].printed
    sizes = [re.split(r"[ ^]", problem)[0] for problem in printed["problem"]]
    programs = WORKLOADS["utlb"].programs

    assert [(one.label, one.size(PAPER)) for one in programs] == list(
        zip(printed["app"], sizes, strict=True)
    )


@pytest.mark.parametrize(
    ("size", "processes", "block"), [("64", 16, 4), ("64", 8, 16), ("32", 16, 16)]
)
def test_what_is_so_on_the_papers_processes_is_so_of_its_size_on_as_many_alone(
    size, processes, block, monkeypatch
):
    lu = APPLICATIONS["lu"]._replace(paper="64", as_placed={"block": 4})
    monkeypatch.setitem(APPLICATIONS, "lu", lu)

    _, program, _ = made("lu", size, processes, 0)

    assert program.layout.arrays["matrix"].row_elements == block**2


def test_a_program_that_was_run_is_not_run_again_and_its_trace_is_the_same(kept, begun):
    kept.mkdir()
    steps = []
    first = run_programs(THREE, SMALL, kept, lambda done, total: steps.append((done, total)))
    again = run_programs(THREE, SMALL, kept)

    assert begun == [one.name for one in THREE.programs]
    assert steps == [(done, 9) for done in range(1, 10)]
    assert [one.name for one in again] == ["FFT", "LU", "Radix"]
    for one, other in zip(first, again, strict=True):
        assert (one.trace.path, one.command) == (other.trace.path, other.command)
        assert one.trace.rows == other.trace.rows > 0


def test_programs_at_the_papers_sizes_run_in_workers_and_their_traces_are_the_same(tmp_path):
    steps = []
    at_once, alone = (tmp_path / name for name in ("at-once", "alone"))
    for folder in (at_once, alone):
        folder.mkdir()
    together = run_programs(THREE, PAPER, at_once, lambda *step: steps.append(step))
    apart = [run_programs(one, PAPER, alone)[0] for one in (FFT, LU, RADIX)]

    assert [one.name for one in together] == ["FFT", "LU", "Radix"]
    assert steps == sorted(steps)
    assert steps[-1] == (9, 9)
    for one, other in zip(together, apart, strict=True):
        assert one.trace.path.name == other.trace.path.name
        assert one.trace.path.read_bytes() == other.trace.path.read_bytes()


def test_a_killed_run_goes_on_with_the_programs_that_are_missing(kept, begun, monkeypatch):
    kept.mkdir()
    run = programs.run_application

    def killed(name, *rest, **more):
        if name == "lu":
            raise KeyboardInterrupt
        return run(name, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(programs, "run_application", killed)
        with pytest.raises(KeyboardInterrupt):
            run_programs(THREE, SMALL, kept)
    begun.clear()

    assert len(run_programs(THREE, SMALL, kept)) == 3
    assert begun == ["lu", "radix"]


def test_other_code_and_other_sizes_are_run_anew_and_what_is_damaged_too(kept, begun, monkeypatch):
    kept.mkdir()
    [lu] = run_programs(LU, SMALL, kept)
    run_programs(FFT, SMALL, kept)
    run_programs(FFT, PAPER, kept)
    run_programs(LU._replace(processes=4), SMALL, kept)
    with monkeypatch.context() as patch:
        patch.setattr(programs, "package_stamp", lambda: "other")
        run_programs(LU, SMALL, kept)
    assert lu.trace.path is not None
    lu.trace.path.write_bytes(b"PAR1 cut")

    [again] = run_programs(LU, SMALL, kept)

    assert begun == ["lu", "fft", "fft", "lu", "lu", "lu"]
    assert again.trace.rows == lu.trace.rows
    assert len(list(kept.iterdir())) == 5


def test_a_trace_that_nobody_asks_for_goes_and_one_that_is_asked_for_stays(kept):
    kept.mkdir()
    for one in (FFT, LU):
        [application] = run_programs(one, SMALL, kept)
        assert application.trace.path is not None
        long_ago = time.time() - 2 * KEPT_S
        os.utime(application.trace.path, (long_ago, long_ago))
        if one is FFT:
            run_programs(FFT, SMALL, kept)  # is asked for again

    run_programs(RADIX, SMALL, kept)

    assert sorted(path.name.partition("-")[0] for path in kept.iterdir()) == ["fft", "radix"]


def test_caches_and_limits_shrink_with_the_programs_and_nothing_else_does():
    assert reduced(("utlb", "entries=4096", "pin_limit=1024", "prepin=16"), 64) == (
        "utlb", "entries=64", "pin_limit=16", "prepin=16",
    )  # fmt: skip
    assert reduced(("utlb", "entries=4096"), 1) == ("utlb", "entries=4096")
    row = {"cache_entries": 1024, "entries_fetched": 32, "per_process_entries": None}
    assert as_run(row, 64) == {**row, "cache_entries": 16}


@pytest.mark.usefixtures("tiny")
def test_by_default_programs_are_small_and_their_statements_alone_are_judged():
    found = reproduce(["utlb/table4", "utlb/table8"])
    study(found, ["utlb/table4", "utlb/table8"])

    assert found.points == []
    items = load_papers()["utlb"].items
    for name in ("table4", "table8"):
        asked = [one.id for one in items[name].shapes if not one.at_paper_size]
        assert [one.name for one in found.shapes if one.id == name] == asked
    assert set(found.baselines) == {"utlb/table4"}  # of the other nothing is predicted
    for table in found.tables:
        assert (table.programs, table.reduction, table.comparable) == (SMALL, 64, [])
        assert {row["cache_entries"] for row in table.rows} == {16, 32, 64, 128, 256}
    assert found.tables[0].designs[0] == "utlb entries=16"
    assert found.summary().studies == 0


@pytest.mark.usefixtures("tiny")
def test_at_the_papers_sizes_printed_cells_are_judged_too():
    names = ["utlb/table3", "utlb/table4"]
    found = reproduce(names, programs=PAPER)
    study(found, names, programs=PAPER)

    table3, table4 = found.tables
    assert (table4.programs, table4.reduction, table4.comparable) == (PAPER, 1, LABELS)
    assert table3.comparable == ["Barnes", "FFT", "LU", "Radix"]
    by_item = [one.id for one in found.points]
    assert by_item == ["table3"] * 8 + ["table4"] * (7 * 5 * 3)
    point = next(one for one in found.points if one.quantity.startswith("footprint_by_process"))
    assert point.quantity == "footprint_by_process[app=Barnes] pages"
    assert (point.published, point.tolerance) == (2235, 0.25)
    assert not point.ok
    assert {one.name for one in found.shapes if one.id == "table3"} >= {"order-of-magnitude"}
    assert {one.basis for one in found.points if one.id == "table4"} == {"fitted"}


def test_a_known_miss_of_one_size_is_none_of_the_other(monkeypatch):
    listed = {
        "table3": {"fft-communicates-most": {"why": "toy", "short": "toy", "programs": SMALL}}
    }
    monkeypatch.setattr(verdict, "shelf_names", lambda _: ["utlb"])
    monkeypatch.setattr(verdict, "open_shelf", lambda *_: ("utlb", "misses 'utlb'", listed))

    assert list(verdict.load_known("utlb", SMALL)) == [("table3", "fft-communicates-most")]
    assert verdict.load_known("utlb", PAPER) == verdict.load_known("utlb") == {}


@pytest.mark.usefixtures("tiny")
def test_a_study_that_does_not_answer_its_statements_is_refused(monkeypatch):
    real = measuring.find_study
    monkeypatch.setattr(measuring, "find_study", lambda *one: real(*one)._replace(state=None))
    found = reproduce(["utlb/table3"])

    with pytest.raises(RuntimeError, match="utlb/table3: expectation and experiment differ"):
        study(found, ["utlb/table3"])


def test_sizes_that_there_are_not_are_refused_and_none_runs_nothing():
    with pytest.raises(StudyError, match="no programs 'papers'; did you mean 'paper'"):
        plan(load_papers(), ["utlb"], programs="papers")

    found = reproduce(["utlb/table4"], programs="none")

    assert [one.id for one in found.studies] == ["table4"]
    assert found.tables == []


@pytest.mark.usefixtures("tiny")
def test_the_command_says_what_was_run_and_that_it_is_reduced(capsys):
    status = main(["reproduce", "utlb/table3"])

    out = " ".join(capsys.readouterr().out.split())
    assert status in (0, 1)
    assert (
        "at REDUCED sizes (same algorithm, own implementation and inputs): Barnes 256 bodies" in out
    )
    assert "caches and pin limits are 1/64 of the paper's" in out
    assert "NOT COMPARABLE, reduced problem sizes, caches and pin limits" in out

    main(["reproduce", "utlb/table3", "--programs", "paper", "--json"])

    [table] = json.loads(capsys.readouterr().out)["tables"]
    assert (table["programs"], table["reduction"]) == ("paper", 1)
    assert table["traces"][1]["file"] == "nicscope apps run fft --size 16K --nodes 2 --processes 2"


def test_a_folder_that_cannot_be_kept_costs_nothing_but_time(kept, monkeypatch):
    monkeypatch.setattr(programs.store, "folder", lambda: None)

    with programs.traces_folder() as folder:
        assert folder.is_dir()
        assert folder != kept
    assert not folder.exists()
