"""Connections of VIs, client/server or peer to peer, and how waiting processes are woken."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.drivers.simulate.ports.connections import connect_ports, end_connection
from nicscope.drivers.simulate.records import AWAIT_QUEUE, COMPUTE
from nicscope.errors import SimulationError
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.names import Return, State, VipError, VipTimeoutError
from nicscope.interfaces.via.vi import check_match
from nicscope.kernel.entry import bound

if TYPE_CHECKING:
    from nicscope.interfaces.via.program import Process
    from nicscope.interfaces.via.vi import Attributes, Endpoint


class WakeupList:
    """A list of processes that wait for an event."""

    def __init__(self) -> None:
        self._waiting: list[Process] = []

    def ring(self) -> None:
        """Wake all waiting processes now."""
        waiting, self._waiting = self._waiting, []
        for process in waiting:
            record = process._ports.work.queues[process.node, process.number]
            record["written"] += 1
            record["shown"] += 1
            process._sim_process.wake()

    async def hear(self, process: Process, latest: int | None) -> None:
        """Have ``process`` wait for the next wakeup, or until ``latest`` (ps)."""
        self._waiting.append(process)
        try:
            await process.ask(AWAIT_QUEUE, peer=process.number, address=latest or 0)
        finally:
            if process in self._waiting:
                self._waiting.remove(process)


Wanted = tuple[str, int, str]  # as one side says it: its own discriminator, node, discriminator


class PeerRequest:
    """A peer connection request and its outcome."""

    def __init__(self, vi: Endpoint, wanted: Wanted, latest: int | None) -> None:
        self.vi = vi
        self.wanted = wanted
        self.latest = latest  # ps
        self.answered = WakeupList()
        self.failure: VipError | None = None

    def is_late(self, now: int) -> bool:
        """Whether the request has timed out."""
        pending = self.vi.state is State.VIP_STATE_CONNECT_PENDING
        return pending and self.latest is not None and now >= self.latest


class PeerRequests:
    """The pending peer requests of one node."""

    def __init__(self) -> None:
        self._waiting: dict[Wanted, deque[PeerRequest]] = {}

    def add(self, peering: PeerRequest) -> None:
        """Add a pending request."""
        self._waiting.setdefault(peering.wanted, deque()).append(peering)

    def take(self, wanted: Wanted, now: int) -> PeerRequest | None:
        """Remove and return the oldest matching request that has not timed out."""
        for peering in self._waiting.get(wanted, ()):
            if not peering.is_late(now):
                self.remove(peering)
                return peering
        return None

    def remove(self, peering: PeerRequest) -> None:
        """Remove a request, if it is pending."""
        waiting = self._waiting.get(peering.wanted)
        if waiting is not None and peering in waiting:
            waiting.remove(peering)
            if not waiting:
                del self._waiting[peering.wanted]


def peer_timeout(peering: PeerRequest) -> VipError:
    """The timeout error of a peer request."""
    _, node, name = peering.wanted
    return VipTimeoutError(Return.VIP_TIMEOUT, f"{name!r} of node {node} has not asked in time")


class Request(Owned):
    """A request for a connection, as the program that waited for it has it."""

    what = "a request for a connection"
    origin = "connect_wait()"

    def __init__(self, shown: ConnectionRequest) -> None:
        """``shown``: what is read here."""
        self._shown = shown

    @property
    def node(self) -> int:
        """The node that requests."""
        return self._shown.vi.node

    @property
    def attributes(self) -> Attributes:
        """The attributes of the requesting VI."""
        return self._shown.vi.attributes


class ConnectionRequest:
    """A client's connection request and its answer."""

    def __init__(self, vi: Endpoint) -> None:
        self.vi = vi  # of the side that asks
        self.answered = WakeupList()
        self.taken = False  # somebody has it from ``connect_wait``
        self.answer: Return | None = None


class Asked:
    """The connection requests that have arrived at one node."""

    def __init__(self) -> None:
        self.waiting: dict[str, deque[ConnectionRequest]] = {}  # by discriminator
        self.arrived = WakeupList()


