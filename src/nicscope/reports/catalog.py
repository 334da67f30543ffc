"""The catalog's designs and platforms: lists, and all numbers of one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nicscope.config.costs import COSTS, UnitCost
from nicscope.config.design import PARTS, SETTINGS, Design, Kind
from nicscope.config.platform import MACHINE, Parameter, Platform, in_us
from nicscope.reports.printing import Note, Printed, Rows, rows_of
from nicscope.reports.result import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class ShownDesigns(Report):
    """Several designs and their differences."""

    found: list[Design]
    topic = "designs"

    def as_json(self) -> list[dict[str, Any]]:
        """An object for each."""
        return [
            design.to_json()
            | {
                "parts": design.parts(),
                "title": design.title,
                "platform": design.platform,
                "papers": list(design.sources.values()),
            }
            for design in self.found
        ]

    def parts(self) -> Iterator[Printed]:
        """One table."""
        yield design_rows(self.found)


class ShownDesign(Report):
    """One design: every setting and part with its evidence and source."""

    found: Design
    topic = "designs"

    def as_json(self) -> dict[str, Any]:
        """One object."""
        design = self.found
        return {
            "name": design.name,
            "scheme": design.scheme.value,
            "title": design.title,
            "description": design.description,
            "platform": design.platform,
            "settings": self._settings(),
            "parts": self._parts(),
            "sources": design.sources,
        }

    def parts(self) -> Iterator[Printed]:
        """What it is, its settings, its parts, and what it is taken from."""
        design = self.found
        yield Note(f"{design.name}: {design.title}")
        yield Note(design.description)
        yield Note(f"scheme {design.scheme.value}, platform {design.platform or 'none printed'}")
        yield Note()
        yield stated_rows("setting", self._settings(), "none")
        yield Note()
        yield stated_rows("part", self._parts(), "not said")
        yield Note()
        yield from _cited(design.sources)

    def _settings(self) -> list[dict[str, Any]]:
        origins = self.found.origins
        return [
            {
                "name": key,
                "value": value,
                "unit": "bytes" if SETTINGS[key].kind is Kind.BYTES else None,
                "meaning": SETTINGS[key].meaning,
                **(origins[key].to_json() if key in origins else _ABSENT),
            }
            for key, value in self.found.to_json().items()
            if key in SETTINGS
        ]

    def _parts(self) -> list[dict[str, Any]]:
        origins = self.found.part_origins()
        return [
            {"name": key, "value": value, "meaning": PARTS[key].meaning, **origins[key].to_json()}
            for key, value in self.found.parts().items()
        ]


def _cited(sources: dict[str, str]) -> Iterator[Printed]:
    yield from (Note(f"{key}: {citation}") for key, citation in sources.items())


class ShownPlatforms(Report):
    """Several machines and how completely their costs are known."""

    found: list[Platform]
    topic = "designs"

    def as_json(self) -> list[dict[str, Any]]:
        """An object for each."""
        return [
            {
                "name": platform.name,
                "title": platform.title,
                "papers": list(platform.sources),
                "costs": len(platform.costs),
                "evidence": dict(
                    sorted(
                        Counter(c.origin.evidence.value for c in platform.costs.values()).items()
                    )
                ),
            }
            for platform in self.found
        ]

    def parts(self) -> Iterator[Printed]:
        """One table."""
        yield platform_rows(self.as_json())


class ShownPlatform(Report):
    """One machine: every cost and parameter with its evidence and source."""

    found: Platform
    topic = "designs"

    def as_json(self) -> dict[str, Any]:
        """One object."""
        platform = self.found
        stated = {*platform.costs, *platform.not_applicable}
        return {
            "name": platform.name,
            "title": platform.title,
            "description": platform.description,
            "costs": [_as_json(cost) for cost in platform.costs.values()],
            "served_by": platform.served_by,
            "machine": [
                {
                    "name": one.name,
                    "meaning": MACHINE[one.name].meaning,
                    "value": one.value,
                    "unit": MACHINE[one.name].unit,
                    **one.origin.to_json(),
                }
                for one in platform.machine.values()
            ],
            "not_applicable": platform.not_applicable,
            "not_stated": [key for key in COSTS if key not in stated],
            "sources": platform.sources,
        }

    def parts(self) -> Iterator[Printed]:
        """What it is, its costs, its parameters if it has any, and what it is taken from."""
        platform, origin = self.found, self.found.served_by_origin
        yield Note(f"{platform.name}: {platform.title}")
        yield Note(platform.description)
        yield Note()
        if origin is not None:
            yield Note(f"ports are served by the {platform.served_by} ({origin.source})")
            yield Note()
        yield cost_rows(platform)
        yield Note()
        if platform.machine:
            yield machine_rows(platform)
            yield Note()
        yield from _cited(platform.sources)


def design_rows(found: Sequence[Design]) -> Rows:
    """A row for each of ``found``, with its distinguishing settings."""
    columns: dict[str, Callable[[Design], str]] = {
        "name": lambda design: design.name,
        "scheme": lambda design: design.scheme.value,
        "settings": lambda design: _brief(design.to_json()),
        "paper": lambda design: ", ".join(design.sources),
        "platform": lambda design: design.platform or "none printed",
        "what it is": lambda design: design.title,
    }
    least = ("paper", "platform", "settings", "scheme")
    return rows_of("", found, columns, words=columns, least=least)


def stated_rows(what: str, stated: Sequence[dict[str, Any]], absent: str) -> Rows:
    """A row for each ``what``, setting or part of a design: its value and origin."""
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        what: lambda one: one["name"],
        "value": lambda one: absent if one["value"] is None else _shown(one["value"]),
        "meaning": lambda one: one["meaning"],
        "evidence": lambda one: one["evidence"] or "",
        "source": lambda one: one["source"] or "",
    }
    return rows_of("", stated, columns, words=columns, prose=(2, 4))


_ABSENT = {"evidence": None, "source": None}
_BRIEF = ("area_bytes", "entries", "ways", "line", "victim_entries", "pin_limit", "high_water")


def _brief(settings: dict[str, object]) -> str:
    """The distinguishing sizes of a design, in one line."""
    return " ".join(f"{key}={settings[key]}" for key in _BRIEF if settings.get(key) is not None)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def platform_rows(rows: Sequence[dict[str, Any]]) -> Rows:
    """A row for each machine, with the number of known costs."""
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "name": lambda row: row["name"],
        "machine": lambda row: row["title"],
        "paper": lambda row: ", ".join(row["papers"]),
        "costs": lambda row: ", ".join(f"{n} {kind}" for kind, n in row["evidence"].items()),
    }
    return rows_of("", rows, columns, words=columns, least=("paper", "costs"))


def cost_rows(platform: Platform) -> Rows:
    """A row for each cost of a machine, including those that do not apply."""
    cells = [
        [key, _spelt(cost), COSTS[key].per, cost.origin.evidence.value, cost.origin.source]
        for key, cost in platform.costs.items()
    ]
    cells += [[key, "not applicable", "", "", why] for key, why in platform.not_applicable.items()]
    return Rows(
        "",
        ["cost", "us (or ns a byte)", "per", "evidence", "source"],
        cells,
        left=(0, 1, 2, 3, 4),
        prose=(1, 2, 4),
        least=("per", "evidence", "source"),
    )


def machine_rows(platform: Platform) -> Rows:
    """A row for each parameter of a coherent host, its interface and the messaging on it."""
    columns: dict[str, Callable[[Parameter], str]] = {
        "parameter": lambda one: one.name,
        "value": lambda one: f"{one.value:,} {MACHINE[one.name].unit}",
        "meaning": lambda one: MACHINE[one.name].meaning,
        "evidence": lambda one: one.origin.evidence.value,
        "source": lambda one: one.origin.source,
    }
    return rows_of(
        "",
        platform.machine.values(),
        columns,
        words=columns,
        prose=(2, 4),
        least=("meaning", "evidence", "source"),
    )


def _as_json(cost: UnitCost) -> dict[str, Any]:

    kind = COSTS[cost.name]
    bounds = [float(in_us(cost.low_ps)), float(in_us(cost.high_ps))]
    value = bounds[0] if bounds[0] == bounds[1] else bounds
    return {
        "name": cost.name,
        "meaning": kind.meaning,
        "per": kind.per,
        "size_of": kind.size_of,
        "cost_us": None if cost.points else value,
        "cost_us_by_size": [[size, float(in_us(ps))] for size, ps in cost.points] or None,
        "cited_unit": cost.unit,
        **cost.origin.to_json(),
    }


def _spelt(cost: UnitCost) -> str:
    """A value or table: times in microseconds, those per byte in nanoseconds."""
    kind = COSTS[cost.name]
    if cost.points:
        points = "  ".join(f"{size}: {in_us(ps):f}" for size, ps in cost.points)
        return f"by {kind.size_of} {points}"
    scale = 1000 if kind.by_byte else 1
    low, high = (f"{in_us(ps * scale):f}" for ps in (cost.low_ps, cost.high_ps))
    return low if low == high else f"{low} to {high}"
