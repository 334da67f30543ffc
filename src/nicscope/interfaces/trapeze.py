"""Trapeze endpoints: control messages of 128 bytes with an optional payload.

    async def ping(endpoint: Endpoint) -> None:
        page = endpoint.allocate(4096)
        page.bytes[:] = 7
        endpoint.reserve(5)[:] = b"hello"
        await endpoint.send(1, page)

Control messages are built and read in place, payloads go from one host's memory to the other's.
Source: Trapeze, 2.1 and 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.delivery import CONTROL_BYTES, POLICIES, delivery_costs, shadow_costs
from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.machine import COMPUTE, COPY, RECEIVE, SEND, SLEEP
from nicscope.drivers.simulate.programs import Simulation
from nicscope.errors import SimulationError, did_you_mean
from nicscope.fabric.topology import crossbar
from nicscope.room import check_room

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.simulate.programs import Process
    from nicscope.fabric.topology import Topology

PS_PER_US = 10**6
NO_TAG = -1
_ZEROS = bytes(CONTROL_BYTES)


class HostBuffer(msgspec.Struct, frozen=True):
    """A stretch of a host's memory that payloads can be sent from or received into."""

    node: int
    address: int
    bytes: NDArray[Any]  # uint8, a view of the host's memory


class Message(msgspec.Struct):
    """What ``receive`` gives."""

    sender: int
    number: int  # counts from 0 per sender
    tag: int
    control: bytes
    memory: NDArray[Any]  # uint8, the host's; the payload is a stretch of it
    address: int
    byte_count: int  # of the payload
    own: bool  # the payload lies in a buffer off the receive ring: see ``Endpoint.release``
    scanned: int = 0  # bytes of the control message that ``scan`` has given

    @property
    def payload(self) -> NDArray[Any]:
        """uint8, a view of the host's memory; of no length without a payload."""
        return self.memory[self.address : self.address + self.byte_count]

    def scan(self, byte_count: int) -> bytes:
        """The next ``byte_count`` bytes of the control message (``tpz_scan``)."""
        begin, end = self.scanned, self.scanned + byte_count
        if byte_count < 0 or end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are scanned, "
                f"{byte_count} more are not there"
            )
        self.scanned = end
        return self.control[begin:end]


class Endpoint:
    """One process's Trapeze endpoint; ``now_us`` is the time at which it last went on."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self.node = process.node
        self._cluster = cluster
        self._process = process
        self._control = process.control.data
        self._memory = cluster.memory(process.node)
        self._reserved = 0

    @property
    def now_us(self) -> float:
        """Microseconds of virtual time."""
        return self._process.now / PS_PER_US

    def allocate(self, byte_count: int) -> HostBuffer:
        """Fresh host memory; ``SimulationError`` when there is no more."""
        return self._cluster.allocate(self.node, byte_count)

    def map_payload(self, tag: int, buffer: HostBuffer) -> None:
        """Have payloads with ``tag`` go to ``buffer``: an entry of the incoming payload table."""
        self._cluster.map_payload(self.node, tag, buffer)

    def reserve(self, byte_count: int) -> memoryview:
        """The next ``byte_count`` bytes of the outgoing control message (``tpz_reserve``).

        Each call goes on where the one before stopped; ``send`` takes what was reserved.
        """
        begin, end = self._reserved, self._reserved + byte_count
        if byte_count < 0 or end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are reserved, "
                f"{byte_count} more do not fit"
            )
        self._reserved = end
        return self._control[begin:end]

    async def send(
        self, destination: int, payload: HostBuffer | None = None, tag: int = NO_TAG
    ) -> int:
        """Hand the message over; its number.  Waits while the send ring is full.

        The NIC reads the payload later: its bytes must stay until then.
        """
        count = 0 if payload is None else len(payload.bytes)
        self._cluster.check_send(self.node, destination, count, payload)
        self._control[self._reserved :] = _ZEROS[self._reserved :]
        self._reserved = 0
        address = 0 if payload is None else payload.address
        ended = await self._process.ask(SEND, destination, count, tag, address)
        return ended.packet

    async def receive(self) -> Message:
        """The next message, when it has come and been read."""
        ended = await self._process.ask(RECEIVE)
        return Message(
            ended.peer,
            ended.packet,
            ended.tag,
            self._control.tobytes(),
            self._memory,
            ended.address,
            ended.payload,
            bool(ended.own),
        )

    def release(self, message: Message) -> None:
        """Attach the payload's buffer to the receive ring again; its bytes may then change."""
        if message.own:
            message.own = False
            self._process.attach(message.address)

    async def compute(self, microseconds: float) -> None:
        """Keep the CPU busy."""
        await self._process.ask(COMPUTE, duration=_in_ps(microseconds))

    async def sleep(self, microseconds: float) -> None:
        """Leave the CPU to others for a while."""
        await self._process.ask(SLEEP, duration=_in_ps(microseconds))

    async def copy(self, byte_count: int) -> None:
        """Copy memory with the CPU, which competes with DMA for it."""
        if byte_count < 1:
            raise SimulationError(f"a copy must have at least 1 byte, got {byte_count}")
        await self._process.ask(COPY, payload=byte_count)


def _in_ps(microseconds: float) -> int:
    if microseconds < 0:
        raise SimulationError(f"a time must not be negative, got {microseconds} us")
    return round(microseconds * PS_PER_US)


