"""Public measurements: regions, caches, connections and descriptors of NICs, and public traces.

Somebody has to bring the traces of T1 to T3; a file is known by its bytes, whatever it is called.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import NicCosts, load_nic_costs, load_registration_costs
from nicscope.config.design import load_design, with_values
from nicscope.config.platform import load_platform
from nicscope.drivers.registration import RegistrationReplay, Rules
from nicscope.drivers.replay import replay
from nicscope.errors import TraceError
from nicscope.inputs import Input
from nicscope.studies.rates import FULL, GB, Asked, Moved, Through, bounds_of, measure
from nicscope.studies.registering import Pool, register_pool
from nicscope.studies.verbs_measures import all_latencies, ask
from nicscope.traces.importers.services import place, read_mooncake

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.verdict import Item, Outcome

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAGE, HUGE_PAGE = 4096, 2 << 20
BASE = 1 << 40  # address of the first bytes: where a region, a part and a line begin

FEW_BLOCKS = 5_859  # 3 million tokens (FAST'25, Figure 9)


class Counts(NamedTuple):
    """What a pool makes of one trace."""

    references: int
    distinct: int
    full_references: int
    read: int  # full blocks, of a pool without a limit
    written: int
    hits: int  # of all references, of a pool without a limit
    few_hits: int  # of one of ``FEW_BLOCKS``


@cache
def counts_of(path: Path) -> Counts:
    """What comes of the trace at ``path``."""
    with Input(path, TraceError) as source:
        full = read_mooncake(source, None)
    with Input(path, TraceError) as source:
        every = read_mooncake(source, None, partial=True)
    pool = place(full.firsts, full.ids, None)
    read = int(pool.found.sum())
    hits = []
    for blocks in (None, FEW_BLOCKS):
        placed = place(every.firsts, every.ids, blocks)
        # What is not a hit takes a slot that was free, or another block's.
        hits.append(len(every.ids) - placed.used - placed.evicted)
    return Counts(
        full.observed["block_references"],
        full.observed["distinct_blocks"],
        len(full.ids),
        read,
        len(full.ids) - read,
        *hits,
    )


def t1(outcome: Outcome, trace: str, path: Path) -> None:
    """Blocks of the public traces."""
    found = counts_of(path)._asdict()
    for name in ("references", "distinct", "full_references", "read", "written"):
        outcome.point(name, "blocks", found[name], trace=trace)


def t2(outcome: Outcome, trace: str, path: Path) -> None:
    """How many of the full blocks a pool without a limit has."""
    found = counts_of(path)
    outcome.point("found", "%", 100 * found.read / found.full_references, trace=trace)


def t3(outcome: Outcome, trace: str, path: Path) -> None:
    """What a pool of 3 million tokens has of the hits that there could be."""
    found = counts_of(path)
    part = found.few_hits / found.hits
    before, told = outcome.shapes.get("less-than-half", (True, ""))
    told = f"{told}, {trace}" if told else trace
    outcome.shape("less-than-half", before and part < 0.5, f"{told} {100 * part:.1f} %")


THREADS = 96
FIGURE_THREADS = (1, *range(8, 97, 8))  # of SMART's Figure 3
FIGURE_OUTSTANDING = (1, 4, 8, 16, 24, 32)  # of each thread, of its Figure 4
FACTOR = 1.5  # that the knee may be off
MANY = 16_384  # connections


def _smart(operation: str, threads: int, outstanding: int, **other: Any) -> Asked:
    return Asked(operation, threads, threads, outstanding, 16, "own", "random")._replace(**other)


def _middle(asked: Asked, nic: NicCosts) -> float:
    """Million operations a second between both ends of the costs."""
    return (measure(asked, nic, 0).millions + measure(asked, nic, 1).millions) / 2


def t4(outcome: Outcome, item: Item) -> None:
    """SMART, Figure 4: 96 threads with a doorbell each, by what each has outstanding."""
    nic = load_nic_costs("connectx-6")
    low, high = item.printed["best_outstanding"]
    rates = {
        operation: {
            outstanding: _middle(_smart(operation, THREADS, outstanding), nic)
            for outstanding in FIGURE_OUTSTANDING
        }
        for operation in ("read", "write")
    }
    outcome.measure(item, read=rates["read"].get, write=rates["write"].get)
    knees = {
        operation: max(
            outstanding * THREADS
            for outstanding, rate in found.items()
            if rate >= FULL * max(found.values())
        )
        for operation, found in rates.items()
    }
    outcome.shape(
        "knee",
        all(low / FACTOR <= knee <= high * FACTOR for knee in knees.values()),
        ", ".join(f"{operation}s: {knee:,}" for operation, knee in knees.items()),
    )


def t5(outcome: Outcome, item: Item) -> None:
    """SMART, Figure 3: 8 reads outstanding of each thread, by what threads share."""
    nic = load_nic_costs("connectx-6")
    peak_threads = item.printed["per_thread_peak_threads"]
    shared = {
        threads: _middle(_smart("read", threads, 8, doorbells="context"), nic)
        for threads in sorted({*FIGURE_THREADS, peak_threads})
    }
    peak = max(shared, key=lambda threads: shared[threads])
    own = _middle(_smart("read", THREADS, 8), nic)
    one = _middle(_smart("read", THREADS, 8, doorbells="context", queue_pairs=1), nic)
    outcome.measure(
        item,
        per_thread_peak=shared[peak],
        per_thread_peak_at=peak,
        per_thread_at_96=shared[THREADS],
        own_doorbell=own,
        shared_queue_pair=one,
    )
    outcome.shape(
        "order",
        own > shared[THREADS] > one,
        f"{own:.0f}, {shared[THREADS]:.1f} and {one:.2f} million/s",
    )


PACKET = 4096  # bytes: the largest MTU of InfiniBand
PART = 2 * GIB  # ucx, ib_md.c: REG_MT_CHUNK
POOLS_GIB = (3.5, 4, 24)  # of LMCache's issue 4432
# The ranges of the catalog's design: what has been guessed of caches, and no vendor has told.
ENTRIES = (1024, 4096, 16384, 65536)
REGIONS = (128, 1024, 32768)
READS = 500  # of each region
SEED = 19


class _Requests(NamedTuple):
    """Requests of one process, as a replay wants them."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]


