"""``nicscope plan``: cuts a memory pool into regions within limits of NICs and libraries.

A region begins and ends between blocks of the pool, for none may lie in two regions, and between
pages, for drivers refuse one that ends within a huge page.  Where a region cannot hold a whole
number of both, it ends between blocks alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.errors import StudyError
from nicscope.studies.registering import ENTRY_BYTES, LARGEST_PAGE, MOST_BYTES, SMALLEST_PAGE
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.config.costs import Limit

PAGES = (4096, 65536, 2 << 20, 1 << 30)  # that are tried where none that was asked for fits
MOST_REGIONS = 1 << 20


class Wanted(NamedTuple):
    """A pool, and the limits on its regions."""

    byte_count: int
    block: int  # bytes that stay in one region
    limits: dict[str, Limit]  # by ``config.costs.LIMITS``: the tightest of all that hold

    def most(self, name: str) -> int | None:
        """The limit of that name; None: unlimited."""
        limit = self.limits.get(name)
        return None if limit is None else limit.most


class Plan(NamedTuple):
    """A pool in pages of one size, cut into the fewest regions of nearly equal size."""

    page: int
    unit: int  # bytes; every region is a multiple
    registered: int  # bytes, a multiple of ``unit``
    regions: int  # 0: there is no way to cut it
    entries: int  # at each NIC
    beyond: tuple[str, ...]  # limits that it passes

    @property
    def fits(self) -> bool:
        """Whether the plan meets all limits."""
        return not self.beyond

    @property
    def is_aligned(self) -> bool:
        """Whether all region boundaries are page boundaries."""
        return self.unit % self.page == 0

    @property
    def larger(self) -> int:
        """How many regions have one unit more than the others; these come first."""
        return self.registered // self.unit % self.regions if self.regions else 0

    @property
    def smallest(self) -> int:
        """Bytes of the smallest region."""
        return self.registered // self.unit // self.regions * self.unit if self.regions else 0

    @property
    def largest(self) -> int:
        """Bytes of the largest region."""
        return self.smallest + (self.unit if self.larger else 0)

    @property
    def table_bytes(self) -> int:
        """The size of each NIC's page table in host memory."""
        return self.entries * ENTRY_BYTES

    def each(self) -> Iterator[tuple[int, int]]:
        """(offset, bytes) of every region."""
        offset = 0
        for place in range(self.regions):
            size = self.largest if place < self.larger else self.smallest
            yield offset, size
            offset += size


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for each page size asked for, and the smallest page size that would fit."""

    wanted: Wanted
    plans: list[Plan]
    instead: Plan | None  # where none of them fits: the smallest page that does
    repeat: dict[str, Any]

    def sharing(self, plan: Plan) -> int:
        """How many NICs the pool would have to be divided among."""
        most = self.wanted.most("entries")
        return 1 if most is None else max(1, -(-plan.entries // most))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "pool_bytes": self.wanted.byte_count,
            "block_bytes": self.wanted.block,
            "limits": {
                name: {"most": limit.most, **limit.origin.to_json()}
                for name, limit in self.wanted.limits.items()
            },
            "plans": [self._plain(plan) for plan in self.plans],
            "instead": None if self.instead is None else self._plain(self.instead),
            "repeat": self.repeat,
        }

    def _plain(self, plan: Plan) -> dict[str, Any]:
        return {
            "page_bytes": plan.page,
            "fits": plan.fits,
            "beyond": list(plan.beyond),
            "regions": plan.regions,
            "largest_bytes": plan.largest,
            "larger_regions": plan.larger,
            "smallest_bytes": plan.smallest,
            "unit_bytes": plan.unit,
            "aligned": plan.is_aligned,
            "unregistered_bytes": self.wanted.byte_count - plan.registered,
            "entries": plan.entries,
            "table_bytes": plan.table_bytes,
            "nics_sharing": self.sharing(plan),
        }


def plan_pool(wanted: Wanted, page: int) -> Plan:
    """The fewest regions that hold ``wanted`` in pages of ``page`` bytes.

    Errors: ``StudyError`` for more regions than anyone registers.
    """
    most = wanted.most("region_bytes") or wanted.byte_count
    unit = math.lcm(wanted.block, page)
    if unit > most:
        unit = wanted.block
    registered = wanted.byte_count // unit * unit
    if unit > most or not registered:
        why = (
            "no region may be as large as a block"
            if unit > most
            else "the pool is smaller than a block in whole pages"
        )
        return Plan(page, unit, 0, 0, 0, (why,))
    regions = -(-registered // (most // unit * unit))
    if regions > MOST_REGIONS:
        raise StudyError(
            f"regions of at most {most:,} bytes would be {regions:,}; allow larger ones, so that "
            f"there are {MOST_REGIONS:,} at most"
        )
    cut = Plan(page, unit, registered, regions, 0, ())
    # A page that two regions have a part of has an entry in each.
    entries = sum(-(-(offset + size) // page) - offset // page for offset, size in cut.each())
    return cut._replace(entries=entries, beyond=_exceeded_limits(wanted, entries))


def _exceeded_limits(wanted: Wanted, entries: int) -> tuple[str, ...]:
    most = wanted.most("entries")
    if most is None or entries <= most:
        return ()
    return (f"a NIC would need {entries:,} entries and may have {most:,}",)


def plan_all(wanted: Wanted, pages: Sequence[int], command: Sequence[str] = ()) -> PlanReport:
    """A plan for each of ``pages``; where none fits, for the smallest page size that does.

    Errors: ``StudyError`` for sizes that cannot be.
    """
    if not 1 <= wanted.byte_count <= MOST_BYTES:
        raise StudyError(f"--pool must be from 1 to {MOST_BYTES:,} bytes, got {wanted.byte_count}")
    if not 1 <= wanted.block <= wanted.byte_count:
        raise StudyError(
            f"--kv-block must be from 1 to the pool's {wanted.byte_count:,} bytes, "
            f"got {wanted.block}"
        )
    for page in pages:
        if not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
            raise StudyError(
                f"--page-size must be powers of two from {SMALLEST_PAGE} to {LARGEST_PAGE}, "
                f"got {page}"
            )
    plans = [plan_pool(wanted, page) for page in pages]
    instead = None
    if not any(plan.fits for plan in plans):
        tried = (plan_pool(wanted, page) for page in PAGES if page not in pages)
        instead = next((plan for plan in tried if plan.fits and plan.is_aligned), None)
    return PlanReport(wanted=wanted, plans=plans, instead=instead, repeat=repeat(command))
