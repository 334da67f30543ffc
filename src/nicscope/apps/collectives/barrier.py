"""Barrier: nobody leaves before all have come."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nicscope.apps.collectives.messages import FIRST_FREE

if TYPE_CHECKING:
    from nicscope.apps.collectives.messages import Messages

ARRIVED = FIRST_FREE  # kind of note


class Barrier:
    """One process's part of it."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._arrived: Counter[int] = Counter()  # by round: of this barrier, or of the next one
        messages.on(ARRIVED, self._hear)

    async def _hear(self, rank: int, content: bytes) -> None:
        del rank
        self._arrived[content[0]] += 1

    async def meet(self) -> None:
        """Dissemination: in round k each tells the one 2 ** k ranks on, and hears of one before."""
        messages = self._messages
        reach = number = 0
        reach = 1
        while reach < messages.ranks:
            word = number.to_bytes(7, "little")  # with its kind the note has 8 bytes
            await messages.say((messages.rank + reach) % messages.ranks, ARRIVED, word)
            await messages.wait_until(lambda: self._arrived[number] > 0)  # noqa: B023 - awaited
            self._arrived[number] -= 1
            reach, number = 2 * reach, number + 1
