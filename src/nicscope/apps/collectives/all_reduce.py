"""All-reduce: all have the sum, or whatever the operation gives, of what each began with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.apps.collectives.arrays import HostArray, bounds

if TYPE_CHECKING:
    from nicscope.apps.collectives.arrays import Arithmetic
    from nicscope.apps.collectives.messages import Messages


async def ring_all_reduce(
    messages: Messages, array: HostArray, room: HostArray, arithmetic: Arithmetic
) -> None:
    """Reduce-scatter, then all-gather, around the ring: each sends 2 (n - 1) / n of its array.

    ``room``: where what comes is put before it is added, of the longest of n parts or more.
    """
    rank, ranks = messages.rank, messages.ranks
    ends = bounds(array.count, ranks)
    behind, before = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(ranks - 1):
        away, here = (rank - step) % ranks, (rank - step - 1) % ranks
        own = array.part(ends[here], ends[here + 1])
        came = room.part(0, ends[here + 1] - ends[here])
        await messages.exchange(behind, array.part(ends[away], ends[away + 1]), before, came)
        await arithmetic.combine(messages.wire, array.dtype, came, own, own)
    await messages.settle()
    for step in range(ranks - 1):
        away, here = (rank - step + 1) % ranks, (rank - step) % ranks
        await messages.exchange(
            behind,
            array.part(ends[away], ends[away + 1]),
            before,
            array.part(ends[here], ends[here + 1]),
        )
    await messages.settle()


async def tree_all_reduce(
    messages: Messages, array: HostArray, room: HostArray, arithmetic: Arithmetic
) -> None:
    """Recursive doubling: partners twice as far apart each time exchange all that they have.

    Ranks beyond a power of two give theirs to one within first, and get the result back.  What the
    lower rank has stands left of the operator, so that all have the same bits.  ``room``: as long
    as ``array``.
    """
    rank, ranks = messages.rank, messages.ranks
    within = 1 << (ranks.bit_length() - 1)
    wire, all_of_it, came = messages.wire, array.all, room.part(0, array.count)
    if rank >= within:
        await messages.gone(await messages.send(rank - within, all_of_it))
        await messages.settle()
        await messages.came(await messages.receive(rank - within, all_of_it))
        return
    if rank + within < ranks:
        await messages.came(await messages.receive(rank + within, came))
        await arithmetic.combine(wire, array.dtype, all_of_it, came, all_of_it)
    reach = 1
    while reach < within:
        partner = rank ^ reach
        await messages.exchange(partner, all_of_it, partner, came)
        await messages.settle()  # what was sent from is written now
        left, right = (all_of_it, came) if rank < partner else (came, all_of_it)
        await arithmetic.combine(wire, array.dtype, left, right, all_of_it)
        reach *= 2
    if rank + within < ranks:
        await messages.gone(await messages.send(rank + within, all_of_it))
    await messages.settle()


def room_for(algorithm: str, count: int, ranks: int) -> int:
    """Numbers that an all-reduce of ``count`` needs room for beside them."""
    return -(-count // ranks) if algorithm == "ring" else count
