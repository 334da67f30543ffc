"""Which of two designs of a family is better, and what a little more memory buys.

A design that carries out more of the requests is better than one that carries out less.  Then
the cheaper one is better, by the upper ends of its prices; in a family of which any design has a
step without a price, and without a platform, the one that misses less on the NIC, and then the
one that calls its host less often: part of a cost does not rank.  Of equals the smaller one.

With the same policies, and without a limit on pinning, other shapes of a cache change what misses
on the NIC and nothing that the host does besides serving misses. So of all shapes of ``utlb``
(without prefetch), ``interrupt`` and ``handle`` one is replayed, and the others are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from nicscope.config.scheme import Scheme
from nicscope.drivers.replay import ReplayResult
from nicscope.nic.layout import new_cache, region_bytes
from nicscope.studies.curve_result import knee
from nicscope.studies.replaying import with_price

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.studies.replaying import Priced
    from nicscope.studies.sizing.survey import Grid, Grids

_HOST_WORK = ("interrupts", "pin_calls", "unpin_calls")


class Point(NamedTuple):
    """A design as replayed."""

    settings: tuple[tuple[str, str], ...]  # what was set on the family's first design
    priced: Priced
    by_cost: bool  # what makes one better than another in its family; else the misses

    @property
    def nic_bytes(self) -> int:
        """NIC memory of the node whose NIC takes most."""
        return self.priced.nic_bytes

    @property
    def pinned_bytes(self) -> int:
        """Most host memory pinned at any one time on any one host."""
        result = self.priced.result
        page_size = result.design.page_size
        assert page_size is not None
        return page_size * max(node["peak_pinned_pages"] or 0 for node in result.nodes)

    @property
    def rejected(self) -> int:
        """Requests (of ``static``: pages) that were not carried out."""
        return self.priced.total("rejected") or 0

    @property
    def misses(self) -> int:
        """Lookups that did not find their translation on the NIC."""
        return self.priced.total("ni_misses") or 0

    @property
    def misses_per_lookup(self) -> float:
        """The same, per lookup."""
        lookups = self.priced.cost.lookups
        return self.misses / lookups if lookups else 0.0

    @property
    def us(self) -> tuple[float, float] | None:
        """Bounds on microseconds per lookup; None if nothing that happened has a price."""
        bounds = self.priced.cost.per_lookup_us()
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))

    @property
    def least_ps(self) -> int:
        """What it costs at least: what has a price, or 0 if nothing has."""
        return self.priced.cost.low_ps

    @property
    def value(self) -> float:
        """What is to be small: microseconds per lookup (the upper end), or misses per lookup."""
        us = self.us
        return us[1] if self.by_cost and us is not None else self.misses_per_lookup

    @property
    def burden(self) -> tuple[int, ...]:
        """What is to be small, in the order of importance; memory left out."""
        cost = self.priced.cost
        calls = sum(self.priced.total(name) or 0 for name in _HOST_WORK)
        if not self.by_cost:
            return (self.rejected, self.misses, calls)
        return (self.rejected, cost.high_ps, cost.low_ps, self.misses, calls)

    @property
    def rank(self) -> tuple[tuple[int, ...], int, int, tuple[tuple[str, str], ...]]:
        """Sorts points from best to worst, always alike."""
        return self.burden, self.nic_bytes, self.pinned_bytes, self.settings


def best_within(points: Iterable[Point], nic_bytes: int) -> Point | None:
    """The best of ``points`` that takes at most ``nic_bytes``; None if none does."""
    return min((p for p in points if p.nic_bytes <= nic_bytes), key=lambda p: p.rank, default=None)


def staircase(points: Iterable[Point]) -> list[Point]:
    """Points that are better than all smaller ones, by ascending memory."""
    steps: list[Point] = []
    for point in sorted(points, key=lambda p: (p.nic_bytes, p.rank)):
        if not steps or point.burden < steps[-1].burden:
            steps.append(point)
    return steps


def knee_of(steps: Sequence[Point]) -> Point | None:
    """The step beyond which a doubling of NIC memory buys less; None: hardly bends.

    Among the steps that carry out as much as the last one does.
    """
    whole = [step for step in steps if step.rejected == steps[-1].rejected]
    sizes = np.array([step.nic_bytes for step in whole], np.int64)
    values = np.array([step.value for step in whole])
    found = knee(sizes, values)
    return next((step for step in whole if step.nic_bytes == found), None)


# What each miss is one of, besides; no other count of theirs depends on the shape.
_PER_MISS = {
    Scheme.UTLB: ("ni_misses", "entries_fetched"),
    Scheme.INTERRUPT: ("ni_misses", "interrupts", "pins"),
    Scheme.HANDLE: ("ni_misses", "interrupts", "dropped"),
}
# Of the shape, and nowhere written: how misses part by path and kind.
_UNKNOWN = (
    "ni_misses_send",
    "ni_misses_receive",
    "ni_misses_send_compulsory",
    "ni_misses_receive_compulsory",
    "ni_misses_noncompulsory",
)


class Surveyed(Protocol):
    """Whoever knows what one pass tells of every cache."""

    @property
    def grids(self) -> Grids:
        """Caches of all shapes."""


def follows(design: Design) -> bool:
    """Whether all shapes of ``design`` follow from a replay of one and a pass over all caches."""
    if design.scheme not in _PER_MISS or design.pin_limit is not None:
        return False
    if design.scheme is Scheme.HANDLE:
        return design.high_water is None
    if design.scheme is Scheme.UTLB and design.prefetch != 1:
        return False
    return bool(design.index_offset)


def grid_of(design: Design, room: Surveyed) -> Grid | None:
    """The grid that has all shapes of ``design``; None if no grid tells what it misses."""
    if not follows(design):
        return None
    if design.scheme is Scheme.HANDLE:
        return room.grids.plain.get(design.line or 1)
    return room.grids.offset


def at_shape(
    replayed: Priced, design: Design, grid: Grid, platform: Platform | None
) -> Priced | None:
    """What a replay of ``design`` counts, which differs from ``replayed`` by its shape alone.

    Counts that only a replay tells are None.  None if ``grid`` does not reach that far.
    """
    entries, ways, line = design.entries or 1, design.ways or 1, design.line or 1
    misses, held = grid.misses_of(entries, ways), grid.held_of(entries, ways)
    if misses is None or held is None:
        return None
    before = replayed.result
    total = {**before.total, **dict.fromkeys(_UNKNOWN)}
    total |= dict.fromkeys(_PER_MISS[design.scheme], misses)
    total["further_ways"] = grid.further_of(entries, ways)
    nodes: list[dict[str, int | None]] = [
        {name: node[name] for name in ("node", "peak_pinned_pages")} for node in before.nodes
    ]
    if design.scheme is Scheme.INTERRUPT:  # what is pinned is what is in the cache
        total |= {"unpins": misses - sum(held.values()), "peak_pinned_pages": sum(held.values())}
        for node in nodes:
            node["peak_pinned_pages"] = held[node["node"] or 0]
    old = before.design
    rest = dict(before.nic_memory_bytes)
    for name in region_bytes(new_cache(old.entries or 1, old.ways or 1, old.line or 1)):
        del rest[name]
    memory = region_bytes(new_cache(entries, ways, line)) | rest
    of_page_size = design.at_page_size(old.page_size or 0)
    return with_price(ReplayResult(of_page_size, total, nodes, memory), platform)
