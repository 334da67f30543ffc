"""Studies of a paper's programs: what a table is made of, what is read of a trace, and verdicts."""

from __future__ import annotations

import importlib
from decimal import Decimal
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import Design, load_design, with_settings
from nicscope.config.platform import load_platform
from nicscope.errors import StudyError
from nicscope.studies.pricing import Cost, price
from nicscope.studies.reproduce.keeping import Kept, key_of_traces
from nicscope.studies.reproduce.traced.programs import Application, Ran, claimed
from nicscope.studies.reproduce.verdict import (
    Basis,
    CellGroup,
    ExpectedPoint,
    Item,
    Layout,
    Outcome,
    Paper,
    Reproduction,
    Row,
    StudyTable,
    load_known,
    quantity_name,
)
from nicscope.studies.sources import Footprint, RowsDone, footprint_of
from nicscope.traces.schema import Requests

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from nicscope.drivers.replay import ReplayResult
    from nicscope.studies.curves import Point
    from nicscope.traces.reader import Trace

    Caches = Mapping[tuple[int, int], Point]  # by entries and ways

# A catalog design's name and what is set on it: ("utlb", "entries=1024").
Spec = tuple[str, ...]

OFFSET, NO_OFFSET = True, False  # of the caches that one pass simulates


class Study(NamedTuple):
    """How the rows of one table or figure of a paper come out of any traces."""

    rows: Callable[[Findings], list[Row]]  # of one application, without its name
    # Designs to replay, by what ``rows`` calls them; the page size (bytes) is the trace's.
    designs: Callable[[int], Mapping[Hashable, Spec]] = lambda _: {}
    # Direct-mapped, 2- and 4-way caches of Table 4's sizes from one pass, by index offset.
    caches: tuple[bool, ...] = ()
    # What the paper prints, from its items, where that is not known by application.
    unlabelled: Callable[[Mapping[str, Item]], list[Row]] | None = None
    # One block of rows, of all traces running at the same time: ``Measured.parts`` has each alone.
    together: bool = False
    # Whether pages and lookups of nodes are counted.
    nodes: bool = False
    # What the rows of the paper's programs show of the item's statements; those that hold only at
    # the paper's sizes are to be left out unless the rows are of these.
    state: Callable[[Outcome, Shown], None] | None = None


class Shown(NamedTuple):
    """What statements are held against: rows of the paper's programs, and what was printed.

    Caches in ``rows`` are told by the paper's sizes, also where they were made smaller.
    """

    rows: list[Row]
    items: Mapping[str, Item]
    are_the_papers: bool  # the problem sizes

    def by_application(self) -> dict[str, list[Row]]:
        """Rows of each, in their order."""
        names = dict.fromkeys(row["application"] for row in self.rows)
        return {name: [row for row in self.rows if row["application"] == name] for name in names}


def grid(
    axes: Mapping[str, Sequence[int]], measures: Mapping[str, Callable[..., Any]]
) -> Callable[[Findings], list[Row]]:
    """Rows of every place on ``axes``; a measure is asked of findings and the place."""

    def rows(found: Findings) -> list[Row]:
        return [
            {
                **dict(zip(axes, place, strict=True)),
                **{name: of(found, *place) for name, of in measures.items()},
            }
            for place in product(*axes.values())
        ]

    return rows


