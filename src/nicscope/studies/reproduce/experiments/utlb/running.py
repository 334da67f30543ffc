"""UTLB 5 and 6.2 in a running system: VMMC on two nodes, watched from outside.

Clocks, busy times and logs are looked at, never a price.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from nicscope.config.design import load_design, with_settings
from nicscope.drivers.simulate.observe import Engine
from nicscope.interfaces.vmmc import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nicscope.interfaces.vmmc import Endpoint

    Program = Callable[[Endpoint], Coroutine[Any, Any, Any]]
    from nicscope.studies.reproduce.verdict import Item, Outcome

PAGE = 4096
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


def in_us(ps: int) -> Decimal:
    """Exactly."""
    return Decimal(ps) / 10**6


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
    return in_us(_stores_of_two(count, PAGE - 1, 0) - _stores_of_two(count, 0, PAGE - 1)) / count


def _stores_of_two(count: int, at: int, offset: int) -> int:
    async def program(endpoint: Endpoint) -> int:
        remote = await endpoint.import_buffer(KEEPER, "inbox")
        buffer = endpoint.allocate(2 * PAGE)
        # Everything is pinned, and everything is on both NICs.
        await endpoint.wait(await endpoint.store(remote, buffer))
        await endpoint.sleep(QUIET_US)
        before = busy_ps(endpoint, "processor")
        for _ in range(count):
            await endpoint.wait(await endpoint.store(remote, buffer, offset, at=at, length=2))
        await endpoint.sleep(QUIET_US)
        return busy_ps(endpoint, "processor") - before

    spent: int = run_sender(program)[1]
    return spent


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
    user = post_us("utlb") - post_us("vmmc-static")
    nic = nic_hit_us()
    for half, value in (("user", user), ("ni", nic), ("both", user + nic)):
        outcome.point("hit", "us", value, half=half)
    _thousand(outcome)
    printed = item.printed
    others = [
        Decimal(str(printed["section_5_us"]["total"])),
        Decimal(str(printed["section_5_us"]["user"])) + Decimal(str(printed["table_2_hit_us"])),
    ]
    outcome.shape(
        "three-prices-stay-apart",
        user + nic not in others,
        f"measured {user + nic} us; section 5: {others[0]}, Tables 1 and 2: {others[1]}",
    )


def _thousand(outcome: Outcome) -> None:
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


def simulated_table1(outcome: Outcome, item: Item) -> None:  # noqa: ARG001 - the expectations hold all that is printed
    """UTLB Table 1: the host side, by pages of the buffer, in a running system.

    Time each step by the process's own clock.
    """
    for pages, times in zip(SIZES, run_sender(_program, kept=LONGEST)[1], strict=True):
        check_min, check_max, first, second, unpin = (in_us(time) for time in times)
        outcome.point("check_min", "us", check_min, pages=pages)
        outcome.point("check_max", "us", check_max, pages=pages)
        # All that the first send does beyond the second is the call that pins.
        outcome.point("pin", "us", first - second, pages=pages)
        outcome.point("unpin", "us", unpin, pages=pages)
        if pages == LONGEST:
            outcome.shape(
                "first-use-is-dear",
                second < first / 5,
                f"{pages} pages: {first} us to post the first time, {second} the second",
            )


async def _program(endpoint: Endpoint) -> list[tuple[int, ...]]:
    remote = await endpoint.import_buffer(KEEPER, "inbox")
    rows: list[tuple[int, ...]] = []
    page = 0
    for pages in SIZES:
        while page % WORD_PAGES != 0:
            page += 1
            endpoint.allocate(PAGE)
        at_first_bit = endpoint.allocate(pages * PAGE)
        page += pages
        while page % WORD_PAGES != WORD_PAGES - 1:
            page += 1
            endpoint.allocate(PAGE)
        at_last_bit = endpoint.allocate(pages * PAGE)
        page += pages
        times = [now_ps(endpoint)]
        await endpoint.check(at_first_bit)
        times.append(now_ps(endpoint))
        await endpoint.check(at_last_bit)
        times.append(now_ps(endpoint))
        transfer = await endpoint.store(remote, at_first_bit)
        times.append(now_ps(endpoint))
        await endpoint.wait(transfer)
        times.append(now_ps(endpoint))
        transfer = await endpoint.store(remote, at_first_bit)
        times.append(now_ps(endpoint))
        await endpoint.wait(transfer)
        times.append(now_ps(endpoint))
        await endpoint.unpin(at_first_bit)
        times.append(now_ps(endpoint))
        spent = [end - begin for begin, end in pairwise(times)]
        rows.append((spent[0], spent[1], spent[2], spent[4], spent[6]))
    return rows


WIDTHS = (1, 2, 4, 8, 16, 32)
STREAM = 64  # pages
WITHIN = 0.02


def simulated_table2(outcome: Outcome, item: Item) -> None:
    """UTLB Table 2: the NIC side, by entries fetched, in a running system.

    A first send beside a second from the same page: the rest of both is the same.
    """
    hit = nic_hit_us()
    outcome.point("hit", "us", hit)
    for entries in WIDTHS:
        dma, miss = run_sender(_first_and_second, prefetch=entries)[1]
        outcome.point("dma", "us", in_us(dma), entries=entries)
        outcome.point("miss", "us", in_us(miss), entries=entries)
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
