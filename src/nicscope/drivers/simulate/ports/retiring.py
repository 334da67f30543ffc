"""Numbers of streams whose connections have ended at both ends: given again once all is quiet.

A packet that is late must not be taken for one of another connection.  While an end lives it may
send again, so that no number goes before both have left; what is on its way then has come, or is
lost, a while later.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from nicscope.clock import NEVER
from nicscope.drivers.simulate.ports.connecting import stream_at
from nicscope.nic.ports.pools import BLANK, NO_ENTRY

if TYPE_CHECKING:
    from typing import Any

    from nicscope.drivers.simulate.ports.state import Ports

# Assumed: longer than a packet is on its way and in the rings of two NICs, which is milliseconds.
QUIET_PS = 100 * 10**9
COUNTED = ("sent", "resent", "time_outs", "forgotten", "duplicates", "gaps", "refused", "acks")

End = tuple[int, int]  # a node, and what that knows a stream by


class Ended(NamedTuple):
    """A connection that has no end any more."""

    since: int  # ps
    one: End
    two: End


class Retired:
    """The streams of a cluster's connections: which still have an end, and which have none."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._other: dict[End, End] = {}
        self._left: set[End] = set()  # whose other end lives
        self._ended: dict[tuple[int, int], deque[Ended]] = {}  # by nodes, the lower number first

    def begin(self, one: End, two: End) -> None:
        """A connection has been given two streams."""
        self._other[one], self._other[two] = two, one

    def leave(self, end: End, is_last: bool, now: int) -> None:
        """An end has left its connection; ``is_last``: the other never was anybody's."""
        other = self._other[end]
        if not is_last and other not in self._left:
            self._left.add(end)
            return
        self._left.discard(other)
        del self._other[end], self._other[other]
        one, two = sorted((end, other))
        self._ended.setdefault((one[0], two[0]), deque()).append(Ended(now, one, two))

    def quiet_at(self, node: int, other: int) -> int | None:
        """When the streams of the longest ended connection of two nodes are quiet (ps)."""
        ended = self._ended.get((min(node, other), max(node, other)))
        return ended[0].since + QUIET_PS if ended else None

    def again(self, node: int, other: int, now: int) -> tuple[int, int] | None:
        """The streams of a connection of two nodes that has ended, as new; None if none is quiet.

        What they have counted stays.
        """
        ended = self._ended.get((min(node, other), max(node, other)), deque())
        for _ in range(len(ended)):
            found = ended.popleft()
            if found.since + QUIET_PS <= now and self._is_quiet(found):
                for end, there in ((found.one, found.two), (found.two, found.one)):
                    self._renew(end, there)
                one, two = (found.one, found.two)
                if one[0] != node:
                    one, two = two, one
                return one[1], two[1]
            ended.append(found)
        return None

    def _is_quiet(self, found: Ended) -> bool:
        return all(
            stream["urgent"] == 0
            and stream["resending"] == 0
            and stream["resend_at"] == NEVER
            and stream["oldest_kept"] == NO_ENTRY
            for stream in (stream_at(self._ports, *end) for end in (found.one, found.two))
        )

    def _renew(self, end: End, there: End) -> None:
        stream: Any = stream_at(self._ports, *end)
        counted = [int(stream[name]) for name in COUNTED]
        self._ports.pools.streams[self._ports.stream_of[end]] = self._ports.pools.streams[BLANK]
        stream["node"], stream["there"] = there
        for name, value in zip(COUNTED, counted, strict=True):
            stream[name] = value
