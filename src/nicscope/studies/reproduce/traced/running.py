"""Studies over traces put together: tables of rows, and verdicts where a trace claims to be it."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.errors import StudyError, TraceError, printable
from nicscope.inputs import STDIN
from nicscope.studies.reproduce.harness import find_study
from nicscope.studies.reproduce.keeping import Kept, key_of_traces
from nicscope.studies.reproduce.traced.measuring import Findings, measure
from nicscope.studies.reproduce.traced.mixing import mixed
from nicscope.studies.reproduce.verdict import Basis, ExpectedPoint, Point, judge, quantity_name
from nicscope.studies.sources import RowsDone

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from pathlib import Path

    from nicscope.studies.reproduce.traced.measuring import Layout, Measured, Row, Spec, Study
    from nicscope.studies.reproduce.verdict import Item, Paper
    from nicscope.traces.reader import Trace

ENDING = ".parquet"


class Application(NamedTuple):
    """A trace under the name of its row or column."""

    name: str
    trace: Trace


def trace_files(given: Path) -> list[Path]:
    """The traces in the folder ``given``, by name; a file is its own.

    Errors: ``TraceError`` if there is no such folder or no trace in it.
    """
    if str(given) == STDIN:
        return [given]
    if not given.exists():
        raise TraceError(f"{given}: no such folder; name one that holds traces")
    if not given.is_dir():
        return [given]
    try:
        names = sorted(given.iterdir())
    except OSError as error:
        raise TraceError(f"{given}: cannot be read: {error.strerror}") from error
    found = [path for path in names if path.suffix == ENDING and not path.name.startswith(".")]
    if not found:
        raise TraceError(
            f"{given}: holds no traces (*{ENDING}); convert or record some, or name another folder"
        )
    return found


def open_applications(files: Sequence[Path]) -> list[Application]:
    """An application for each of ``files``, named as its file, in their order.

    Errors: ``TraceError`` naming the first file that cannot be read, ``StudyError`` if two files
    have the same name.
    """
    from nicscope.traces.reader import open_trace

    found: dict[str, Application] = {}
    for path in files:
        name = "stdin" if str(path) == STDIN else printable(path.stem)
        if name in found:
            raise StudyError(f"{path}: there is another {name!r} already; rename one of them")
        found[name] = Application(name, open_trace(path))
    return list(found.values())


def claimed(application: Application, problems: Item) -> str | None:
    """The paper's application that the trace's metadata says it is; None: another program.

    Its ``origin`` must name ``application`` and ``problem`` as ``problems`` prints them: the same
    program at another size makes other traffic.
    """
    origin = application.trace.metadata.origin
    program, problem = origin.get("application"), origin.get("problem")
    printed: Mapping[str, list[str]] = problems.printed
    for name, size in zip(printed["app"], printed["problem"], strict=True):
        if program == name and problem == size:
            return name
    return None


ALL_TOGETHER = "all"  # the name of what stands for every trace
PROBLEMS = "table3"  # of a paper: its applications and their problem sizes
UNITS = {"_us_per_lookup": "us/lookup", "_per_lookup": "events/lookup", "_percent": "%"}
SIMPLY_NOT = "other programs or problem sizes than the paper's"


class StudyTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table or figure for some traces, with what the paper prints beside it."""

    paper: str
    id: str
    where: str
    what: str
    unit: str
    conditions: str
    layout: Layout
    traces: list[dict[str, Any]]
    bundled: bool  # none were given, so these are nicscope's samples
    designs: list[str]  # replayed, each as NAME KEY=VALUE ...
    rows: list[Row]
    printed: list[Row]
    printed_note: str | None
    comparable: list[str]  # applications that say they are the paper's
    why: str  # the rest is not
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Everything but the layout."""
        return {
            "paper": self.paper,
            "id": self.id,
            "where": self.where,
            "what": self.what,
            "unit": self.unit,
            "conditions": self.conditions,
            "traces": self.traces,
            "bundled": self.bundled,
            "designs": self.designs,
            "rows": self.rows,
            "printed": {
                "comparable": self.comparable,
                "not_comparable": self.why,
                "note": self.printed_note,
                "rows": self.printed,
            },
            "notes": self.notes,
        }


def run_studies(
    chosen: Sequence[tuple[str, str]],
    applications: Sequence[Application],
    papers: Mapping[str, Paper],
    bundled: bool,
    watch: Callable[[int, int], None] | None = None,
    kept: Kept | None = None,
) -> tuple[list[StudyTable], list[Point]]:
    """The table of each (paper, id), and verdicts on the applications that are the paper's.

    Each trace is measured once for all tables, unless ``kept`` has what came of it.  ``watch``
    hears how many rows are done of how many.  Errors: ``TraceError`` at the first row that the
    schema does not allow.
    """
    kept = Kept() if kept is None else kept
    studies = [(papers[key], name, find_study(key, name)) for key, name in chosen]
    rows: list[list[Row]] = [[] for _ in studies]
    notes: list[list[str]] = [[] for _ in studies]
    caches = sorted({offset for *_, study in studies for offset in study.caches}, reverse=True)
    rereads = len(caches) + any(study.designs(1) for *_, study in studies)
    together = [place for place, (*_, study) in enumerate(studies) if study.together]
    whole_key = _key(["together", *chosen], applications)
    whole = None if whole_key is None else kept.get(whole_key)
    wants_all = bool(together) and whole is None
    keys = [_key(["alone", *chosen], [one]) for one in applications]
    before = [None if key is None else kept.get(key) for key in keys]
    expected = [
        one.trace.rows * (rereads if found is None else len(caches) * wants_all)
        for one, found in zip(applications, before, strict=True)
    ]
    progress = RowsDone(watch, sum(expected))
    alone = []
    for one, key, found in zip(applications, keys, before, strict=True):
        page_size = one.trace.metadata.page_size
        asked = [study.designs(page_size) for *_, study in studies]
        if found is None or wants_all:
            specs = list(dict.fromkeys(spec for designs in asked for spec in designs.values()))
            read = partial(progress.through, one.trace)
            measured = measure(one.name, read, page_size, specs if found is None else (), caches)
            alone.append(measured)
        if found is None:
            found = [
                [
                    [{"application": one.name, **row} for row in study.rows(Findings(measured, d))],
                    _rejected(one.name, measured, d),
                ]
                if not study.together
                else [[], []]
                for (*_, study), d in zip(studies, asked, strict=True)
            ]
            if key is not None:
                kept.put(key, found)
        for place, (more, told) in enumerate(found):
            rows[place] += more
            notes[place] += told
    if wants_all:
        measured = _all_together(applications, caches)._replace(parts=tuple(alone))
        whole = [
            [
                {"application": ALL_TOGETHER, **row}
                for row in studies[place][2].rows(Findings(measured, {}))
            ]
            for place in together
        ]
        if whole_key is not None:
            kept.put(whole_key, whole)
    for place, found in zip(together, whole or [], strict=False):
        rows[place] = found
        if len(applications) == 1:
            notes[place].append("one trace has nothing beside it: give several")
    tables = [
        _table(paper, name, study, applications, bundled, rows[place], notes[place])
        for place, (paper, name, study) in enumerate(studies)
    ]
    points = [
        point
        for (paper, _, study), table in zip(studies, tables, strict=True)
        for point in _verdicts(paper, study, table, applications)
    ]
    return tables, points


def _key(what: Sequence[Any], applications: Sequence[Application]) -> str | None:
    return key_of_traces(what, [(one.name, one.trace.path) for one in applications])


def _all_together(applications: Sequence[Application], caches: Sequence[bool]) -> Measured:
    """What the caches make of all traces at the same time."""
    requests = mixed([one.trace for one in applications])
    page_size = applications[0].trace.metadata.page_size
    return measure(ALL_TOGETHER, lambda: iter([requests]), page_size, (), caches)


def _table(
    paper: Paper,
    name: str,
    study: Study,
    applications: Sequence[Application],
    bundled: bool,
    rows: list[Row],
    notes: list[str],
) -> StudyTable:
    item = paper.items[name]
    sizes = dict.fromkeys(one.trace.metadata.page_size for one in applications)
    designs = dict.fromkeys(spec for size in sizes for spec in study.designs(size).values())
    printed = [_as_floats(row) for row in study.printed(paper.items)]
    ours = [one.name for one in applications if _judged_as(paper, item, one) is not None]
    return StudyTable(
        paper=paper.key,
        id=name,
        where=item.where,
        what=item.what,
        unit=study.unit,
        conditions=study.conditions,
        layout=study.layout,
        traces=[
            {
                "application": one.name,
                "file": one.trace.name,
                "requests": one.trace.rows,
                "page_bytes": one.trace.metadata.page_size,
                "origin": one.trace.metadata.origin,
            }
            for one in applications
        ],
        bundled=bundled,
        designs=[" ".join(spec) for spec in designs],
        rows=rows,
        printed=printed,
        printed_note=study.printed_note,
        comparable=ours,
        why=SIMPLY_NOT if item.tolerance is not None else str(item.study),
        notes=notes,
    )


def _as_floats(row: Row) -> Row:
    return {key: float(v) if isinstance(v, Decimal) else v for key, v in row.items()}


def _rejected(application: str, measured: Measured, designs: Mapping[Hashable, Spec]) -> list[str]:
    counts = [measured.results[spec].total["rejected"] or 0 for spec in designs.values()]
    most = max(counts, default=0)
    if not most:
        return []
    return [f"{application}: up to {most:,} requests rejected, as they exceed the pin limit alone"]


def _judged_as(paper: Paper, item: Item, application: Application) -> str | None:
    """The paper's application whose cells the trace has to meet; None: there is none."""
    if item.tolerance is None or PROBLEMS not in paper.items:
        return None
    return claimed(application, paper.items[PROBLEMS])


