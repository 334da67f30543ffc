"""What RDMA NICs sustain: rates by queue pairs, transfers of descriptors, paths to memory.

A transfer is bounded from below by each thing that it passes: threads that post, the NIC, its
fetches of work requests, PCIe, the link, and the window of reads.  They overlap, so the longest
binds.  On a path PCIe, the IOMMU and a window of reads each allow so many bytes a second; the least
of them is what a NIC gets at most.  The IOMMU's is T = p / (l0 + M lm) of F&S (SOSP'24), with M
counted: bytes over accesses x l0 + reads of its tables x lm, times the walks that it carries out at
once.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import GENERATIONS, NicCosts, RangedCosts, Span
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.drivers.iommu import IommuReplay, Translating
from nicscope.drivers.simulate.connections import Doorbells, new_traffic, run_traffic
from nicscope.errors import PlatformError, StudyError, did_you_mean
from nicscope.nic.context_cache import LRU, RANDOM
from nicscope.studies.sources import RowsDone, extent_of
from nicscope.traces.descriptor_counts import RULES, DescriptorCounts
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nicscope.traces.reader import Trace

OPERATIONS = ("read", "write")
EQUAL, COMMON, ENOUGH = "equal", "common", "enough"  # sharing: a part each; any; not needed
DOORBELLS = ("context", "own")
REPLACEMENTS = {"random": RANDOM, "lru": LRU}
MOST_THREADS, MOST_PAIRS, MOST_OUTSTANDING = 1024, 1 << 20, 1 << 12
MOST_SUM = MOST_THREADS * MOST_OUTSTANDING
MOST_RUNS = 1024
FULL = 0.95  # of the best rate: what is called full
PS_PER_NS = 1000  # ps
WARM_ROUNDS, ROUNDS = 4, 12  # of all that is outstanding
LEAST = 400  # operations that are timed
UNBOUNDED = 1 << 40
UNITS = ("executing", "refetching", "contexts")  # what the NIC is busy with
AGAIN = {"refetching": "work requests", "contexts": "contexts"}  # as tables call them
MUCH = 0.15  # of time
WAITED = 0.25  # of the time that operations are in the NIC
BUSY = 0.85  # what is left of time is waves: the NIC is idle while all threads wait


class Asked(NamedTuple):
    """One way to post: operation, threads, queue pairs, outstanding operations."""

    operation: str
    threads: int
    queue_pairs: int
    outstanding: int  # of each thread
    window: int  # reads of a queue pair on their way
    doorbells: str
    replacement: str
    budget: int | None = None  # operations of all queue pairs together that may be outstanding
    sharing: str | None = None  # of the budget

    @property
    def share(self) -> int:
        """Operations that one thread may have outstanding."""
        if self.budget is None:
            return self.outstanding
        return min(self.outstanding, self.budget // (self.threads if self.sharing == EQUAL else 1))


class Rate(NamedTuple):
    """The rate at one end of the cost ranges."""

    millions: float  # operations a second
    us: float  # from the doorbell to the completion, on the average
    work_request_misses: float  # per operation
    context_misses: float  # per operation
    shares: dict[str, float]  # of time: UNITS of the NIC; threads at locks; behind the window

    @property
    def bound_by(self) -> str:
        """The bottleneck of the rate."""
        again = max(AGAIN, key=lambda name: self.shares[name])
        if self.shares[again] > MUCH:
            return AGAIN[again]
        if sum(self.shares[name] for name in UNITS) >= BUSY:
            return "NIC"
        if self.shares["windowed"] > WAITED:
            return "read window"
        return "doorbells" if self.shares["locked"] > MUCH else "outstanding"


class Found(NamedTuple):
    """Both ends of a way's rate; the lower one has the higher costs and the smaller caches."""

    asked: Asked
    low: Rate
    high: Rate


class ConnectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """All ways that were asked for."""

    nic: Any  # NicCosts
    found: list[Found]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "nic": self.nic.name,
            "evidence": {name: one.to_json() for name, one in self.nic.origins.items()},
            "runs": [
                {
                    **{
                        key: asked
                        for key, asked in one.asked._asdict().items()
                        if asked is not None
                    },
                    **{
                        end: {**rate._asdict(), "bound_by": rate.bound_by}
                        for end, rate in (("low", one.low), ("high", one.high))
                    },
                }
                for one in self.found
            ],
        }


