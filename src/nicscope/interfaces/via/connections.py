"""The kernel agent's connections: a side asks and waits, another takes, accepts or rejects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.names import Return, State, VipError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from nicscope.interfaces.via.vi import Shown

B = TypeVar("B", bound="Rings")


class Rings(Protocol):
    """What wakes those that wait for it."""

    def ring(self) -> None:
        """Wake all, now."""


class Request(Owned):
    """A request for a connection, as the program that waited for it has it."""

    what = "a request for a connection"
    origin = "connect_wait()"


class Asking:
    """A side that wants a connection, and what it is answered."""

    def __init__(self, vi: Any, answered: Any) -> None:
        self.vi = vi  # of the side that asks
        self.answered = answered
        self.taken = False  # somebody has it from ``connect_wait``
        self.answer: Return | None = None


class Asked(Generic[B]):
    """What one node is asked for."""

    def __init__(self, arrived: B) -> None:
        self.waiting: dict[str, deque[Asking]] = {}  # by discriminator
        self.arrived = arrived


class Connections(ABC, Generic[B]):
    """Of one node; how agents of two nodes agree takes no time beyond their callers' calls."""

    asked: Sequence[Asked[B]]  # by node
    node: int

    @property
    @abstractmethod
    def now(self) -> int:
        """Ps of virtual time."""

    @abstractmethod
    async def call(self) -> None:
        """Enter the kernel and come back."""

    @abstractmethod
    def _bell(self) -> B:
        """Something to wait for."""

    @abstractmethod
    def _hear(self, bell: B, latest: int | None) -> Awaitable[None]:
        """Go on when ``bell`` rings, or at ``latest`` (ps)."""

    @abstractmethod
    def _join(self, vi: Any, other: Any) -> None:
        """Have two VIs be connected."""

    @abstractmethod
    def _enter(self, vi: Any, state: State) -> None:
        """Have a VI be in that state from now on."""

    async def connect_request(
        self, vi: Shown, node: int, discriminator: str, latest: int | None
    ) -> None:
        """Ask for a connection and wait for the answer; see ``Nic.connect_request``."""
        self._must_be(vi, State.VIP_STATE_IDLE)
        if not 0 <= node < len(self.asked):
            raise VipError(Return.VIP_NOT_REACHABLE, f"no node {node}")
        other = self.asked[node]
        await self.call()
        request = Asking(vi, self._bell())
        self._enter(vi, State.VIP_STATE_CONNECT_PENDING)
        waiting = other.waiting.setdefault(discriminator, deque())
        waiting.append(request)
        other.arrived.ring()
        while request.answer is None and (latest is None or self.now < latest):
            await self._hear(request.answered, latest)
        if request.answer is Return.VIP_SUCCESS:
            return
        self._enter(vi, State.VIP_STATE_IDLE)
        if request.answer is None:
            if not request.taken:
                waiting.remove(request)
                if not waiting:
                    del other.waiting[discriminator]
                raise VipError(
                    Return.VIP_NO_MATCH, f"nobody on node {node} waits for {discriminator!r}"
                )
            request.answer = Return.VIP_TIMEOUT
            raise VipError(Return.VIP_TIMEOUT, f"node {node} did not answer in time")
        raise VipError(request.answer, f"node {node} does not want the connection")

    async def connect_wait(self, discriminator: str, latest: int | None) -> Asking:
        """The next request for that discriminator."""
        await self.call()
        asked = self.asked[self.node]
        while discriminator not in asked.waiting:
            if latest is not None and self.now >= latest:
                raise VipError(Return.VIP_TIMEOUT, f"nobody asked for {discriminator!r} in time")
            await self._hear(asked.arrived, latest)
        waiting = asked.waiting[discriminator]
        request = waiting.popleft()
        if not waiting:
            del asked.waiting[discriminator]
        request.taken = True
        return request

    async def connect_accept(self, request: Asking, vi: Shown) -> None:
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
        self._join(vi, request.vi)
        request.answer = Return.VIP_SUCCESS
        request.answered.ring()

    async def connect_reject(self, request: Asking) -> None:
        """Have the other side's request fail with ``VIP_REJECT``."""
        self._must_wait(request)
        await self.call()
        request.answer = Return.VIP_REJECT
        request.answered.ring()

    def _must_be(self, vi: Shown, state: State) -> None:
        if vi.state is not state:
            raise VipError(
                Return.VIP_INVALID_STATE,
                f"VI {vi.number} is in {vi.state.name}, not in {state.name}",
            )

    def _must_wait(self, request: Asking) -> None:
        if request.answer is not None:
            raise VipError(Return.VIP_TIMEOUT, "the side that asked has given up")