def _verdicts(
    paper: Paper, study: Study, table: StudyTable, applications: Sequence[Application]
) -> list[Point]:
    """A point for each printed cell of the paper's application that a trace says it is."""
    item = paper.items[table.id]
    known = (study.labelled or study.printed)(paper.items)
    points = []
    for one in applications:
        claim = _judged_as(paper, item, one)
        theirs = [row for row in known if row["application"] == claim]
        ours = [row for row in table.rows if row["application"] == one.name]
        if claim is not None and theirs:
            points += _compare(table, item, theirs, ours)
    return points


def _compare(table: StudyTable, item: Item, theirs: list[Row], ours: list[Row]) -> list[Point]:
    assert item.tolerance is not None
    axes = [axis.key for axis in table.layout.axes]
    found = {tuple(row[axis] for axis in axes): row for row in ours}
    points = []
    for row in theirs:
        at = {axis: row[axis] for axis in axes}
        for measured in table.layout.measures:
            if measured not in row:
                continue
            ending = next(ending for ending in UNITS if measured.endswith(ending))
            name = measured.removesuffix(ending)
            expected = ExpectedPoint(
                quantity_name(name, UNITS[ending], app=row["application"], **at),
                Decimal(row[measured]),
                item.tolerance,
                "as printed",
                Basis.PREDICTED,
                "the trace says that it is the paper's program; nothing was chosen by its cells",
            )
            value = found[tuple(at.values())][measured]
            points.append(judge(table.paper, table.id, expected, Decimal(f"{value:.12g}")))
    return points
