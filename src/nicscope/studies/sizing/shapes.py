"""The designs of a family that may be best: shapes, which take NIC memory, and policies.

A shape sets what takes memory on the NIC, a policy what the host does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.config.design import design_names, load_design
from nicscope.config.platform import load_platform
from nicscope.config.scheme import Scheme
from nicscope.nic.layout import new_cache, new_table, region_bytes
from nicscope.studies.replaying import Subject
from nicscope.studies.sizing.survey import MOST_WAYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.studies.sizing.survey import Extent, Grids

    Setting = tuple[tuple[str, str], ...]

# Where the catalog has several designs of a scheme and none is of the platform asked for: the one
# whose translations are on a NIC, and the one that has a platform.
_FIRST = {Scheme.UNET_MM: "unet-mm-pca200", Scheme.STATIC: "vmmc-static"}


def families(platform: Platform | None) -> list[Subject]:
    """A design of each scheme, in the order of schemes, and what prices it.

    That is ``platform``; without one, each design's own, as in ``nicscope replay``.  RDMA NICs are
    left out where ``platform`` does not price their fetches: with a family whose price is half
    known, nobody could say which is cheapest.
    """
    designs = [load_design(name) for name in design_names()]
    chosen = []
    for scheme in Scheme:
        if scheme is Scheme.RNIC and platform is not None and "icm_fetch" not in platform.costs:
            continue
        own = [design for design in designs if design.scheme is scheme]
        design = min(own, key=lambda design: _distance(design, platform))
        prices = platform
        if prices is None and design.platform is not None:
            prices = load_platform(design.platform)
        chosen.append(Subject(design, prices))
    return chosen


def _distance(design: Design, platform: Platform | None) -> int:
    if platform is not None and design.platform == platform.name:
        return 0
    return 1 if design.name == _FIRST.get(design.scheme) else 2


# Assumed: a translation cache of fewer entries is not built.
LEAST_ENTRIES = 16
ROOM = 2  # entries that are still of use, per page of a NIC: sets fill unevenly
LINES = (1, 2, 4, 8, 16, 32, 64, 128)  # of handle; to miNI's longest
VICTIMS = (0, 16, 64)  # U-Net/MM, section 5.1: 16
AHEAD = (1, 4, 16, 32)  # pages pinned or entries fetched at once; UTLB's Tables 1, 2 go to 32
FETCHED = 8  # page entries of an RDMA NIC's line, as in the catalog's design
MOST_REGIONS = 1024  # of an RDMA NIC at hand: as many as the catalog's design has
POLICIES = ("lru", "mru", "lfu", "mfu", "random")
LEAST_AREA = 1 << 20  # of pinned, where there is room: what the catalog assumes
# What the budget is worth in entries lies in between: from a 64th of it to 8 times as much.
SPAN = (1 / 512, 2)  # entries per byte
_WAYS = tuple(1 << bits for bits in range(MOST_WAYS.bit_length()))


class Room(NamedTuple):
    """What a design may take, and what it is for."""

    budgets: tuple[int, ...]  # bytes of NIC memory: half of it, what was asked for, twice as much
    pin_pages: int | None  # of each host
    page_size: int
    extent: Extent
    grids: Grids
    every_size: bool = False  # else those around the budget, and the smallest

    @property
    def most_entries(self) -> int:
        """A power of two: with more entries, hardly any cache would miss less."""
        return most_entries(self.extent)

    @property
    def limit(self) -> int | None:
        """Most pages that each process may pin, if any has to be held back."""
        if self.pin_pages is None or self.extent.node_pages <= self.pin_pages:
            return None
        return min(_filled(pages, self.pin_pages) for pages in self.extent.pages.values())

    @property
    def share(self) -> int:
        """Pages that each process may pin whatever the others do."""
        assert self.pin_pages is not None
        return max(self.pin_pages // self.extent.processes, 1)


def most_entries(extent: Extent) -> int:
    """Entries of the largest cache that is of use for so many pages; a power of two."""
    return max(LEAST_ENTRIES, ROOM << max(extent.node_pages - 1, 0).bit_length())


def _filled(pages: Sequence[int], room: int) -> int:
    """The highest limit under which processes that touch ``pages`` each pin ``room`` in all."""
    left, waiting = room, len(pages)
    for count in sorted(pages):
        if count * waiting > left:
            return max(left // waiting, 1)
        left -= count
        waiting -= 1
    return max(pages)


def shapes(scheme: Scheme, room: Room) -> list[Setting]:
    """Shapes of ``scheme`` that may be best for some size of NIC memory."""
    if scheme is Scheme.PINNED:
        return [_text(area_bytes=size) for size in _areas(room)]
    if scheme is Scheme.STATIC:
        return [_text(entries=count) for count in _static_entries(room)]
    if scheme is Scheme.UTLB_PROCESS:
        return [_text(entries=count) for count in _process_entries(room)]
    if scheme is Scheme.UNET_MM:
        return [
            _text(entries=entries, victim_entries=victims)
            for entries in _powers(room)
            for victims in VICTIMS
        ]
    if scheme is Scheme.RNIC:
        return _of_rnic(room)
    if scheme is Scheme.HANDLE:
        return [shape for line in LINES for shape in _lined(line, room)]
    # Indices are handed out one after the other: they spread over the sets by themselves.
    widths = _WAYS[::2] if scheme is Scheme.UTLB_SHARED else _WAYS
    every = [(entries, ways) for entries in _powers(room) for ways in widths if ways <= entries]
    return [_text(entries=entries, ways=ways) for entries, ways in every]


def policies(scheme: Scheme, room: Room) -> list[Setting]:
    """Policies to try on the best shapes; the first ones, ``first_policies``, on all."""
    first = first_policies(scheme, room)
    found = list(first)
    if scheme in (Scheme.UTLB, Scheme.UTLB_SHARED):
        found += [
            (*_text(prefetch=fetched, prepin=pinned), *limit)
            for limit in first
            for fetched in AHEAD
            for pinned in AHEAD
        ]
    if scheme is Scheme.UTLB_PROCESS:
        found += [_text(prepin=pinned) for pinned in AHEAD]
    return found


def known_policies(scheme: Scheme, room: Room) -> list[Setting]:
    """Policies with which other shapes may follow from one (``known``), if nothing is limited."""
    if scheme is not Scheme.UTLB or room.limit is not None:
        return first_policies(scheme, room)
    return [_text(prefetch=1, prepin=pinned) for pinned in AHEAD]


def replacements(scheme: Scheme, room: Room) -> list[Setting]:
    """Policies of choosing what to unpin, where it matters."""
    limited = room.limit is not None and scheme in (Scheme.UTLB, Scheme.UTLB_SHARED)
    if limited or scheme is Scheme.UTLB_PROCESS:
        return [(("replacement", name),) for name in POLICIES]
    return []


def first_policies(scheme: Scheme, room: Room) -> list[Setting]:
    """How the pages that a host may pin are divided between processes, if that is to be told."""
    if room.limit is None:
        return [()]
    if scheme in (Scheme.UTLB, Scheme.UTLB_SHARED):
        return [_text(pin_limit=limit) for limit in sorted({room.limit, room.share})]
    if scheme is Scheme.INTERRUPT:
        return [(), *(_text(pin_limit=limit) for limit in sorted({room.limit, room.share}))]
    return [()]


def _text(**settings: int) -> Setting:
    return tuple((name, str(value)) for name, value in settings.items())


def _powers(room: Room) -> list[int]:
    low, high = LEAST_ENTRIES.bit_length() - 1, room.most_entries.bit_length() - 1
    every = [1 << bits for bits in range(low, high + 1)]
    if room.every_size:
        return every
    least, most = (each * room.budgets[1] for each in SPAN)
    return [count for count in every if count == LEAST_ENTRIES or least <= count <= most]


def _lined(line: int, room: Room) -> Iterator[Setting]:
    mark: dict[str, int] = {}
    if room.pin_pages is not None and room.extent.node_pages * line > room.pin_pages:
        # A line is pinned before the mark is looked at.
        mark = {"high_water": max(room.pin_pages - line, 0)}
    for entries in _powers(room):
        for ways in _WAYS:
            if ways * line <= entries:
                yield _text(entries=entries, ways=ways, line=line, **mark)


def _of_rnic(room: Room) -> list[Setting]:
    """Level 0 of every size, beside regions for all processes: each has one."""
    most = 1 << max(room.extent.processes - 1, 0).bit_length()
    count = min(most, MOST_REGIONS)
    regions = {"mpt_entries": count, "mpt_ways": min(count, 4)}
    return [
        _text(entries=entries, ways=ways, line=FETCHED, **regions)
        for entries in _powers(room)
        for ways in _WAYS
        if ways * FETCHED <= entries
    ]


def cache_bytes(entries: int, ways: int, line: int) -> int:
    """NIC memory of a translation cache, whatever is kept beside it left out."""
    return sum(region_bytes(new_cache(entries, ways, line)).values())


def _areas(room: Room) -> list[int]:
    """One area that takes every request, and what the host may pin if that is less."""
    page = room.page_size
    needed = max(LEAST_AREA, -(-room.extent.longest_bytes // page) * page)
    if room.pin_pages is None:
        return [needed]
    return [min(needed, room.share * page)]


def _static_entries(room: Room) -> list[int]:
    """All pages, and what fits if that is less."""
    fixed = sum(region_bytes(new_table(0)).values())
    each = sum(region_bytes(new_table(1)).values()) - fixed
    most = room.extent.node_pages
    if room.pin_pages is not None:
        most = min(most, room.pin_pages)
    fitting = {min(most, (budget - fixed) // each) for budget in room.budgets if budget > fixed}
    return sorted(count for count in {most, *fitting} if count > 0)


def _process_entries(room: Room) -> list[int]:
    """Tables for all pages of a process, powers of two below, and what fits the budgets."""
    each = new_table(1).frames.itemsize * room.extent.processes
    most = max(room.extent.process_pages, LEAST_ENTRIES)
    if room.limit is not None:
        most = min(most, max(room.limit, room.share))
    fitting = {min(most, budget // each) for budget in room.budgets}
    powers = {count for count in _powers(room) if count < most}
    shared = {min(most, room.share)} if room.pin_pages is not None else set()
    return sorted(count for count in {most, *powers, *fitting, *shared} if count > 0)
