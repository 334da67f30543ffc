"""A platform: one machine, and what each operation costs on it, all with unit and evidence.

Each entry of ``[costs]`` is a value, a range (``value = [low, high]``) or a table (``at`` and
``value``); see ``docs/platforms.md``.  Times are integer picoseconds inside.

Times are whole picoseconds inside, in the unit of their source in files; a user may override any.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nicscope.config import shelf
from nicscope.config.clocks import at_clocks, clocks_of, read_changes, split_changes
from nicscope.config.cost_name import COSTS
from nicscope.config.delivery import ServedBy
from nicscope.config.evidence import Evidence, Origin, only_known, read_origin
from nicscope.config.machine import Parameter, read_machine
from nicscope.config.shelf import is_path, open_shelf, read_text, read_texts, shelf_names
from nicscope.config.unit_cost import UnitCost
from nicscope.errors import PlatformError, did_you_mean
from nicscope.inputs import STDIN
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PS_PER_US = 10**6
TIME_UNITS = {"ps": 1, "ns": 10**3, "us": PS_PER_US, "ms": 10**9, "s": 10**12}
PER_BYTE_UNITS = {f"{unit}/B": ps for unit, ps in TIME_UNITS.items()}
FINEST_DIGIT = 12  # a picosecond is the twelfth decimal of a second
LONGEST_PS = 2**62  # what an int64 clock can still add up


def whole_ps(value: Decimal, ps_per_unit: int) -> int | None:
    """``value`` units in picoseconds, or None if that is not a whole number."""
    if value and value.adjusted() < -FINEST_DIGIT:
        return None
    ps = Fraction(value) * ps_per_unit
    return ps.numerator if ps.denominator == 1 else None


def in_us(ps: Fraction | int) -> Decimal:
    """``ps`` picoseconds in microseconds: exact as far as 28 digits go."""
    exact = Fraction(ps)
    return Decimal(exact.numerator) / Decimal(exact.denominator * PS_PER_US)


_SECTIONS = (
    "title",
    "description",
    "sources",
    "served_by",
    "combines",
    "takes",
    "costs",
    "machine",
    "not_applicable",
)
_CHOICE = ("value", "evidence", "source")
_CELL = ("at", "value", "unit", "evidence", "source")


T = TypeVar("T", UnitCost, Parameter)


class Platform(msgspec.Struct, frozen=True, kw_only=True):
    """Costs of one machine by the names of ``COSTS``; what is in neither dict is not known."""

    name: str
    title: str
    description: str
    sources: dict[str, str]
    costs: dict[str, UnitCost]
    not_applicable: dict[str, str]  # cost that this machine has no use for: why
    machine: dict[str, Parameter] = {}  # of a coherent host and its interface, by ``MACHINE``
    served_by: str = ServedBy.NIC.value  # who can serve ports: a NIC without firmware cannot
    served_by_origin: Origin | None = None  # None: the file does not say it
    combines: tuple[str, ...] = ()  # platforms of whose parts this one would be built


def platform_names() -> list[str]:
    """Names of the catalog's platforms, sorted."""
    return shelf_names("platforms")


