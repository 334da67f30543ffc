"""Rooms for messages in NIC memory, for those that have no registered buffer there."""

from __future__ import annotations

BLOCK = 128  # rooms begin on blocks, so that engines do not share one


class Staging:
    """A stretch of NIC memory from which rooms are taken and given back."""

    def __init__(self, begin: int, end: int) -> None:
        self.begin = begin
        self.end = end
        self._taken: dict[int, int] = {}  # begin of each room: its end

    @property
    def bytes_free(self) -> int:
        """Not taken, in one piece or several."""
        return self.end - self.begin - sum(end - begin for begin, end in self._taken.items())

    def take(self, count: int) -> int | None:
        """The lowest place with room for ``count`` bytes; None if there is none."""
        size = max(-(-count // BLOCK), 1) * BLOCK
        place = self.begin
        for begin, end in sorted(self._taken.items()):
            if place + size <= begin:
                break
            place = end
        if place + size > self.end:
            return None
        self._taken[place] = place + size
        return place

    def give(self, place: int) -> None:
        """The room at ``place`` is free again."""
        del self._taken[place]