def ways_to_post(
    operations: Sequence[str],
    threads: Sequence[int],
    queue_pairs: Sequence[int],
    outstanding: Sequence[int],
    windows: Sequence[int],
    doorbells: Sequence[str],
    replacements: Sequence[str],
    budgets: Sequence[int | None] = (None,),
) -> list[Asked]:
    """Every combination; writes have no window, and a sum that does not suffice is shared twice.

    Once each thread has an equal part of it, unless that is less than one operation, and once it
    takes what is left.  Errors: ``StudyError`` naming the option whose value cannot be.
    """
    for option, names, known in (
        ("--operation", operations, OPERATIONS),
        ("--doorbells", doorbells, DOORBELLS),
        ("--replacement", replacements, REPLACEMENTS),
    ):
        for name in names:
            if name not in known:
                raise StudyError(f"{option}: no {name!r}{did_you_mean(name, known)}")
    for option, numbers, most in (
        ("--threads", threads, MOST_THREADS),
        ("--qps", queue_pairs, MOST_PAIRS),
        ("--outstanding", outstanding, MOST_OUTSTANDING),
        ("--read-window", windows, MOST_OUTSTANDING),
        ("--outstanding-sum", budgets, MOST_SUM),
    ):
        for number in numbers:
            if number is not None and not 1 <= number <= most:
                raise StudyError(f"{option} must be from 1 to {most}, got {number}")
    asked = [
        Asked(operation, many, pairs, each, window, registers, replacement, budget, sharing)
        for operation, registers, replacement, window, budget, (many, each, pairs) in product(
            operations,
            doorbells,
            replacements,
            windows,
            budgets,
            [*product(threads, outstanding, queue_pairs)],
        )
        if operation == "read" or window == windows[0]
        for sharing in _sharings(budget, many, each)
    ]
    if len(asked) > MOST_RUNS:
        raise StudyError(f"that is {len(asked)} runs, and {MOST_RUNS} may be; ask for less at once")
    return asked


def _sharings(budget: int | None, threads: int, each: int) -> tuple[str | None, ...]:
    if budget is None:
        return (None,)
    if budget >= threads * each:
        return (ENOUGH,)
    return (EQUAL, COMMON) if budget >= threads else (COMMON,)


def measure(
    asked: Asked,
    nic: NicCosts,
    end: int,
    contexts: int | None = None,
    work_requests: int | None = None,
) -> Rate:
    """The rate of one way at one end of the cost ranges: 0 the fastest, 1 the slowest.

    ``contexts`` and ``work_requests``: what the NIC keeps, instead of what its file says.
    """
    few = 1 - end  # of what a NIC keeps the most is fastest
    costs = _costs(asked, nic, end)
    registers = Doorbells(nic.count("own_doorbells", few), nic.count("shared_doorbells", few))
    traffic = new_traffic(
        costs,
        asked.threads,
        asked.queue_pairs,
        asked.share,
        None if asked.doorbells == "own" else registers,
        nic.count("contexts", few) if contexts is None else contexts,
        nic.count("work_requests", few) if work_requests is None else work_requests,
        REPLACEMENTS[asked.replacement],
        asked.budget,
    )
    everything = asked.threads * asked.share
    begin = max(WARM_ROUNDS * everything, 2 * asked.queue_pairs)
    run_traffic(traffic, begin)
    before = traffic.counts.copy()
    run_traffic(traffic, begin + max(ROUNDS * everything, 2 * asked.queue_pairs, LEAST))
    counts = {
        name: int((traffic.counts[name] - before[name])[0]) for name in before.dtype.names or ()
    }
    many, took = counts["operations"], counts["now_ps"]
    return Rate(
        millions=many / took * 1e6,
        us=counts["nic_ps"] / many / 1e6,
        work_request_misses=counts["work_request_misses"] / many,
        context_misses=counts["context_misses"] / many,
        shares={
            **{name: counts[f"{name}_ps"] / took for name in UNITS},
            "locked": counts["locked_ps"] / took / asked.threads,
            "windowed": counts["windowed_ps"] / max(counts["nic_ps"], 1),
        },
    )


