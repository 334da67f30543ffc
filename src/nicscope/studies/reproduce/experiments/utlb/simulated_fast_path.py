"""UTLB 5 and 6.2: a send that hits everywhere, in a running system."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from nicscope.studies.reproduce.verdict import Outcome
from nicscope.studies.reproduce.vmmc_runs import (
    KEEPER,
    PAGE,
    SENDER,
    nic_hit_us,
    now_ps,
    post_us,
    run_sender,
)

if TYPE_CHECKING:
    from nicscope.interfaces.vmmc import Endpoint
    from nicscope.studies.reproduce.verdict import Item

SENDS = 1000
AT_ONCE = 16


def run(item: Item) -> Outcome:
    """The user half beside a library that checks nothing, the NIC half by its busy time."""
    # A static table takes the same post without a check.
    user = post_us("utlb") - post_us("vmmc-static")
    nic = nic_hit_us()
    outcome = Outcome()
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
    return outcome


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
