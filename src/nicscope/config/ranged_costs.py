"""Costs that are numbers or ranges, each with its evidence: those of today's machines."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.evidence import Origin, only_known, read_origin
from nicscope.config.region_limits import NO_LIMITS, RegionLimits, load_limits
from nicscope.config.shelf import beside, open_shelf, read_text, read_texts
from nicscope.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# By the name of a cost: what one of it is of, and the units that it may be stated in, each as
# microseconds.
Known = dict[str, tuple[str, dict[str, Decimal]]]
US, MS, NS = Decimal(1), Decimal(1000), Decimal("0.001")
_SECTIONS = ("title", "description", "costs", "not_applicable", "sources")
_MEASURED = ("nics", "threads", "page", "source")
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
    limits: RegionLimits
    sources: dict[str, str]  # that origins cite
    measured: dict[str, int] = {}  # how far they were: NICs at once, threads, bytes of a page

    def each(self, name: str) -> Span:
        """What one of it costs; nothing where it is not applicable."""
        return self.costs.get(name, Span(0.0, 0.0))


def load_ranged_costs(
    shelf: str, known: Known, name_or_path: str | Path, *, limited: bool = False
) -> RangedCosts:
    """Costs of that name on a shelf of the catalog, or those of a ``.toml`` file.

    Those that may be ``limited`` may name a file of limits.  Errors: ``PlatformError`` naming the
    file and the key that is wrong.
    """
    name, called, content = open_shelf(shelf, name_or_path, PlatformError)
    sections = (*_SECTIONS, "limits", "measured") if limited else _SECTIONS
    only_known(content, sections, called, PlatformError)
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
            costs[key] = read_span(known[key][1], cells[key], where)
            origins[key] = read_origin(cells[key], sources, where, PlatformError)
    return RangedCosts(
        name=name,
        title=read_text(content, "title", name, called, PlatformError),
        description=read_text(content, "description", "", called, PlatformError),
        costs=costs,
        origins=origins,
        not_applicable=absent,
        limits=_limits_of(name_or_path, content, called),
        sources=sources,
        measured=_measured(content, called),
    )


def read_span(units: Mapping[str, Decimal], cell: Any, where: str) -> Span:
    """The two ends that a cell states, in the unit whose factor is 1.

    Errors: ``PlatformError`` beginning with ``where``.
    """
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


def _measured(content: Mapping[str, Any], called: str) -> dict[str, int]:
    """Up to how many NICs, threads and bytes of a page costs were measured; where it is told."""
    table = content.get("measured", {})
    where = f"{called}: measured"
    if not isinstance(table, dict):
        raise PlatformError(f"{where} must be a table of {', '.join(_MEASURED)}")
    only_known(table, _MEASURED, where, PlatformError)
    read_text(table, "source", "", where, PlatformError)
    found = {key: value for key, value in table.items() if key != "source"}
    for key, value in found.items():
        if type(value) is not int or value < 1:
            raise PlatformError(f"{where}: {key} must be a whole number from 1, got {value!r}")
    return found


def _limits_of(file: str | Path, content: Mapping[str, Any], called: str) -> RegionLimits:
    """The limits that a file of costs names; none if it names none."""
    named = read_text(content, "limits", "", called, PlatformError)
    return load_limits(beside(file, named)) if named else NO_LIMITS
