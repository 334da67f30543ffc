"""What makes a sweep the one that it is: a continued one must agree in all of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.studies.sweep.axis import Plain
    from nicscope.studies.sweep.grid import Grid

FORMAT = 2


class TraceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A trace by its content; it may move, but not change."""

    name: str
    requests: int
    sha256: str


class AxisIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A key of the grid and its values, in order."""

    key: str
    values: list[int | bool | str | None]


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """All that the rows of a sweep depend on."""

    format: int = FORMAT
    version: str
    source: str  # digest over the program's files
    traces: list[TraceIdentity]
    design: dict[str, Any]  # what all its points have in common
    grid: list[AxisIdentity]
    platforms: dict[str, str]  # digests of their costs
    kinds: bool

    def difference(self, other: Identity) -> str | None:
        """In words, how ``other`` ("there") differs from this ("here"); None if it does not."""
        return (
            _traces(self.traces, other.traces)
            or _grid(self.grid, other.grid)
            or _design(self.design, other.design)
            or _platforms(self.platforms, other.platforms)
            or _plain("--no-kinds", not self.kinds, not other.kinds)
            or _version(self, other)
        )


def identity_of(
    grid: Grid, traces: Iterable[TraceIdentity], platforms: Mapping[str, Platform], kinds: bool
) -> Identity:
    """Identity of the sweep of ``traces`` through ``grid``."""
    from nicscope.kernel.fingerprint import package_stamp

    return Identity(
        version=__version__,
        source=package_stamp(),
        traces=list(traces),
        design=grid.fixed,
        grid=[AxisIdentity(key=axis.key, values=list(axis.values)) for axis in grid.axes],
        platforms={name: _digest(platform) for name, platform in platforms.items()},
        kinds=kinds,
    )


def content_digest(path: Path) -> str:
    """SHA-256 of the file's bytes; errors: ``OSError``."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(platform: Platform) -> str:
    costs = {
        name: [cost.low_ps, cost.high_ps, *cost.points, cost.origin.evidence.value]
        for name, cost in platform.costs.items()
    }
    content = msgspec.json.encode([costs, sorted(platform.not_applicable)], order="sorted")
    return hashlib.sha256(content).hexdigest()


def _traces(here: list[TraceIdentity], there: list[TraceIdentity]) -> str | None:
    names = [[trace.name for trace in traces] for traces in (here, there)]
    if names[0] != names[1]:
        return f"its traces are {', '.join(names[1])}, here {', '.join(names[0])}"
    for one, other in zip(here, there, strict=True):
        if one != other:
            return f"its trace {other.name} had other content ({other.requests:,} requests)"
    return None


def _design(here: dict[str, Any], there: dict[str, Any]) -> str | None:
    for key in [*there, *here]:
        found = _plain(f"design's {key}", here.get(key), there.get(key))
        if found:
            return found
    return None


def _grid(here: list[AxisIdentity], there: list[AxisIdentity]) -> str | None:
    mine, its = ({axis.key: axis.values for axis in axes} for axes in (here, there))
    for key in its:
        if key not in mine:
            return f"its grid varies {key}, this one does not"
    for key in mine:
        if key not in its:
            return f"its grid does not vary {key}, this one does"
        if its[key] != mine[key]:
            return f"its {key} is {_listed(its[key])}, here {_listed(mine[key])}"
    if list(mine) != list(its):
        return f"its grid has the order {', '.join(its)}, this one {', '.join(mine)}"
    return None


def _platforms(here: dict[str, str], there: dict[str, str]) -> str | None:
    if list(here) != list(there):
        names = [", ".join(found) or "none" for found in (there, here)]
        return f"its platform is {names[0]}, here {names[1]}"
    for name, digest in here.items():
        if there[name] != digest:
            return f"its platform {name} had other costs"
    return None


def _version(here: Identity, there: Identity) -> str | None:
    if (here.version, here.source) == (there.version, there.source):
        return None
    names = [f"nicscope {one.version} (source {one.source[:12]})" for one in (there, here)]
    return f"it is by {names[0]}, this is {names[1]}"


def _plain(what: str, here: Any, there: Any) -> str | None:
    return None if here == there else f"its {what} is {_shown(there)}, here {_shown(here)}"


def _listed(values: list[Plain]) -> str:
    return ",".join(_shown(value) for value in values)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
