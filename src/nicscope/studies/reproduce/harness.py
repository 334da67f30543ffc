"""Running an item of a paper: against baselines and the misses that are known."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import StudyError, TraceError, did_you_mean
from nicscope.inputs import Input
from nicscope.studies.reproduce.baselines import by_hand
from nicscope.studies.reproduce.keeping import Kept
from nicscope.studies.reproduce.traced.programs import NONE, PAPER, SIZES, SMALL, WORKLOADS, ran
from nicscope.studies.reproduce.verdict import (
    ExpectedPoint,
    Item,
    Outcome,
    Paper,
    Reproduction,
    Unjudged,
    load_known,
    load_paper,
    paper_keys,
)

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path


Experiment = Callable[[Item], Outcome]
Watch = Callable[[int, int], None]  # hears how much is done of how much
Telling = Callable[[str, str], "AbstractContextManager[Watch]"]
_PUBLIC_ENDING = ".jsonl"


def experiment_of(paper: str, item: str) -> Callable[..., None]:
    """The function called as that item; imports it, and with it what it needs.

    It fills an ``Outcome``, by the published item or, of one of public traces, by such a trace.
    """
    fill: Callable[..., None] = getattr(
        importlib.import_module(f"nicscope.studies.reproduce.experiments.{paper}"), item
    )
    return fill


def find_experiment(paper: str, item: str) -> Experiment:
    """The experiment for that item."""
    fill = experiment_of(paper, item)

    def run(published: Item) -> Outcome:
        outcome = Outcome()
        fill(outcome, published)
        return outcome

    return run


def load_papers() -> dict[str, Paper]:
    """Every paper of the catalog, by key."""
    return {key: load_paper(key) for key in paper_keys()}


def choose(papers: Mapping[str, Paper], wanted: Sequence[str]) -> list[tuple[str, str]]:
    """(paper, id) of every item that ``wanted`` names as PAPER or PAPER/ID; empty means all.

    Each once, in the catalog's order.  Errors: ``StudyError`` with the nearest name.
    """
    everything = [(key, item) for key, paper in papers.items() for item in paper.items]
    chosen: set[tuple[str, str]] = set()
    for name in wanted:
        key, slash, item = name.partition("/")
        if key not in papers:
            raise StudyError(f"no paper {key!r}{did_you_mean(key, papers)}")
        if slash and item not in papers[key].items:
            raise StudyError(f"no {item!r} in {key}{did_you_mean(item, papers[key].items)}")
        chosen.update(pair for pair in everything if pair[0] == key and item in ("", pair[1]))
    return [pair for pair in everything if not wanted or pair in chosen]


class Plan(NamedTuple):
    """What is to be done with the items that were named, each as (paper, id)."""

    items: list[tuple[str, str]]  # experiments, and what is missing
    studies: list[tuple[str, str]]  # to run over traces
    offered: list[tuple[str, str]]  # studies that are not run, as nobody asked for them


def plan(
    papers: Mapping[str, Paper],
    wanted: Sequence[str],
    traced: bool = False,
    programs: str = SMALL,
) -> Plan:
    """What ``wanted`` (as ``choose`` reads it) asks for; ``traced``: traces were given.

    Without traces a study runs over its paper's ``programs``; with them studies run, and nothing
    else.  Errors: ``StudyError`` for an unknown name, for one that takes no traces if they are
    given, and for programs of no such sizes.
    """
    if programs not in SIZES:
        raise StudyError(f"no programs {programs!r}{did_you_mean(programs, SIZES)}")
    chosen = choose(papers, wanted)
    items = {
        (key, name): item for key, paper in papers.items() for name, item in paper.items.items()
    }
    studies = [pair for pair in chosen if items[pair].study]
    if not traced:
        # What is timed takes minutes: it runs by its own name, or at the paper's sizes.
        run = [
            pair
            for pair in studies
            if programs != NONE
            and pair[0] in WORKLOADS
            and (not items[pair].timed or programs == PAPER or "/".join(pair) in wanted)
        ]
        others = [pair for pair in chosen if not items[pair].study]
        return Plan(others, run, [pair for pair in studies if pair not in run])
    studies = [pair for pair in studies if not items[pair].timed]
    of_public = [pair for pair in chosen if items[pair].public]
    taking = {
        pair for pair, item in items.items() if item.public or (item.study and not item.timed)
    }
    keys = {key for key, _ in [*studies, *of_public]}
    for name in wanted:
        key, slash, item = name.partition("/")
        if (slash and (key, item) not in taking) or key not in keys:
            known = ", ".join(sorted("/".join(pair) for pair in taking))
            raise StudyError(f"{name} takes no --trace; those that do are {known}")
    return Plan(of_public, studies, [])


def parted(files: Sequence[Path], papers: Iterable[Paper]) -> tuple[dict[str, Path], list[Path]]:
    """The public traces among ``files`` by name, and all others.

    Errors: ``TraceError`` if one cannot be read.
    """
    named = {digest: name for paper in papers for name, digest in paper.traces.items()}
    public, others = {}, []
    for path in files:
        name = named.get(_digest(path)) if path.suffix == _PUBLIC_ENDING else None
        if name is None:
            others.append(path)
        else:
            public[name] = path
    return public, others


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with Input(path, TraceError) as source:
        while piece := source.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def reproduce(
    wanted: Sequence[str] = (),
    papers: Mapping[str, Paper] | None = None,
    find: Callable[[str, str], Experiment] = find_experiment,
    progress: Callable[[str], None] = lambda _: None,
    traced: bool = False,
    kept: Kept | None = None,
    programs: str = SMALL,
    public: Mapping[str, Path] | None = None,
) -> Reproduction:
    """Every check of the items that ``wanted`` names, as ``plan`` reads it; no study is run yet.

    ``progress`` hears ``PAPER/ID`` before each experiment.  What ``kept`` has is not run again.
    ``public``: the public traces that were brought, by name.
    """
    kept = Kept() if kept is None else kept
    papers = load_papers() if papers is None else papers
    items, _, offered = plan(papers, wanted, traced, programs)
    result = Reproduction()
    for key, name in offered:
        result.studies.append(Unjudged(key, name, papers[key].items[name].study or ""))
    for key, name in items:
        item = papers[key].items[name]
        if item.public and public:
            progress(f"{key}/{name}")
            _judge_public(result, papers[key], name, public)
            continue
        if item.public and traced and not wanted:
            continue  # the traces are others', and nobody asked for it by name
        if item.has_expectations():
            progress(f"{key}/{name}")
            found = kept.get(f"{key}/{name}")
            if found is None:
                found = find(key, name)(item).to_json()
                kept.put(f"{key}/{name}", found)
            _judge(result, papers[key], name, Outcome.of_json(found), item.expected_points())
            if item.baseline is not None:
                result.baselines[f"{key}/{name}"] = item.baseline
        if item.missing is not None:
            result.missing.append(Unjudged(key, name, item.missing))
    return result


def study(
    result: Reproduction,
    wanted: Sequence[str],
    traces: Sequence[Path] = (),
    papers: Mapping[str, Paper] | None = None,
    telling: Telling = lambda *_: contextlib.nullcontext(lambda *_: None),
    kept: Kept | None = None,
    programs: str = SMALL,
) -> None:
    """Add to ``result`` what the studies that ``wanted`` names make of the files ``traces``.

    Without any, of the papers' ``programs``, which are run first.  ``telling`` gives a watch for
    each piece of work, by what is done and what is counted.  What ``kept`` has is not measured
    again.  Errors: ``TraceError`` naming the file, before anything is measured if it cannot be
    opened.
    """
    from nicscope.studies.reproduce.traced.measuring import run_studies
    from nicscope.studies.reproduce.traced.mini import time_programs
    from nicscope.studies.reproduce.traced.programs import (
        open_applications,
        run_programs,
        traces_folder,
    )

    papers = load_papers() if papers is None else papers
    chosen = plan(papers, wanted, bool(traces), programs).studies
    if chosen and traces:
        applications = open_applications(traces)
        with telling("replaying", "rows") as watch:
            result.add(run_studies(chosen, applications, papers, None, watch, kept))
        return
    for paper in dict.fromkeys(key for key, _ in chosen):
        own = [pair for pair in chosen if pair[0] == paper]
        with traces_folder() as folder:
            with telling("running programs", "steps") as watch:
                applications = run_programs(WORKLOADS[paper], programs, folder, watch)
            timings = None
            if any(papers[key].items[name].timed for key, name in own):
                with telling("timing programs", "runs") as watch:
                    timed = time_programs(applications, ran(paper, programs), watch, kept)
                timings = {name: program.rows() for name, program in timed.items()}
            with telling("replaying", "rows") as watch:
                found = run_studies(
                    own, applications, papers, ran(paper, programs), watch, kept, timings
                )
        result.add(found)
        for key, name in own:
            baseline = papers[key].items[name].baseline
            if baseline is not None:
                result.baselines[f"{key}/{name}"] = baseline


def _judge_public(
    result: Reproduction, paper: Paper, name: str, public: Mapping[str, Path]
) -> None:
    """Add verdicts on what comes of the public traces that are there, and say which are not."""
    item, fill = paper.items[name], experiment_of(paper.key, name)
    absent = [each for each in item.public if each not in public]
    outcome = Outcome()
    for trace in item.public:
        if trace in public:
            fill(outcome, trace, public[trace])
    if len(absent) < len(item.public):
        points = item.expected_points()
        if absent:
            points = [one for one in points if one.quantity in outcome.values]
        _judge(result, paper, name, outcome, points)
    if absent:
        digests = ", ".join(f"{each} (SHA-256 {paper.traces[each][:16]}...)" for each in absent)
        result.missing.append(Unjudged(paper.key, name, f"not among what was given: {digests}"))


def _judge(
    result: Reproduction, paper: Paper, name: str, outcome: Outcome, points: list[ExpectedPoint]
) -> None:
    shapes, known = paper.items[name].shapes, load_known(paper.key)
    result.judge(paper.key, name, points, shapes, outcome, known, by_hand(paper, name))
