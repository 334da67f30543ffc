"""The points of a grid: which design each is, on which platform, in a fixed order.

The last axis varies fastest.  Points that differ in prices alone share one design, so that it is
replayed once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.cost_override import with_cost
from nicscope.config.design import with_settings
from nicscope.config.evidence import Evidence, Origin
from nicscope.config.platform import Platform, UnitCost, load_platform
from nicscope.errors import DesignError, StudyError
from nicscope.studies.sweep.axis import PAGE_SIZE, PLATFORM, SCHEME, Axis, read_axes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.config.design import Design

MANY = 1_000_000  # points that nobody asks for by mistake
MOST = 10_000_000  # points that fit in memory


class Point(NamedTuple):
    """One point: its place in the grid and on each axis, and the numbers of its parts."""

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
        """The design of that number, from 0 to ``designs``; errors: ``DesignError``."""
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
        """Name and settings that all designs of the grid have in common; no varied one."""
        keys = {axis.key for axis in self._designing}
        alike = [self.design(number).to_json() for number in self._of_each_scheme()]
        return {
            key: value
            for key, value in alike[0].items()
            if key not in keys and all(one.get(key, ...) == value for one in alike)
        }

    def _of_each_scheme(self) -> list[int]:
        """Numbers of designs, one of each scheme: which settings there are depends on no other."""
        places = {axis.key: 0 for axis in self._designing}
        count = next((len(axis.values) for axis in self._designing if axis.key == SCHEME), 1)
        return [_number(self._designing, places | {SCHEME: place}) for place in range(count)]

    def page_sizes(self, recorded: int) -> list[int]:
        """Bytes of the pages that its designs see of a trace that has pages of ``recorded``."""
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
        """The platform of that number, from 0 to ``pricings``, if there is one."""
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
    """The grid that ``assignments`` spell, every point of it a design that makes sense.

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