class Cluster:
    """Hosts on one switch, each with a Trapeze NIC, and programs on them."""

    interface = "Trapeze"

    def __init__(
        self,
        platform: str,
        *,
        nodes: int = 2,
        policy: str | Delivery = "adaptive",
        topology: Topology | None = None,
        shadow: bool = False,
        host_bytes: int = 1 << 22,
        tags: int = 64,
        keep_log: int = 0,
    ) -> None:
        """``platform`` is one of the catalog that states what delivery costs.

        With ``shadow``, control messages are built and read in host memory and cross the bus in
        bursts, where the platform has them; else the program's own loads and stores cross it.
        Errors: ``PlatformError``, ``SimulationError`` naming what is not there.
        """
        if isinstance(policy, str) and policy not in POLICIES:
            raise SimulationError(f"no policy {policy!r}{did_you_mean(policy, POLICIES)}")
        self.delivery = POLICIES[policy] if isinstance(policy, str) else policy
        self._host_bytes = host_bytes
        self._tags = tags
        self._keep_log = keep_log
        self._check_room(nodes if topology is None else topology.nodes, nodes)
        self.topology = crossbar(nodes) if topology is None else topology
        costs = (shadow_costs if shadow else delivery_costs)(load_platform(platform))
        self._costs = [costs] * self.topology.nodes
        self._programs: list[tuple[int, Callable[[Endpoint], Coroutine[Any, Any, object]]]] = []
        self._used = [0] * self.topology.nodes
        self.simulation: Simulation | None = None

    def _check_room(self, nodes: int, programs: int) -> None:
        """Refuse a cluster that has no room, before anything of it is made."""
        need = machine_bytes(
            self.delivery,
            nodes,
            programs,
            host_bytes=self._host_bytes,
            tags=self._tags,
            keep_log=self._keep_log,
        )
        advice = "ask for fewer nodes, less host_bytes, or fewer tags or records of the log"
        check_room(need, f"a cluster of {nodes:,} nodes", advice)

    def start(self, node: int, program: Callable[[Endpoint], Coroutine[Any, Any, object]]) -> None:
        """Have ``program`` run on ``node`` with an endpoint of its own."""
        if not 0 <= node < self.topology.nodes:
            raise SimulationError(f"no node {node}; there are {self.topology.nodes}")
        self._programs.append((node, program))

    def run(self) -> Sequence[object]:
        """Run all programs to their ends; what they return, in the order of their start."""
        self._used = [0] * self.topology.nodes
        order = sorted(range(len(self._programs)), key=lambda i: self._programs[i][0])
        self._check_room(self.topology.nodes, len(order))
        simulation = Simulation(
            self._costs,
            self.delivery,
            self.topology,
            [self._programs[i][0] for i in order],
            self._host_bytes,
            self._tags,
            self._keep_log,
        )
        self.simulation = simulation
        for node in range(self.topology.nodes):
            for _ in range(self.delivery.receive_ring):
                buffer = self.allocate(node, self.delivery.max_payload)
                simulation.attach(node, buffer.address)
        simulation.run(
            [
                self._programs[i][1](Endpoint(self, process))
                for i, process in zip(order, simulation.processes, strict=True)
            ]
        )
        results: list[object] = [None] * len(order)
        for place, i in enumerate(order):
            results[i] = simulation.results[place]
        return results

    def memory(self, node: int) -> NDArray[Any]:
        """All bytes of a host's memory, uint8."""
        assert self.simulation is not None
        bytes_of_host: NDArray[Any] = self.simulation.machine.store.host[node]
        return bytes_of_host

    def allocate(self, node: int, byte_count: int) -> HostBuffer:
        """Fresh memory of ``node``."""
        begin, end = self._used[node], self._used[node] + byte_count
        if byte_count < 1 or end > self._host_bytes:
            raise SimulationError(
                f"node {node} has {self._host_bytes - begin} bytes of memory left, "
                f"{byte_count} were asked for; give the cluster more host_bytes"
            )
        self._used[node] = end
        return HostBuffer(node, begin, self.memory(node)[begin:end])

    def map_payload(self, node: int, tag: int, buffer: HostBuffer) -> None:
        """Enter ``buffer`` under ``tag`` in the incoming payload table of ``node``."""
        if not 0 <= tag < self._tags:
            raise SimulationError(f"tag must be from 0 to {self._tags - 1}, got {tag}")
        if buffer.node != node:
            raise SimulationError(f"the buffer is on node {buffer.node}, not on node {node}")
        if len(buffer.bytes) < self.delivery.max_payload:
            raise SimulationError(
                f"a mapped buffer must hold the largest payload, {self.delivery.max_payload} "
                f"bytes, got {len(buffer.bytes)}"
            )
        assert self.simulation is not None
        self.simulation.machine.store.payload_table[node, tag] = buffer.address

    def check_send(
        self, node: int, destination: int, count: int, payload: HostBuffer | None
    ) -> None:
        """Refuse what no endpoint could send, with ``SimulationError``."""
        if (node, destination) not in self.topology.paths:
            raise SimulationError(f"no path from node {node} to node {destination}")
        if count > self.delivery.max_payload:
            raise SimulationError(
                f"payload must be at most {self.delivery.max_payload} bytes, got {count}"
            )
        if payload is not None and payload.node != node:
            raise SimulationError(f"the payload is on node {payload.node}, not on node {node}")
