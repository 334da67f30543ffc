"""The write notices that one domain has been told of, and their bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from nicscope.apps.svm.notices import Notices

if TYPE_CHECKING:
    from numpy.typing import NDArray

ITEM = struct.Struct("<HII")  # whose interval, which of its, and how many pages follow


class HeardNotices(Notices):
    """Of one domain: its own intervals, and those of others that letters have told it of."""

    def __init__(self, domains: int, own: int) -> None:
        super().__init__(domains)
        self._own = own

    @property
    def clock(self) -> NDArray[np.int64]:
        """What the domain knows."""
        own: NDArray[np.int64] = self.clocks[self._own]
        return own

    def told(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> bytes:
        """``until``, and the intervals that who knows ``since`` lacks of it."""
        pieces = [clock_bytes(until)]
        for writer, intervals in enumerate(self._intervals):
            gone = int(self._forgotten[writer])
            for number in range(max(int(since[writer]), gone), int(until[writer])):
                pages = intervals[number - gone]
                pieces += [ITEM.pack(writer, number, len(pages)), pages.astype("<u4").tobytes()]
        return b"".join(pieces)

    def hear(self, raw: bytes) -> NDArray[np.int64]:
        """Keep the intervals that were told of; the clock that they lead to."""
        clock = clock_of(raw, len(self._intervals))
        at = 4 * len(self._intervals)
        while at < len(raw):
            writer, number, many = ITEM.unpack_from(raw, at)
            at += ITEM.size
            held = self._intervals[writer]
            behind = int(self._forgotten[writer]) + len(held)
            assert number <= behind, "a notice is missing between those that were heard"
            if number == behind:
                held.append(np.frombuffer(raw, "<u4", many, at).astype(np.int64))
            at += 4 * many
        return clock

    def forget(self) -> None:
        """Drop what this domain knows: at a barrier all others know it too."""
        for writer, intervals in enumerate(self._intervals):
            del intervals[: int(self.clock[writer] - self._forgotten[writer])]
        self._forgotten = self.clock.copy()


def clock_bytes(clock: NDArray[np.int64]) -> bytes:
    """A clock, 32 bits for each domain."""
    return clock.astype("<u4").tobytes()


def clock_of(raw: bytes, domains: int) -> NDArray[np.int64]:
    """The clock with which ``raw`` begins."""
    return np.frombuffer(raw, "<u4", domains).astype(np.int64)
