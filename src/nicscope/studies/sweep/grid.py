"""The grid of ``nicscope sweep``: a design varied along several axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import COSTS, Evidence, Origin, UnitCost
from nicscope.config.design import (
    NONE,
    SETTINGS,
    Design,
    Scheme,
    load_design,
    read_scheme,
    read_setting,
    with_settings,
)
from nicscope.config.platform import (
    PREFIX,
    PS_PER_US,
    Platform,
    load_platform,
    read_cost,
    with_cost,
)
from nicscope.errors import DesignError, StudyError, did_you_mean
from nicscope.memory.replacement import Replacement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Plain = int | bool | str | None  # as JSON has it; a cost in whole picoseconds
PS_PER_NS = 1000
SCHEME, PLATFORM, PAGE_SIZE = "scheme", "platform", "page_size"
# Units of the settings that do not name theirs.
_UNITS = {
    PAGE_SIZE: "bytes",
    "pin_limit": "pages",
    "prepin": "pages",
    "line": "pages",
    "high_water": "pages",
}


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """One key of a grid and its distinct values, in the order given."""

    key: str
    values: tuple[Plain, ...]

    @property
    def cost(self) -> str | None:
        """The name of the varied cost, if the axis is one."""
        return self.key.removeprefix(PREFIX) if self.key.startswith(PREFIX) else None

    @property
    def prices(self) -> bool:
        """Whether the axis changes costs and not counts."""
        return self.key == PLATFORM or self.cost is not None

    @property
    def unit(self) -> str | None:
        """The unit of its values, where the key does not name it."""
        if self.cost is None:
            return _UNITS.get(self.key)
        return "ns_per_byte" if COSTS[self.cost].by_byte else "us"

    @property
    def column(self) -> str:
        """The table's column name, with its unit."""
        name = self.key if self.cost is None else f"cost_{self.cost}"
        return name if self.unit is None else f"{name}_{self.unit}"

    @property
    def shown(self) -> tuple[Plain | float, ...]:
        """The values in the unit of its column."""
        if self.cost is None:
            return self.values
        ps_per_unit = PS_PER_NS if COSTS[self.cost].by_byte else PS_PER_US
        return tuple(value / ps_per_unit for value in self.values if isinstance(value, int))

    def text(self, place: int) -> str:
        """The value at ``place`` as ``--set`` spells it."""
        value = self.values[place]
        if value is None:
            return NONE
        return str(value).lower() if isinstance(value, bool) else str(value)


def read_axes(assignments: Sequence[str], base: Design) -> tuple[Axis, ...]:
    """The axes that ``--grid KEY=V1,V2,...`` spell, for variations of ``base``.

    Errors: ``StudyError`` for an empty, unknown or repeated key or value, ``DesignError`` or
    ``PlatformError`` for a value that a design or a platform would refuse.
    """
    if not assignments:
        raise StudyError("an empty grid; name what to vary, such as --grid entries=1024,2048")
    given = [_split(assignment) for assignment in assignments]
    keys = [key for key, _ in given]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise StudyError(f"--grid {key} is there twice; give all its values at once")
    schemes = [base.scheme]
    for key, texts in given:
        if key == SCHEME:
            schemes = [read_scheme(text, f"--grid scheme={text}") for text in texts]
    return tuple(_axis(key, texts, schemes) for key, texts in given)


def _split(assignment: str) -> tuple[str, list[str]]:
    key, sign, listed = assignment.partition("=")
    key = key.strip()
    if not sign or not key:
        raise StudyError(f"--grid {assignment}: write it as KEY=V1,V2,...")
    known = [SCHEME, PLATFORM, *SETTINGS, *(f"{PREFIX}{name}" for name in COSTS)]
    if key not in known:
        few = [name for name in known if not name.startswith(PREFIX)]
        told = did_you_mean(key, known)
        if "did you mean" not in told:
            told = f"{did_you_mean('', few)}, or costs.NAME"
        raise StudyError(f"--grid {key}: unknown key {key!r}{told}")
    texts = [text.strip() for text in listed.split(",")]
    if not listed.strip():
        raise StudyError(f"--grid {key}= has no values; give at least one")
    if "" in texts:
        raise StudyError(f"--grid {assignment}: a value between its commas is missing")
    return key, texts


def _axis(key: str, texts: Sequence[str], schemes: Sequence[Scheme]) -> Axis:
    values: list[Plain] = []
    for text in texts:
        value = _value(key, text, schemes)
        if value in values:
            raise StudyError(f"--grid {key}: the value {text!r} is there twice")
        values.append(value)
    return Axis(key=key, values=tuple(values))


def _value(key: str, text: str, schemes: Sequence[Scheme]) -> Plain:
    where = f"--grid {key}={text}"
    if key == SCHEME:
        return read_scheme(text, where).value
    if key == PLATFORM:
        load_platform(text)
        return text
    if key.startswith(PREFIX):
        return read_cost(key.removeprefix(PREFIX), text, where).low_ps
    for scheme in schemes:  # each must use it; what it means is the same for all
        value = read_setting(scheme, key, text, where)
    return value.name.lower() if isinstance(value, Replacement) else value


MANY = 1_000_000  # points that nobody asks for by mistake
MOST = 10_000_000  # points that fit in memory


class Point(NamedTuple):
    """One grid point: its number, its place on each axis, its design and its pricing."""

    number: int
    places: tuple[int, ...]
    design: int
    pricing: int


