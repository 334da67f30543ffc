"""What should come out, as the catalog's ``published`` files state it, and what does.

Experiments fill an ``Outcome``, the harness judges it into a ``Reproduction``; studies make tables
and figures of programs as the papers lay them out.  ``catalog/published/utlb.toml`` explains the
layout of expectations at its top.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.toml_files import open_shelf, shelf_names
from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


# One line of a table as plain values, units in the names of its measures.
Row = dict[str, Any]


class Axis(NamedTuple):
    """What rows differ in: its name in a row, and its heading."""

    key: str
    heading: str


class Line(NamedTuple):
    """A printed line: its label and the measure in each of an application's columns."""

    label: str
    measures: tuple[str, ...]  # DASH: the paper prints one


DASH = "-"


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as it is printed: a block of lines per row, columns per application."""

    unit: str
    conditions: str
    columns: tuple[str, ...]  # of each application; one without a name if there is but one
    lines: tuple[Line, ...]
    axes: tuple[Axis, ...] = ()
    note: str | None = None  # what one has to know to read what is printed
    printed: dict[
        str, str
    ] = {}  # measures whose cells are printed, with the columns that have them
    printed_in: str | None = None  # the item that has these columns; None: its own

    @property
    def measures(self) -> list[str]:
        """Every measure, once, in the order of the lines."""
        found = (name for line in self.lines for name in line.measures if name != DASH)
        return list(dict.fromkeys(found))

    def printed_rows(self, items: Mapping[str, Item], item: str) -> list[Row]:
        """Rows of what is printed for ``item``, each with its ``application``.

        A column holds a number for each size of the cache, if these are printed, and application,
        for each application, or one for all.
        """
        cells, axis = items[self.printed_in or item].printed, "cache_entries"

        def at(name: str, row: int, column: int) -> Any:
            printed = cells[name]
            if not isinstance(printed, list):
                return printed
            return printed[row][column] if isinstance(printed[0], list) else printed[column]

        return [
            {
                "application": app,
                **({axis: place} if axis in cells else {}),
                **{measure: at(name, row, column) for measure, name in self.printed.items()},
            }
            for column, app in enumerate(cells["app"] if self.printed else ())
            for row, place in enumerate(cells.get(axis, [None]))
        ]


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
    programs: str | None  # that were run for it, at these sizes; None: traces were given
    reduction: int  # the paper's caches and pin limits over those that were used
    designs: list[str]  # replayed, each as NAME KEY=VALUE ...
    rows: list[Row]
    printed: list[Row]
    printed_note: str | None
    comparable: list[str]  # applications whose cells are held against the paper's
    why: str  # the rest is not
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Everything but the layout; all that is printed in one."""
        plain = msgspec.structs.asdict(self)
        del plain["layout"]
        printed = {
            "comparable": plain.pop("comparable"),
            "not_comparable": plain.pop("why"),
            "note": plain.pop("printed_note"),
            "rows": self.printed,
        }
        return {**plain, "printed": printed}


SHELF, MISSES = "published", "misses"


class Basis(StrEnum):
    """How what comes out relates to what is published."""

    PREDICTED = "predicted"  # nothing that went into it could have been chosen to meet it
    FITTED = "fitted"  # a constant was chosen while the answer was known
    IDENTITY = "identity"  # arithmetic on what is printed, or so by construction; never counted


class ExpectedPoint(msgspec.Struct, frozen=True):
    """One published number; ``tolerance`` is absolute, in the number's unit."""

    quantity: str
    published: Decimal
    tolerance: Decimal
    why: str  # this tolerance
    basis: Basis
    because: str  # this basis


class PointGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Published numbers that differ along one axis: ``at`` may hold one list."""

    quantity: str
    unit: str
    published: Decimal | list[Decimal]
    tolerance: Decimal | list[Decimal]
    why: str
    basis: Basis
    because: str
    constants: list[str] = []  # that were chosen while these numbers were known
    at: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if (self.basis is Basis.FITTED) != bool(self.constants):
            raise ValueError(f"{self.quantity}: what is fitted, and that only, names constants")

    def places(self) -> list[dict[str, Any]]:
        """Where on its axes each number stands."""
        places: list[dict[str, Any]] = [{}]
        for axis, values in self.at.items():
            along = values if isinstance(values, list) else [values]
            places = [{**place, axis: value} for place in places for value in along]
        return places

    def points(self) -> Iterator[ExpectedPoint]:
        """One point per place on the axis; ``ValueError`` if the lists differ in length."""
        published = self.published if isinstance(self.published, list) else [self.published]
        tolerance = self.tolerance
        tolerances = tolerance if isinstance(tolerance, list) else [tolerance] * len(published)
        for place, value, slack in zip(self.places(), published, tolerances, strict=True):
            name = quantity_name(self.quantity, self.unit, **place)
            yield ExpectedPoint(name, value, slack, self.why, self.basis, self.because)


class CellGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Printed cells of a study that our own run of the paper's programs has to meet.

    Only at the paper's problem sizes.  ``tolerance`` is absolute, or else ``share`` of the cell.
    """

    measures: list[str]
    apps: list[str]
    why: str  # this tolerance
    basis: Basis
    because: str
    tolerance: Decimal = Decimal(0)
    share: Decimal = Decimal(0)
    constants: list[str] = []  # that were chosen while these numbers were known

    def __post_init__(self) -> None:
        if (self.basis is Basis.FITTED) != bool(self.constants):
            raise ValueError(f"{self.measures}: what is fitted, and that only, names constants")


class ExpectedShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement that should hold; one about a contradiction holds if it is confirmed."""

    id: str
    statement: str
    basis: Basis
    because: str
    at_paper_size: bool = False  # of programs: it means nothing at reduced sizes


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table, figure or claim of a paper."""

    where: str
    what: str
    missing: str | None = None  # what of it is not reproduced, and why
    public: list[str] = []  # traces that somebody has to bring for it, as the paper names them
    study: str | None = None  # comes out for any traces; why those give no verdict
    timed: bool = False  # of a study: of timed runs, which takes what processes do and wait for
    tolerance: Decimal | None = None  # absolute, for a trace of the paper's own program
    baseline: str | None = None  # pencil and paper beside what is predicted, in words
    notes: list[str] = []
    printed: dict[str, Any] = {}
    derived: dict[str, Any] = {}
    table: Layout | None = None  # of a study
    points: list[PointGroup] = []
    cells: list[CellGroup] = []
    shapes: list[ExpectedShape] = []

    def expected_points(self) -> list[ExpectedPoint]:
        """Every expected number, in the file's order."""
        return [point for group in self.points for point in group.points()]

    def has_expectations(self) -> bool:
        """Whether it is judged with nothing brought: by an experiment, or what comes of a study."""
        return bool(self.points or self.cells or self.shapes) and not self.public


class Paper(msgspec.Struct, frozen=True):
    """One paper's items by id, in the file's order."""

    key: str
    title: str
    items: dict[str, Item]
    traces: dict[str, str] = {}  # that are public: SHA-256 by name


def quantity_name(quantity: str, unit: str, **at: object) -> str:
    """The one spelling of a quantity, such as ``pin[pages=8] us``."""
    axes = ", ".join(f"{axis}={value}" for axis, value in at.items())
    return f"{quantity}[{axes}] {unit}" if axes else f"{quantity} {unit}"


def paper_keys() -> list[str]:
    """Keys of the papers in the catalog, sorted."""
    return shelf_names(SHELF)


def load_paper(key: str) -> Paper:
    """What the paper ``key`` published; ``StudyError`` names what is wrong in its file."""
    _, called, content = open_shelf(SHELF, key, StudyError)
    header = content.pop("paper", {})
    items: dict[str, Item] = {}
    for name, table in content.items():
        try:
            items[name] = msgspec.convert(table, Item)
            items[name].expected_points()
        except (msgspec.ValidationError, ValueError) as problem:
            raise StudyError(f"{called}: {name}: {problem}") from problem
    return Paper(key, header.get("title", key), items, header.get("traces", {}))


class Cause(StrEnum):
    """Whose a known miss is."""

    PAPER = "paper"  # what is printed contradicts itself, is of another machine, or is not told
    WORKLOAD = "workload"  # programs, inputs or users are not the paper's
    MODEL = "model"  # a mechanism is missing, or is not what the paper's was


