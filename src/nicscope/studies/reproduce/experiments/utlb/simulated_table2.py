"""UTLB Table 2: the NIC side, by entries fetched, in a running system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.studies.reproduce.verdict import Outcome
from nicscope.studies.reproduce.vmmc_runs import (
    KEEPER,
    PAGE,
    QUIET_US,
    busy_ps,
    in_us,
    last_byte_ps,
    nic_hit_us,
    now_ps,
    run_sender,
)

if TYPE_CHECKING:
    from decimal import Decimal

    from nicscope.interfaces.vmmc import Endpoint
    from nicscope.studies.reproduce.verdict import Item

WIDTHS = (1, 2, 4, 8, 16, 32)
STREAM = 64  # pages
WITHIN = 0.02


def run(item: Item) -> Outcome:
    """A first send beside a second from the same page: the rest of both is the same."""
    outcome = Outcome()
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
    return outcome


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