class Grid:
    """Every combination of the values of ``axes``, as variations of one design."""

    def __init__(self, base: Design, platform: Platform | None, axes: tuple[Axis, ...]) -> None:
        self.base = base
        self.axes = axes
        self._platform = platform
        self._designing = [axis for axis in axes if not axis.prices]
        self._pricing = [axis for axis in axes if axis.prices]
        self.size = _product(axes)
        self.designs = _product(self._designing)
        self.pricings = _product(self._pricing)

    def __iter__(self) -> Iterator[Point]:
        for number in range(self.size):
            places = _places(self.axes, number)
            of = dict(zip((axis.key for axis in self.axes), places, strict=True))
            yield Point(number, places, _number(self._designing, of), _number(self._pricing, of))

    def design(self, number: int) -> Design:
        """The design numbered 0 to ``designs`` - 1; errors: ``DesignError``."""
        places = zip(self._designing, _places(self._designing, number), strict=True)
        assignments = [f"{axis.key}={axis.text(place)}" for axis, place in places]
        try:
            return with_settings(self.base, assignments)
        except DesignError as error:
            raise DesignError(
                f"--grid: no design has {' '.join(assignments)}: {error}; leave one of the values "
                "out, or sweep them apart"
            ) from error

    @property
    def fixed(self) -> dict[str, Any]:
        """Name and settings that all designs share, varied ones excluded."""
        keys = {axis.key for axis in self._designing}
        alike = [self.design(number).to_json() for number in self._of_each_scheme()]
        return {
            key: value
            for key, value in alike[0].items()
            if key not in keys and all(one.get(key, ...) == value for one in alike)
        }

    def _of_each_scheme(self) -> list[int]:
        """Design numbers, one of each scheme, which alone decides the available settings."""
        places = {axis.key: 0 for axis in self._designing}
        count = next((len(axis.values) for axis in self._designing if axis.key == SCHEME), 1)
        return [_number(self._designing, places | {SCHEME: place}) for place in range(count)]

    def page_sizes(self, recorded: int) -> list[int]:
        """The page sizes that its designs use for a trace recorded with ``recorded``."""
        for axis in self._designing:
            if axis.key == PAGE_SIZE:
                return [recorded if size is None else int(size) for size in axis.values]
        return [self.base.page_size or recorded]

    def platforms(self) -> dict[str, Platform]:
        """The platforms in use as they are without swept costs, by what the grid calls them."""
        for axis in self._pricing:
            if axis.key == PLATFORM:
                return {str(name): load_platform(str(name)) for name in axis.values}
        return {} if self._platform is None else {self._platform.name: self._platform}

    def platform(self, pricing: int) -> Platform | None:
        """The platform of pricing number 0 to ``pricings`` - 1, if there is one."""
        platform = self._platform
        places = list(zip(self._pricing, _places(self._pricing, pricing), strict=True))
        for axis, place in places:
            if axis.key == PLATFORM:
                platform = load_platform(str(axis.values[place]))
        for axis, place in places:
            value = axis.values[place]
            if axis.cost is not None and isinstance(value, int):
                assert platform is not None
                platform = with_cost(platform, _swept(axis.cost, value))
        return platform


def make_grid(
    base: Design, platform: Platform | None, assignments: Sequence[str], *, many: bool = False
) -> Grid:
    """Parse the axes into a grid, every point of which is a valid design.

    ``platform`` prices all, unless the grid names platforms.  Errors: ``StudyError`` for a grid
    that is empty, too large (unless ``many``) or varies costs of no platform; ``DesignError``
    and ``PlatformError`` for the first value or combination that makes no sense.
    """
    axes = read_axes(assignments, base)
    swept = [axis for axis in axes if axis.key == PLATFORM]
    costs = [axis for axis in axes if axis.cost is not None]
    if costs and platform is None and not swept:
        raise StudyError(
            f"--grid {costs[0].key}: design {base.name!r} names no platform whose cost that is; "
            "name one with --platform"
        )
    grid = Grid(base, platform, axes)
    if grid.size > MOST:
        raise StudyError(f"a grid of {grid.size:,} points; at most {MOST:,} are swept at once")
    if grid.size >= MANY and not many:
        raise StudyError(f"a grid of {grid.size:,} points; add --yes if that is what you want")
    for number in range(grid.designs):
        grid.design(number)
    return grid


def _swept(cost: str, ps: int) -> UnitCost:
    origin = Origin(Evidence.ASSUMED, "swept")
    return UnitCost(name=cost, unit="ps", origin=origin, low_ps=ps, high_ps=ps)


def _product(axes: Sequence[Axis]) -> int:
    return math.prod(len(axis.values) for axis in axes)


def _places(axes: Sequence[Axis], number: int) -> tuple[int, ...]:
    places = []
    for axis in reversed(axes):
        number, place = divmod(number, len(axis.values))
        places.append(place)
    return tuple(reversed(places))


def _number(axes: Sequence[Axis], places: dict[str, int]) -> int:
    number = 0
    for axis in axes:
        number = number * len(axis.values) + places[axis.key]
    return number


def ask(
    design: str | Path | Design,
    platform: str | Path | Platform | None,
    assignments: Sequence[str],
    *,
    many: bool,
) -> Grid:
    """The grid around ``design``, priced on ``platform`` or else the design's own.

    ``many`` allows a million points and more.  Errors: as ``make_grid``, and for a design or
    platform that does not exist.
    """
    base = load_design(design)
    if platform is not None and any(key.partition("=")[0] == PLATFORM for key in assignments):
        raise StudyError("--platform and --grid platform=...: give one of them")
    name = platform or base.platform
    return make_grid(base, None if name is None else load_platform(name), assignments, many=many)
