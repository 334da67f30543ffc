"""What NICs and libraries allow of registered memory: bytes of a region, entries of a NIC."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.evidence import Origin, only_known, read_origin
from nicscope.config.shelf import open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import PlatformError
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = ("region_bytes", "entries")
_SECTIONS = ("title", "description", "limits", "sources")


class Limit(NamedTuple):
    """The most of something, and how that is known."""

    most: int
    origin: Origin


class RegionLimits(msgspec.Struct, frozen=True):
    """What one NIC or library allows; what it does not name has no limit."""

    name: str
    title: str
    description: str
    limits: dict[str, Limit]

    def most(self, name: str) -> int | None:
        """The limit of that name; None: any."""
        limit = self.limits.get(name)
        return None if limit is None else limit.most


NO_LIMITS = RegionLimits("none", "no limits", "", {})


def limit_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("limits")


@ToldPlainly()
def load_limits(name_or_path: str | Path) -> RegionLimits:
    """Limits of that name in the catalog, or those of a ``.toml`` file.

    Errors: ``PlatformError`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf("limits", name_or_path, PlatformError)
    only_known(content, _SECTIONS, called, PlatformError)
    sources = read_texts(content, "sources", called, PlatformError)
    cells = content.get("limits", {})
    if not isinstance(cells, dict) or not cells:
        raise PlatformError(f"{called}: has no [limits]; state {' or '.join(LIMITS)}")
    only_known(cells, LIMITS, f"{called}: limits", PlatformError)
    limits = {}
    for key, cell in cells.items():
        where = f"{called}: limits.{key}"
        limits[key] = Limit(
            _read_most(cell, where), read_origin(cell, sources, where, PlatformError)
        )
    return RegionLimits(
        name=name,
        title=read_text(content, "title", name, called, PlatformError),
        description=read_text(content, "description", "", called, PlatformError),
        limits=limits,
    )


def _read_most(cell: Any, where: str) -> int:
    value = cell.get("value") if isinstance(cell, dict) else None
    if isinstance(value, str) and value.removesuffix(" GB").isdecimal() and value.endswith(" GB"):
        value = int(Decimal(value.removesuffix(" GB")) * 10**9)
    if type(value) is not int or not 1 <= value < 1 << 63:
        raise PlatformError(f"{where}: value must be a whole number of 1 or more, or such as 64 GB")
    return value