def pages_of(mbytes: int, page_size: int) -> int:
    """Pages of ``page_size`` bytes in so many MB of 2**20 bytes, at least one."""
    return max(1, (mbytes << 20) // page_size)


WAYS = {OFFSET: (1, 2, 4), NO_OFFSET: (1,)}  # of Table 8
SPAN = (1024, 16384)  # entries


class Measured(NamedTuple):
    """What came of one trace."""

    lookups: int
    results: Mapping[Spec, ReplayResult]
    caches: Mapping[bool, Caches]
    parts: tuple[Measured, ...] = ()  # of traces that run at the same time: each by itself
    footprint: Footprint | None = None
    reduction: int = 1  # of the caches and pin limits that a study names
    timed: list[Row] | None = None  # of its timed runs, one for each cache


# What a design's setting is divided by where programs and caches are smaller than the paper's.
REDUCED_SETTINGS = ("entries", "pin_limit")
# The same of what a row tells.
REDUCED_MEASURES = ("cache_entries", "shared_entries", "per_process_entries")


def reduced(spec: Spec, reduction: int) -> Spec:
    """``spec`` with caches and pin limits that are as many times smaller; one entry at least."""
    name, *assignments = spec
    settings = [each.partition("=") for each in assignments]
    return (
        name,
        *(
            f"{key}={max(1, int(value) // reduction)}"
            if key in REDUCED_SETTINGS
            else key + is_ + value
            for key, is_, value in settings
        ),
    )


def as_run(row: Row, reduction: int) -> Row:
    """``row`` with the sizes that its caches really had."""
    return {
        key: max(1, value // reduction) if key in REDUCED_MEASURES and value is not None else value
        for key, value in row.items()
    }


class Findings(NamedTuple):
    """What one study gets of it: its designs under the names that it gave them."""

    measured: Measured
    designs: Mapping[Hashable, Spec]

    def result(self, design: Hashable) -> ReplayResult:
        """What came of it."""
        return self.measured.results[reduced(self.designs[design], self.measured.reduction)]

    def total(self, design: Hashable, name: str) -> int:
        """Total of that count over all nodes."""
        count = self.result(design).total[name]
        assert count is not None
        return count

    def rate(self, design: Hashable, name: str) -> float:
        """That count per lookup."""
        return per_lookup(self.total(design, name), self.measured.lookups)

    def cost(self, design: Hashable) -> Cost:
        """Its counts priced on the platform that its paper measured on."""
        result = self.result(design)
        assert result.design.platform is not None
        counts = {name: count for name, count in result.total.items() if count is not None}
        return price(counts, result.design, load_platform(result.design.platform))

    def nic_bytes(self, design: Hashable) -> int:
        """Memory of the NIC that takes most."""
        return sum(self.result(design).nic_memory_bytes.values())

    def cache(self, offset: bool, entries: int, ways: int) -> Point:
        """The misses of such a cache on every node, by kind; nothing is ever unpinned."""
        return self.measured.caches[offset][entries, ways]


def per_lookup(count: float, lookups: int) -> float:
    """``count`` per lookup; 0 of none."""
    return count / lookups if lookups else 0.0


class Asked(NamedTuple):
    """What studies want to know of a trace."""

    specs: Collection[Spec]  # designs to replay, as large as the paper's
    caches: Collection[bool]  # one-pass caches, by index offset
    nodes: bool = False  # pages and lookups of nodes
    reduction: int = 1


def measure(
    name: str, read: Callable[[], Iterable[Requests]], page_size: int, asked: Asked
) -> Measured:
    """What each design, and the one-pass caches, make of the trace ``name``.

    ``read`` gives its requests, each time it is called.  Errors: ``TraceError`` at the first row
    that the schema does not allow.
    """
    from nicscope.drivers.replay import replay
    from nicscope.drivers.replay.page_numbering import NO_GRAIN
    from nicscope.studies.curves import Question, curves_of

    lookups = 0
    results: dict[Spec, ReplayResult] = {}
    if asked.specs:
        specs = list(dict.fromkeys(reduced(spec, asked.reduction) for spec in asked.specs))
        designs = [built(spec) for spec in specs]
        found = replay(read(), designs, kinds=False, page_size=page_size)
        results = dict(zip(specs, found, strict=True))
        lookups = found[0].total["lookups"] or 0
    grids: dict[bool, Caches] = {}
    span = (SPAN[0] // asked.reduction, SPAN[1] // asked.reduction)
    for offset in asked.caches:
        question = Question(ways=WAYS[offset], entries=span, offset=offset)
        [curve] = curves_of(name, read, question, page_size, NO_GRAIN)
        lookups = curve.lookups
        grids[offset] = {
            (point.entries * asked.reduction, point.ways): point for point in curve.points
        }
    footprint = footprint_of(read(), page_size) if asked.nodes else None
    if footprint is not None:
        lookups = footprint.lookups
    return Measured(lookups, results, grids, footprint=footprint, reduction=asked.reduction)


def built(spec: Spec) -> Design:
    """The design that ``spec`` names, as ``replay --design NAME --set ...`` would have it."""
    name, *assignments = spec
    return with_settings(load_design(name), assignments)


CLAIMED = "the trace says that it is the paper's program; nothing was chosen by its cells"
PROBLEMS = "table3"  # of a paper: its applications and their problem sizes
UNITS = {
    "_us_per_lookup": "us/lookup",
    "_per_lookup": "events/lookup",
    "_percent": "%",
    "_pages": "pages",
    "_lookups": "lookups",
}


def judged_as(paper: Paper, item: Item, application: Application) -> str | None:
    """The paper's application whose cells a trace has to meet; None: there is none."""
    if item.tolerance is None or PROBLEMS not in paper.items:
        return None
    return claimed(application, paper.items[PROBLEMS])


def _judge(
    result: Reproduction,
    chosen: _Chosen,
    rows: Sequence[Row],
    applications: Sequence[Application],
    ran: Ran | None,
) -> None:
    """Verdicts on the printed cells, and on statements, that ``rows`` have to meet.

    Of programs that we ran at the paper's sizes those of the item, and of any size statements; of
    a trace that says it is the paper's application all cells of that.
    """
    paper, name, study = chosen
    item = paper.items[name]
    if ran is not None:
        outcome = Outcome()
        if study.state is not None:
            study.state(outcome, Shown(list(rows), paper.items, ran.are_the_papers))
        points = _expected(outcome, chosen, rows, item.cells if ran.are_the_papers else ())
        shapes = [one for one in item.shapes if ran.are_the_papers or not one.at_paper_size]
        result.judge(paper.key, name, points, shapes, outcome, load_known(paper.key, ran.programs))
        return
    for one in applications:
        claim = judged_as(paper, item, one)
        if claim is not None:
            ours = [{**row, "application": claim} for row in rows if row["application"] == one.name]
            cells = CellGroup(
                measures=chosen.layout.measures,
                apps=[claim],
                why="as printed",
                basis=Basis.PREDICTED,
                because=CLAIMED,
                tolerance=item.tolerance or Decimal(0),
            )
            outcome = Outcome()
            points = _expected(outcome, chosen, ours, [cells])
            result.judge(paper.key, name, points, (), outcome)


def _expected(
    outcome: Outcome, chosen: _Chosen, rows: Sequence[Row], groups: Sequence[CellGroup]
) -> list[ExpectedPoint]:
    """What the printed cells of ``groups`` ask for; ``outcome`` gets what ``rows`` have there."""
    asked = list(_asked_of(chosen, groups))
    for cell, point in asked:
        outcome.values[point.quantity] = cell.found(chosen.layout, rows)
    return [point for _, point in asked]


def expected_of_programs(paper: Paper, name: str) -> list[ExpectedPoint]:
    """The printed cells of a study that the paper's programs have to meet at the paper's sizes."""
    chosen = _Chosen(paper, name, find_study(paper.key, name))
    return [point for _, point in _asked_of(chosen, paper.items[name].cells)]


def _asked_of(
    chosen: _Chosen, groups: Sequence[CellGroup]
) -> Iterator[tuple[_Cell, ExpectedPoint]]:
    """The printed cells of ``groups``, and what each of them asks for."""
    for cell in _cells(chosen) if groups else ():
        for group in groups:
            if cell.app in group.apps and cell.measure in group.measures:
                slack = group.tolerance or group.share * cell.printed
                quantity = cell.quantity(chosen.layout)
                yield (
                    cell,
                    ExpectedPoint(
                        quantity, cell.printed, slack, group.why, group.basis, group.because
                    ),
                )


class _Cell(NamedTuple):
    """A printed number: of which application, where on the axes, of which measure."""

    app: str
    at: tuple[int, ...]
    measure: str
    printed: Decimal

    def quantity(self, layout: Layout) -> str:
        """What it is called."""
        ending = next(ending for ending in UNITS if self.measure.endswith(ending))
        places = dict(zip([axis.key for axis in layout.axes], self.at, strict=True))
        return quantity_name(
            self.measure.removesuffix(ending), UNITS[ending], app=self.app, **places
        )

    def found(self, layout: Layout, rows: Sequence[Row]) -> Decimal:
        """The same of ``rows``."""
        [row] = [
            row
            for row in rows
            if row["application"] == self.app
            and tuple(row[axis.key] for axis in layout.axes) == self.at
        ]
        return Decimal(f"{row[self.measure]:.12g}")


def _cells(chosen: _Chosen) -> Iterator[_Cell]:
    """Every printed cell whose application is known, in the order of the print."""
    for row in chosen.printed():
        at = tuple(row[axis.key] for axis in chosen.layout.axes)
        for measured in chosen.layout.measures:
            if measured in row:
                yield _Cell(row["application"], at, measured, Decimal(row[measured]))


TIME_SPAN = 1 << 40  # ns that every program is stretched or pressed to


def mixed(traces: Sequence[Trace]) -> Requests:
    """The requests of all ``traces`` by time, each spread over the same span.

    A node runs what each trace has on the node of that number; no two programs share a process.
    Errors: ``StudyError`` if their pages differ, ``TraceError`` as when one is read.
    """
    sizes = {trace.metadata.page_size for trace in traces}
    if len(sizes) > 1:
        raise StudyError(
            f"the traces have pages of {', '.join(map(str, sorted(sizes)))} bytes; programs that "
            "run together have one size: give traces of one, or name other studies"
        )
    parts = [_spread(trace.read(), 1 + place, len(traces)) for place, trace in enumerate(traces)]
    whole: list[Any] = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.argsort(whole[0], kind="stable")  # time_ns
    return Requests(*(column[order] for column in whole))


def _spread(requests: Requests, place: int, programs: int) -> Requests:
    """One program's: its times from 0 to the span, its processes no other program's."""
    time = requests.time_ns
    if len(time) == 0:
        return requests
    begin, length = time.min(), max(int(time.max() - time.min()), 1)
    shares = (time - begin).astype(np.float64) / length
    _, processes = np.unique(requests.pid, return_inverse=True)
    pid = (processes * programs + place).astype(np.int32)
    return requests._replace(time_ns=(shares * TIME_SPAN).astype(np.int64), pid=pid)


ALL_TOGETHER = "all"  # the name of what stands for every trace
SIMPLY_NOT = "other programs or problem sizes than the paper's"


def find_study(paper: str, item: str) -> Study:
    """The study of that item."""
    module = importlib.import_module(f"nicscope.studies.reproduce.traced.{paper}")
    study: Study = getattr(module, item.upper())
    return study


class _Chosen(NamedTuple):
    """A study that was asked for."""

    paper: Paper
    name: str
    study: Study

    @property
    def layout(self) -> Layout:
        """How its table is laid out."""
        layout = self.paper.items[self.name].table
        assert layout is not None
        return layout

    def printed(self) -> list[Row]:
        """What the paper prints, as far as it is known of which application."""
        return self.layout.printed_rows(self.paper.items, self.name)


def run_studies(
    chosen: Sequence[tuple[str, str]],
    applications: Sequence[Application],
    papers: Mapping[str, Paper],
    ran: Ran | None = None,
    watch: Callable[[int, int], None] | None = None,
    kept: Kept | None = None,
    timings: Mapping[str, list[Row]] | None = None,
) -> Reproduction:
    """The table of each (paper, id), and verdicts on what is the paper's.

    ``ran``: the applications are programs that were run for them, else traces that somebody
    brought.  Each trace is measured once for all tables, unless ``kept`` has what came of it.
    ``timings``: rows of each application's timed runs, if a study asks for them.  ``watch`` hears
    how many rows are done of how many.  Errors: ``TraceError`` at the first row that the schema
    does not allow.
    """
    studies = [_Chosen(papers[key], name, find_study(key, name)) for key, name in chosen]
    measuring = _Measuring(studies, applications, ran, Kept() if kept is None else kept, timings)
    rows, notes = measuring.run(watch)
    studied = Reproduction()
    for one, found, told in zip(studies, rows, notes, strict=True):
        studied.tables.append(_table(one, applications, ran, found, told))
        _judge(studied, one, found, applications, ran)
    return studied


Found = list[tuple[list["Row"], list[str]]]  # of each study: rows and notes


class _Measuring:
    """Measures applications for studies, those that are not kept."""

    def __init__(
        self,
        studies: Sequence[_Chosen],
        applications: Sequence[Application],
        ran: Ran | None,
        kept: Kept,
        timings: Mapping[str, list[Row]] | None,
    ) -> None:
        self._studies = studies
        self._applications = applications
        self._reduction = 1 if ran is None else ran.reduction
        self._kept = kept
        self._timings = timings or {}
        own = {offset for one in studies for offset in one.study.caches}
        self._caches = sorted(own, reverse=True)
        self._together = [place for place, one in enumerate(studies) if one.study.together]
        self._nodes = any(one.study.nodes for one in studies)

    def run(
        self, watch: Callable[[int, int], None] | None
    ) -> tuple[list[list[Row]], list[list[str]]]:
        """Rows and notes of each study; a row tells caches by the sizes that the study names."""
        keys = [self._key("alone", [one]) for one in self._applications]
        before = [None if key is None else self._kept.get(key) for key in keys]
        whole_key = self._key("together", self._applications)
        whole = None if whole_key is None else self._kept.get(whole_key)
        wants_all = bool(self._together) and whole is None
        passes = len(self._caches) + self._nodes
        passes += any(one.study.designs(1) for one in self._studies)
        progress = RowsDone(
            watch,
            sum(
                one.trace.rows * (passes if found is None else len(self._caches) * wants_all)
                for one, found in zip(self._applications, before, strict=True)
            ),
        )
        rows: list[list[Row]] = [[] for _ in self._studies]
        notes: list[list[str]] = [[] for _ in self._studies]
        alone = []
        for one, key, found in zip(self._applications, keys, before, strict=True):
            if found is None or wants_all:
                alone.append(self._measured(one, progress, anew=found is None))
            if found is None:
                found = self._found(one, alone[-1])
                if key is not None:
                    self._kept.put(key, found)
            for place, (more, told) in enumerate(found):
                rows[place] += more
                notes[place] += told
        if wants_all:
            whole = self._whole(alone)
            if whole_key is not None:
                self._kept.put(whole_key, whole)
        for place, together in zip(self._together, whole or [], strict=False):
            rows[place] = together
            if len(self._applications) == 1:
                notes[place].append("one trace has nothing beside it: give several")
        return rows, notes

    def _key(self, what: str, applications: Sequence[Application]) -> str | None:
        studies = [[one.paper.key, one.name] for one in self._studies]
        traces = [(one.name, one.trace.path) for one in applications]
        return key_of_traces([what, self._reduction, *studies], traces)

    def _designs(self, page_size: int) -> list[Mapping[Hashable, Spec]]:
        return [one.study.designs(page_size) for one in self._studies]

    def _measured(self, one: Application, progress: RowsDone, *, anew: bool) -> Measured:
        """What came of a trace: all of it, or what is asked of all traces at the same time."""
        designs = self._designs(one.trace.metadata.page_size)
        specs = dict.fromkeys(spec for each in designs for spec in each.values())
        asked = Asked(
            list(specs) if anew else (), self._caches, self._nodes and anew, self._reduction
        )
        read = partial(progress.through, one.trace)
        return measure(one.name, read, one.trace.metadata.page_size, asked)

    def _found(self, one: Application, measured: Measured) -> Found:
        found: Found = []
        designs = self._designs(one.trace.metadata.page_size)
        for chosen, own in zip(self._studies, designs, strict=True):
            if chosen.study.together:
                found.append(([], []))
                continue
            findings = Findings(measured._replace(timed=self._timings.get(one.name)), own)
            rows = [{"application": one.name, **row} for row in chosen.study.rows(findings)]
            found.append((rows, _rejected(one.name, findings)))
        return found

    def _whole(self, alone: Sequence[Measured]) -> list[list[Row]]:
        """Rows of the studies of all traces at the same time."""
        requests = mixed([one.trace for one in self._applications])
        page_size = self._applications[0].trace.metadata.page_size
        asked = Asked((), self._caches, reduction=self._reduction)
        measured = measure(ALL_TOGETHER, lambda: iter([requests]), page_size, asked)
        findings = Findings(measured._replace(parts=tuple(alone)), {})
        return [
            [
                {"application": ALL_TOGETHER, **row}
                for row in self._studies[place].study.rows(findings)
            ]
            for place in self._together
        ]


def _table(
    chosen: _Chosen,
    applications: Sequence[Application],
    ran: Ran | None,
    rows: list[Row],
    notes: list[str],
) -> StudyTable:
    paper, study, layout = chosen.paper, chosen.study, chosen.layout
    item = paper.items[chosen.name]
    printed = study.unlabelled(paper.items) if study.unlabelled else chosen.printed()
    reduction = 1 if ran is None else ran.reduction
    sizes = dict.fromkeys(one.trace.metadata.page_size for one in applications)
    designs = dict.fromkeys(
        reduced(spec, reduction) for size in sizes for spec in study.designs(size).values()
    )
    return StudyTable(
        paper=paper.key,
        id=chosen.name,
        where=item.where,
        what=item.what,
        unit=layout.unit,
        conditions=layout.conditions,
        layout=layout,
        traces=[
            {
                "application": one.name,
                "file": one.command or one.trace.name,
                "requests": one.trace.rows,
                "page_bytes": one.trace.metadata.page_size,
                "origin": one.trace.metadata.origin,
            }
            for one in applications
        ],
        programs=None if ran is None else ran.programs,
        reduction=reduction,
        designs=[" ".join(spec) for spec in designs],
        rows=[as_run(row, reduction) for row in rows],
        printed=[
            {key: float(each) if isinstance(each, Decimal) else each for key, each in row.items()}
            for row in printed
        ],
        printed_note=layout.note,
        comparable=_comparable(paper, item, applications, ran),
        why=_incomparable(item, ran),
        notes=notes,
    )


def _comparable(
    paper: Paper, item: Item, applications: Sequence[Application], ran: Ran | None
) -> list[str]:
    """The applications whose cells are judged."""
    if ran is None:
        return [one.name for one in applications if judged_as(paper, item, one) is not None]
    apps = {app for group in item.cells for app in group.apps} if ran.are_the_papers else ()
    return [one.name for one in applications if one.name in apps]


def _incomparable(item: Item, ran: Ran | None) -> str:
    """Why cells are not judged."""
    if ran is not None and not ran.are_the_papers and item.cells:
        return "reduced problem sizes, caches and pin limits"
    return SIMPLY_NOT if item.tolerance is not None and ran is None else str(item.study)


def _rejected(application: str, found: Findings) -> list[str]:
    most = max((found.total(design, "rejected") for design in found.designs), default=0)
    if not most:
        return []
    return [f"{application}: up to {most:,} requests rejected, as they exceed the pin limit alone"]