def _requests(offsets: NDArray[Any], each: int) -> _Requests:
    """Requests of ``each`` bytes, at ``offsets`` from the first."""
    many = len(offsets)
    node, pid = np.zeros((2, many), np.int32)
    address, length = (BASE + offsets).astype(np.uint64), np.full(many, each, np.uint32)
    return _Requests(node, pid, np.zeros(many, np.uint8), address, length)


def _read_at_random(region_bytes: int, each: int, **settings: Any) -> dict[str, int]:
    """Counts of ``READS`` of ``each`` bytes, aligned, anywhere in a region."""
    places = np.random.default_rng(SEED).integers(0, region_bytes // each, READS)
    design = with_values(load_design("rnic"), settings)
    (found,) = replay([_requests(places * each, each)], [design], kinds=False)
    return {name: count or 0 for name, count in found.total.items()}


def t6(outcome: Outcome, item: Item) -> None:
    """An issue of LMCache: a pool registered as one region of 4 GiB or more is read slower.

    Take UCX's indirect regions for the reason, and count what each packet looks up.
    """
    threshold = item.printed["step_at_gib"] * GIB  # ucx, ib_md.c: REG_MT_THRESH
    more, fetched = [], []
    for gib in POOLS_GIB:
        size = int(gib * GIB)
        parts = PART if size >= threshold else None
        for regions in REGIONS:
            counts = _read_at_random(
                size,
                4 * PACKET,
                page_size=HUGE_PAGE,
                mtu=PACKET,
                indirect=parts,
                mpt_entries=regions,
            )
            more.append((gib, counts["mpt_lookups"] / (4 * READS)))
            fetched.append(counts["mpt_l0_misses"] - counts["regions"])
    outcome.shape(
        "one-lookup-more",
        all(each == (2 if gib * GIB >= threshold else 1) for gib, each in more),
        ", ".join(f"{gib:g} GiB: {each:g} a packet" for gib, each in more[:: len(REGIONS)]),
    )
    outcome.shape(
        "no-fetch-more",
        not any(fetched),
        f"beyond the first of each region at most {max(fetched)} are fetched, with "
        f"{REGIONS[0]:,} to {REGIONS[-1]:,} regions at hand",
    )


def t10(outcome: Outcome, item: Item) -> None:
    """An issue of libfabric: 262,144 operations of 4 bytes with a stride of 8, by keys.

    Take them through a cache with keys of bytes and one with keys of pages, twice each.
    """
    printed = item.printed
    many, most = int(printed["operations"]), printed["regions"]
    operations = _requests(np.arange(many) * printed["stride_bytes"], printed["operation_bytes"])
    caches = RegistrationReplay([Rules(key, merges=False, most_regions=most) for key in (1, PAGE)])
    registered = [[0, 0]]
    for _ in range(2):
        caches.feed(operations)
        registered.append([counts["registrations"] for counts in caches.counts()])
    (exact, pages), (exact_later, pages_later) = np.diff(registered, axis=0).tolist()
    registering, found = float(printed["exact_us"]), float(printed["page_later_us"])
    outcome.measure(
        item,
        exact=found + (registering - found) * exact / many,
        page_first=found + registering * pages / many,
        page_later=found + (registering - found) * pages_later / many,
    )
    outcome.shape(
        "exact-never-hits",
        exact == exact_later == many,
        f"{exact:,} of {many:,} register, and {exact_later:,} the second time; with keys "
        f"of pages {pages:,}, and then {pages_later}",
    )


def _register_s(buffers: tuple[int, ...], page: int, costs: str) -> float:
    """The most that registering buffers takes, one after the other, their pages being there."""
    pool = Pool(buffers, page, 1, 1, at_once=False, touched=True)
    priced = load_registration_costs(costs)
    # A page of a GPU's memory is one page, of which nothing is listed by 4 KiB.
    priced = msgspec.structs.replace(priced, measured={**priced.measured, "page": page})
    return register_pool(pool, priced).total.high


def t11(outcome: Outcome, item: Item) -> None:
    """Two sizes of buffers at EFA, registered one after the other in both orders."""
    many = int(item.derived["of_each"])
    sizes = [int(float(size) * MIB) for size in item.derived["buffer_mib"]]
    taken = {
        order: _register_s(
            tuple(size for size in ordered for _ in range(many)), HUGE_PAGE, "efa-gpu"
        )
        for order, ordered in (("ascending", sizes), ("descending", sizes[::-1]))
    }
    outcome.measure(item, total=taken.get)
    ratio = taken["descending"] / taken["ascending"]
    outcome.shape("order-matters", ratio > 2, f"{ratio:.2f} times as long; printed is 2.63")


def t12(outcome: Outcome, item: Item) -> None:
    """Tensors of a model, each registered by itself: the most that host memory's costs give."""
    many = int(item.derived["tensors"])
    each = int(item.derived["bytes"]) // many
    page = int(item.derived["page_bytes"])
    outcome.measure(item, each=_register_s((each,) * many, page, "connectx"))


SIZE = 16 * 1000  # bytes of T13's descriptors at 128k tokens
BLOCKS = 1000
BITS = 8


def t13(outcome: Outcome, item: Item) -> None:
    """An issue of vLLM: the same prompt in 4,563 descriptors and in 70."""
    many, few = item.printed["descriptors"]
    known = float(item.printed["times"][1])
    gbytes_per_s = 9
    each_us = SIZE / gbytes_per_s / 1000
    time = known + (many - few) * each_us / 1000
    outcome.measure(item, us_per_descriptor=each_us, time=time)
    outcome.shape("fewer-are-faster", known < time, f"{known} against {time:.1f} ms")


def t14(outcome: Outcome, item: Item) -> None:
    """An issue of vLLM: the share of posting, over two transports of UCX."""
    derived, printed = item.derived, item.printed
    byte_count = float(printed["gbytes"]) * GB
    rates = {
        "cuda_ipc": float(derived["cuda_ipc_gbytes_per_s"]),
        "rc": load_nic_costs("connectx-7").rate("link", 0) * int(derived["rc_rails"]),
    }
    shares = {}
    for name, gbytes_per_s in rates.items():
        posting = [
            many * float(derived[f"{name}_post_us"]) / 1e6 for many in printed["descriptors"]
        ]
        shares[name] = [100 * us / (us + byte_count / gbytes_per_s / GB) for us in posting]
    outcome.shape(
        "order",
        min(shares["cuda_ipc"]) > max(50, *shares["rc"]),
        f"cuda_ipc {shares['cuda_ipc'][0]:.0f} to {shares['cuda_ipc'][1]:.0f} % "
        f"({printed['posting_percent_cuda_ipc']} printed), rc_x {shares['rc'][0]:.0f} to "
        f"{shares['rc'][1]:.0f} % ({printed['posting_percent_rc']})",
    )


def _gbytes_per_s(nic: str, each: int, through: Through, *, reads: bool = False) -> float:
    """Of blocks of ``each`` bytes, between both ends of the costs, as the longest bound allows."""
    costs, whole = load_nic_costs(nic), BLOCKS * each
    packets = BLOCKS * -(-each // costs.count("packet_bytes", 0))
    pcie = int(costs.costs.get("pcie_bytes", (each, each))[0])
    moved = Moved(BLOCKS, whole, packets, BLOCKS * -(-each // pcie), whole * reads)
    bounds = bounds_of(moved, through, costs)
    ends = [whole / max(span[end] for span in bounds.values()) / GB for end in (0, 1)]
    return sum(ends) / len(ends)


def t15(outcome: Outcome, item: Item) -> None:
    """pegaflow: 4 MB over one queue pair and over two, of which posting takes next to nothing."""

    def rate(queue_pairs: int, *, reads: bool) -> float:
        through = Through("mooncake", 1, 1, queue_pairs)
        return BITS * _gbytes_per_s("connectx-7", 4 << 20, through, reads=reads)

    outcome.measure(
        item,
        read=lambda pairs: rate(pairs, reads=True),
        write=lambda pairs: rate(pairs, reads=False),
    )


def t16(outcome: Outcome, item: Item) -> None:
    """A small write whose bytes stand in its doorbell spares a read of host memory."""
    outcome.measure(item, saved=lambda read: float(item.derived["read_us"][read]))


def t17(outcome: Outcome, item: Item) -> None:
    """Mooncake over EFA: 16 threads that move blocks of several sizes."""
    through = Through("mooncake", 16, 1, 1)
    outcome.measure(item, rate=lambda kib: _gbytes_per_s("efa-p5en", kib * KIB, through))


def t18(outcome: Outcome, item: Item) -> None:
    """Losses by connections: 16 threads with 32 reads outstanding each."""
    nic = load_nic_costs("connectx-6")
    few = item.printed["star_full_rate_connections"]
    asked = _smart("read", 16, 32)
    losses = {
        connections: [
            100
            * (
                1
                - measure(asked._replace(queue_pairs=connections), nic, end).millions
                / measure(asked, nic, end).millions
            )
            for end in (0, 1)
        ]
        for connections in (few, MANY)
    }
    told = {
        connections: f"{lost[0]:.0f} and {lost[1]:.0f} %" for connections, lost in losses.items()
    }
    most, *_, least = item.printed["storm_loss_percent"]
    outcome.shape(
        "full-up-to-some-hundreds",
        all(lost <= 100 * (1 - FULL) for lost in losses[few]),
        f"{few} connections lose {told[few]}",
    )
    outcome.shape(
        "less-with-thousands",
        all(least <= lost <= most for lost in losses[MANY]),
        f"{MANY:,} connections lose {told[MANY]}",
    )


BEYOND = 64  # times what the cache maps
READ_US = 1.91  # perftest, issue 131: the round trip of a small read
MOST_FETCHED = 0.9
LONGER = (1.5, 2.5)


def t19(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - all are given it
    """A measurement of what misses in the table of pages cost, by the size of the region."""
    shares, again = [], 0
    for entries in ENTRIES:
        reach = entries * PAGE
        beyond = _read_at_random(BEYOND * reach, PAGE, page_size=PAGE, entries=entries)
        shares.append(beyond["ni_misses"] / beyond["lookups"])
        for region, page in ((reach // 4, PAGE), (BEYOND * reach, HUGE_PAGE)):
            counts = _read_at_random(region, PAGE, page_size=page, entries=entries)
            again += counts["ni_misses_noncompulsory"]
    outcome.shape(
        "past-its-reach",
        min(shares) >= MOST_FETCHED and not again,
        f"{100 * min(shares):.1f} to {100 * max(shares):.1f} % are fetched; of the others "
        f"{again} again",
    )
    fetch = load_platform("connectx").costs["icm_fetch"].each(None)
    low, high = (float(1 + each / 10**6 / READ_US) for each in fetch)
    outcome.shape(
        "twice-as-long", LONGER[0] <= low and high <= LONGER[1], f"{low:.2f} to {high:.2f} times"
    )


MESSAGES = 10


def t21(outcome: Outcome, item: Item) -> None:
    """Small messages, one at a time, on the simulated NIC; the first finds no entry cached."""

    def latency(operation: str) -> float:
        question = ask(operation=operation, sizes="8", iterations=MESSAGES, designs=("rnic",))
        (row,) = all_latencies(question, [], lambda *_: None).rows
        return row.typical / 1000

    outcome.measure(item, latency=latency)
