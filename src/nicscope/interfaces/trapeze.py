"""Trapeze endpoints: control messages of 128 bytes with an optional payload.

    async def ping(endpoint: Endpoint) -> None:
        page = endpoint.allocate(4096)
        await page.write(bytes([7]) * 4096)
        endpoint.reserve(5)[:] = b"hello"
        await endpoint.send(1, page)

Control messages are built and read in place, payloads go from one host's memory to the other's.
Source: Trapeze, 2.1 and 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.config.delivery import (
    CONTROL_BYTES,
    POLICIES,
    Policy,
    Way,
    delivery_costs,
    shadow_costs,
)
from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.bus.build import bus_of_endpoints
from nicscope.drivers.simulate.bus.need import bytes_at_buses
from nicscope.drivers.simulate.bus.parameters import machine_parameters
from nicscope.drivers.simulate.machine import COMPUTE, COPY, RECEIVE, SEND, SLEEP
from nicscope.drivers.simulate.programs import Simulation
from nicscope.drivers.simulate.store import UNMAPPED
from nicscope.errors import SimulationError, did_you_mean
from nicscope.fabric.topology import crossbar
from nicscope.interfaces.arguments import LEAST, PS_PER_US, in_ps, whole
from nicscope.interfaces.buffers import allocated, stretch_of
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.payloads import HostBuffer, Payloads, read_only, settle_memory
from nicscope.interfaces.run_report import RunReport, records_to_keep, report_of, tell
from nicscope.interfaces.trapeze_message import Message
from nicscope.interfaces.trapeze_report import TrapezeRun
from nicscope.interfaces.ways import Combination, check_runs, chosen_way
from nicscope.nic.coherent.mechanism import NAMES as MECHANISMS
from nicscope.room import check_room, zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.drivers.simulate.bus.parameters import Parameters
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.programs import Process
    from nicscope.fabric.topology import Topology

__all__ = ["NO_TAG", "Cluster", "Endpoint", "HostBuffer", "Message"]

NO_TAG = -1
_ZEROS = bytes(CONTROL_BYTES)
MOST_COPIED = 1 << 40  # bytes


class Endpoint:
    """One process's Trapeze endpoint; ``now_us`` is the time at which it last went on."""

    def __init__(self, cluster: Cluster, process: Process, number: int) -> None:
        assert cluster.simulation is not None
        self._cluster = cluster
        self._process = process
        self._control = process.control.data  # as sent and received last: the driver's
        self._outgoing = memoryview(bytearray(CONTROL_BYTES))  # the next one, as it is built
        self._memory = cluster.host_bytes(process.node)
        self._reserved = 0
        name = f"process {number} of node {process.node}"
        self._owner = Owner(name, cluster.simulation, process)
        finished = cluster.simulation.machine.endpoints["finished"].data
        self._payloads = Payloads(
            self._owner, process, cluster.simulation.machine, self._memory, finished
        )

    @property
    def node(self) -> int:
        """Its node's number."""
        return self._process.node

    @property
    def now_us(self) -> float:
        """Microseconds of virtual time."""
        return self._process.now / PS_PER_US

    def allocate(self, byte_count: int) -> HostBuffer:
        """Fresh host memory; ``SimulationError`` when there is no more."""
        self._owner.check_caller()
        begin, count = self._cluster.allocate(self.node, byte_count)
        return allocated(HostBuffer, self._owner, self._payloads, begin, count)

    def map_payload(self, tag: int, buffer: HostBuffer) -> None:
        """Have payloads with ``tag`` go to ``buffer``: an entry of the incoming payload table.

        The entry is this process's from then on.  Errors: if it is another's.
        """
        self._owner.check_caller()
        address, count = stretch_of(self._owner, self._payloads, buffer)
        self._cluster.map_payload(self._owner, self.node, tag, address, count)

    def unmap_payload(self, tag: int) -> None:
        """Give the entry of ``tag`` back.  A message that has come in by then still goes there."""
        self._owner.check_caller()
        self._cluster.unmap_payload(self._owner, self.node, tag)

    def reserve(self, byte_count: int) -> memoryview:
        """The next ``byte_count`` bytes of the outgoing control message (``tpz_reserve``).

        Each call goes on where the one before stopped; ``send`` takes what was reserved, whatever
        has come in between.
        """
        self._owner.check_caller()
        begin, end = self._reserved, self._reserved + whole(byte_count, "a number of bytes")
        if end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are reserved, "
                f"{byte_count} more do not fit"
            )
        self._reserved = end
        return self._outgoing[begin:end]

    async def send(
        self, destination: int, payload: HostBuffer | None = None, tag: int = NO_TAG
    ) -> int:
        """Hand the message over; its number.  Waits while the send ring is full.

        The NIC reads the payload later.  ``sent`` waits until it has, and so does a ``write`` to
        the payload.
        """
        self._owner.check_caller()
        address, count = 0, 0
        if payload is not None:
            address, count = stretch_of(self._owner, self._payloads, payload)
        to = self._cluster.check_send(self.node, destination, count)
        marked = tag if type(tag) is int else whole(tag, "a tag", NO_TAG)
        self._control[: self._reserved] = self._outgoing[: self._reserved]
        self._control[self._reserved :] = _ZEROS[self._reserved :]
        self._reserved = 0
        ended = await self._process.ask(SEND, to, count, marked, address)
        self._payloads.note_sent(ended.packet, address, count)
        return ended.packet

    async def sent(self, number: int | None = None) -> None:
        """Wait until the NIC has done with message ``number``, by default the last one sent.

        Its payload may be overwritten then.  To see that takes no time of its own.
        """
        self._owner.check_caller()
        await self._payloads.wait_for(number)

    def is_sent(self, number: int) -> bool:
        """Whether the NIC has done with message ``number``."""
        return self._payloads.is_sent(number)

    async def receive(self) -> Message:
        """The next message, when it has come and been read."""
        self._owner.check_caller()
        ended = await self._process.ask(RECEIVE)
        message = Message(ended, self._control.tobytes(), self._payloads)
        return self._owner.give(message, ended.address) if message.own else self._lend(message)

    def _lend(self, message: Message) -> Message:
        """A message without a buffer of the ring has nothing to come back: no table keeps it."""
        message._owner = self._owner
        return message

    def release(self, message: Message) -> None:
        """Attach the payload's buffer to the receive ring again; its bytes may then change."""
        self._owner.check_caller()
        if self._owner.has(message):
            address = self._owner.record_of(message, Message)
            self._owner.take_back(message, "released")
            message.own = False
            self._process.attach(address)
        elif self._lent(message):
            message._gone = "released"
        else:
            self._owner.refuse(message, Message)

    def _lent(self, message: object) -> bool:
        """Whether it is a message of this process's that nothing is to come back of."""
        if not isinstance(message, Message) or message._owner is not self._owner:
            return False
        return not message._gone and not message.own

    async def compute(self, microseconds: float) -> None:
        """Keep the CPU busy."""
        self._owner.check_caller()
        await self._process.ask(COMPUTE, duration=in_ps(microseconds, self._process.now))

    async def sleep(self, microseconds: float) -> None:
        """Leave the CPU to others for a while."""
        self._owner.check_caller()
        await self._process.ask(SLEEP, duration=in_ps(microseconds, self._process.now))

    async def copy(self, byte_count: int) -> None:
        """Copy memory with the CPU, which competes with DMA for it."""
        self._owner.check_caller()
        count = whole(byte_count, "a copy's number of bytes", 1, MOST_COPIED)
        await self._process.ask(COPY, payload=count)


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
        way: str = "pci",
    ) -> None:
        """``platform`` is one of the catalog that states what delivery costs.

        ``way``: how payloads cross between hosts and NICs, one of docs/ways.md.

        With ``shadow``, control messages are built and read in host memory and cross the bus in
        bursts, where the platform has them; else the program's own loads and stores cross it.
        Errors: ``PlatformError``, ``SimulationError`` naming what is not there.
        """
        if isinstance(policy, str) and policy not in POLICIES:
            raise SimulationError(f"no policy {policy!r}{did_you_mean(policy, POLICIES)}")
        self.delivery = POLICIES[policy] if isinstance(policy, str) else policy
        self._host_bytes = host_bytes
        self._tags = tags
        self._keep_log = records_to_keep(keep_log)
        self._parameters: Parameters | None = None
        self._check_room(nodes if topology is None else topology.nodes, nodes)
        self.topology = crossbar(nodes) if topology is None else topology
        priced = load_platform(platform)
        self.way = chosen_way(way)
        cuts_through = self.delivery.policy == Policy.CUT_THROUGH
        check_runs(Combination(self.interface, priced, self.way, cuts_through=cuts_through))
        costs = (shadow_costs if shadow else delivery_costs)(priced)
        self._platform = priced.name
        if self.way != Way.PCI:
            self._parameters = machine_parameters(priced)
        self._costs = [costs] * self.topology.nodes
        self._programs: list[tuple[int, Callable[[Endpoint], Coroutine[Any, Any, object]]]] = []
        self._used = [0] * self.topology.nodes
        self._mapped: dict[tuple[int, int], Owner] = {}  # entries of incoming payload tables
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
        if self._parameters is not None:
            need += bytes_at_buses(nodes, self._parameters.host, self._parameters.nic, 64)
        advice = "ask for fewer nodes, less host_bytes, or fewer tags or records of the log"
        check_room(need, f"a cluster of {nodes:,} nodes", advice)

    def start(self, node: int, program: Callable[[Endpoint], Coroutine[Any, Any, object]]) -> None:
        """Have ``program`` run on ``node`` with an endpoint of its own."""
        where = whole(node, "a node", LEAST)
        if not 0 <= where < self.topology.nodes:
            raise SimulationError(f"no node {where}; there are {self.topology.nodes}")
        self._programs.append((where, program))

    def run(self) -> Sequence[object]:
        """Run all programs to their ends; what they return, in the order of their start."""
        self._used = [0] * self.topology.nodes
        self._mapped = {}
        order = sorted(range(len(self._programs)), key=lambda i: self._programs[i][0])
        hosts = [self._programs[i][0] for i in order]
        self._check_room(self.topology.nodes, len(order))
        simulation = Simulation(
            self._costs,
            self.delivery,
            self.topology,
            hosts,
            self._host_bytes if self._parameters is None else 0,
            self._tags,
            self._keep_log,
            bus=None if self._parameters is None else self._bus(self._parameters, len(hosts)),
        )
        self.simulation = simulation
        for node in range(self.topology.nodes):
            for _ in range(self.delivery.receive_ring):
                address, _ = self.allocate(node, self.delivery.max_payload)
                simulation.attach(node, address)
        simulation.run(
            [
                self._programs[i][1](Endpoint(self, process, place - hosts.index(process.node)))
                for place, (i, process) in enumerate(zip(order, simulation.processes, strict=True))
            ]
        )
        results: list[object] = [None] * len(order)
        for place, i in enumerate(order):
            results[i] = simulation.results[place]
        tell(self._source())
        return results

    def _bus(self, parameters: Parameters, programs: int) -> Bus:
        memory = zeros((self.topology.nodes, self._host_bytes), np.dtype(np.uint8))
        mechanism = MECHANISMS[self.way]
        return bus_of_endpoints(parameters, mechanism, self.delivery, memory, programs)

    def report(self) -> RunReport:
        """What the run has cost, node by node; errors: before there was one."""
        return report_of(self._source())

    def _source(self) -> TrapezeRun:
        if self.simulation is None:
            raise SimulationError("nothing has run yet; call run() first")
        return TrapezeRun(self.simulation.machine, self.interface, self.delivery, self._platform)

    def memory(self, node: int) -> NDArray[Any]:
        """All bytes of a host's memory, uint8, to be read."""
        memory = self.host_bytes(node)
        assert self.simulation is not None
        settle_memory(self.simulation.machine, node, 0, len(memory))
        return read_only(memory[:])

    def host_bytes(self, node: int) -> NDArray[Any]:
        """The same, as endpoints and the NIC change them."""
        assert self.simulation is not None
        bytes_of_host: NDArray[Any] = self.simulation.machine.store.host[node]
        return bytes_of_host

    def allocate(self, node: int, byte_count: int) -> tuple[int, int]:
        """Address and length of fresh memory of ``node``."""
        left = self._host_bytes - self._used[node]
        count = whole(byte_count, "a number of bytes", LEAST)
        if not 1 <= count <= left:
            raise SimulationError(
                f"node {node} has {left} bytes of memory left, {count} were asked for; give the "
                "cluster more host_bytes"
            )
        begin = self._used[node]
        self._used[node] += count
        return begin, count

    def map_payload(self, owner: Owner, node: int, tag: object, address: int, count: int) -> None:
        """Enter ``owner``'s buffer under ``tag`` in the incoming payload table of ``node``."""
        entry = self._entry(owner, node, tag)
        if count < self.delivery.max_payload:
            raise SimulationError(
                f"a mapped buffer must hold the largest payload, {self.delivery.max_payload} "
                f"bytes, got {count}"
            )
        assert self.simulation is not None
        self._mapped[node, entry] = owner
        self.simulation.machine.store.payload_table[node, entry] = address

    def unmap_payload(self, owner: Owner, node: int, tag: object) -> None:
        """Have the entry of ``tag`` be nobody's."""
        entry = self._entry(owner, node, tag)
        if (node, entry) not in self._mapped:
            raise SimulationError(f"tag {entry} of node {node} is not mapped; map_payload maps it")
        assert self.simulation is not None
        del self._mapped[node, entry]
        self.simulation.machine.store.payload_table[node, entry] = UNMAPPED

    def _entry(self, owner: Owner, node: int, tag: object) -> int:
        number = whole(tag, "a tag", LEAST)
        if not 0 <= number < self._tags:
            raise SimulationError(f"tag must be from 0 to {self._tags - 1}, got {number}")
        holder = self._mapped.get((node, number), owner)
        if holder is not owner:
            raise SimulationError(
                f"tag {number} of node {node} is {holder.name}'s, not {owner.name}'s; take another"
            )
        return number

    def check_send(self, node: int, destination: object, count: int) -> int:
        """The destination.  Errors: ``SimulationError`` for what no endpoint could send."""
        to = destination if type(destination) is int else whole(destination, "a destination", LEAST)
        if (node, to) not in self.topology.paths:
            raise SimulationError(f"no path from node {node} to node {to}")
        if count > self.delivery.max_payload:
            raise SimulationError(
                f"payload must be at most {self.delivery.max_payload} bytes, got {count}"
            )
        return to
