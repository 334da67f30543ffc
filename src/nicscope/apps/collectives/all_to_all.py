"""All-to-all: each has a part for every other, and gets one of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.apps.collectives.arrays import HostArray, bounds

if TYPE_CHECKING:
    from nicscope.apps.collectives.messages import Messages


async def pairwise_all_to_all(messages: Messages, array: HostArray, into: HostArray) -> None:
    """In n - 1 steps each sends to one that many ranks on, and receives from as many before.

    Part k of ``array`` goes to rank k.  All arrays are as long; where n does not divide that, the
    first ranks' parts have one number more, so ``into`` needs n of the longest.
    """
    rank, ranks = messages.rank, messages.ranks
    ends = bounds(array.count, ranks)
    each = ends[rank + 1] - ends[rank]
    own = array.part(ends[rank], ends[rank + 1])
    if own.length:
        await messages.wire.store(
            into.part(rank * each, (rank + 1) * each).buffer,
            await messages.wire.load(own.buffer),
        )
    for step in range(1, ranks):
        to, of = (rank + step) % ranks, (rank - step) % ranks
        await messages.exchange(
            to, array.part(ends[to], ends[to + 1]), of, into.part(of * each, (of + 1) * each)
        )
    await messages.settle()
