"""Registering memory at RDMA NICs: how long it takes, and what libraries' caches do."""

from __future__ import annotations

import csv
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import Span
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.drivers.registration import UNLIMITED, RegistrationReplay, Rules
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.sources import RowsDone, extent_of, numbers, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.costs import RegistrationCosts
    from nicscope.traces.reader import Trace


CACHES = ("none", "exact", "range")
_SIZES = ("bytes", "size", "length")
_ADDRESSES = ("address", "offset")
_END = 1 << 64  # of addresses


class Region(NamedTuple):
    """One line of a list of regions."""

    address: int | None  # None: not told
    byte_count: int


def read_regions(text: str, called: str) -> list[Region]:
    """Regions of a list: a size a line, or a table with ``bytes`` and maybe ``address``.

    What follows a ``#`` says nothing.  Errors: ``StudyError`` naming the line.
    """
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    first = next((line for line in lines if line), "")
    names = [name.strip().lower() for name in first.split(",")]
    size = next((names.index(name) for name in _SIZES if name in names), None)
    if size is None:
        return [
            Region(None, _size(line, called, number))
            for number, line in enumerate(lines, 1)
            if line
        ]
    address = next((names.index(name) for name in _ADDRESSES if name in names), None)
    head = lines.index(first)
    found = []
    for number, line in enumerate(lines[head + 1 :], head + 2):
        if line:
            cells = next(csv.reader([line]))
            if len(cells) != len(names):
                raise StudyError(
                    f"{called}: line {number}: has {len(cells)} cells, and the first {len(names)}"
                )
            at = None if address is None else _address(cells[address], called, number)
            found.append(Region(at, _size(cells[size], called, number)))
    return found


def _size(text: str, called: str, number: int) -> int:
    size = read_bytes(text)
    if not size:
        raise StudyError(f"{called}: line {number}: {text[:40]!r} is no size, {BYTE_SPELLINGS}")
    return size


def _address(text: str, called: str, number: int) -> int:
    try:
        address = int(text.strip(), 0)
    except ValueError:
        address = -1
    if not 0 <= address < _END:
        raise StudyError(f"{called}: line {number}: {text[:40]!r} is no address, such as 0x7f00")
    return address


def registered(regions: list[Region], cache: str, called: str) -> list[int]:
    """Bytes of each registration that a library with such a ``cache`` makes for ``regions``.

    ``none``: each line, ``exact``: what is listed twice once, ``range``: what touches or overlaps
    as one.  Errors: ``StudyError`` for another word, and for lines without addresses.
    """
    if cache not in CACHES:
        raise StudyError(f"--cache: no {cache!r}{did_you_mean(cache, CACHES)}")
    if cache == "none":
        return [region.byte_count for region in regions]
    if any((region.address or 0) + region.byte_count > _END for region in regions):
        raise StudyError(f"{called}: has a region that ends beyond the last address")
    if any(region.address is None for region in regions):
        raise StudyError(f"{called}: has no column address, by which --cache {cache} goes")
    if cache == "exact":
        return [region.byte_count for region in dict.fromkeys(regions)]
    joined: list[list[int]] = []
    for address, byte_count in sorted((at or 0, size) for at, size in regions):
        if joined and address <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], address + byte_count)
        else:
            joined.append([address, address + byte_count])
    return [end - begin for begin, end in joined]


GIB = 1 << 30
US = 1e-6  # seconds
ENTRY_BYTES = 8  # of a translation in a NIC's table (mlx5: an MTT)
PARTS = ("regions", "touching", "pinning", "NICs", "backlog")
SMALLEST_PAGE, LARGEST_PAGE = 4096, 1 << 30
MOST_BYTES = 1 << 50


