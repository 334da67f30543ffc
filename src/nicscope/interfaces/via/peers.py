"""Connections between equals: either side asks for the other, in any order, and none accepts."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.interfaces.via.bells import Bell
from nicscope.interfaces.via.names import Return, State, VipError, VipTimeoutError

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint

Wanted = tuple[str, int, str]  # as one side says it: its own discriminator, node, discriminator


class Peering:
    """One side's wish for a connection, and what has become of it."""

    def __init__(self, vi: Endpoint, wanted: Wanted, latest: int | None) -> None:
        self.vi = vi
        self.wanted = wanted
        self.latest = latest  # ps
        self.answered = Bell()
        self.failure: VipError | None = None

    def is_late(self, now: int) -> bool:
        """Whether its time is over without an answer."""
        pending = self.vi.state is State.VIP_STATE_CONNECT_PENDING
        return pending and self.latest is not None and now >= self.latest


class Peerings:
    """Those of one node that wait for the other side."""

    def __init__(self) -> None:
        self._waiting: dict[Wanted, deque[Peering]] = {}

    def add(self, peering: Peering) -> None:
        """It waits from now on."""
        self._waiting.setdefault(peering.wanted, deque()).append(peering)

    def take(self, wanted: Wanted, now: int) -> Peering | None:
        """The one that has waited longest for such a side, and is not late."""
        for peering in self._waiting.get(wanted, ()):
            if not peering.is_late(now):
                self.remove(peering)
                return peering
        return None

    def remove(self, peering: Peering) -> None:
        """It waits no longer, if it did."""
        waiting = self._waiting.get(peering.wanted)
        if waiting is not None and peering in waiting:
            waiting.remove(peering)
            if not waiting:
                del self._waiting[peering.wanted]


def too_late(peering: Peering) -> VipError:
    """What is said of one whose time is over."""
    _, node, name = peering.wanted
    return VipTimeoutError(Return.VIP_TIMEOUT, f"{name!r} of node {node} has not asked in time")
