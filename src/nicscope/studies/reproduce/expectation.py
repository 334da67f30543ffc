"""What a reproduction should show, as the catalog's ``published`` files state it.

``catalog/published/utlb.toml`` explains the layout at its top.
"""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - msgspec reads the annotation
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.shelf import open_shelf, shelf_names
from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELF = "published"


class Basis(StrEnum):
    """How a reproduced number relates to the published one."""

    PREDICTED = "predicted"  # nothing was tuned to it
    FITTED = "fitted"  # it helped to choose a parameter
    IDENTITY = "identity"  # a published constant that comes back; never counted as reproduced


class ExpectedPoint(msgspec.Struct, frozen=True):
    """One published number; ``tolerance`` is absolute, in the number's unit."""

    quantity: str
    published: Decimal
    tolerance: Decimal
    why: str
    basis: Basis


class PointGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Published numbers that differ along one axis: ``at`` may hold one list."""

    quantity: str
    unit: str
    published: Decimal | list[Decimal]
    tolerance: Decimal | list[Decimal]
    why: str
    basis: Basis
    at: dict[str, Any] = {}

    def points(self) -> Iterator[ExpectedPoint]:
        """One point per place on the axis; ``ValueError`` if the lists differ in length."""
        places: list[dict[str, Any]] = [{}]
        for axis, values in self.at.items():
            along = values if isinstance(values, list) else [values]
            places = [{**place, axis: value} for place in places for value in along]
        published = self.published if isinstance(self.published, list) else [self.published]
        tolerance = self.tolerance
        tolerances = tolerance if isinstance(tolerance, list) else [tolerance] * len(published)
        for place, value, slack in zip(places, published, tolerances, strict=True):
            name = quantity_name(self.quantity, self.unit, **place)
            yield ExpectedPoint(name, value, slack, self.why, self.basis)


class ExpectedShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement that should hold; one about a contradiction holds if it is confirmed."""

    id: str
    statement: str


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table, figure or claim of a paper."""

    where: str
    what: str
    missing: str | None = None  # what of it is not reproduced, and why
    study: str | None = None  # comes out for any traces; why that is no verdict
    tolerance: Decimal | None = None  # absolute, for a trace of the paper's own program
    notes: list[str] = []
    printed: dict[str, Any] = {}
    derived: dict[str, Any] = {}
    points: list[PointGroup] = []
    shapes: list[ExpectedShape] = []

    def expected_points(self) -> list[ExpectedPoint]:
        """Every expected number, in the file's order."""
        return [point for group in self.points for point in group.points()]

    def has_expectations(self) -> bool:
        """Whether an experiment must exist for it."""
        return bool(self.points or self.shapes)


class Paper(msgspec.Struct, frozen=True):
    """One paper's items by id, in the file's order."""

    key: str
    title: str
    items: dict[str, Item]


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
    return Paper(key, header.get("title", key), items)