def _costs(asked: Asked, nic: NicCosts, end: int) -> dict[str, int]:
    """Costs as the driver takes them, in ps."""
    told = {
        "post_ps": "post",
        "doorbell_ps": "doorbell",
        "moved_ps": "lock_moved",
        "waiter_ps": "lock_waiter",
        "completion_ps": "completion",
        "fetch_ps": "fetch",
        "context_ps": "context",
        "fetch_latency_ps": "fetch_latency",
        "execute_ps": f"execute_{asked.operation}",
        "answer_ps": "answer",
    }
    costs = {name: round(nic.cost(cost, end) * PS_PER_NS) for name, cost in told.items()}
    costs["waiters"] = nic.count("lock_waiters", end)
    costs["window"] = asked.window if asked.operation == "read" else UNBOUNDED
    return costs


def measure_all(
    every: Sequence[Asked],
    nic: NicCosts,
    watch: Callable[[int, int], None] = lambda _done, _all: None,
) -> ConnectionReport:
    """Measure both ends of every way; ``watch`` counts runs."""
    found = []
    for place, asked in enumerate(every):
        found.append(Found(asked, measure(asked, nic, 1), measure(asked, nic, 0)))
        watch(place + 1, len(every))
    return ConnectionReport(nic=nic, found=found)


def best_of(found: Sequence[Found]) -> Found:
    """The first way whose lower rate is within one percent of the highest."""
    top = max(one.low.millions for one in found)
    return next(one for one in found if one.low.millions >= 0.99 * top)


def cliff_of(along: Sequence[Found]) -> tuple[Found, Found | None]:
    """The last run at the full rate along an axis, and the first below it, if any.

    Full is ``FULL`` of the best; what comes before the best does not count.
    """
    best = max(range(len(along)), key=lambda place: along[place].low.millions)
    full = along[best].low.millions * FULL
    for place in range(best, len(along)):
        if along[place].low.millions < full:
            return along[place - 1], along[place]
    return along[-1], None


ENGINES = tuple(RULES)
POSTS = {"nixl": "post_nixl", "mooncake": "post_mooncake", "joined": "post_nixl"}
MOST_OF_EACH = 1024  # threads, NICs, queue pairs
NS, GB = 1e-9, 1e9
BOUNDS = ("posting", "NIC", "work requests", "PCIe", "link", "read window")


class Moved(NamedTuple):
    """The data to move: descriptors, bytes and packets, and bytes that reads request."""

    descriptors: int
    byte_count: int
    packets: int
    pcie_packets: int
    read_bytes: int


class Through(NamedTuple):
    """The engine, threads, NIC and queue pairs that move it."""

    engine: str
    threads: int  # that post
    nics: int
    queue_pairs: int  # of each NIC


class Transfer(NamedTuple):
    """One engine's descriptors, and the lower bounds of their transfer time in seconds."""

    through: Through
    moved: Moved
    smallest: int
    largest: int
    by_size: list[int]  # descriptors by the power of two that their size is at least
    bounds: dict[str, Span]

    @property
    def mean_bytes(self) -> float:
        """The mean size of a descriptor."""
        return self.moved.byte_count / max(self.moved.descriptors, 1)

    def gbytes_per_s(self, end: int) -> float:
        """Bytes over the longest bound; ``end``: 0 at the lowest costs, 1 at the highest."""
        longest = max(bound[end] for bound in self.bounds.values())
        return self.moved.byte_count / longest / GB if longest else 0.0

    def bound_by(self, end: int) -> str:
        """The longest bound at that end."""
        return max(self.bounds, key=lambda name: self.bounds[name][end])

    def threads_needed(self, end: int) -> int:
        """Threads with which posting would no longer be the bottleneck."""
        others = max(
            (one[end] for name, one in self.bounds.items() if name != "posting"), default=0
        )
        alone = self.bounds["posting"][end] * self.through.threads
        return max(1, math.ceil(alone / others)) if others else 1

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            **self.through._asdict(),
            **self.moved._asdict(),
            "smallest_bytes": self.smallest,
            "largest_bytes": self.largest,
            "by_size": {str(1 << power): many for power, many in enumerate(self.by_size) if many},
            "bounds_s": {name: list(bound) for name, bound in self.bounds.items()},
            "gbytes_per_s": [self.gbytes_per_s(1), self.gbytes_per_s(0)],
            "bound_by": [self.bound_by(1), self.bound_by(0)],
        }


class DescriptorReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the transfers of every engine."""

    trace: dict[str, Any]
    nic: Any  # NicCosts
    found: list[Transfer]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "nic": self.nic.name,
            "evidence": {name: one.to_json() for name, one in self.nic.origins.items()},
            "transfers": [one.to_json() for one in self.found],
        }


def bounds_of(moved: Moved, through: Through, nic: NicCosts) -> dict[str, Span]:
    """Lower bounds in seconds by resource; those unknown for this NIC are left out."""
    many, nics = moved.descriptors, through.nics

    def posting(end: int) -> float:
        own = POSTS[through.engine]
        known = own if own in nic.costs else "post_mooncake"
        return many * nic.cost(known, end) * NS / through.threads

    def executing(end: int) -> float:
        each = [nic.cost(f"execute_{kind}", end) for kind in ("read", "write")]
        return many * (max(each) if end else min(each)) * NS / nics

    def fetching(end: int) -> float:
        return many * nic.cost("fetch", end) * NS / nics

    def over_pcie(end: int) -> float:
        whole = moved.byte_count + moved.pcie_packets * nic.count("pcie_header", end)
        return whole / nic.rate("pcie", end) / GB / nics

    def over_link(end: int) -> float:
        whole = moved.byte_count + moved.packets * nic.count("packet_header", end)
        return whole / nic.rate("link", end) / GB / nics

    def in_windows(end: int) -> float:
        # Of each read of the window a packet is on its way.
        packets = nic.count("read_window", 1 - end) * nic.count("packet_bytes", 1 - end)
        rounds = moved.read_bytes / packets
        return rounds * nic.cost("answer", end) * NS / (through.queue_pairs * nics)

    found = {}
    parts = (posting, executing, fetching, over_pcie, over_link, in_windows)
    for name, part in zip(BOUNDS, parts, strict=True):
        try:
            found[name] = Span(part(0), part(1))
        except PlatformError:
            continue  # the NIC's file says that it is not known
    return found


def ways_through(
    engines: Sequence[str], threads: Sequence[int], nics: Sequence[int], queue_pairs: Sequence[int]
) -> list[Through]:
    """Every combination, engines first.  Errors: ``StudyError`` for an engine that is none."""
    for name in engines:
        if name not in ENGINES:
            raise StudyError(f"--engine: no {name!r}{did_you_mean(name, ENGINES)}")
    return [
        Through(engine, posting, many, pairs)
        for posting in threads
        for many in nics
        for pairs in queue_pairs
        for engine in engines
    ]


def transfer_all(
    trace: Trace,
    ways: Sequence[Through],
    nic: NicCosts,
    watch: Callable[[int, int], None] | None = None,
) -> DescriptorReport:
    """Count every engine's descriptors and bound their transfers; ``watch`` counts rows."""
    packet = nic.count("packet_bytes", 0)
    pcie = int(nic.costs.get("pcie_bytes", (packet, packet))[0])
    counts = {
        engine: DescriptorCounts(RULES[engine], packet, pcie)
        for engine in dict.fromkeys(one.engine for one in ways)
    }
    nodes: set[int] = set()
    rows, bytes_of = 0, np.zeros(len(Op))
    for batch in RowsDone(watch, trace.rows).through(trace):
        for one in counts.values():
            one.feed(batch)
        changes = np.flatnonzero(np.diff(batch.node, prepend=-1))
        nodes.update(batch.node[changes].tolist())
        bytes_of += np.bincount(batch.op, batch.length, len(Op))  # exact up to 2^53
        rows += len(batch.length)
    for one in counts.values():
        one.end()
    read_bytes = int(bytes_of[Op.READ] + bytes_of[Op.SERVE_READ])
    found = [_transfer(through, counts[through.engine], read_bytes, nic) for through in ways]
    return DescriptorReport(trace=extent_of(trace, rows, len(nodes)), nic=nic, found=found)


