"""Designs whose counts follow from one replay of their family and the one-pass grids.

With the same policies, and without a limit on pinning, other shapes of a cache change what misses
on the NIC and nothing that the host does besides serving misses. So of all shapes of ``utlb``
(without prefetch), ``interrupt`` and ``handle`` one is replayed, and the others are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.scheme import Scheme
from nicscope.drivers.replay import ReplayResult
from nicscope.nic.layout import new_cache, region_bytes
from nicscope.studies.replaying import with_price

if TYPE_CHECKING:
    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.studies.replaying import Priced
    from nicscope.studies.sizing.shapes import Room
    from nicscope.studies.sizing.survey import Grid

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


def grid_of(design: Design, room: Room) -> Grid | None:
    """The grid that has all shapes of ``design``; None if no grid tells what it misses."""
    if design.scheme not in _PER_MISS or design.pin_limit is not None:
        return None
    if design.scheme is Scheme.HANDLE:
        return None if design.high_water is not None else room.grids.plain.get(design.line or 1)
    if design.scheme is Scheme.UTLB and design.prefetch != 1:
        return None
    return room.grids.offset if design.index_offset else None


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