class Pool(NamedTuple):
    """A pool and how it is registered."""

    regions: tuple[int, ...]  # bytes of each, in the order in which they are registered
    page: int  # bytes of the host's pages, and of the NICs' entries
    nics: int
    threads: int  # that touch and pin
    at_once: bool  # NICs
    touched: bool  # already
    cache: str = "none"  # what joined the list that the regions are from

    @property
    def byte_count(self) -> int:
        """The total size of all regions."""
        return sum(self.regions)

    @property
    def pages(self) -> int:
        """The total pages of all regions; the last page of each may be partly used."""
        return sum(-(-size // self.page) for size in self.regions)


class Registration(NamedTuple):
    """The time to register a pool in seconds, by parts that add up to the totals."""

    pool: Pool
    parts: dict[str, Span]
    deregister: Span
    beyond: list[str]  # limits that it passes
    measured: dict[str, int]  # how far costs were, by what of the pool

    @property
    def extrapolated(self) -> list[str]:
        """Which of ``nics``, ``threads`` and ``page`` exceed the range of the measured costs."""
        asked = {"nics": self.pool.nics, "threads": self.pool.threads, "page": self.pool.page}
        return [key for key, most in self.measured.items() if asked[key] > most]

    @property
    def total(self) -> Span:
        """The total time."""
        return Span(*(sum(part[end] for part in self.parts.values()) for end in (0, 1)))

    @property
    def table_bytes(self) -> int:
        """The size of each NIC's page table in host memory."""
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
    """All ways that were asked for."""

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
    """The time to register ``pool``."""
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
    return Registration(pool, parts, Span(*revoked), _exceeded_limits(pool, costs), costs.measured)


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


def _exceeded_limits(pool: Pool, costs: RegistrationCosts) -> list[str]:
    """The NIC's limits that the pool exceeds, in words."""
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
    """The time to register each of the pools."""
    return RegisterReport(
        costs=costs, found=[register_pool(pool, costs) for pool in every], repeat=repeat(command)
    )


POLICIES = ("exact", "page", "merge")
PAGE = 4096
# UCX: RCACHE_ADDR_ALIGN, between 16 bytes and a page, is a cache line unless it is set.
CACHE_LINE = 64
MOST_ENTRIES = 1 << 26
NONE = "none"


class Library(NamedTuple):
    """One configuration of a registration cache."""

    policy: str
    alignment: int
    entries: int | None  # regions at most; None: any number
    most_bytes: int | None

    def rules(self) -> Rules:
        """The configuration as the driver takes it."""
        return Rules(
            self.alignment,
            self.policy == "merge",
            UNLIMITED if self.entries is None else self.entries,
            UNLIMITED if self.most_bytes is None else self.most_bytes,
        )


class Used(NamedTuple):
    """The result of one cache over the trace."""

    library: Library
    counts: dict[str, int]
    us_low: float  # per request, on registration alone
    us_high: float

    @property
    def hit_percent(self) -> float:
        """The percentage of requests whose buffer was registered."""
        return 100 * self.counts["hits"] / max(self.counts["lookups"], 1)

    @property
    def deregistrations(self) -> int:
        """Regions that were evicted."""
        return self.counts["evicted"] + self.counts["overlapped"] + self.counts["uncached"]


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the result of every cache."""

    trace: dict[str, Any]
    processes: int
    used: list[Used]
    costs: Any  # RegistrationCosts
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "processes": self.processes,
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in self.costs.origins.items()},
            "libraries": [
                {
                    **each.library._asdict(),
                    **each.counts,
                    "deregistrations": each.deregistrations,
                    "registration_us_low": each.us_low,
                    "registration_us_high": each.us_high,
                }
                for each in self.used
            ],
            "repeat": self.repeat,
        }


def libraries(
    policies: str, entries: str, align: str | None = None, most_bytes: str | None = None
) -> list[Library]:
    """Parse the options into configurations.  Errors: ``StudyError`` naming the option.

    ``entries``: ``none``, numbers with commas between, or LOW..HIGH, which doubles from one to
    the other.
    """
    found = []
    limit = None if most_bytes is None else _bytes("--bytes", most_bytes)
    alignment = None if align is None else _bytes("--align", align)
    if alignment is not None and alignment & (alignment - 1):
        raise StudyError(f"--align must be a power of two, got {align}")
    for policy in policies.split(","):
        if policy not in POLICIES:
            raise StudyError(f"--policy: no {policy!r}{did_you_mean(policy, POLICIES)}")
        usual = {"exact": 1, "page": PAGE, "merge": CACHE_LINE}[policy]
        found += [Library(policy, alignment or usual, each, limit) for each in _entries(entries)]
    return found


def _bytes(option: str, text: str) -> int:
    count = read_bytes(text)
    if not count:
        raise StudyError(f"{option} must be bytes, {BYTE_SPELLINGS}; got {text!r}")
    return count


def _entries(text: str) -> list[int | None]:
    if NONE in text.split(","):
        words = text.split(",")
        return [None if each == NONE else _numbers(each)[0] for each in words]
    return [*_numbers(text)]


def _numbers(text: str) -> list[int]:
    return numbers("--entries", text, MOST_ENTRIES, "none, ")


def run_caches(
    trace: Trace,
    tried: Sequence[Library],
    costs: RegistrationCosts,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> CacheReport:
    """Run every request through each cache; ``watch`` counts rows."""
    replay = RegistrationReplay([each.rules() for each in tried])
    nodes: set[int] = set()
    rows = 0
    for batch in RowsDone(watch, trace.rows).through(trace):
        replay.feed(batch)
        nodes.update(set(batch.node.tolist()) - nodes)
        rows += len(batch.length)
    used = [
        _priced(library, counts, costs)
        for library, counts in zip(tried, replay.counts(), strict=True)
    ]
    return CacheReport(
        trace=extent_of(trace, rows, len(nodes)),
        processes=replay.processes,
        used=used,
        costs=costs,
        repeat=repeat(command),
    )


def _priced(library: Library, counts: dict[str, int], costs: RegistrationCosts) -> Used:
    """Registration cost per request, for resident pages of 4 KiB."""
    pages, gone = counts["registered_pages"], counts["deregistered_pages"]
    ends = []
    for end in (0, 1):
        total = (
            counts["lookups"] * costs.each("lookup")[end]
            + counts["registrations"] * costs.each("region")[end]
            + pages * (costs.each("pin")[end] + costs.each("entry")[end])
            + gone * costs.each("deregister_entry")[end]
        )
        ends.append(total / max(counts["lookups"], 1))
    return Used(library, counts, *ends)