class KnownMiss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number or a statement that the catalog lists as a miss.

    A number that is further off than ``off`` is a new miss.
    """

    why: str
    cause: Cause | None = None  # None: nobody has said yet
    mend: str | None = None  # what would have it miss no more
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
    if paper not in shelf_names(MISSES):
        return {}
    _, called, content = open_shelf(MISSES, paper, StudyError)
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


class Outcome:
    """What one experiment found, by the names that its expectations use."""

    def __init__(self) -> None:
        self.values: dict[str, Decimal] = {}
        self.shapes: dict[str, tuple[bool, str]] = {}

    def point(self, quantity: str, unit: str, value: float | Decimal, **at: object) -> None:
        """Record ``value`` (in ``unit``) for the quantity at that place on its axes."""
        # Without the noise that binary arithmetic leaves past twelve digits.
        exact = value if isinstance(value, Decimal) else Decimal(f"{value:.12g}")
        self.values[quantity_name(quantity, unit, **at)] = exact

    def measure(
        self, item: Item, **measures: float | Decimal | Callable[..., float | Decimal]
    ) -> None:
        """Record every number that ``item`` expects of the quantities that ``measures`` names.

        A measure is a number, or is called with the number's place on its axes.
        """
        for group in item.points:
            if group.quantity in measures:
                for place in group.places():
                    measure = measures[group.quantity]
                    value = measure(*place.values()) if callable(measure) else measure
                    self.point(group.quantity, group.unit, value, **place)

    def shape(self, name: str, holds: bool, evidence: str) -> None:
        """Record whether the statement ``name`` holds, and the numbers that show it."""
        self.shapes[name] = (holds, evidence)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, to the last digit."""
        values = {name: str(value) for name, value in self.values.items()}
        shapes = {name: [bool(holds), told] for name, (holds, told) in self.shapes.items()}
        return {"values": values, "shapes": shapes}

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> Outcome:
        """What ``to_json`` has told."""
        outcome = cls()
        outcome.values = {name: Decimal(text) for name, text in plain["values"].items()}
        outcome.shapes = {name: (holds, told) for name, (holds, told) in plain["shapes"].items()}
        return outcome


class Point(msgspec.Struct, frozen=True):
    """A published number beside ours and the baseline; errors are shares of the published one.

    For a published 0 there is no share: ``relative_error`` is None, ``tolerance`` absolute.
    """

    paper: str
    id: str
    quantity: str  # its unit is its last word
    published: float
    reproduced: float
    relative_error: float | None
    tolerance: float
    basis: Basis
    because: str  # this basis
    baseline: float | None  # by the formula of its item; None where there is none
    ok: bool
    known_miss: str | None = None  # why, if it misses and the catalog says so

    @property
    def baseline_error(self) -> float | None:
        """The baseline's error as a share of the published number."""
        if self.baseline is None or not self.published:
            return None
        return (self.baseline - self.published) / abs(self.published)


class Shape(msgspec.Struct, frozen=True):
    """A statement, whether it holds, and the evidence."""

    paper: str
    id: str
    name: str
    statement: str
    ok: bool
    evidence: str
    basis: Basis
    because: str  # this basis
    known_miss: str | None = None  # why, if it does not hold and the catalog says so


class Met(msgspec.Struct, frozen=True):
    """A miss that the catalog lists as known and that is none any more."""

    paper: str
    id: str
    name: str
    why: str  # it was one


class Unjudged(msgspec.Struct, frozen=True):
    """An item without a verdict, and why: it is not reproduced, or a study that was not run."""

    paper: str
    id: str
    why: str


class Summary(msgspec.Struct, frozen=True):
    """How many; ``points`` and ``ok`` leave identities out: they reproduce nothing.

    ``shapes`` and ``shapes_ok`` count all statements, ``identities`` and the misses both kinds.
    """

    points: int
    ok: int
    predicted: int
    fitted: int
    identities: int
    shapes: int
    shapes_ok: int
    shapes_predicted: int
    known_misses: int
    new_misses: int
    missing: int
    studies: int


