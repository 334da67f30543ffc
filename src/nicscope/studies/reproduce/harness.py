"""Running an item of a paper: against baselines and the misses that are known."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from nicscope.config.shelf import open_shelf, shelf_names
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.reproduce.experiments import FILES
from nicscope.studies.reproduce.keeping import Kept
from nicscope.studies.reproduce.traced import STUDIES, STUDY_FILES, TIMED
from nicscope.studies.reproduce.traced.workloads import NONE, PAPER, SIZES, SMALL, WORKLOADS, ran
from nicscope.studies.reproduce.verdict import (
    Item,
    Met,
    Missing,
    Offered,
    Outcome,
    Reproduction,
    hold,
    judge,
    load_paper,
    paper_keys,
    quantity_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from nicscope.studies.reproduce.traced.measuring import Study
    from nicscope.studies.reproduce.verdict import Paper, Point, Shape


Numbers = dict[str, Decimal]  # by quantity

KB = 1024
# Trapeze's pairs as its Table 1 orders them, by the names of our platforms.
PAIRS = ("p6-natoma", "pentium2-440lx", "alcor", "alcor-to-miata")
P6, PENTIUM2, ALCOR = 0, 1, 2
HALF = 4 * KB  # bytes that an 8 KB payload has more than one of 4 KB


def trapeze_table1(paper: Paper) -> Numbers:
    """The 8 KB half from the 4 KB half and the buses' and the link's printed rates."""
    printed = paper.items["table1"].printed
    bus = Decimal(paper.items["figure1"].printed["p6_and_pentium2_mbytes_s_over"])
    link = Decimal(paper.items["figure1"].printed["link_mbytes_s"])
    store = printed["store_4k_us"]
    # What Alcor takes longer than P6/Natoma at 4 KB is its receiving bus.
    receiving_us = HALF / bus + store[ALCOR] - store[P6]
    found = Outcome()
    for place, pair in enumerate(PAIRS):
        slower_us = receiving_us if place == ALCOR else HALF / bus
        rest_us = {"store": HALF / bus + HALF / link + slower_us, "cut": slower_us}
        for kind, longer_us in rest_us.items():
            latency = printed[f"{kind}_4k_us"][place] + longer_us
            apart_us = Decimal(HALF) / printed[f"{kind}_4k_mbytes_s"][place] + slower_us
            found.point(f"{kind}_8k_latency", "us", latency, pair=pair)
            found.point(f"{kind}_8k_bandwidth", "MB/s", 2 * HALF / apart_us, pair=pair)
    return found.values


def trapeze_headline(paper: Paper) -> Numbers:
    """64 KB from the 8 KB of Table 1 and the bus's peak rate."""
    small = Decimal(8 * KB)
    large = Decimal(KB * paper.items["headline"].printed["bandwidth_packet_kbytes"])
    peak = paper.items["figure1"].printed["pci_peak_mbytes_s"][1]
    apart_us = small / paper.items["table1"].printed["store_8k_mbytes_s"][PENTIUM2]
    found = Outcome()
    apart_us += (large - small) / peak
    found.point("bandwidth_64k", "MB/s", large / apart_us, pair=PAIRS[PENTIUM2])
    return found.values


def trapeze_figure4(paper: Paper) -> Numbers:
    """When the second payload arrives, by the time of the first hostTx and printed rates."""
    printed, adapter = paper.items["figure4"].printed, paper.items["figure1"].printed
    pulse = Decimal(printed["minpulse_bytes"])
    rate = Decimal(printed["payload_bytes"]) / printed["host_tx_second_us"]
    arrives_us = printed["host_tx_first_us"] + pulse / rate
    begins_us = arrives_us + adapter["switch_us"] + pulse / adapter["link_mbytes_s"]
    found = Outcome()
    found.point("second_arrival", "us", arrives_us)
    found.point("second_host_rcv", "us", begins_us)
    return found.values


def trapeze_figure5(paper: Paper) -> Numbers:
    """Adaptive's bandwidth as store-and-forward's, which 3.4 calls equal."""
    printed = paper.items["figure5"].printed
    found = Outcome()
    found.point("without_logging", "MB/s", Decimal(printed["store_and_forward_mbytes_s"]))
    return found.values


