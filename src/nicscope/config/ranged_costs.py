"""Costs that are numbers or ranges, each with its evidence: those of today's machines."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.evidence import Origin, only_known, read_origin
from nicscope.config.shelf import open_shelf, read_text, read_texts
from nicscope.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# By the name of a cost: what one of it is of, and the units that it may be stated in, each as
# microseconds.
Known = dict[str, tuple[str, dict[str, Decimal]]]
US, MS, NS = Decimal(1), Decimal(1000), Decimal("0.001")
_SECTIONS = ("title", "description", "costs", "not_applicable", "limits", "sources")
_MOST = Decimal(10) ** 12


class Span(NamedTuple):
    """A cost in microseconds, from the least to the most that is known of it."""

    low: float
    high: float


class RangedCosts(msgspec.Struct, frozen=True):
    """What things cost somewhere; what is not applicable says why."""

    name: str
    title: str
    description: str
    costs: dict[str, Span]
    origins: dict[str, Origin]
    not_applicable: dict[str, str]
    limits: dict[str, int]

    def each(self, name: str) -> Span:
        """What one of it costs; nothing where it is not applicable."""
        return self.costs.get(name, Span(0.0, 0.0))


def load_ranged_costs(
    shelf: str, known: Known, limits: Sequence[str], name_or_path: str | Path
) -> RangedCosts:
    """Costs of that name on a shelf of the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf(shelf, name_or_path, PlatformError)
    only_known(content, _SECTIONS, called, PlatformError)
    sources = read_texts(content, "sources", called, PlatformError)
    absent = read_texts(content, "not_applicable", called, PlatformError)
    only_known(absent, known, f"{called}: not_applicable", PlatformError)
    cells = content.get("costs", {})
    if not isinstance(cells, dict) or not cells:
        raise PlatformError(f"{called}: has no [costs]; state {', '.join(known)}")
    only_known(cells, known, f"{called}: costs", PlatformError)
    costs, origins = {}, {}
    for key in known:
        if (key in cells) == (key in absent):
            what = "has a cost and is not applicable" if key in cells else "is not stated"
            raise PlatformError(f"{called}: {key} {what}; give it a cost, or say why it has none")
        if key in cells:
            where = f"{called}: costs.{key}"
            costs[key] = _read_span(known[key][1], cells[key], where)
            origins[key] = read_origin(cells[key], sources, where, PlatformError)
    return RangedCosts(
        name=name,
        title=read_text(content, "title", name, called, PlatformError),
        description=read_text(content, "description", "", called, PlatformError),
        costs=costs,
        origins=origins,
        not_applicable=absent,
        limits=_read_limits(content.get("limits", {}), limits, sources, called),
    )


def _read_span(units: Mapping[str, Decimal], cell: Any, where: str) -> Span:
    if not isinstance(cell, dict):
        raise PlatformError(f"{where} must be a table of value, unit, evidence and source")
    unit = cell.get("unit")
    if not isinstance(unit, str) or unit not in units:
        raise PlatformError(f"{where}: unit must be {' or '.join(units)}, got {unit!r}")
    given: Any = cell.get("value")
    ends: list[Any] = given if isinstance(given, list) else [given, given]
    are_numbers = len(ends) == 2 and all(
        isinstance(end, int | Decimal) and not isinstance(end, bool) and 0 <= end <= _MOST
        for end in ends
    )
    if not are_numbers or ends[0] > ends[1]:
        raise PlatformError(f"{where}: value must be a number, or the least and the most of it")
    low, high = (float(Decimal(end) * units[unit]) for end in ends)
    return Span(low, high)


def _read_limits(
    cells: Any, names: Sequence[str], sources: Mapping[str, str], called: str
) -> dict[str, int]:
    where = f"{called}: limits"
    if not isinstance(cells, dict):
        raise PlatformError(f"{where} must be a table")
    only_known(cells, names, where, PlatformError)
    limits = {}
    for key, cell in cells.items():
        value = cell.get("value") if isinstance(cell, dict) else None
        if isinstance(value, str) and value.endswith(" GB"):
            value = int(Decimal(value.removesuffix(" GB")) * 10**9)
        if type(value) is not int or value < 1:
            raise PlatformError(f"{where}.{key}: value must be a whole number of 1 or more")
        read_origin(cell, sources, f"{where}.{key}", PlatformError)
        limits[key] = value
    return limits
