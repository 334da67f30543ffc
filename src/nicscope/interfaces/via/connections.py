"""The kernel agent's connections: a side asks and waits, another takes, accepts or rejects."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.names import Error, Return, State, VipError
from nicscope.interfaces.via.turns import Bell, hear

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.via.endpoint import Endpoint
    from nicscope.interfaces.via.messaging import Messaging


class Request(Owned):
    """A request for a connection, as the program that waited for it has it."""

    what = "a request for a connection"
    origin = "connect_wait()"


class Asking:
    """A side that wants a connection, and what it is answered."""

    def __init__(self, vi: Endpoint, answered: Bell) -> None:
        self.vi = vi  # of the side that asks
        self.answered = answered
        self.taken = False  # somebody has it from ``connect_wait``
        self.answer: Return | None = None


class Connections:
    """Of one node."""

    def __init__(self, ni: Messaging) -> None:
        self.ni = ni
        self.others: Sequence[Connections] = ()  # by node
        self._asked: dict[str, deque[Asking]] = {}  # by discriminator
        self._arrived = Bell(ni.turns)

    async def call(self) -> None:
        """Enter the kernel and come back."""
        end = self.ni.turns.now + self.ni.settings.costs["ka_call"]
        await self.ni.turns.until(end, "system call")

    async def connect_request(
        self, vi: Endpoint, node: int, discriminator: str, latest: int | None
    ) -> None:
        """Ask for a connection and wait for the answer; see ``Nic.connect_request``."""
        self._must_be(vi, State.VIP_STATE_IDLE)
        if not 0 <= node < len(self.others):
            raise VipError(Return.VIP_NOT_REACHABLE, f"no node {node}")
        other = self.others[node]
        await self.call()
        request = Asking(vi, Bell(self.ni.turns))
        vi._enter(State.VIP_STATE_CONNECT_PENDING)
        waiting = other._asked.setdefault(discriminator, deque())
        waiting.append(request)
        other._arrived.ring()
        while request.answer is None and (latest is None or self.ni.turns.now < latest):
            await hear(request.answered, latest)
        if request.answer is Return.VIP_SUCCESS:
            return
        vi._enter(State.VIP_STATE_IDLE)
        if request.answer is None:
            if not request.taken:
                waiting.remove(request)
                if not waiting:
                    del other._asked[discriminator]
                raise VipError(
                    Return.VIP_NO_MATCH, f"nobody on node {node} waits for {discriminator!r}"
                )
            request.answer = Return.VIP_TIMEOUT
            raise VipError(Return.VIP_TIMEOUT, f"node {node} did not answer in time")
        raise VipError(request.answer, f"node {node} does not want the connection")

    async def connect_wait(self, discriminator: str, latest: int | None) -> Asking:
        """The next request for that discriminator."""
        await self.call()
        while discriminator not in self._asked:
            if latest is not None and self.ni.turns.now >= latest:
                raise VipError(Return.VIP_TIMEOUT, f"nobody asked for {discriminator!r} in time")
            await hear(self._arrived, latest)
        asked = self._asked[discriminator]
        request = asked.popleft()
        if not asked:
            del self._asked[discriminator]
        request.taken = True
        return request

    async def connect_accept(self, request: Asking, vi: Endpoint) -> None:
        """Connect ``vi`` with the VI that asked."""
        self._must_be(vi, State.VIP_STATE_IDLE)
        self._must_wait(request)
        wanted, offered = vi.attributes, request.vi.attributes
        if wanted.reliability != offered.reliability:
            raise VipError(
                Return.VIP_INVALID_RELIABILITY_LEVEL,
                f"one side has {wanted.reliability.name}, the other {offered.reliability.name}",
            )
        if wanted.max_transfer != offered.max_transfer:
            raise VipError(
                Return.VIP_INVALID_MTU,
                f"one side transfers {wanted.max_transfer} bytes, the other {offered.max_transfer}",
            )
        await self.call()
        self._must_wait(request)
        ends = vi, request.vi
        mine, theirs = (self.others[end.node].ni.firmware for end in ends)
        epoch = max(mine.epoch(vi.place), theirs.epoch(request.vi.place)) + 1
        for one, other, its, their in ((*ends, mine, theirs), (*ends[::-1], theirs, mine)):
            its.connect(one.place, other.node, other.place, their.sent(other.place), epoch)
            one.peer, one.epoch = other, epoch
        request.answer = Return.VIP_SUCCESS
        request.answered.ring()

    async def connect_reject(self, request: Asking) -> None:
        """Have the other side's request fail with ``VIP_REJECT``."""
        self._must_wait(request)
        await self.call()
        request.answer = Return.VIP_REJECT
        request.answered.ring()

    async def disconnect(self, vi: Endpoint) -> None:
        """Back to idle; what is posted is flushed, and the other side loses its connection."""
        await self.call()
        peer = vi.peer
        was = vi.state
        vi._enter(State.VIP_STATE_IDLE)
        vi.peer = None
        self.ni.flush(vi)
        if was is State.VIP_STATE_CONNECTED and peer is not None:
            self.ni.neighbours[peer.node].fail(peer, Error.VIP_ERROR_CONN_LOST)

    def _must_be(self, vi: Endpoint, state: State) -> None:
        if vi.state is not state:
            raise VipError(
                Return.VIP_INVALID_STATE,
                f"VI {vi.number} is in {vi.state.name}, not in {state.name}",
            )

    def _must_wait(self, request: Asking) -> None:
        if request.answer is not None:
            raise VipError(Return.VIP_TIMEOUT, "the side that asked has given up")
