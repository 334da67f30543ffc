"""How long it takes to register a pool of memory, and what shortens it: ``nicscope register``.

A pool is touched (its pages faulted in and zeroed, unless somebody did), pinned, and entered into a
table of each NIC: t = regions x region + pages x (fault + zero + pin) + NICs x entries x entry.
Threads share out what is touched and pinned; NICs are served one after the other, or all at once.
Of more threads and NICs than costs were measured with, the low ends go on in proportion and the
high ends gain nothing.
Where a region takes longer the more is registered already, the order of regions matters.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.registration import Span
from nicscope.errors import StudyError
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.config.registration import RegistrationCosts

GIB = 1 << 30
US = 1e-6  # seconds
ENTRY_BYTES = 8  # of a translation in a NIC's table (mlx5: an MTT)
PARTS = ("regions", "touching", "pinning", "NICs", "backlog")
SMALLEST_PAGE, LARGEST_PAGE = 4096, 1 << 30
MOST_BYTES = 1 << 50


class Pool(NamedTuple):
    """What is registered, and how."""

    regions: tuple[int, ...]  # bytes of each, in the order in which they are registered
    page: int  # bytes of the host's pages, and of the NICs' entries
    nics: int
    threads: int  # that touch and pin
    at_once: bool  # NICs
    touched: bool  # already
    cache: str = "none"  # what joined the list that the regions are from

    @property
    def byte_count(self) -> int:
        """Of all regions."""
        return sum(self.regions)

    @property
    def pages(self) -> int:
        """Of all regions; the last page of each may be partly used."""
        return sum(-(-size // self.page) for size in self.regions)


class Registration(NamedTuple):
    """What registering a pool takes, in seconds, by parts; their sums are the totals."""

    pool: Pool
    parts: dict[str, Span]
    deregister: Span
    beyond: list[str]  # limits that it passes
    measured: dict[str, int]  # how far costs were, by what of the pool

    @property
    def extrapolated(self) -> list[str]:
        """Which of ``nics``, ``threads`` and ``page`` are beyond what costs were measured with."""
        asked = {"nics": self.pool.nics, "threads": self.pool.threads, "page": self.pool.page}
        return [key for key, most in self.measured.items() if asked[key] > most]

    @property
    def total(self) -> Span:
        """All of it."""
        return Span(*(sum(part[end] for part in self.parts.values()) for end in (0, 1)))

    @property
    def table_bytes(self) -> int:
        """Of each NIC's table, in the host's memory."""
        return self.pool.pages * ENTRY_BYTES

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        pool = self.pool
        return {
            "bytes": pool.byte_count,
            "regions": len(pool.regions),
            "cache": pool.cache,
            "page_bytes": pool.page,
            "pages": pool.pages,
            "nics": pool.nics,
            "threads": pool.threads,
            "nics_at_once": pool.at_once,
            "touched": pool.touched,
            "table_bytes": self.table_bytes,
            "parts_s": {name: list(part) for name, part in self.parts.items()},
            "total_s": list(self.total),
            "deregister_s": list(self.deregister),
            "beyond": self.beyond,
            "extrapolated": self.extrapolated,
        }


class RegisterReport(msgspec.Struct, frozen=True, kw_only=True):
    """Every way that was asked for."""

    costs: Any  # RegistrationCosts
    found: list[Registration]
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in self.costs.origins.items()},
            "not_applicable": self.costs.not_applicable,
            "registrations": [each.to_json() for each in self.found],
            "repeat": self.repeat,
        }


def register_pool(pool: Pool, costs: RegistrationCosts) -> Registration:
    """What registering ``pool`` takes."""
    together = pool.nics if pool.at_once else 1
    lanes = (together, min(together, costs.measured.get("nics", together)))
    threads = (pool.threads, min(pool.threads, costs.measured.get("threads", pool.threads)))
    parts = {}
    for name in PARTS:
        ends = [_seconds(name, pool, costs, end, lanes[end], threads[end]) for end in (0, 1)]
        parts[name] = Span(*ends)
    revoked = [
        pool.pages * pool.nics / lanes[end] * costs.each("deregister_entry")[end] * US
        for end in (0, 1)
    ]
    return Registration(pool, parts, Span(*revoked), _beyond(pool, costs), costs.measured)


def _seconds(
    part: str, pool: Pool, costs: RegistrationCosts, end: int, lanes: int, threads: int
) -> float:
    def each(name: str) -> float:
        return costs.each(name)[end] * US

    if part == "regions":
        return len(pool.regions) * each("region") * pool.nics / lanes
    if part == "touching":
        touching = pool.pages * each("fault") + pool.byte_count / GIB * each("zero")
        return 0.0 if pool.touched else touching / threads
    if part == "pinning":
        return pool.pages * each("pin") / threads
    if part == "NICs":
        return pool.pages * each("entry") * pool.nics / lanes
    before = [0, *itertools.accumulate(pool.regions)][:-1]
    return sum(before) / GIB * each("backlog") * pool.nics / lanes


def _beyond(pool: Pool, costs: RegistrationCosts) -> list[str]:
    """Limits of the NIC that the pool passes, in words."""
    told = []
    most = costs.limits.most("region_bytes")
    if most is not None and max(pool.regions) > most:
        told.append(f"a region has {max(pool.regions):,} bytes, and may have {most:,}")
    most = costs.limits.most("entries")
    if most is not None and pool.pages > most:
        told.append(f"a NIC needs {pool.pages:,} entries, and has some {most:,}")
    return told


def pools(
    regions: Sequence[int],
    pages: Sequence[int],
    nics: Sequence[int],
    threads: Sequence[int],
    at_once: Sequence[bool],
    touched: Sequence[bool],
    cache: str = "none",
) -> list[Pool]:
    """Every combination, page sizes first.

    Errors: ``StudyError`` for sizes and counts that cannot be.
    """
    if not regions or min(regions) < 1 or sum(regions) > MOST_BYTES:
        raise StudyError(f"regions must have from 1 to {MOST_BYTES:,} bytes in all")
    for page in pages:
        if not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
            raise StudyError(
                f"--page must be powers of two from {SMALLEST_PAGE} to {LARGEST_PAGE}, got {page}"
            )
    for name, counts in (("--nics", nics), ("--threads", threads)):
        if any(not 1 <= count <= 1024 for count in counts):
            raise StudyError(f"{name} must be from 1 to 1024, got {[*counts]}")
    return [
        Pool(tuple(regions), page, many, working, together, there, cache)
        for page, many, there, working, together in itertools.product(
            pages, nics, touched, threads, at_once
        )
    ]


def register_all(
    every: Sequence[Pool], costs: RegistrationCosts, command: Sequence[str] = ()
) -> RegisterReport:
    """What each of the pools takes."""
    return RegisterReport(
        costs=costs, found=[register_pool(pool, costs) for pool in every], repeat=repeat(command)
    )