def _transfer(through: Through, counts: DescriptorCounts, reads: int, nic: NicCosts) -> Transfer:
    moved = Moved(counts.descriptors, counts.byte_count, counts.packets, counts.pcie_packets, reads)
    bounds = bounds_of(moved, through, nic)
    sizes = counts.by_size.tolist()
    return Transfer(through, moved, counts.smallest, counts.largest, sizes, bounds)


MODES = ("off", "pt", "strict", "ats")
ATS = "ats"
TRANSLATING = ("strict", ATS)
RELAXED, ORDERED = "relaxed", "strict"
PAGES = (1 << 12, 1 << 21, 1 << 30)
PIECE = 4096  # bytes
MOST_ENTRIES = 1 << 20
MOST_AT_ONCE = 1 << 10
GBITS = 8 / 1000  # of a byte per microsecond


class Host(NamedTuple):
    """One configuration of the path."""

    mode: str
    page: int | None  # bytes of the mapping's; None where nothing is translated
    iotlb: int | None  # entries
    walks: int | None  # at once
    atc: int | None  # entries of the NIC's own cache; None where it has none
    pcie: str
    ordering: str  # of the NIC's writes into memory


class Window(NamedTuple):
    """The NIC's outstanding reads of host memory."""

    reads: int
    byte_count: int  # of each


class Path(NamedTuple):
    """The rates (Gb/s) that a path's components allow, and the counts behind them."""

    host: Host
    counts: dict[str, int] | None  # of the IOMMU, if it translates
    allows: dict[str, Span]  # by what allows it
    each_mapped_us: Span | None  # for a request that is mapped for its use alone

    @property
    def bound(self) -> str:
        """The component with the lowest rate."""
        return min(self.allows, key=lambda name: (self.allows[name].low, self.allows[name].high))

    @property
    def gbits(self) -> Span:
        """The lowest rate."""
        return self.allows[self.bound]

    @property
    def reads_per_piece(self) -> float | None:
        """Page table reads for each 4 KiB: M."""
        return None if self.counts is None else self.counts["reads"] / self.counts["pieces"]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "iommu": self.host.mode,
            "page_size": self.host.page,
            "iotlb_entries": self.host.iotlb,
            "walks_at_once": self.host.walks,
            "atc_entries": self.host.atc,
            "pcie": self.host.pcie,
            "ordering": self.host.ordering,
            "counts": self.counts,
            "reads_per_piece": self.reads_per_piece,
            "allows_gbits": {name: list(span) for name, span in self.allows.items()},
            "bound": self.bound,
            "each_mapped_us": None if self.each_mapped_us is None else list(self.each_mapped_us),
        }


class PathReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the rates of every path."""

    trace: dict[str, Any]
    walk_cache: int
    found: list[Path]
    costs: Any  # RangedCosts

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "walk_cache_entries": self.walk_cache,
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in self.costs.origins.items()},
            "paths": [each.to_json() for each in self.found],
        }


def hosts(
    iommu: str, page: str, iotlb: str, walks: str, pcie: str, atc: str, ordering: str
) -> list[Host]:
    """Parse the options into configurations.  Errors: ``StudyError`` naming the option."""
    for option, text, known in (
        ("--iommu", iommu, MODES),
        ("--pcie", pcie, GENERATIONS),
        ("--ordering", ordering, (RELAXED, ORDERED)),
    ):
        for name in text.split(","):
            if name not in known:
                raise StudyError(f"{option}: no {name!r}{did_you_mean(name, known)}")
    setups = [
        *product(
            [page_bytes(each) for each in page.split(",")],
            [entries("--iotlb", each) for each in iotlb.split(",")],
            [_at_once("--walks", each) for each in walks.split(",")],
        )
    ]
    own = [entries("--atc", each) for each in atc.split(",")]
    return [
        Host(mode, mapped, cached, at_once, kept, generation, order)
        for mode, generation, order in product(
            iommu.split(","), pcie.split(","), ordering.split(",")
        )
        for mapped, cached, at_once in (setups if mode in TRANSLATING else [(None, None, None)])
        for kept in (own if mode == ATS else [None])
    ]


def page_bytes(text: str) -> int:
    """Bytes of a mapping's page.  Errors: ``StudyError``."""
    page = read_bytes(text)
    if page not in PAGES:
        raise StudyError(f"--page-size must be 4KiB, 2MiB or 1GiB, got {text!r}")
    return page


