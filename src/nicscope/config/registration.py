"""What registering memory costs on today's machines: numbers or ranges, each with its evidence."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.evidence import Origin, only_known, read_origin
from nicscope.config.region_limits import NO_LIMITS, RegionLimits, load_limits
from nicscope.config.shelf import beside, open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import PlatformError
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What one of it is of, and the units that it may be stated in, each as microseconds.
COSTS: dict[str, tuple[str, dict[str, Decimal]]] = {
    "region": ("a region, whatever its size", {"us": Decimal(1), "ms": Decimal(1000)}),
    "fault": ("a page of the host that nobody has touched", {"us": Decimal(1)}),
    "zero": ("the zeroing of such pages", {"ms/GiB": Decimal(1000)}),
    "pin": ("a page of the host, pinned and mapped for devices", {"us": Decimal(1)}),
    "entry": ("an entry of a NIC's table", {"us": Decimal(1)}),
    "deregister_entry": ("an entry that is revoked", {"us": Decimal(1)}),
    "backlog": ("memory that is registered already at the NIC", {"ms/GiB": Decimal(1000)}),
    "lookup": ("a lookup in a library's registration cache", {"us": Decimal(1)}),
}
_SECTIONS = ("title", "description", "costs", "not_applicable", "limits", "sources")
_MOST = Decimal(10) ** 12


class Span(NamedTuple):
    """A cost in microseconds, from the least to the most that is known of it."""

    low: float
    high: float


class RegistrationCosts(msgspec.Struct, frozen=True):
    """What registration takes somewhere; what is not applicable says why."""

    name: str
    title: str
    description: str
    costs: dict[str, Span]
    origins: dict[str, Origin]
    not_applicable: dict[str, str]
    limits: RegionLimits
    sources: dict[str, str]  # that origins cite

    def each(self, name: str) -> Span:
        """What one of it costs; nothing where it is not applicable."""
        return self.costs.get(name, Span(0.0, 0.0))


def registration_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("registrations")


@ToldPlainly()
def load_registration_costs(name_or_path: str | Path) -> RegistrationCosts:
    """Costs of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf("registrations", name_or_path, PlatformError)
    only_known(content, _SECTIONS, called, PlatformError)
    sources = read_texts(content, "sources", called, PlatformError)
    absent = read_texts(content, "not_applicable", called, PlatformError)
    only_known(absent, COSTS, f"{called}: not_applicable", PlatformError)
    cells = content.get("costs", {})
    if not isinstance(cells, dict) or not cells:
        raise PlatformError(f"{called}: has no [costs]; state {', '.join(COSTS)}")
    only_known(cells, COSTS, f"{called}: costs", PlatformError)
    costs, origins = {}, {}
    for key in COSTS:
        if (key in cells) == (key in absent):
            what = "has a cost and is not applicable" if key in cells else "is not stated"
            raise PlatformError(f"{called}: {key} {what}; give it a cost, or say why it has none")
        if key in cells:
            where = f"{called}: costs.{key}"
            costs[key] = read_span(COSTS[key][1], cells[key], where)
            origins[key] = read_origin(cells[key], sources, where, PlatformError)
    return RegistrationCosts(
        name=name,
        title=read_text(content, "title", name, called, PlatformError),
        description=read_text(content, "description", "", called, PlatformError),
        costs=costs,
        origins=origins,
        not_applicable=absent,
        limits=_limits_of(name_or_path, content, called),
        sources=sources,
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


def _limits_of(file: str | Path, content: dict[str, Any], called: str) -> RegionLimits:
    """The limits that a file of costs names; none if it names none."""
    named = read_text(content, "limits", "", called, PlatformError)
    return load_limits(beside(file, named)) if named else NO_LIMITS


def registration_file(costs: RegistrationCosts) -> str:
    """``costs`` as a file that ``load_registration_costs`` reads."""
    lines = [f"title = {_text(costs.title)}", f"description = {_text(costs.description)}"]
    if costs.limits.limits:
        lines.append(f"limits = {_text(costs.limits.name)}")
    lines += ["", "[costs]"]
    for name, span in costs.costs.items():
        unit, factor = next(iter(COSTS[name][1].items()))
        low, high = (f"{end / float(factor):.6g}" for end in span)
        value = low if low == high else f"[{low}, {high}]"
        origin = costs.origins[name]
        lines.append(
            f'{name} = {{ value = {value}, unit = "{unit}", '
            f'evidence = "{origin.evidence.value}", source = {_text(origin.source)} }}'
        )
    for section, table in (("not_applicable", costs.not_applicable), ("sources", costs.sources)):
        if table:
            lines += ["", f"[{section}]"]
            lines += [f"{_text(key)} = {_text(text)}" for key, text in table.items()]
    return "\n".join(lines) + "\n"


def _text(given: str) -> str:
    """A basic string of TOML, which JSON's are but for what is no character of TOML."""
    return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
