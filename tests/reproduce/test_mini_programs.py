"""MiNI's programs, really run: what is looked up for them, and the grid of their timed runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mini_program_samples import eight_programs, timed

from nicscope.errors import SimulationError, StudyError, TraceError
from nicscope.reports.figures.studies import draw_study
from nicscope.studies.applications import placed, run_application, write_application_program
from nicscope.studies.reproduce.harness import (
    load_papers,
    plan,
    reproduce,
    study,
)
from nicscope.studies.reproduce.keeping import Kept
from nicscope.studies.reproduce.traced import mini
from nicscope.studies.reproduce.traced.mini import (
    ALL,
    CLOSE,
    CLOSE_OF_FEW,
    EIGHT,
    POINTS,
    STATIC,
    STATIC_ENTRIES,
    grid,
    rank_correlation,
    specs,
    time_cache,
    time_programs,
    timing_apart,
)
from nicscope.studies.reproduce.traced.programs import (
    PAPER,
    SMALL,
    WORKLOADS,
    Application,
    Program,
    Ran,
    Workload,
    both_ends,
    run_programs,
)
from nicscope.studies.simulating import program_of
from nicscope.traces.programs.reader import read_program
from nicscope.traces.programs.schema import Operation
from nicscope.traces.reader import open_trace
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from nicscope.studies.reproduce.traced.measuring import Spec

MINI = WORKLOADS["mini"]
TIMED = {("mini", name) for name, item in load_papers()["mini"].items.items() if item.timed}
PLACEMENT = placed(MINI.nodes, MINI.processes)
TINY = Workload(
    (Program("FFT", "fft", "4K", "16K"), Program("Radix", "radix", "16K", "32K")),
    nodes=4,
    processes=2,
    reduction=8,
    is_direct=True,
)


@pytest.fixture(scope="module")
def radix():
    return run_application("radix", "64K", PLACEMENT, is_direct=True)


def test_the_programs_are_the_papers_eight_on_its_four_nodes_of_two_processors():
    assert {one.label for one in MINI.programs} == set(EIGHT)
    assert (MINI.nodes, MINI.processes) == (4, 2)
    assert MINI.is_direct


@pytest.mark.requirement("MI-53", weak="which lookups there are, not the sweep")
def test_both_ends_of_a_real_programs_transfers_are_looked_up(radix):
    columns = {name: column[~radix.columns["initial"]] for name, column in radix.columns.items()}

    found = both_ends(columns)

    counts = {op: int((found["op"] == op).sum()) for op in Op}
    assert counts[Op.READ] == counts[Op.SERVE_READ] == radix.fetches > 0
    # Runs of diffs, write notices and barriers, as GeNIMA writes them.
    assert counts[Op.WRITE] == counts[Op.SERVE_WRITE] > radix.diffs > 0
    # What asks for a page is a descriptor, and no buffer.
    assert counts[Op.SEND] == counts[Op.RECV] == 0
    asked, served = ({name: column[at::2] for name, column in found.items()} for at in (0, 1))
    assert np.array_equal(asked["node"], served["peer"])
    assert np.array_equal(asked["peer"], served["node"])
    assert np.array_equal(asked["address"], served["address"])
    # The node's first process exports the pages at home: whoever fetches them, it is asked.
    assert set(asked["pid"].tolist()) == {0, 1}
    assert set(served["pid"].tolist()) == {0}


def test_programs_are_kept_with_what_is_served_and_with_what_they_do(tmp_path, monkeypatch):
    [fft, _] = run_programs(TINY, SMALL, tmp_path)

    assert fft.trace.path is not None
    ops = open_trace(fft.trace.path).read().op
    assert (ops == Op.SERVE_READ).sum() == (ops == Op.READ).sum() > 0
    assert fft.program is not None
    fetches = (read_program(fft.program).operation == Operation.FETCH).sum()
    assert fetches == (ops == Op.READ).sum()

    begun = []

    def run(name, *given, **named):
        begun.append(name)
        return run_application(name, *given, **named)

    monkeypatch.setattr("nicscope.studies.reproduce.traced.programs.run_application", run)
    run_programs(TINY, SMALL, tmp_path)
    assert begun == []
    fft.program.unlink()
    run_programs(TINY, SMALL, tmp_path)
    assert begun == ["fft"]


def application_of(name, size, folder):
    path = folder / f"{name}-{size}.program.parquet"
    write_application_program(run_application(name, size, PLACEMENT), path)
    return Application(name, None, None, path)


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    return application_of("fft", "1K", tmp_path_factory.mktemp("program"))


def test_every_cache_of_table_iii_is_run_and_static_tables_before_them():
    asked = specs(1)

    assert asked[0] == specs(8)[0] == STATIC == ("vmmc-static", f"entries={STATIC_ENTRIES}")
    assert asked[1:] == [
        ("mini", f"entries={entries}", f"line={line}", f"ways={ways}")
        for entries, line, ways in POINTS
    ]
    assert specs(8)[1] == ("mini", "entries=1024", "line=8", "ways=2")


def place_of(spec):
    """Which of the 37 it is, however large the caches are."""
    return next(asked.index(spec) for asked in map(specs, (1, 8)) if spec in asked)


class Pretended:
    """Runs that take no time, of which the one at ``fails`` is interrupted."""

    def __init__(self, fails=-1):
        self.asked: list[Spec] = []
        self.fails = fails

    def __call__(self, program, asked, workers):
        assert program.exists()
        assert workers >= 1
        for place, spec in enumerate(asked):
            if place == self.fails:
                raise KeyboardInterrupt
            self.asked.append(spec)
            yield spec, timed(1.0 + place_of(spec), 2.0)


def test_a_run_that_is_kept_is_not_run_again_and_an_interrupted_grid_goes_on(application):
    kept, steps = Kept(), []
    ran = Ran(PAPER, 1)
    with pytest.raises(KeyboardInterrupt):
        time_programs([application], ran, None, kept, Pretended(fails=5))
    # What is kept has been through JSON.
    kept.found = json.loads(json.dumps(kept.found))
    rest = Pretended()

    found = time_programs([application], ran, lambda *at: steps.append(at), kept, rest)

    assert rest.asked == specs(1)[5:]
    assert steps == [(done, 37) for done in range(5, 38)]
    assert found["fft"].static == timed(1.0, 2.0)
    assert [run.seconds for run in found["fft"].caches] == [2.0 + place for place in range(36)]
    none = Pretended()
    assert time_programs([application], ran, None, kept, none) == found
    assert none.asked == []


def test_a_larger_cache_is_not_run_where_each_line_misses_once(application):
    class Once(Pretended):
        def __call__(self, program, asked, workers):
            for spec, run in super().__call__(program, asked, workers):
                yield spec, run._replace(first_misses=run.misses)

    once, steps = Once(), []

    found = time_programs([application], Ran(PAPER, 1), lambda *at: steps.append(at), None, once)

    assert once.asked == specs(1)[:13]
    caches = found["fft"].caches
    assert caches[:12] == caches[12:24] == caches[24:]
    assert steps == [(done, 37) for done in range(38)]


@pytest.mark.parametrize("place", [6, 12])
def test_a_cache_in_which_each_line_misses_once_runs_as_a_larger_one_does(application, place):
    program = program_of(read_program(application.program))
    small, large = (time_cache(program, specs(8)[place + more]) for more in (0, 24))

    assert 0 < small.misses == small.first_misses
    assert small == large


def test_another_programs_runs_are_others(application, tmp_path):
    kept = Kept()
    time_programs([application], Ran(PAPER, 1), None, kept, Pretended())
    other = Pretended()
    more = application_of("fft", "256", tmp_path)._replace(name=application.name)

    time_programs([more], Ran(PAPER, 1), None, kept, other)

    assert len(other.asked) == 37


@pytest.mark.requirement("MI-56", weak="what a speed-up is, of a run that takes no time")
def test_one_processor_takes_what_all_processes_compute(application):
    found = time_programs([application], Ran(PAPER, 1), None, None, Pretended())["fft"]

    assert application.program is not None
    trace = read_program(application.program)
    computing = trace.duration_ns[trace.operation == Operation.COMPUTE].sum()
    assert found.alone_seconds == pytest.approx(computing / 1e9)
    assert found.rows()[0]["speed_up"] == pytest.approx(computing / 1e9 / 2)


def test_what_another_process_refuses_is_refused_here_and_that_it_ends_is_told(
    application, tmp_path, monkeypatch
):
    with timing_apart() as work:
        with pytest.raises(SimulationError, match="larger table"):
            list(work(application.program, [("vmmc-static", "entries=2")], 2))
        with pytest.raises(TraceError, match=r"none\.program"):  # the same process is asked
            list(work(tmp_path / "none.program.parquet", [STATIC], 1))
    monkeypatch.setattr(mini, "WORKER", "nicscope.version")  # a module that answers nothing
    with timing_apart() as work, pytest.raises(RuntimeError, match="static entries=65536 ended"):
        list(work(application.program, [STATIC], 1))


@pytest.mark.compiled
@pytest.mark.requirement(
    "MI-55",
    weak="that caches of more ways miss less, of three programs much smaller than the paper's; the "
    "other shapes are judged by nicscope reproduce mini/figure5 --programs paper",
)
@pytest.mark.requirement("MI-58", weak="that a miss has both parts, and the least processing")
@pytest.mark.parametrize(("name", "size"), [("fft", "16K"), ("lu", "128"), ("radix", "32K")])
def test_a_real_program_misses_less_with_more_ways_and_static_tables_are_fastest(
    name, size, tmp_path
):
    [runs] = time_programs([application_of(name, size, tmp_path)], Ran(SMALL, 8)).values()

    times, missing = (grid(runs.rows(), name) for name in ("seconds", ALL))
    assert runs.static.misses == 0
    assert {run.lookups for run in runs.caches} == {runs.static.lookups}
    assert times.min() > runs.static.seconds > runs.alone_seconds / 8
    assert (np.diff(missing.mean(axis=(0, 1))) < 0).all()
    for run in runs.caches:
        # Every miss was served, but for one of a node that the program's end came before; so
        # was what came again and missed again, which counts as a repeated lookup.
        assert run.processings.many == run.delays.many
        assert run.misses - run.delays.many <= MINI.nodes
        least = run.processings.percentiles[0]
        assert least is not None
        assert least >= 5.0 - 1e-6


# How closely speed-ups follow misses is asked where misses are a real share of time: in the cache
# that takes most, a twentieth of what all processes take or more.
REAL_SHARE = 0.05


def share_in_misses(run):
    """The share of all processes' time that a run's misses take until they are served."""
    each_us = sum(times.mean for times in (run.delays, run.processings))
    return run.misses * each_us / 1e6 / (run.seconds * MINI.nodes * MINI.processes)


@pytest.mark.compiled
@pytest.mark.requirement(
    "MI-56",
    weak="three of the eight programs, at the study's small sizes, where only Radix' speed-ups "
    "follow its misses closely; nicscope reproduce mini --programs paper judges all",
)
@pytest.mark.parametrize(
    ("name", "is_real_share", "follows"),
    [
        # A known miss at this size: the correlation is looser than V.C has it.  A line that is
        # looked up at posting may have left a cache of two ways when its answer comes, which is
        # dropped then and waits for the timer's 600 us: few misses with two ways take more than
        # many with four.
        ("fft", True, False),
        # Its misses take less than a hundredth of its time, so speed-ups follow other things.
        ("lu", False, False),
        ("radix", True, True),
    ],
)
def test_speed_ups_follow_misses_closely_where_these_are_a_real_share_of_time(
    name, is_real_share, follows, tmp_path
):
    [small] = [one.small for one in MINI.programs if one.name == name]
    ran = Ran(SMALL, MINI.reduction)
    [runs] = time_programs([application_of(name, small, tmp_path)], ran).values()

    missing, ups = (grid(runs.rows(), measure) for measure in (ALL, "speed_up"))
    assert (max(share_in_misses(run) for run in runs.caches) >= REAL_SHARE) == is_real_share
    assert (rank_correlation(missing, ups) <= CLOSE) == follows
    if is_real_share:
        assert rank_correlation(missing, ups) <= CLOSE_OF_FEW


def test_figures_6_and_7_run_by_name_and_judge_their_statements_at_the_papers_sizes(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(WORKLOADS, "mini", TINY._replace(programs=_all_as_fft()))
    monkeypatch.setattr(
        "nicscope.studies.reproduce.traced.programs.store.folder", lambda: tmp_path / "entries"
    )
    monkeypatch.setattr(
        "nicscope.studies.reproduce.traced.mini.time_programs",
        lambda applications, ran, watch, kept: time_programs(
            applications, ran, watch, kept, Pretended()
        ),
    )
    wanted = ["/".join(pair) for pair in sorted(TIMED)]
    found = reproduce(wanted, programs=PAPER)

    study(found, wanted, programs=PAPER)

    told = {(one.id, one.name) for one in found.shapes}
    items = load_papers()["mini"].items
    assert told == {(name, shape.id) for _, name in TIMED for shape in items[name].shapes}
    assert {table.id: len(table.rows) for table in found.tables} == {
        name: 36 * 8 for _, name in TIMED
    }
    assert found.baselines.keys() == set(wanted)

    small = reproduce(wanted)
    study(small, wanted)
    assert small.shapes == []  # they mean nothing at other sizes
    assert len(small.tables) == 3


def _all_as_fft():
    return tuple(Program(one.label, "fft", "256", "256") for one in MINI.programs)


def test_what_is_timed_takes_no_traces_of_requests():
    papers = load_papers()

    assert ("mini", "figure6") not in plan(papers, ["mini"], traced=True).studies
    with pytest.raises(StudyError, match=r"mini/figure6 takes no --trace"):
        plan(papers, ["mini/figure6"], traced=True)


@pytest.mark.parametrize("name", [name for _, name in sorted(TIMED)])
def test_each_table_is_drawn_once_with_every_program(name):
    rows = [
        {"application": label, **row}
        for label, one in eight_programs().items()
        for row in one.rows()
    ]

    class Table:
        paper, id = "mini", name

    Table.rows = rows
    [(ending, figure)] = draw_study(Table())

    assert ending == ""
    words = {text.get_text() for axes in figure.axes for text in axes.texts}
    words |= {axes.get_title(loc="left") for axes in figure.axes}
    words |= {label.get_text() for axes in figure.axes for label in axes.get_xticklabels()}
    words |= {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()}
    assert set(EIGHT) <= words
    measures = load_papers()["mini"].items[name].table.measures
    assert all(measure in rows[0] for measure in measures)