@ToldPlainly()
def load_platform(name_or_path: str | Path | Platform) -> Platform:
    """Platform of that name in the catalog, or in a ``.toml`` file; one that is there stays.

    With ``@WORD=VALUE,...`` behind it, other sizes and clocks of its machine: costs that go by a
    clock are scaled.  Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    if isinstance(name_or_path, Platform):
        return name_or_path
    stated, changes = split_changes(name_or_path)
    platform = _load(stated)
    if not changes:
        return platform
    machine = platform.machine | read_changes(changes, str(name_or_path))
    costs = at_clocks(
        platform.costs, clocks_of(platform.machine), clocks_of(machine), platform.name,
        serves=platform.served_by == ServedBy.NIC.value,
    )  # fmt: skip
    return msgspec.structs.replace(platform, name=str(name_or_path), costs=costs, machine=machine)


def _load(name_or_path: str | Path) -> Platform:
    if isinstance(name_or_path, str) and not is_path(name_or_path) and name_or_path != STDIN:
        return _of_catalog(name_or_path, shelf.CATALOG)
    return _read(name_or_path)


@functools.lru_cache(maxsize=64)
def _of_catalog(name: str, _catalog: Path) -> Platform:
    """A platform of the catalog in that folder, where files stay; nobody may change what it holds.

    One that combines others is several files, and every cluster and many a refusal asks for it.
    """
    return _read(name)


def _read(name_or_path: str | Path) -> Platform:
    name, called, content = open_shelf("platforms", name_or_path, PlatformError)
    only_known(content, _SECTIONS, called, PlatformError)
    sources = read_texts(content, "sources", called, PlatformError)
    absent = read_texts(content, "not_applicable", called, PlatformError)
    only_known(absent, COSTS, f"{called}: not_applicable", PlatformError)
    parts = _read_parts(content, called)
    cells = content.get("costs", {})
    if not isinstance(cells, dict) or not (cells or parts):
        raise PlatformError(f"{called}: has no [costs]; state at least one")
    only_known(cells, COSTS, f"{called}: costs", PlatformError)
    for key in absent:
        if key in cells:
            raise PlatformError(f"{called}: {key} has a cost and is not applicable; drop one")
    own = Platform(
        name=name,
        title=read_text(content, "title", name, called, PlatformError),
        description=read_text(content, "description", "", called, PlatformError),
        sources=sources,
        costs={
            key: _read_cost(key, cell, sources, f"{called}: costs.{key}")
            for key, cell in cells.items()
        },
        not_applicable=absent,
        machine=read_machine(content.get("machine", {}), sources, called),
        **_read_served_by(content, sources, called),
    )
    parts = [_at_clocks_of(own, part) for part in parts]
    return _completed(own, _taking(content, parts, called), parts)


def _at_clocks_of(own: Platform, part: Platform) -> Platform:
    """What ``part`` would cost at the clocks that ``own`` states."""
    stated = clocks_of(own.machine)
    costs = at_clocks(
        part.costs, clocks_of(part.machine), clocks_of(part.machine) | stated, part.name,
        serves=part.served_by == ServedBy.NIC.value,
    )  # fmt: skip
    return msgspec.structs.replace(part, costs=costs)


def _read_parts(content: Mapping[str, Any], called: str) -> list[Platform]:
    """The platforms that the file combines, if any."""
    names, known = content.get("combines", []), platform_names()
    if not isinstance(names, list) or not all(name in known for name in names):
        raise PlatformError(f"{called}: combines must be a list of platforms of the catalog")
    for name in names:
        if "combines" in open_shelf("platforms", name, PlatformError)[2]:
            raise PlatformError(f"{called}: combines {name!r}, which is combined itself")
    return [_load(name) for name in names]


def _taking(
    content: Mapping[str, Any], parts: Sequence[Platform], called: str
) -> dict[str, Platform]:
    """The part that each cost named under ``[takes]`` is taken from, whichever other states it."""
    lists, where = content.get("takes", {}), f"{called}: takes"
    if not isinstance(lists, dict) or not all(isinstance(one, list) for one in lists.values()):
        raise PlatformError(f"{where} must be a table of lists of costs, by platform")
    only_known(lists, [part.name for part in parts], where, PlatformError)
    whose: dict[str, Platform] = {}
    for part in parts:
        for name in lists.get(part.name, []):
            if name not in part.costs and name not in part.not_applicable:
                raise PlatformError(f"{where}: {part.name!r} says nothing of {name!r}")
            if whose.setdefault(name, part) is not part:
                raise PlatformError(f"{where}: {name} is taken twice; keep one")
    return whose


def completed(own: Platform, part: Platform, names: Sequence[str]) -> Platform:
    """``own`` with those of the costs ``names`` of which it says nothing as ``part`` has them."""
    said = {*own.costs, *own.not_applicable}
    wanted = [name for name in names if name not in said]
    only = msgspec.structs.replace(
        part,
        costs={name: part.costs[name] for name in wanted if name in part.costs},
        not_applicable={
            name: part.not_applicable[name] for name in wanted if name in part.not_applicable
        },
        machine={},
        served_by_origin=None,
    )
    return _completed(own, {}, [only])


def _completed(own: Platform, whose: Mapping[str, Platform], parts: Sequence[Platform]) -> Platform:
    """``own`` with what it says nothing of from who ``whose`` names, or the first of ``parts``.

    No such machine was ever built, so all of that is assumed here, with its source behind it.
    """
    costs, absent, machine = dict(own.costs), dict(own.not_applicable), dict(own.machine)
    served_by, origin = own.served_by, own.served_by_origin
    for part in parts:
        for name, why in part.not_applicable.items():
            if name not in costs and whose.get(name, part) is part:
                absent.setdefault(name, f"{part.name}: {why}")
        for name, cost in part.costs.items():
            if name not in absent and whose.get(name, part) is part:
                costs.setdefault(name, _assumed(cost, part))
        for name, parameter in part.machine.items():
            machine.setdefault(name, _assumed(parameter, part))
        if origin is None and part.served_by_origin is not None:
            served_by, origin = part.served_by, part.served_by_origin
    return msgspec.structs.replace(
        own,
        costs=costs,
        not_applicable=absent,
        machine=machine,
        served_by=served_by,
        served_by_origin=origin,
        combines=tuple(part.name for part in parts),
        sources={key: text for each in (*parts, own) for key, text in each.sources.items()},
    )


def _assumed(stated: T, part: Platform) -> T:
    """The same number where it stands in for that of a machine which has ``part`` in it."""
    before = stated.origin
    source = before.source.removeprefix("assumed: ")
    origin = Origin(Evidence.ASSUMED, f"assumed: as {part.name} ({before.evidence}: {source})")
    return msgspec.structs.replace(stated, origin=origin)


def _read_served_by(
    content: Mapping[str, Any], sources: Mapping[str, str], called: str
) -> dict[str, Any]:
    if "served_by" not in content:
        return {}
    cell, where = content["served_by"], f"{called}: served_by"
    if not isinstance(cell, dict) or "value" not in cell:
        raise PlatformError(f"{where} must be a table of value, evidence and source")
    only_known(cell, _CHOICE, where, PlatformError)
    names = [one.value for one in ServedBy]
    if cell["value"] not in names:
        raise PlatformError(
            f"{where}: no {cell['value']!r}{did_you_mean(str(cell['value']), names)}"
        )
    origin = read_origin(cell, sources, where, PlatformError)
    return {"served_by": cell["value"], "served_by_origin": origin}


def _read_cost(key: str, cell: Any, sources: Mapping[str, str], where: str) -> UnitCost:
    if isinstance(cell, str):  # bare, as in a design
        bare = read_cost(key, cell, where)
        return msgspec.structs.replace(bare, origin=Origin(Evidence.ASSUMED, "without a source"))
    if not isinstance(cell, dict):
        raise PlatformError(
            f"{where} must be a table of value, unit, evidence and source, or a time as text"
        )
    only_known(cell, _CELL, where, PlatformError)
    origin = read_origin(cell, sources, where, PlatformError)
    units = PER_BYTE_UNITS if COSTS[key].by_byte else TIME_UNITS
    unit = cell.get("unit")
    if not isinstance(unit, str) or unit not in units:
        found = "has no unit" if unit is None else f"has unknown unit {unit!r}"
        raise PlatformError(f"{where} {found}; choose from {', '.join(units)}")
    if "value" not in cell:
        raise PlatformError(f"{where} has no value")
    value = cell["value"]
    times = [
        read_ps(one, unit, units[unit], where)
        for one in (value if isinstance(value, list) else [value])
    ]
    if "at" in cell and COSTS[key].size_of is None:
        raise PlatformError(f"{where} does not depend on a size; drop 'at'")
    is_scalar = not isinstance(value, list) and "at" not in cell
    if COSTS[key].size_of is not None and not is_scalar:
        points = _read_points(cell.get("at"), times, COSTS[key].size_of, where)
        if len(points) > 1:
            return UnitCost(name=key, unit=unit, origin=origin, points=points)
        value = times[0]  # of a table of one row
    if isinstance(value, list) and (len(times) != 2 or times[0] > times[1]):
        raise PlatformError(f"{where}: a range must be [low, high], got {_shown(value)}")
    return UnitCost(name=key, unit=unit, origin=origin, low_ps=times[0], high_ps=times[-1])


def read_ps(value: Any, unit: str, ps_per_unit: int, where: str) -> int:
    """``value`` units in whole picoseconds; errors: ``PlatformError`` beginning with ``where``."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PlatformError(f"{where}: value must be a number, got {value!r}")
    exact = Decimal(value)
    if not exact.is_finite() or not 0 <= exact <= LONGEST_PS // ps_per_unit:
        raise PlatformError(f"{where}: value must be from 0 to {LONGEST_PS} ps, got {value} {unit}")
    ps = whole_ps(exact, ps_per_unit)
    if ps is None:
        raise PlatformError(f"{where}: {value} {unit} is not a whole number of picoseconds")
    return ps


