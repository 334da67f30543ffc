"""UTLB's Tables 1, 2 and 6 and the price of a hit: priced, and in running systems; its invariants.

Pricing reads a table at the mean size of its events, which is exact only as far as the table is a
straight line: the line's residuals are what that costs.  Running systems are VMMC on two nodes,
watched from outside: clocks, busy times and logs are looked at, never a price.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from statistics import linear_regression
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.config.design import load_design, with_settings
from nicscope.config.platform import Platform, in_us, load_platform
from nicscope.drivers.simulate.observe import Engine
from nicscope.interfaces.vmmc import Cluster, Endpoint
from nicscope.studies.pricing import price
from nicscope.traces.schema import FIRST_RECEIVE, Op, Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from numpy.typing import ArrayLike

    from nicscope.studies.reproduce.verdict import Item, Outcome

    Program = Callable[[Endpoint], Coroutine[Any, Any, Any]]

PAGE = 4096  # bytes
PLATFORM = "utlb-prototype"
HIT = dict.fromkeys(
    ("pin_calls", "pins", "unpin_calls", "unpins", "ni_misses", "entries_fetched"), 0
) | {"lookups": 1}
LOOKUPS = 100  # rates are printed with two decimals: whole counts per hundred lookups


def cost_at(platform: Platform, cost: str, size: int | None = None) -> Decimal:
    """Cost (us) of one event of ``size``; the lower bound, where the platform states a range."""
    low, _ = platform.costs[cost].each(None if size is None else Fraction(size))
    return in_us(low)


def lookup_us(counts: Mapping[str, int], design: str, platform: Platform) -> Decimal:
    """The price of a lookup of ``counts``, all of which have one."""
    cost = price(counts, load_design(design), platform)
    per_lookup = cost.per_lookup_us()
    if per_lookup is None or cost.is_lower_bound:
        raise RuntimeError(f"a lookup on {platform.name} is not fully priced: {cost.unpriced}")
    return per_lookup[0]


def fast_path(outcome: Outcome, item: Item) -> None:
    """Price one hit by 6.2's constants and set section 5's price beside it."""
    cost, printed = lookup_us(HIT, "utlb", load_platform(PLATFORM)), item.printed
    outcome.shape(
        "three-prices",
        cost != printed["total_us"],
        f"6.2's constants: {cost} us; section 5: {printed['total_us']} us, "
        f"{printed['user_us']} for the user and {printed['ni_us']} on the NIC",
    )


def _costs_and_lines(outcome: Outcome, item: Item, axis: str, **costs: str) -> None:
    """Read the platform's costs at the printed sizes, and the least-squares lines through them."""
    platform, sizes = load_platform(PLATFORM), item.printed[axis]
    for quantity, cost in costs.items():
        found = {size: cost_at(platform, cost, size) for size in sizes}
        slope, start = linear_regression(sizes, [float(us) for us in found.values()])
        line = {size: start + slope * size for size in sizes}
        outcome.measure(item, **{quantity: found.get, f"{quantity}_line": line.get})


def table1(outcome: Outcome, item: Item) -> None:
    """UTLB Table 1: the host side, by pages of the buffer."""
    _costs_and_lines(
        outcome,
        item,
        "pages",
        check_min="request_check_min",
        check_max="request_check_max",
        pin="user_pin",
        unpin="user_unpin",
    )


def table2(outcome: Outcome, item: Item) -> None:
    """UTLB Table 2: the NIC side, by entries fetched."""
    outcome.measure(item, hit=cost_at(load_platform(PLATFORM), "ni_check"))
    _costs_and_lines(outcome, item, "entries", dma="ni_dma", miss="ni_miss")