def entries(option: str, text: str) -> int:
    """Entries of a cache.  Errors: ``StudyError`` naming the option."""
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MOST_ENTRIES or count & (count - 1):
        raise StudyError(f"{option} must be powers of two up to {MOST_ENTRIES}, got {text!r}")
    return count


def _at_once(option: str, text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MOST_AT_ONCE:
        raise StudyError(f"{option} must be whole numbers from 1 to {MOST_AT_ONCE}, got {text!r}")
    return count


def window(reads: int | None, size: str) -> Window | None:
    """Reads under way, of so many bytes each.  Errors: ``StudyError`` naming the option."""
    byte_count = read_bytes(size)
    if not byte_count or byte_count > PIECE:
        raise StudyError(f"--read-bytes must be up to {PIECE}, {BYTE_SPELLINGS}; got {size!r}")
    if reads is None:
        return None
    return Window(_at_once("--reads", str(reads)), byte_count)


def measure_paths(
    trace: Trace,
    tried: Sequence[Host],
    walk_cache: int,
    reads: Window | None,
    costs: RangedCosts,
    watch: Callable[[int, int], None] | None = None,
) -> PathReport:
    """Run every request's pages through each IOMMU; ``watch`` counts rows."""
    setups = {
        (host.page, host.iotlb, host.atc): Translating(
            host.page, host.iotlb, walk_cache, host.atc or 0
        )
        for host in tried
        if host.page is not None and host.iotlb is not None
    }
    replay = IommuReplay([*setups.values()])
    nodes: set[int] = set()
    rows = byte_count = written = 0
    for batch in RowsDone(watch, trace.rows).through(trace):
        replay.feed(batch)
        byte_count += int(batch.length.sum())
        written += int(batch.length[batch.receive != 0].sum())
        nodes.update(set(batch.node.tolist()) - nodes)
        rows += len(batch.length)
    counted: dict[tuple[int | None, ...], dict[str, int]] = dict(
        zip(setups, replay.counts(), strict=True)
    )
    share = written / max(byte_count, 1)
    return PathReport(
        trace=extent_of(trace, rows, len(nodes)),
        walk_cache=walk_cache,
        found=[
            _path(host, counted.get((host.page, host.iotlb, host.atc)), reads, costs, share)
            for host in tried
        ],
        costs=costs,
    )


def _path(
    host: Host,
    counts: Mapping[str, int] | None,
    reads: Window | None,
    costs: RangedCosts,
    written: float,
) -> Path:
    """``written``: the share of all bytes that the NIC writes into memory."""
    allows = {"PCIe": _rate(PIECE, costs.each(host.pcie))}
    each_mapped = None
    if counts is not None:
        allows["IOMMU"] = _iommu_rate(host, counts, costs)
        each_mapped = Span(*(costs.each("map")[end] + costs.each("unmap")[end] for end in (0, 1)))
    if host.ordering == ORDERED and written:
        allows["ordering"] = _rate(PIECE, Span(*(end * written for end in costs.each("ordered"))))
    if reads is not None:
        allows["window"] = _rate(reads.reads * reads.byte_count, costs.each("dma_read"))
    return Path(host, None if counts is None else dict(counts), allows, each_mapped)


def _iommu_rate(host: Host, counts: Mapping[str, int], costs: RangedCosts) -> Span:
    """T = p / (l0 + M lm) over the whole trace, times the concurrent walks.

    What the NIC has translated itself passes; what it has not it asks for first.
    """
    asked = [costs.each("translation_request")[end] if host.atc else 0.0 for end in (0, 1)]
    ends = [
        counts["lookups"] * (costs.each("access")[end] + asked[end])
        + counts["reads"] * costs.each("walk_read")[end]
        for end in (0, 1)
    ]
    return _rate(counts["bytes"] * (host.walks or 1), Span(*ends))


def _rate(byte_count: int, takes: Span) -> Span:
    """Gb/s of so many bytes in so many microseconds; the lowest from the longest time."""
    return Span(byte_count * GBITS / takes.high, byte_count * GBITS / takes.low)