class Connections:
    """Connection calls of one process; agents of two nodes agree in no virtual time."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cluster = process.cluster
        self.node = process.node
        self._sim_process = process._sim_process
        self._ports = process._ports
        assert self.cluster.simulation is not None
        self._disconnect = bound(end_connection, self.cluster.simulation.machine)

    async def call(self) -> None:
        """Charge the cost of a system call."""
        cost = int(self._ports.costs[self.node]["system_call"])
        await self.process.ask(COMPUTE, duration=cost)

    async def connect_request(
        self, vi: Endpoint, node: int, discriminator: str, latest: int | None
    ) -> Attributes:
        """Request a connection and wait for the answer; see ``Nic.connect_request``."""
        self._check_state(vi, State.VIP_STATE_IDLE)
        self._check_reachable(node)
        other = self.cluster.kernels[node].asked
        await self.call()
        request = ConnectionRequest(vi)
        vi.enter(State.VIP_STATE_CONNECT_PENDING)
        waiting = other.waiting.setdefault(discriminator, deque())
        waiting.append(request)
        other.arrived.ring()
        while request.answer is None and (latest is None or self._sim_process.now < latest):
            await request.answered.hear(self.process, latest)
        if request.answer is Return.VIP_SUCCESS:
            assert vi.joined is not None
            return vi.joined.attributes
        vi.enter(State.VIP_STATE_IDLE)
        if request.answer is None:
            if not request.taken:
                waiting.remove(request)
                if not waiting:
                    del other.waiting[discriminator]
                silence = self._sim_process.standings.why_silent(node)
                raise VipError(
                    Return.VIP_NO_MATCH,
                    f"nobody on node {node} waits for {discriminator!r}{silence}",
                )
            request.answer = Return.VIP_TIMEOUT
            raise VipTimeoutError(Return.VIP_TIMEOUT, f"node {node} did not answer in time")
        raise VipError(request.answer, f"node {node} does not want the connection")

    async def connect_wait(self, discriminator: str, latest: int | None) -> ConnectionRequest:
        """Wait for the next request for that discriminator."""
        await self.call()
        asked = self.cluster.kernels[self.node].asked
        while discriminator not in asked.waiting:
            if latest is not None and self._sim_process.now >= latest:
                raise VipTimeoutError(
                    Return.VIP_TIMEOUT, f"nobody asked for {discriminator!r} in time"
                )
            await asked.arrived.hear(self.process, latest)
        waiting = asked.waiting[discriminator]
        request = waiting.popleft()
        if not waiting:
            del asked.waiting[discriminator]
        request.taken = True
        return request

    async def connect_accept(self, request: ConnectionRequest, vi: Endpoint) -> None:
        """Connect ``vi`` with the VI that asked."""
        self._check_state(vi, State.VIP_STATE_IDLE)
        self._check_waiting(request)
        check_match(vi.attributes, request.vi.attributes)
        await self.call()
        self._check_waiting(request)
        self._join(vi, request.vi)
        request.answer = Return.VIP_SUCCESS
        request.answered.ring()

    async def connect_reject(self, request: ConnectionRequest) -> None:
        """Have the other side's request fail with ``VIP_REJECT``."""
        self._check_waiting(request)
        await self.call()
        request.answer = Return.VIP_REJECT
        request.answered.ring()

    async def disconnect(self, vi: Endpoint) -> None:
        """Return to idle: posted descriptors are flushed, and the peer loses its connection."""
        await self.call()
        self.cancel_peer_request(vi)
        self._disconnect(self.node, vi.place)
        self._sim_process.wake()

    async def peer_request(self, peering: PeerRequest) -> None:
        """Register a peer request, or connect if the other side has one pending."""
        vi, (name, node, remote) = peering.vi, peering.wanted
        self._check_state(vi, State.VIP_STATE_IDLE)
        self._check_reachable(node)
        await self.call()
        self._check_state(vi, State.VIP_STATE_IDLE)
        vi.peering = peering
        vi.enter(State.VIP_STATE_CONNECT_PENDING)
        kernels = self.cluster.kernels
        other = kernels[node].peers.take((remote, self.node, name), self._sim_process.now)
        if other is None:
            kernels[self.node].peers.add(peering)
            return
        try:
            check_match(vi.attributes, other.vi.attributes)
            self._join(vi, other.vi)
        except VipError as error:
            for side in (peering, other):
                side.failure = error
                side.vi.enter(State.VIP_STATE_IDLE)
        other.answered.ring()

    def cancel_peer_request(self, vi: Endpoint) -> None:
        """Cancel a VI's peer request; a pending VI becomes idle."""
        peering, vi.peering = vi.peering, None
        if peering is not None:
            self.cluster.kernels[self.node].peers.remove(peering)
            if vi.state is State.VIP_STATE_CONNECT_PENDING:
                vi.enter(State.VIP_STATE_IDLE)

    def _join(self, vi: Endpoint, other: Endpoint) -> None:
        level, mtu = int(vi.attributes.reliability), self.cluster.settings.mtu
        ends = (vi.node, vi.place), (other.node, other.place)
        try:
            connect_ports(self._ports, *ends, level, mtu)
        except SimulationError as error:
            raise VipError(Return.VIP_ERROR_RESOURCE, str(error)) from None
        vi.joined, other.joined = other, vi

    def _check_reachable(self, node: int) -> None:
        """Check that packets have a route there; none leads back to the own NIC."""
        if not 0 <= node < len(self.cluster.kernels):
            raise VipError(Return.VIP_NOT_REACHABLE, f"no node {node}")
        try:
            self.cluster.check_path(self.node, node)
        except SimulationError as error:
            raise VipError(Return.VIP_NOT_REACHABLE, str(error)) from None

    def _check_state(self, vi: Endpoint, state: State) -> None:
        if vi.state is not state:
            raise VipError(
                Return.VIP_INVALID_STATE,
                f"VI {vi.number} is in {vi.state.name}, not in {state.name}",
            )

    def _check_waiting(self, request: ConnectionRequest) -> None:
        if request.answer is not None:
            raise VipError(Return.VIP_TIMEOUT, "the side that asked has given up")