def table6(outcome: Outcome, item: Item) -> None:
    """UTLB Table 6: Table 4's printed rates, priced as any replay's counts are.

    Price both programs under both schemes at the three sizes of the table.
    """
    printed, platform = item.printed, load_platform(PLATFORM)
    utlb: dict[tuple[str, int], Decimal] = {}
    intr: dict[tuple[str, int], Decimal] = {}
    for app in printed["app"]:
        columns = (printed[name] for name in ("ni_misses", "unpins_intr"))
        rates = zip(printed["cache_entries"], *(column[app] for column in columns), strict=True)
        for entries, misses, unpins in rates:
            counts = utlb_counts(printed["check_misses"][app], misses)
            utlb[app, entries] = lookup_us(counts, "utlb", platform)
            counts = interrupt_counts(misses, unpins)
            intr[app, entries] = lookup_us(counts, "vmmc-interrupt", platform)
    outcome.measure(item, utlb=lambda *at: utlb[at], intr=lambda *at: intr[at])
    fft, barnes = (
        [(us, intr[at]) for at, us in utlb.items() if at[0] == app] for app in ("fft", "barnes")
    )
    for name, pairs, holds in (
        ("fft-gains", fft, all(ours < theirs for ours, theirs in fft)),
        ("barnes-does-not-always-gain", barnes, all(ours > theirs for ours, theirs in barnes[1:])),
    ):
        told = ", ".join(f"{ours:.2f} / {theirs:.2f}" for ours, theirs in pairs)
        outcome.shape(name, holds, f"UTLB against interrupts: {told} us")


def utlb_counts(check_misses: Decimal, ni_misses: Decimal) -> dict[str, int]:
    """Counts of ``LOOKUPS`` lookups of single pages, nothing ever unpinned."""
    pins, misses = int(check_misses * LOOKUPS), int(ni_misses * LOOKUPS)
    counts = {"lookups": LOOKUPS, "pin_calls": pins, "pins": pins}
    return HIT | counts | {"ni_misses": misses, "entries_fetched": misses}


def interrupt_counts(ni_misses: Decimal, unpins: Decimal) -> dict[str, int]:
    """Counts of ``LOOKUPS`` lookups; every miss interrupts and pins."""
    counts = dict.fromkeys(("ni_misses", "interrupts", "pins"), int(ni_misses * LOOKUPS))
    return {"lookups": LOOKUPS, **counts, "unpins": int(unpins * LOOKUPS)}


SENDER = 1
KEEPER = 0
QUIET_US = 2000.0  # longer than anything is on its way
RECORDS = 1 << 16


def run_sender(
    program: Program, design: str = "utlb", kept: int = 2, **settings: object
) -> tuple[Cluster, Any]:
    """Run ``program`` on node 1, with ``kept`` pages exported by node 0 as "inbox"."""

    async def keep(endpoint: Endpoint) -> None:
        await endpoint.export(endpoint.allocate(kept * PAGE), "inbox")

    chosen = with_settings(load_design(design), [f"{name}={settings[name]}" for name in settings])
    cluster = Cluster(chosen, keep_log=RECORDS)
    cluster.start(KEEPER, keep)
    cluster.start(SENDER, program)
    return cluster, cluster.run()[1]


def busy_ps(endpoint: Endpoint, what: str) -> int:
    """How long the ``processor`` or the ``pci`` engine of the endpoint's NIC has been at work."""
    assert endpoint.cluster.simulation is not None
    node: Any = endpoint.cluster.simulation.machine.nodes[endpoint.node]
    return int(node[f"{what}_busy"])


def last_byte_ps(endpoint: Endpoint, node: int) -> int:
    """When the last byte so far came to the host of ``node``."""
    assert endpoint.cluster.simulation is not None
    machine: Any = endpoint.cluster.simulation.machine
    log = machine.log[: int(machine.tally[0]["log"])]
    return int(log["end"][(log["engine"] == Engine.HOST_RCV) & (log["node"] == node)].max())


def now_ps(endpoint: Endpoint) -> int:
    """The program's clock, in whole ps."""
    return round(endpoint.now_us * 10**6)


def nic_hit_us(count: int = 20) -> Decimal:
    """What a lookup that hits takes of the sending NIC's processor.

    Stores of two bytes each, in two packets: over a border of pages here, and so with two lookups,
    or over one there, with one.  There is a lookup per packet at the other end in both cases.
    """

    async def program(endpoint: Endpoint) -> list[int]:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        buffer = endpoint.allocate(2 * PAGE)
        # Everything is pinned, and everything is on both NICs.
        await endpoint.wait(await endpoint.store(remote, buffer))
        spent = []
        for at, offset in ((PAGE - 1, 0), (0, PAGE - 1)):
            await endpoint.sleep(QUIET_US)
            before = busy_ps(endpoint, "processor")
            for _ in range(count):
                await endpoint.wait(await endpoint.store(remote, buffer, offset, at=at, length=2))
            await endpoint.sleep(QUIET_US)
            spent.append(busy_ps(endpoint, "processor") - before)
        return spent

    two, one = run_sender(program)[1]
    return in_us(two - one) / count