def _read_points(
    sizes: Any, times: list[int], size_of: str | None, where: str
) -> tuple[tuple[int, int], ...]:
    if not isinstance(sizes, list) or len(sizes) != len(times) or not sizes:
        raise PlatformError(
            f"{where} is a table: give numbers of {size_of} as 'at', and as many values; or one "
            "value for all"
        )
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        raise PlatformError(f"{where}: 'at' must hold whole numbers, got {_shown(sizes)}")
    if sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
        raise PlatformError(f"{where}: 'at' must rise from 1 or more, got {_shown(sizes)}")
    return tuple(zip(sizes, times, strict=True))


def _shown(values: list[Any]) -> str:
    return f"[{', '.join(str(value) for value in values)}]"


PREFIX = "costs."
_TIME = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z/]+)")


def read_cost(key: str, text: str, where: str) -> UnitCost:
    """The cost ``key`` (a name of ``COSTS``) as ``text`` spells it, the same for every size.

    A time with its unit, such as ``0.3us`` or ``13.5ns/B``.  Errors: ``PlatformError`` beginning
    with ``where`` if there is no such cost, or the text is no time.
    """
    if key not in COSTS:
        raise PlatformError(f"{where}: no cost {key!r}{did_you_mean(key, COSTS)}")
    units = PER_BYTE_UNITS if COSTS[key].by_byte else TIME_UNITS
    split = _TIME.fullmatch(text)
    if split is None or split[2] not in units:
        example = "'13.5ns/B'" if COSTS[key].by_byte else "'0.3us'"
        raise PlatformError(
            f"{where}: {PREFIX}{key} must be a time in {', '.join(units)}, such as {example}, "
            f"got {text!r}"
        )
    ps = read_ps(Decimal(split[1]), split[2], units[split[2]], where)
    return UnitCost(
        name=key, unit=split[2], origin=Origin(Evidence.ASSUMED, where), low_ps=ps, high_ps=ps
    )


def with_cost(platform: Platform, cost: UnitCost) -> Platform:
    """``platform`` with ``cost`` in the place of what it stated, if it stated any."""
    absent = {key: why for key, why in platform.not_applicable.items() if key != cost.name}
    return msgspec.structs.replace(
        platform, costs=platform.costs | {cost.name: cost}, not_applicable=absent
    )