def mini_figure3(paper: Paper) -> Numbers:
    """The cache as its entries alone."""
    printed = paper.items["figure3"].printed
    entries_kb = Decimal(printed["best_cache_entries"] * printed["entry_bits"] // 8) / KB
    return {quantity_name("best_cache_memory", "KB", cache="C16.L64.A4"): entries_kb}


def edt_dma_rate(paper: Paper) -> Numbers:
    """The gains at full rate, whatever the rate."""
    printed = paper.items["dma_rate"].printed
    found = Outcome()
    for rate in printed["dma_mbytes_s"][1:]:
        for end in ("high", "low"):
            gain = Decimal(printed[f"gain_percent_{end}"][0])
            found.point(f"{end}_end", "%", gain, mbytes_s=rate)
    return found.values


def edt_contention(paper: Paper) -> Numbers:
    """The same of what another master's bursts do."""
    low, high = (paper.items["figure8"].printed["gain_percent"][end] for end in (0, 1))
    found = Outcome()
    for rate in paper.items["contention"].printed["dma_mbytes_s"]:
        found.point("low_end_page", "%", Decimal(low), mbytes_s=rate)
        found.point("high_end_page", "%", Decimal(high), mbytes_s=rate)
        found.point("high_end_fitted", "%", Decimal(high), mbytes_s=rate)
    found.point("low_end_fitted_at_800", "%", Decimal(low))
    return found.values


BASELINES: dict[tuple[str, str], Callable[[Paper], Numbers]] = {
    ("edt", "contention"): edt_contention,
    ("edt", "dma_rate"): edt_dma_rate,
    ("mini", "figure3"): mini_figure3,
    ("trapeze", "figure4"): trapeze_figure4,
    ("trapeze", "figure5"): trapeze_figure5,
    ("trapeze", "headline"): trapeze_headline,
    ("trapeze", "table1"): trapeze_table1,
}


def by_hand(paper: Paper, item: str) -> Numbers:
    """What pencil and paper give for numbers of ``item``; empty where there is no formula."""
    formula = BASELINES.get((paper.key, item))
    return {} if formula is None else formula(paper)


SHELF = "misses"


class KnownMiss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number or a statement that the catalog lists as a miss.

    A number that is further off than ``off`` is a new miss.
    """

    why: str
    off: Decimal | None = None  # of a number: how far at most, in its unit, to either side
    short: str | None = None  # of a statement: how far from holding, in words
    programs: str | None = None  # of a study: at these sizes of its programs alone

    def __post_init__(self) -> None:
        if (self.off is None) == (self.short is None):
            raise ValueError("a known miss says either off, in numbers, or short, in words")

    def covers(self, difference: Decimal) -> bool:
        """Whether a number that is so far off is no further off than is known."""
        return self.off is not None and abs(difference) <= self.off


Known = dict[tuple[str, str], KnownMiss]  # by item and the name of the number or statement


def load_known(paper: str, programs: str | None = None) -> Known:
    """The known misses of ``paper``, for studies those with ``programs`` of these sizes.

    Errors: ``StudyError`` says what is wrong in their file.
    """
    if paper not in shelf_names(SHELF):
        return {}
    _, called, content = open_shelf(SHELF, paper, StudyError)
    try:
        listed = msgspec.convert(content, dict[str, dict[str, KnownMiss]])
    except msgspec.ValidationError as problem:
        raise StudyError(f"{called}: {problem}") from problem
    return {
        (item, name): one
        for item, named in listed.items()
        for name, one in named.items()
        if one.programs in (None, programs)
    }


def met_again(known: Known, item: str, points: list[Point], shapes: list[Shape]) -> list[Met]:
    """Those of ``known`` that are no misses any more, of the numbers and statements of ``item``."""
    fine = [(one.paper, one.quantity) for one in points if one.ok]
    fine += [(one.paper, one.name) for one in shapes if one.ok]
    return [
        Met(paper, item, name, known[item, name].why)
        for paper, name in fine
        if (item, name) in known
    ]


Experiment = Callable[[Item], Outcome]
Watch = Callable[[int, int], None]  # hears how much is done of how much
Telling = Callable[[str, str], "AbstractContextManager[Watch]"]
_HERE = "nicscope.studies.reproduce"


@contextlib.contextmanager
def untold(verb: str, unit: str) -> Iterator[Watch]:  # noqa: ARG001 - nobody listens
    """A watch to whom nobody listens."""
    yield lambda _done, _total: None


def find_experiment(paper: str, item: str) -> Experiment:
    """The experiment for that item; imports it, and with it what it needs."""
    [file] = [file for file, names in FILES[paper].items() if item in names]
    fill = getattr(importlib.import_module(f"{_HERE}.experiments.{paper}.{file}"), item)

    def run(published: Item) -> Outcome:
        outcome = Outcome()
        fill(outcome, published)
        return outcome

    return run


def find_study(paper: str, item: str) -> Study:
    """The study of that item."""
    module = importlib.import_module(f"{_HERE}.traced.{STUDY_FILES.get((paper, item), paper)}")
    study: Study = getattr(module, item.upper())
    return study


def experiment_names() -> set[tuple[str, str]]:
    """(paper, id) of every experiment, without importing any."""
    return {
        (paper, name) for paper, files in FILES.items() for file in files.values() for name in file
    }


def study_names() -> set[tuple[str, str]]:
    """(paper, id) of every study, without importing any."""
    return {(paper, name) for paper, names in STUDIES.items() for name in names}


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
    everywhere = study_names()
    studies = [pair for pair in chosen if pair in everywhere]
    if not traced:
        have = set() if programs == NONE else set(WORKLOADS)
        items = [pair for pair in chosen if pair not in everywhere]
        # What is timed takes minutes: it runs by its own name, or at the paper's sizes.
        run = [
            pair
            for pair in studies
            if pair[0] in have
            and (pair not in TIMED or programs == PAPER or "/".join(pair) in wanted)
        ]
        return Plan(items, run, [pair for pair in studies if pair not in run])
    everywhere -= TIMED
    studies = [pair for pair in studies if pair in everywhere]
    of_public = [(key, name) for key, name in chosen if papers[key].items[name].public]
    everywhere |= {
        (key, name) for key in papers for name, item in papers[key].items.items() if item.public
    }
    keys = {key for key, _ in [*studies, *of_public]}
    for name in wanted:
        key, slash, item = name.partition("/")
        if (slash and (key, item) not in everywhere) or key not in keys:
            known = ", ".join(sorted("/".join(pair) for pair in everywhere))
            raise StudyError(f"{name} takes no --trace; those that do are {known}")
    return Plan(of_public, studies, [])


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
    result = Reproduction([], [], [], [], [], {}, [])
    for key, name in offered:
        result.studies.append(Offered(key, name, papers[key].items[name].study or ""))
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
            _check(result, papers[key], name, Outcome.of_json(found), load_known(key))
            if item.baseline is not None:
                result.baselines[f"{key}/{name}"] = item.baseline
        if item.missing is not None:
            result.missing.append(Missing(key, name, item.missing))
    return result


def study(
    result: Reproduction,
    wanted: Sequence[str],
    traces: Sequence[Path] = (),
    papers: Mapping[str, Paper] | None = None,
    telling: Telling = untold,
    kept: Kept | None = None,
    programs: str = SMALL,
) -> None:
    """Add to ``result`` what the studies that ``wanted`` names make of the files ``traces``.

    Without any, of the papers' ``programs``, which are run first.  ``telling`` gives a watch for
    each piece of work, by what is done and what is counted.  What ``kept`` has is not measured
    again.  Errors: ``TraceError`` naming the file, before anything is measured if it cannot be
    opened.
    """
    from nicscope.studies.reproduce.mini_programs.grid import time_programs
    from nicscope.studies.reproduce.traced.applications import open_applications
    from nicscope.studies.reproduce.traced.programs import run_programs, traces_folder
    from nicscope.studies.reproduce.traced.running import run_studies

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
            if not TIMED.isdisjoint(own):
                with telling("timing programs", "runs") as watch:
                    timings = time_programs(applications, ran(paper, programs), watch, kept)
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
    from nicscope.studies.reproduce.public_traces import ASKED

    item = paper.items[name]
    absent = [each for each in item.public if each not in public]
    outcome = Outcome()
    for trace in item.public:
        if trace in public:
            ASKED[paper.key, name](outcome, trace, public[trace])
    if len(absent) < len(item.public):
        _check(result, paper, name, outcome, load_known(paper.key), some=bool(absent))
    if absent:
        digests = ", ".join(f"{each} (SHA-256 {paper.traces[each][:16]}...)" for each in absent)
        result.missing.append(Missing(paper.key, name, f"not among what was given: {digests}"))


def _check(
    result: Reproduction,
    paper: Paper,
    name: str,
    outcome: Outcome,
    known: Known,
    some: bool = False,
) -> None:
    """Add verdicts on one outcome, which must answer every expectation and nothing else.

    With ``some`` it may leave expectations unanswered.
    """
    item = paper.items[name]
    expected = {point.quantity: point for point in item.expected_points()}
    statements = {shape.id: shape for shape in item.shapes}
    unmatched = set(expected) ^ set(outcome.values) | set(statements) ^ set(outcome.shapes)
    if some:
        expected = {name: one for name, one in expected.items() if name in outcome.values}
        unmatched -= {one.quantity for one in item.expected_points()}
    if unmatched:
        raise RuntimeError(
            f"{paper.key}/{name}: expectation and experiment differ: {sorted(unmatched)}"
        )
    baselines = by_hand(paper, name)
    points = [
        judge(paper.key, name, one, outcome.values[q], baselines.get(q), known.get((name, q)))
        for q, one in expected.items()
    ]
    shapes = [
        hold(paper.key, name, one, outcome.shapes[key], known.get((name, key)))
        for key, one in statements.items()
    ]
    result.points.extend(points)
    result.shapes.extend(shapes)
    result.met.extend(met_again(known, name, points, shapes))
