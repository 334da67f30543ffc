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

import msgspec
import numpy as np

from nicscope.config.delivery import POLICIES, Policy, Way, delivery_costs, shadow_costs
from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.bus.build import bus_of_endpoints
from nicscope.drivers.simulate.bus.need import bytes_at_buses
from nicscope.drivers.simulate.bus.parameters import machine_parameters
from nicscope.drivers.simulate.other_master import OtherMaster
from nicscope.drivers.simulate.programs import Simulation
from nicscope.errors import SimulationError, did_you_mean
from nicscope.fabric.topology import crossbar
from nicscope.interfaces.arguments import LEAST, whole
from nicscope.interfaces.payloads import HostBuffer, read_only, settle_memory
from nicscope.interfaces.run_report import RunReport, records_to_keep, report_of, tell
from nicscope.interfaces.trapeze_endpoint import NO_TAG, Endpoint
from nicscope.interfaces.trapeze_memory import HostMemories
from nicscope.interfaces.trapeze_message import Message
from nicscope.interfaces.trapeze_report import TrapezeRun
from nicscope.interfaces.ways import Combination, check_runs, chosen_way
from nicscope.nic.coherent.mechanism import NAMES as MECHANISMS
from nicscope.room import check_room, zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.config.delivery import Delivery
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.bus.parameters import Parameters
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.fabric.topology import Topology

__all__ = ["NO_TAG", "Cluster", "Endpoint", "HostBuffer", "Message", "OtherMaster"]

_LARGEST = 1 << 30  # bytes of a payload


class Cluster:
    """Hosts on one switch, each with a Trapeze NIC, and programs on them."""

    interface = "Trapeze"

    def __init__(
        self,
        platform: str | Sequence[str],
        *,
        nodes: int = 2,
        policy: str | Delivery = "adaptive",
        max_payload: int | None = None,
        topology: Topology | None = None,
        shadow: bool = False,
        host_bytes: int = 1 << 22,
        tags: int = 64,
        keep_log: int = 0,
        way: str = "pci",
        masters: Sequence[OtherMaster] = (),
    ) -> None:
        """``platform`` is one of the catalog that states what delivery costs, or one per node.

        ``max_payload``: bytes, usually a page of 4 or 8 KB; by default what ``policy`` says.

        ``way``: how payloads cross between hosts and NICs, one of docs/ways.md.

        ``masters``: of the hosts' I/O buses, which each hold for a part of every period.

        With ``shadow``, control messages are built and read in host memory and cross the bus in
        bursts, where the platform has them; else the program's own loads and stores cross it.
        Errors: ``PlatformError``, ``SimulationError`` naming what is not there.
        """
        if isinstance(policy, str) and policy not in POLICIES:
            raise SimulationError(f"no policy {policy!r}{did_you_mean(policy, POLICIES)}")
        self.delivery = POLICIES[policy] if isinstance(policy, str) else policy
        if max_payload is not None:
            self.delivery = _with_payload(self.delivery, max_payload)
        self._host_bytes = host_bytes
        self._tags = tags
        self._keep_log = records_to_keep(keep_log)
        self._parameters: Parameters | None = None
        self._check_room(nodes if topology is None else topology.nodes, nodes)
        self.topology = crossbar(nodes) if topology is None else topology
        priced = _platforms(platform, self.topology.nodes)
        self.way = chosen_way(way)
        cuts_through = self.delivery.policy == Policy.CUT_THROUGH
        for each in {one.name: one for one in priced}.values():
            check_runs(Combination(self.interface, each, self.way, cuts_through=cuts_through))
        cost_of = shadow_costs if shadow else delivery_costs
        self._costs = [cost_of(each) for each in priced]
        self._platform = " and ".join(dict.fromkeys(each.name for each in priced))
        self._masters = _checked_masters(masters, self.topology.nodes, self.way)
        if self.way != Way.PCI:
            self._parameters = _one_machine(priced)
        self._programs: list[tuple[int, Callable[[Endpoint], Coroutine[Any, Any, object]]]] = []
        self.memories = self._new_memories()
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
        self.memories = self._new_memories()
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
            masters=self._masters,
        )
        self.simulation = simulation
        self.memories.store = simulation.machine.store
        for node in range(self.topology.nodes):
            for _ in range(self.delivery.receive_ring):
                address, _ = self.memories.allocate(node, self.delivery.max_payload)
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

    def _new_memories(self) -> HostMemories:
        return HostMemories(
            self.topology.nodes, self._host_bytes, self._tags, self.delivery.max_payload
        )

    def check_send(self, node: int, destination: object, count: int) -> int:
        """The destination.  Errors: ``SimulationError`` for what no endpoint could send."""
        to = destination if type(destination) is int else whole(destination, "a destination", LEAST)
        if (node, to) not in self.topology.paths:
            raise SimulationError(f"no path from node {node} to node {to}")
        if count > self.delivery.max_payload:
            raise SimulationError(
                f"payload must be at most {self.delivery.max_payload} bytes, got {count}; the "
                "cluster's max_payload sets that"
            )
        return to


def _with_payload(delivery: Delivery, max_payload: int) -> Delivery:
    """``delivery`` on a network whose largest payload is that; minpulse stays within it."""
    largest = whole(max_payload, "max_payload", 1, _LARGEST)
    pulses = (min(largest, one) for one in (delivery.minpulse_send, delivery.minpulse_receive))
    send, receive = pulses
    return msgspec.structs.replace(
        delivery, max_payload=largest, minpulse_send=send, minpulse_receive=receive
    )


def _checked_masters(
    masters: Sequence[OtherMaster], nodes: int, way: Way
) -> tuple[OtherMaster, ...]:
    """``masters`` as a cluster can have them.  Errors: ``SimulationError``."""
    if masters and way != Way.PCI:
        raise SimulationError(
            f"other masters hold an I/O bus, and way {way.value!r} has the NIC at the memory bus, "
            "whose masters take turns block by block; leave masters out, or way"
        )
    for each in masters:
        each.check(nodes)
    return tuple(masters)


def _platforms(given: str | Sequence[str], nodes: int) -> list[Platform]:
    """The platform of each node.  Errors: ``PlatformError``, ``SimulationError``."""
    if isinstance(given, str):
        return [load_platform(given)] * nodes
    if len(given) != nodes:
        raise SimulationError(
            f"{len(given)} platforms for {nodes} nodes; name one for all, or one per node"
        )
    loaded = {name: load_platform(name) for name in dict.fromkeys(given)}
    return [loaded[name] for name in given]


def _one_machine(priced: Sequence[Platform]) -> Parameters:
    """The coherent machine that all nodes are.  Errors: if they are several."""
    if len({each.name for each in priced}) > 1:
        raise SimulationError(
            "nodes at a memory bus are all of one platform; name one, or take way 'pci'"
        )
    return machine_parameters(priced[0])
