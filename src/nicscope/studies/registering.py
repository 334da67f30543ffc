"""Registering memory at RDMA NICs: times, caches, plans of regions, why large ones are slow.

In a plan a region begins and ends between blocks of the pool, for none may lie in two regions, and
between pages, for drivers refuse one that ends within a huge page.  Where a region cannot hold a
whole number of both, it ends between blocks alone.
"""

from __future__ import annotations

import csv
import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import Evidence, Hypothesis, Limit, RegistrationCosts, Span
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes, some_bytes
from nicscope.drivers.registration import UNLIMITED, RegistrationReplay, Rules
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.sources import RowsDone, extent_of, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in self.costs.origins.items()},
            "not_applicable": self.costs.not_applicable,
            "registrations": [each.to_json() for each in self.found],
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
        pool.pages * pool.nics / lanes[end] * costs.each("deregister_entry", pool.page)[end] * US
        for end in (0, 1)
    ]
    measured = dict(costs.measured)
    if "page" in measured or "pin" in costs.costs:
        measured["page"] = costs.known_page("pin", pool.page)
    return Registration(pool, parts, Span(*revoked), _exceeded_limits(pool, costs), measured)


def _seconds(
    part: str, pool: Pool, costs: RegistrationCosts, end: int, lanes: int, threads: int
) -> float:
    def each(name: str) -> float:
        return costs.each(name, pool.page)[end] * US

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


def register_all(every: Sequence[Pool], costs: RegistrationCosts) -> RegisterReport:
    """The time to register each of the pools."""
    return RegisterReport(costs=costs, found=[register_pool(pool, costs) for pool in every])


class Threshold(NamedTuple):
    """From which size on registering a buffer pays, where copying it is the other way."""

    page: int  # bytes
    reuse: int  # transfers from a buffer between its registration and its deregistration
    nics: int
    copy_below: int | None  # bytes; None: copying takes less at any size
    register_from: int | None  # bytes; None: from no size on registering surely takes no longer
    copying_us: Span  # of SHOWN bytes
    registering_us: Span


