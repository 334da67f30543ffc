"""What makes messages between two processes reliable on a network that may lose them.

U-Net delivers a message or loses it; Active Messages are reliable (U-Net/MM, 6.2), so they number
what they send, acknowledge what they take, and send again what is not acknowledged in time, from
the oldest on.  One ``Stream`` is one process's side of what it and one peer send each other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from nicscope.interfaces.ports.memory import Buffer

NUMBERS = 256  # a number is a byte of a message's header
WINDOW = 32  # messages that are not acknowledged; less than half of the numbers
# Assumed, like the rest of the layer.  An acknowledgement waits for a message that it can go with;
# a time-out is longer than a page takes from the disk (22 ms) at both ends, and doubles twice.
ACK_DELAY_US = 500.0
TIME_OUT_US = 50_000.0
DOUBLINGS = 2
LONGEST_TIME_OUT_US = TIME_OUT_US * 2**DOUBLINGS
MOST_TRIES = 12
NEVER_US = float("inf")


class Kept(msgspec.Struct):
    """A message that is not acknowledged, and what it is sent from."""

    request: int  # the descriptor that sent it last
    pieces: tuple[Buffer | bytes, ...]  # the header first, by itself or with all that follows
    used: tuple[deque[Buffer], Buffer] | None  # the layer's buffer with the header; where it goes
    fills: bool  # a buffer of the share that the peer has for this process


class Stream:
    """What one process and one peer have sent each other and not acknowledged."""

    def __init__(self, told_after: int) -> None:
        """``told_after``: the peer hears of so many buffers that are empty again at once."""
        self._told_after = told_after
        self.kept: deque[Kept] = deque()
        self.repeated = 0  # messages sent again
        self.duplicates = 0  # messages that came again, or before one that is missing
        self.tries = 0  # in a row, without a sign of the peer
        self.owed = 0  # messages taken and not acknowledged
        self._emptied = 0  # buffers that these had filled
        self.expected = 0  # the number of the message that is to come
        self._next = 0
        self._ack_due = NEVER_US
        self._again_due = NEVER_US

    @property
    def is_full(self) -> bool:
        """Whether as many messages are on their way as may be."""
        return len(self.kept) >= WINDOW

    @property
    def filled(self) -> int:
        """Buffers of the peer that are not empty, as far as is known."""
        return sum(one.fills for one in self.kept)

    @property
    def due(self) -> float:
        """When something is to be done that no message brings about, in us."""
        return min(self._ack_due, self._again_due)

    def number(self) -> int:
        """The number of the next message."""
        number, self._next = self._next, (self._next + 1) % NUMBERS
        return number

    def acknowledging(self) -> int:
        """What a message that leaves now acknowledges."""
        self.owed = self._emptied = 0
        self._ack_due = NEVER_US
        return self.expected

    def keep(self, message: Kept, now: float) -> None:
        """Keep what has been sent until it is acknowledged."""
        if not self.kept:
            self._again_due = now + TIME_OUT_US
        self.kept.append(message)

    def acknowledged(self, expected: int, now: float) -> list[Kept]:
        """What the peer has taken since it said so last; now it says what it expects."""
        oldest = (self._next - len(self.kept)) % NUMBERS
        count = (expected - oldest) % NUMBERS
        if not 0 < count <= len(self.kept):
            return []
        self.tries = 0
        done = [self.kept.popleft() for _ in range(count)]
        self._again_due = now + TIME_OUT_US if self.kept else NEVER_US
        return done

    def takes(self, number: int, filled: bool, now: float) -> bool:
        """Whether the message of that number is the next one; it is owed an acknowledgement.

        ``filled``: it came in a buffer.
        """
        if number != self.expected:
            self.duplicates += 1
            return False
        self.expected = (self.expected + 1) % NUMBERS
        if not self.owed:
            self._ack_due = now + ACK_DELAY_US
        self.owed += 1
        self._emptied += filled
        return True

    def must_acknowledge(self, now: float) -> bool:
        """Whether an acknowledgement is to go by itself now."""
        is_much = self.owed >= WINDOW // 2 or self._emptied >= self._told_after
        return is_much or self._ack_due <= now

    def must_repeat(self, now: float) -> bool:
        """Whether everything that is kept goes again now; then the next time is noted."""
        if self._again_due > now:
            return False
        self.tries += 1
        self._again_due = now + TIME_OUT_US * 2 ** min(self.tries, DOUBLINGS)
        return True
