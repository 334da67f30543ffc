"""Broadcast: what the root has, all have in the end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.apps.collectives.arrays import Piece

if TYPE_CHECKING:
    from nicscope.apps.collectives.messages import Messages

SEGMENT = 16384  # bytes that go around the ring at a time: four pages


async def tree_broadcast(messages: Messages, piece: Piece, root: int = 0) -> None:
    """A binomial tree: who has it sends it on, to one that is half as far each time."""
    ranks = messages.ranks
    place = (messages.rank - root) % ranks
    reach = 1
    while not place & reach and reach < ranks:
        reach *= 2
    if place:
        parent = (place - reach + root) % ranks
        await messages.came(await messages.receive(parent, piece))
    reach //= 2
    while reach:
        if place + reach < ranks:
            await messages.gone(await messages.send((place + reach + root) % ranks, piece))
        reach //= 2
    await messages.settle()


async def ring_broadcast(messages: Messages, piece: Piece, root: int = 0) -> None:
    """A pipeline along the ring: segments are sent on while the next ones come."""
    ranks = messages.ranks
    place = (messages.rank - root) % ranks
    before, behind = (messages.rank - 1) % ranks, (messages.rank + 1) % ranks
    segments = _segments(piece)
    asked = deque(
        [await messages.receive(before, one) for one in segments[:2]] if place else [],
    )
    for number, segment in enumerate(segments):
        if place:
            await messages.came(asked.popleft())
            if number + 2 < len(segments):  # two at a time, so that its sender need not wait
                asked.append(await messages.receive(before, segments[number + 2]))
        if place < ranks - 1:
            await messages.send(behind, segment)
    await messages.settle()


def _segments(piece: Piece) -> list[Piece]:
    ends = range(0, piece.length, SEGMENT)
    return [Piece(piece.whole, piece.at + at, min(SEGMENT, piece.length - at)) for at in ends]