class ThresholdReport(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds of all ways that were asked for."""

    costs: Any  # RegistrationCosts
    found: list[Threshold]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        origins = {
            **self.costs.origins,
            **{f"copying {name}": one for name, one in self.costs.copying_origins.items()},
        }
        return {
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in origins.items()},
            "shown_bytes": SHOWN,
            "thresholds": [one._asdict() for one in self.found],
        }


SHOWN = 1 << 20  # bytes of the buffer whose times are shown
MOST_REUSE = 1 << 20


class Against(NamedTuple):
    """Times of a copy and of a registration: a copy's start and byte, a call and a page of it."""

    start: Fraction
    byte: Fraction
    call: Fraction
    each: Fraction
    page: int  # bytes

    def copying(self, size: int) -> Fraction:
        """The time to copy ``size`` bytes."""
        return self.start + size * self.byte

    def registering(self, size: int) -> Fraction:
        """The time to register them."""
        return self.call + -(-size // self.page) * self.each


def first_size(one: Against) -> int | None:
    """The smallest size at which registering takes no longer than copying; None: there is none."""
    more, gain = one.call - one.start, one.page * one.byte - one.each
    if gain > 0:
        pages = max(1, math.ceil(more / gain))
    elif more <= gain:
        pages = 1
    else:
        return None
    return _as_long(one, pages)


def last_size(one: Against) -> int | None:
    """The size from which on registering takes no longer at any size; None: there is none.

    Where that is not so, it is not so at the first byte of a page.
    """
    gain = one.page * one.byte - one.each
    more = one.call - one.start + (one.page - 1) * one.byte
    if gain <= 0:
        return 1 if gain == 0 and more <= 0 else None
    pages = math.ceil(more / gain) - 1  # the last whose first byte copying has sooner
    return 1 if pages < 1 else _as_long(one, pages)


def _as_long(one: Against, pages: int) -> int:
    """The smallest size whose copy takes as long as registering so many pages."""
    more = one.call + pages * one.each - one.start
    return math.ceil(more / one.byte) if more > 0 else 1


def thresholds(
    pages: Sequence[int], reuse: Sequence[int], nics: Sequence[int], costs: RegistrationCosts
) -> ThresholdReport:
    """From which sizes on registering pays.  Errors: ``StudyError`` for costs without copying."""
    if not costs.copying:
        raise StudyError(
            f"--costs {costs.name} do not say what copying takes; give those of host memory, such "
            "as connectx, or a file with [copying]"
        )
    found = []
    for pool in pools([1], pages, nics, [1], [False], [True]):
        for times in reuse:
            low, high = (_against(pool, times, costs, end) for end in (0, 1))
            # Soonest it pays if copying is dear and registering cheap; surely, the other way round.
            soonest = low._replace(start=high.start, byte=high.byte)
            surely = high._replace(start=low.start, byte=low.byte)
            found.append(
                Threshold(
                    pool.page,
                    times,
                    pool.nics,
                    first_size(soonest),
                    last_size(surely),
                    Span(*(float(one.copying(SHOWN)) for one in (low, high))),
                    Span(*(float(one.registering(SHOWN)) for one in (low, high))),
                )
            )
    return ThresholdReport(costs=costs, found=found)


def _against(pool: Pool, reuse: int, costs: RegistrationCosts, end: int) -> Against:
    """Times of one transfer in us; a registration that is found again is looked up each time."""

    def each(name: str) -> Fraction:
        return Fraction(costs.each(name, pool.page)[end])

    tables = (each("entry") + each("deregister_entry")) * pool.nics
    return Against(
        Fraction(costs.copying["start"][end]),
        Fraction(costs.copying["bytes"][end]) / GIB,
        each("region") * pool.nics / reuse + (each("lookup") if reuse > 1 else 0),
        (each("pin") + tables) / reuse,
        pool.page,
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
        }


def libraries(
    policies: str, entries: str, align: str | None = None, most_bytes: str | None = None
) -> list[Library]:
    """Parse the options into configurations.  Errors: ``StudyError`` naming the option.

    ``entries``: ``none``, numbers with commas between, or LOW..HIGH, which doubles from one to
    the other.
    """
    found = []
    limit = None if most_bytes is None else some_bytes("--bytes", most_bytes)
    alignment = None if align is None else some_bytes("--align", align)
    if alignment is not None and alignment & (alignment - 1):
        raise StudyError(f"--align must be a power of two, got {align}")
    for policy in policies.split(","):
        if policy not in POLICIES:
            raise StudyError(f"--policy: no {policy!r}{did_you_mean(policy, POLICIES)}")
        usual = {"exact": 1, "page": PAGE, "merge": CACHE_LINE}[policy]
        found += [Library(policy, alignment or usual, each, limit) for each in _entries(entries)]
    return found


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


TRIED_PAGES = (4096, 65536, 2 << 20, 1 << 30)  # that are tried where none that was asked for fits
MOST_PLANNED = 1 << 20


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
    if regions > MOST_PLANNED:
        raise StudyError(
            f"regions of at most {most:,} bytes would be {regions:,}; allow larger ones, so that "
            f"there are {MOST_PLANNED:,} at most"
        )
    cut = Plan(page, unit, registered, regions, 0, ())
    # A page that two regions have a part of has an entry in each.
    entries = sum(-(-(offset + size) // page) - offset // page for offset, size in cut.each())
    return cut._replace(entries=entries, beyond=_exceeded_by_plan(wanted, entries))


def _exceeded_by_plan(wanted: Wanted, entries: int) -> tuple[str, ...]:
    most = wanted.most("entries")
    if most is None or entries <= most:
        return ()
    return (f"a NIC would need {entries:,} entries and may have {most:,}",)


def plan_all(wanted: Wanted, pages: Sequence[int]) -> PlanReport:
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
        tried = (plan_pool(wanted, page) for page in TRIED_PAGES if page not in pages)
        instead = next((plan for plan in tried if plan.fits and plan.is_aligned), None)
    return PlanReport(wanted=wanted, plans=plans, instead=instead)


MOST_SLICES = 1 << 24
OTHER_LIBRARY = "verbs"  # nothing between the program and the driver
LARGER_PAGE = 2 << 20


class Setting(NamedTuple):
    """A pool as it is registered."""

    told: str  # in words, what is changed; "": nothing
    slice_bytes: int  # of the largest region
    regions: int
    page: int
    stack: str
    version: str

    def predicted(self, hypothesis: Hypothesis) -> bool:
        """Whether that hypothesis predicts slow access."""
        return hypothesis.is_slow(self.slice_bytes, self.page, self.stack, self.version)


class RegionSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions for a pool as it is, and for changes that discriminate the hypotheses."""

    byte_count: int
    hypotheses: list[Hypothesis]
    asked: list[Setting]  # as they were asked for
    tests: list[Setting]  # changes of the first, of which not all hypotheses say the same
    fast_gb_s: float | None
    slow_gb_s: float | None

    @property
    def lost_us(self) -> float | None:
        """Microseconds lost per 4 KiB where access is slow; None if not given."""
        if self.fast_gb_s is None or self.slow_gb_s is None:
            return None
        return PAGE / 1000 * (1 / self.slow_gb_s - 1 / self.fast_gb_s)

    def likeliest(self) -> Hypothesis | None:
        """The single hypothesis that explains and rests on more than an assumption."""
        known = [
            one
            for one in self.hypotheses
            if self.explains(one) and one.slows.evidence is not Evidence.ASSUMED
        ]
        return known[0] if len(known) == 1 else None

    def explains(self, hypothesis: Hypothesis) -> bool:
        """Whether it predicts that some of the ways asked for are slow, and others are not."""
        return len({setting.predicted(hypothesis) for setting in self.asked}) > 1

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "bytes": self.byte_count,
            "hypotheses": [
                {
                    "name": one.name,
                    "title": one.title,
                    "slow_from": one.least,
                    "slow_from_of": one.of,
                    "counter": one.counter,
                    "cure": one.cure,
                    "explains": self.explains(one),
                    "slows": one.slows.to_json(),
                    **one.origin.to_json(),
                }
                for one in self.hypotheses
            ],
            "asked": [self._plain(setting) for setting in self.asked],
            "tests": [self._plain(setting) for setting in self.tests],
            "likeliest": likeliest.name if (likeliest := self.likeliest()) else None,
            "lost_us_per_4_kib": self.lost_us,
        }

    def _plain(self, setting: Setting) -> dict[str, Any]:
        return {
            **setting._asdict(),
            "predicted": [
                {"hypothesis": one.name, "is_slow": setting.predicted(one)}
                for one in self.hypotheses
            ],
        }


def explain_sizes(
    byte_count: int,
    slices: Sequence[int],
    hypotheses: Sequence[Hypothesis],
    *,
    page: int = PAGE,
    stack: str = "ucx",
    version: str = "",
    fast_gb_s: float | None = None,
    slow_gb_s: float | None = None,
) -> RegionSizes:
    """What each of ``hypotheses`` says of a pool cut into slices of so many bytes at most.

    Errors: ``StudyError`` for sizes and rates that cannot be.
    """
    if not 1 <= byte_count <= MOST_BYTES:
        raise StudyError(f"--mr must be from 1 to {MOST_BYTES:,} bytes, got {byte_count}")
    if not SMALLEST_PAGE <= page <= LARGEST_PAGE or page & (page - 1):
        raise StudyError(
            f"--page-size must be a power of two from {SMALLEST_PAGE} to {LARGEST_PAGE}, got {page}"
        )
    rates = (fast_gb_s, slow_gb_s)
    if None in rates and rates != (None, None):
        raise StudyError("--fast and --slow: give both, or neither")
    if fast_gb_s is not None and slow_gb_s is not None and not 0 < slow_gb_s <= fast_gb_s < 1e6:
        raise StudyError("--fast must be at least --slow, and both above 0 (GB/s)")
    asked = [_cut(byte_count, each, page, stack, version) for each in slices]
    first = asked[0]
    changes = [
        first._replace(told=f"pages of {LARGER_PAGE >> 20} MiB", page=LARGER_PAGE),
        first._replace(told=f"without {stack}, by verbs alone", stack=OTHER_LIBRARY, version=""),
    ]
    changes += [
        first._replace(told=f"{stack} {off}", version=off)
        for one in hypotheses
        if one.stack == stack
        for off in one.off_versions
    ]
    return RegionSizes(
        byte_count=byte_count,
        hypotheses=list(hypotheses),
        asked=asked,
        tests=[
            one
            for one in changes
            if one._replace(told="") != first and _tells_apart(one, hypotheses)
        ],
        fast_gb_s=fast_gb_s,
        slow_gb_s=slow_gb_s,
    )


def _tells_apart(setting: Setting, hypotheses: Sequence[Hypothesis]) -> bool:
    return len({setting.predicted(one) for one in hypotheses}) > 1


def _cut(byte_count: int, most: int, page: int, stack: str, version: str) -> Setting:
    regions = -(-byte_count // most)
    if regions > MOST_SLICES:
        raise StudyError(f"--slices: {regions:,} regions are too many; give larger slices")
    return Setting("", min(byte_count, most), regions, page, stack, version)