def post_us(design: str) -> Decimal:
    """What a process's CPU takes to post a store of one page that was stored before."""

    async def program(endpoint: Endpoint) -> int:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        buffer = endpoint.allocate(PAGE)
        await endpoint.wait(await endpoint.store(remote, buffer))
        began = now_ps(endpoint)
        await endpoint.store(remote, buffer)
        return now_ps(endpoint) - began

    return in_us(run_sender(program, design)[1])


SENDS = 1000
AT_ONCE = 16


def simulated_fast_path(outcome: Outcome, item: Item) -> None:
    """UTLB 5 and 6.2: a send that hits everywhere, in a running system.

    The user half beside a library that checks nothing, the NIC half by its busy time.
    """
    # A static table takes the same post without a check.
    user, nic = post_us("utlb") - post_us("vmmc-static"), nic_hit_us()
    halves = {"user": user, "ni": nic, "both": user + nic}
    outcome.measure(item, hit=halves.get)
    section, tables = item.printed["section_5_us"], item.printed["table_2_hit_us"]
    others = [
        Decimal(str(section["total"])),
        Decimal(str(section["user"])) + Decimal(str(tables)),
    ]
    outcome.shape(
        "three-prices-stay-apart",
        user + nic not in others,
        f"measured {user + nic} us; section 5: {others[0]}, Tables 1 and 2: {others[1]}",
    )

    async def program(endpoint: Endpoint) -> tuple[dict[str, int | None], set[int], bool]:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        buffer = endpoint.allocate(PAGE)
        await endpoint.wait(await endpoint.store(remote, buffer))
        before = endpoint.cluster.counts(SENDER)
        times, ok = set(), True
        for _ in range(SENDS // AT_ONCE + 1):
            transfers = []
            for _ in range(AT_ONCE):
                began = now_ps(endpoint)
                transfers.append(await endpoint.store(remote, buffer, length=8))
                times.add(now_ps(endpoint) - began)
            for transfer in transfers:
                ok = (await endpoint.wait(transfer)).ok and ok
        return before, times, ok

    cluster, (before, times, ok) = run_sender(program)
    after = cluster.counts(SENDER)
    calls = [(after[name] or 0) - (before[name] or 0) for name in ("pin_calls", "pins", "unpins")]
    interrupts = cluster.served(SENDER)["interrupts"]
    outcome.shape(
        "no-kernel-on-the-fast-path",
        ok and not any(calls) and interrupts == 0 and len(times) == 1,
        f"{(after['requests'] or 0) - (before['requests'] or 0)} sends, each {min(times) / 1e6} us "
        f"to {max(times) / 1e6} us of the process's time: {sum(calls)} pins, unpins and calls for "
        f"them, {interrupts} interrupts",
    )


SIZES = (1, 2, 4, 8, 16, 32)
WORD_PAGES = 32  # of the library's bit array
LONGEST = max(SIZES)


def simulated_table1(outcome: Outcome, item: Item) -> None:
    """UTLB Table 1: the host side, by pages of the buffer, in a running system.

    Time each step by the process's own clock.
    """

    async def program(endpoint: Endpoint) -> dict[int, list[Decimal]]:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        found = {}
        page = 0
        for pages in SIZES:
            buffers = []
            for bit in (0, WORD_PAGES - 1):  # of a word, of the buffer's first page
                while page % WORD_PAGES != bit:
                    page += 1
                    endpoint.allocate(PAGE)
                buffers.append(endpoint.allocate(pages * PAGE))
                page += pages
            times = [now_ps(endpoint)]
            for buffer in buffers:
                await endpoint.check(buffer)
                times.append(now_ps(endpoint))
            for _ in range(2):
                transfer = await endpoint.store(remote, buffers[0])
                times.append(now_ps(endpoint))
                await endpoint.wait(transfer)
                times.append(now_ps(endpoint))
            await endpoint.unpin(buffers[0])
            times.append(now_ps(endpoint))
            found[pages] = [in_us(end - begin) for begin, end in pairwise(times)]
        return found

    spent = run_sender(program, kept=LONGEST)[1]
    outcome.measure(
        item,
        check_min=lambda pages: spent[pages][0],
        check_max=lambda pages: spent[pages][1],
        # All that the first send does beyond the second is the call that pins.
        pin=lambda pages: spent[pages][2] - spent[pages][4],
        unpin=lambda pages: spent[pages][6],
    )
    first, second = spent[LONGEST][2], spent[LONGEST][4]
    outcome.shape(
        "first-use-is-dear",
        second < first / 5,
        f"{LONGEST} pages: {first} us to post the first time, {second} the second",
    )


WIDTHS = (1, 2, 4, 8, 16, 32)
STREAM = 64  # pages
WITHIN = 0.02


def simulated_table2(outcome: Outcome, item: Item) -> None:
    """UTLB Table 2: the NIC side, by entries fetched, in a running system.

    A first send beside a second from the same page: the rest of both is the same.
    """
    hit = nic_hit_us()
    found = {entries: run_sender(_first_and_second, prefetch=entries)[1] for entries in WIDTHS}
    outcome.measure(
        item,
        hit=hit,
        dma=lambda entries: in_us(found[entries][0]),
        miss=lambda entries: in_us(found[entries][1]),
    )
    wide, narrow = (_per_page(hit, width) for width in (max(WIDTHS), 1))
    printed = {point.quantity: point.published for point in item.expected_points()}
    misses = [printed[f"miss[entries={width}] us"] / width for width in (max(WIDTHS), 1)]
    hits = printed["hit us"]
    expected = (hits + misses[0]) / (hits + misses[1])
    outcome.shape(
        "prefetch-pays-in-a-stream",
        wide < narrow and abs(float(wide / narrow / expected) - 1) <= WITHIN,
        f"{wide} us of NIC time a page with 32 entries a miss, {narrow} with 1: a ratio of "
        f"{wide / narrow:.4f}, by Table 2 {expected:.4f}",
    )


async def _first_and_second(endpoint: Endpoint) -> tuple[int, int]:
    """How much longer the bus is taken, and how much later the last byte comes, after a miss."""
    remote = await endpoint.import_buffer(KEEPER, "inbox")
    # The receiving NIC has its translation from here on.
    await endpoint.wait(await endpoint.store(remote, endpoint.allocate(PAGE)))
    buffer = endpoint.allocate(PAGE)
    taken, ways = [], []
    for _ in range(2):
        await endpoint.sleep(QUIET_US)
        before = busy_ps(endpoint, "pci")
        transfer = await endpoint.store(remote, buffer)
        posted = now_ps(endpoint)
        await endpoint.wait(transfer)
        await endpoint.sleep(QUIET_US)
        taken.append(busy_ps(endpoint, "pci") - before)
        ways.append(last_byte_ps(endpoint, KEEPER) - posted)
    return taken[0] - taken[1], ways[0] - ways[1]


def _per_page(hit: Decimal, width: int) -> Decimal:
    """NIC time for the translation of a page of a stream over pages pinned by one call before."""

    async def program(endpoint: Endpoint) -> tuple[int, int]:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        await endpoint.wait(await endpoint.store(remote, endpoint.allocate(PAGE)))
        pages = endpoint.allocate(STREAM * PAGE)
        spent = []
        for _ in range(2):
            await endpoint.sleep(QUIET_US)
            before = busy_ps(endpoint, "processor")
            for page in range(STREAM):
                transfer = await endpoint.store(remote, pages, at=page * PAGE, length=8)
                await endpoint.wait(transfer)
            await endpoint.sleep(QUIET_US)
            spent.append(busy_ps(endpoint, "processor") - before)
        return spent[0], spent[1]

    cold, warm = run_sender(program, prefetch=width, prepin=STREAM)[1]
    return hit + in_us(cold - warm) / STREAM


FIRST_PAGE = 0x10_0000  # where the shared region starts, in pages
LONGEST_REQUEST = 4  # pages
REUSED = 0.5  # share of requests that come back to a page used before
CACHE_ENTRIES = (1024, 2048, 4096, 8192, 16384)
PIN_LIMIT = 256  # pages per process: few enough that the trace has to unpin
LIMITS = ("none", str(PIN_LIMIT))


def shared_memory_traffic(
    rows: int = 16_000, nodes: int = 2, processes: int = 5, region_pages: int = 3000, seed: int = 1
) -> Requests:
    """``rows`` requests of ``processes`` per node, all over the same region of pages.

    Half of them sweep on from where the process last swept, the others go back to a place that
    a few earlier requests drew near: some pages are hot, most are used now and then.  Not a
    stand-in for a SPLASH-2 program: it only has to fill NIC caches and pin limits, so that
    statements about any trace are put to a test.
    """
    random = np.random.default_rng(seed)
    node = random.integers(nodes, size=rows)
    pid = random.integers(processes, size=rows)
    count = random.integers(1, LONGEST_REQUEST + 1, size=rows)
    sweep = np.zeros(rows, dtype=np.int64)
    for space in range(nodes * processes):
        mine = np.flatnonzero(node * processes + pid == space)
        start = random.integers(region_pages)
        sweep[mine] = start + np.cumsum(count[mine]) - count[mine]
    hot = region_pages * random.beta(1, 8, size=rows)
    page = np.where(random.random(rows) < REUSED, hot.astype(np.int64), sweep) % region_pages
    return requests_at(nodes=node, pids=pid, pages=FIRST_PAGE + page, page_counts=count)


def requests_at(
    nodes: ArrayLike, pids: ArrayLike, pages: ArrayLike, page_counts: ArrayLike
) -> Requests:
    """Requests of whole 4 KB pages, alternately sent and fetched, without times."""
    address = np.asarray(pages, dtype=np.uint64) * np.uint64(PAGE)
    rows = address.size
    op = np.where(np.arange(rows) % 2 == 0, int(Op.SEND), int(Op.READ)).astype(np.uint8)
    return Requests(
        time_ns=np.zeros(rows, dtype=np.int64),
        node=np.asarray(nodes, dtype=np.int32),
        pid=np.asarray(pids, dtype=np.int32),
        receive=(op >= FIRST_RECEIVE).astype(np.uint8),
        op=op,
        address=address,
        length=np.asarray(page_counts, dtype=np.uint32) * np.uint32(PAGE),
    )


def invariants(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the statements need no printed number
    """What Tables 4 and 5 imply for any trace (UT-93), put to the test on one made for it.

    Replay both schemes at the five sizes, without and with a pin limit.
    """
    from nicscope.drivers.replay import replay

    check(outcome, shared_memory_traffic(), CACHE_ENTRIES, replay)


def check(
    outcome: Outcome, requests: Requests, sizes: Sequence[int], replay: Callable[..., Any]
) -> None:
    """The four statements on ``requests``, for caches of ``sizes`` entries.

    A statement that the trace cannot break (nothing is ever unpinned, nothing misses) fails.
    """
    places = list(product(("utlb", "vmmc-interrupt"), LIMITS, sizes))
    designs = [
        with_settings(load_design(name), [f"entries={entries}", f"pin_limit={limit}"])
        for name, limit, entries in places
    ]
    runs = dict(zip(places, replay([requests], designs, kinds=False), strict=True))

    def totals(count: str, scheme: str, limit: str) -> list[int]:
        return [runs[scheme, limit, entries].total[count] for entries in sizes]

    checks = [set(totals("check_misses", "utlb", limit)) for limit in LIMITS]
    told = [" or ".join(map(str, sorted(values))) + " check misses" for values in checks]
    outcome.shape(
        "check-misses-ignore-the-cache",
        all(len(values) == 1 for values in checks) and max(checks[1]) > max(checks[0]) > 0,
        f"{told[0]} without a limit, {told[1]} with {PIN_LIMIT} pages "
        f"per process, at {len(sizes)} cache sizes",
    )
    free, tight = (sum(totals("unpins", "utlb", limit)) for limit in LIMITS)
    outcome.shape(
        "no-limit-no-unpin",
        free == 0 and tight > 0,
        f"{free} unpins without a limit, {tight} with one",
    )
    utlb, interrupt = (totals("ni_misses", name, LIMITS[0]) for name in ("utlb", "vmmc-interrupt"))
    outcome.shape(
        "same-misses-without-limit",
        utlb == interrupt and utlb[0] > utlb[-1],
        f"UTLB {utlb}, interrupts {interrupt}",
    )
    residents = [
        (node["ni_misses"] - node["unpins"], entries)
        for (scheme, _, entries), run in runs.items()
        if scheme == "vmmc-interrupt"
        for node in run.nodes
    ]
    fullest = max(held / entries for held, entries in residents)
    outcome.shape(
        "interrupt-residents-fit",
        all(0 < held <= entries for held, entries in residents),
        f"at most {100 * fullest:.1f} % of a cache in {len(residents)} runs of a node",
    )
