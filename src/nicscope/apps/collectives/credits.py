"""How many notes a peer has room for: nobody sends what has no slot.

Each process has ``SLOTS`` slots of a peer's for its notes, and hears with every note that comes
back how many of them are empty again.  Where nothing goes back, half of the slots that have been
emptied is worth a note of its own; at most two of these are under way, for which there are slots
beside: a third would take a note that could go only after the first had been heard.
"""

from __future__ import annotations

SLOTS = 8
RESERVED = 2
PLACES = SLOTS + RESERVED  # of a peer's notes, used in turn


class Credits:
    """Of one process and one peer."""

    def __init__(self) -> None:
        self._sent = 0  # notes to the peer, those that only say what is empty aside
        self._heard = 0  # of these, the ones that the peer has emptied
        self._emptied = 0  # notes of the peer's that have been taken here, likewise
        self._told = 0  # of these, the ones that the peer knows of
        self._next = 0

    @property
    def may_send(self) -> bool:
        """Whether a note has a slot."""
        return self._sent - self._heard < SLOTS

    @property
    def must_tell(self) -> bool:
        """Whether the peer is to hear by itself what is empty."""
        return self._emptied - self._told >= SLOTS // 2

    def send(self, *, only_credit: bool = False) -> tuple[int, int]:
        """Of the note that goes now: its place among the slots, and what it says is empty."""
        place, self._next = self._next, (self._next + 1) % PLACES
        self._sent += not only_credit
        told, self._told = self._emptied - self._told, self._emptied
        return place, told

    def take(self, told: int, *, only_credit: bool = False) -> None:
        """A note has come, which says that ``told`` more are empty there."""
        self._heard += told
        self._emptied += not only_credit
