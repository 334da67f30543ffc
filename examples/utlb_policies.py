"""A loop over one page more than may be pinned, under each replacement policy and one of our own.

python examples/utlb_policies.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.vmmc import Cluster, Endpoint, PinnedPage

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = 4096
LIMIT = 8
ROUNDS = 6


async def keeper(endpoint: Endpoint) -> None:
    """Export what everybody stores into."""
    await endpoint.export(endpoint.allocate(PAGE), "inbox")


async def loop(endpoint: Endpoint) -> float:
    """Store from nine pages in turn; us of the process's own time."""
    remote = await endpoint.import_buffer(0, "inbox")
    pages = endpoint.allocate((LIMIT + 1) * PAGE)
    spent = 0.0
    for number in range(ROUNDS * (LIMIT + 1)):
        at = number % (LIMIT + 1) * PAGE
        began = endpoint.now_us
        transfer = await endpoint.store(remote, pages, at=at, length=64)
        spent += endpoint.now_us - began
        await endpoint.wait(transfer)
    return spent


def farthest_next_use(pages: Sequence[PinnedPage]) -> int:
    """The loop is known: what was used last is needed last."""
    return max(pages, key=lambda pinned: pinned.last_use_us).page


async def loop_with_own_policy(endpoint: Endpoint) -> float:
    """The same with a policy that knows the loop."""
    endpoint.policy = farthest_next_use
    return await loop(endpoint)


def main() -> None:
    """One line per policy: how often it had to unpin, and what that took."""
    for policy in ("lru", "mru", "lfu", "mfu", "random", "our own"):
        own = policy == "our own"
        cluster = Cluster("utlb", pin_limit=LIMIT, replacement="lru" if own else policy)
        cluster.start(0, keeper)
        cluster.start(1, loop_with_own_policy if own else loop)
        spent = cluster.run()[1]
        print(f"{policy:8} {cluster.counts(1)['unpins']:3} pages unpinned, {spent:7.1f} us posting")


if __name__ == "__main__":
    main()