class Reproduction(msgspec.Struct, frozen=True):
    """Everything that was checked, in the catalog's order."""

    points: list[Point] = []
    shapes: list[Shape] = []
    missing: list[Unjudged] = []
    studies: list[Unjudged] = []  # not run: they come out for any traces, which is no verdict
    tables: list[StudyTable] = []
    baselines: dict[str, str] = {}  # by PAPER/ID: the formula in words
    met: list[Met] = []

    def judge(
        self,
        paper: str,
        item: str,
        points: Iterable[ExpectedPoint],
        shapes: Iterable[ExpectedShape],
        outcome: Outcome,
        known: Known | None = None,
        baselines: Mapping[str, Decimal] | None = None,
    ) -> None:
        """Add a verdict on each of ``points`` and ``shapes``, as ``outcome`` answers it.

        Errors: ``RuntimeError`` unless it answers every one of them and nothing else.
        """
        numbers = {one.quantity: one for one in points}
        statements = {one.id: one for one in shapes}
        unmatched = set(numbers) ^ set(outcome.values) | set(statements) ^ set(outcome.shapes)
        if unmatched:
            raise RuntimeError(
                f"{paper}/{item}: expectation and experiment differ: {sorted(unmatched)}"
            )
        listed = {name: one for (of, name), one in (known or {}).items() if of == item}
        beside = baselines or {}
        found = [
            judge(paper, item, one, outcome.values[name], beside.get(name), listed.get(name))
            for name, one in numbers.items()
        ]
        held = [
            hold(paper, item, one, outcome.shapes[name], listed.get(name))
            for name, one in statements.items()
        ]
        self.points.extend(found)
        self.shapes.extend(held)
        fine = [one.quantity for one in found if one.ok] + [one.name for one in held if one.ok]
        self.met.extend(Met(paper, item, one, listed[one].why) for one in fine if one in listed)

    def add(self, studied: Reproduction) -> None:
        """Take what studies found."""
        self.tables.extend(studied.tables)
        self.points.extend(studied.points)
        self.shapes.extend(studied.shapes)
        self.met.extend(studied.met)

    def misses(self) -> list[Point | Shape]:
        """Every number and statement that misses, known or not, identities included."""
        checks: list[Point | Shape] = [*self.points, *self.shapes]
        return [one for one in checks if not one.ok]

    def summary(self) -> Summary:
        """Counts over what was checked."""
        labels = [one.basis for one in self.points] + [one.basis for one in self.shapes]
        counted = [point for point in self.points if point.basis is not Basis.IDENTITY]
        return Summary(
            points=len(counted),
            ok=sum(point.ok for point in counted),
            predicted=sum(point.basis is Basis.PREDICTED for point in counted),
            fitted=sum(point.basis is Basis.FITTED for point in counted),
            identities=labels.count(Basis.IDENTITY),
            shapes=len(self.shapes),
            shapes_ok=sum(shape.ok for shape in self.shapes),
            shapes_predicted=sum(shape.basis is Basis.PREDICTED for shape in self.shapes),
            known_misses=sum(one.known_miss is not None for one in self.misses()),
            new_misses=sum(one.known_miss is None for one in self.misses()),
            missing=len(self.missing),
            studies=len(self.studies) + sum(one.programs is None for one in self.tables),
        )

    def as_known(self) -> bool:
        """Whether the misses are those that the catalog lists, no more and no fewer."""
        return all(one.known_miss is not None for one in self.misses()) and not self.met

    def to_json(self) -> dict[str, Any]:
        """Every list and the ``summary`` as plain values."""
        lists = {
            name: msgspec.to_builtins(getattr(self, name))
            for name in ("points", "shapes", "met", "missing", "studies", "baselines")
        }
        tables = [table.to_json() for table in self.tables]
        return {**lists, "tables": tables, "summary": msgspec.to_builtins(self.summary())}


def judge(
    paper: str,
    item: str,
    expected: ExpectedPoint,
    reproduced: Decimal,
    baseline: Decimal | None = None,
    known: KnownMiss | None = None,
) -> Point:
    """``expected`` beside ``reproduced``; ok if they differ by no more than the tolerance.

    Decimal arithmetic: a value on a rounding tie (8.95 printed 9.0) must not turn on the last
    bit of a float.
    """
    difference = reproduced - expected.published
    share = expected.published.copy_abs() or Decimal(1)
    ok = abs(difference) <= expected.tolerance
    return Point(
        paper=paper,
        id=item,
        quantity=expected.quantity,
        published=float(expected.published),
        reproduced=float(reproduced),
        relative_error=float(difference / share) if expected.published else None,
        tolerance=float(expected.tolerance / share),
        basis=expected.basis,
        because=expected.because,
        baseline=None if baseline is None else float(baseline),
        ok=ok,
        known_miss=known.why if known is not None and not ok and known.covers(difference) else None,
    )


def hold(
    paper: str, item: str, expected: ExpectedShape, found: tuple[bool, str], known: KnownMiss | None
) -> Shape:
    """``expected`` beside what was found: whether it holds, and the evidence."""
    holds, evidence = found
    return Shape(
        paper=paper,
        id=item,
        name=expected.id,
        statement=expected.statement,
        ok=holds,
        evidence=evidence,
        basis=expected.basis,
        because=expected.because,
        known_miss=known.why if known is not None and known.short and not holds else None,
    )


def rising(values: Iterable[float]) -> bool:
    """Whether each is larger than the one before."""
    return all(low < high for low, high in pairwise(values))
