"""Trapeze endpoints: control messages of 128 bytes with an optional payload."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.config.design import POLICIES, Delivery, Policy, Way, policy_name
from nicscope.config.platform import Platform, delivery_costs, load_platform, shadow_costs
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.bus.build import bus_of_endpoints
from nicscope.drivers.simulate.bus.state import Bus, Parameters, bytes_at_buses, machine_parameters
from nicscope.drivers.simulate.processor import OtherMaster
from nicscope.drivers.simulate.programs import Simulation
from nicscope.errors import SimulationError, did_you_mean
from nicscope.fabric.topology import Topology, crossbar
from nicscope.interfaces.arguments import (
    LEAST,
    check_deaths,
    checked_faults,
    checked_topology,
    node_count,
    one_of,
    shown,
    whole,
)
from nicscope.interfaces.options import with_named_options
from nicscope.interfaces.programs import Programs
from nicscope.interfaces.run_report import (
    Account,
    Names,
    NodeReport,
    Received,
    Sent,
    counted,
    records_to_keep,
    title,
)
from nicscope.interfaces.run_timeline import MachineRun
from nicscope.interfaces.trapeze_endpoint import (
    NO_TAG,
    Counted,
    Endpoint,
    HostBuffer,
    read_only,
    settle_memory,
)
from nicscope.interfaces.trapeze_memory import HostMemories, Message, unclaimed_messages
from nicscope.interfaces.ways import Combination, check_runs, way_named
from nicscope.memory_limit import check_memory, zeros
from nicscope.nic.coherent import NAMES as MECHANISMS
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.build import Faults


class TrapezeRun(MachineRun):
    """A run on NICs whose only client is the endpoint library."""

    def __init__(self, machine: Machine, names: Names, counted: Sequence[Counted]) -> None:
        """``counted``: by process, what it has handed over and taken."""
        super().__init__(machine, names)
        self._counted = counted

    def endpoints(self) -> list[Account]:
        """What was done for each process, which has one endpoint."""
        return [
            Account(
                node=one.node,
                process=one.process,
                messages_out=one.messages_out,
                messages_in=one.messages_in,
                bytes_out=one.bytes_out,
                bytes_in=one.bytes_in,
                requests={},
                sent=Sent(total=one.messages_out, first=one.messages_out),
            )
            for one in self._counted
        ]

    def nodes(self) -> list[NodeReport]:
        """Every node's work."""
        return [self._node(n) for n in range(len(self._machine.nodes))]

    def _node(self, n: int) -> NodeReport:
        endpoint, node = self._machine.endpoints[n], self._machine.nodes[n]
        written, finished, shown, came = (
            int(endpoint[name]) for name in ("written", "finished", "shown", "accepted")
        )
        lost, corrupted, cut_off = (int(node[why]) for why in ("lost", "corrupted", "cut_off"))
        return NodeReport(
            **self._engines(n),
            messages_out=written,
            messages_in=shown,
            bytes_out=int(node["written_bytes"]),
            bytes_in=int(node["received_bytes"]) + self._unread_bytes(n),
            requests={"done": finished} if finished else {},
            open_requests=written - finished,
            sent=Sent(total=written, first=written, **self._made(n)),
            received=Received(
                total=came,
                delivered=shown,
                lost=lost,
                corrupted=corrupted,
                cut_off=cut_off,
                broken_off=int(endpoint["dropped"]) - lost - corrupted - cut_off,
                unfinished=came - int(endpoint["completed"]),
            ),
        )

    def _unread_bytes(self, n: int) -> int:
        """Payload that is in the host's memory and of which no program has heard."""
        endpoint, inbox = self._machine.endpoints[n], self._machine.inboxes[n]
        unread = range(int(endpoint["read"]), int(endpoint["shown"]))
        return sum(int(inbox[i % len(inbox)]["payload"]) for i in unread)


__all__ = ["NO_TAG", "Cluster", "Endpoint", "HostBuffer", "Message", "OtherMaster"]

_LARGEST = 1 << 30  # bytes of a payload


class Cluster(Programs[Endpoint]):
    """Hosts on one switch, each with a Trapeze NIC, and programs on them."""

    interface = "Trapeze"
    given = "endpoint"

    @with_named_options()
    def __init__(
        self,
        platform: str | Path | Platform | Sequence[str | Path | Platform],
        *,
        nodes: int = 2,
        policy: str | Delivery = "adaptive",
        delivery: str | Delivery | None = None,
        max_payload: int | None = None,
        topology: Topology | None = None,
        shadow: bool = False,
        host_bytes: int = 1 << 22,
        tags: int = 64,
        keep_log: int = 0,
        way: str = "pci",
        masters: Sequence[OtherMaster] = (),
        faults: Faults | None = None,
    ) -> None:
        """``platform`` is one of the catalog that states what delivery costs, or one per node.

        ``delivery``, or ``policy``: when bytes go on, by a name of ``docs/virtual-time.md``.

        ``max_payload``: bytes, usually a page of 4 or 8 KB; by default what ``policy`` says.

        ``way``: how payloads cross between hosts and NICs, one of docs/ways.md.

        ``masters``: of the hosts' I/O buses, which each hold for a part of every period.

        ``faults``: losses, damage and deaths on the network; Trapeze sends nothing again, so what
        is lost is not received, and its sender does not hear of it (docs/virtual-time.md).

        With ``shadow``, control messages are built and read in host memory and cross the bus in
        bursts, where the platform has them; else the program's own loads and stores cross it.
        Errors: ``PlatformError``, ``SimulationError`` naming what is not there.
        """
        super().__init__()
        policy = policy if delivery is None else delivery
        if isinstance(policy, str) and policy not in POLICIES:
            raise SimulationError(f"no policy {policy!r}{did_you_mean(policy, POLICIES)}")
        self.delivery = POLICIES[policy] if isinstance(policy, str) else policy
        if max_payload is not None:
            self.delivery = _with_payload(self.delivery, max_payload)
        self.delivery = one_of(Delivery, self.delivery, "delivery", "(policy=...), or its name")
        self._host_bytes = whole(host_bytes, "host_bytes", 0)
        self._tags = whole(tags, "tags", 0)
        self._keep_log = records_to_keep(keep_log)
        self._parameters: Parameters | None = None
        if topology is None:
            node_count(nodes)
        given = None if topology is None else checked_topology(topology)
        self._check_room(nodes if given is None else given.nodes, nodes)
        self.topology = crossbar(nodes) if given is None else given
        priced = _platforms(platform, self.topology.nodes)
        self.way = way_named(way)
        cuts_through = self.delivery.policy == Policy.CUT_THROUGH
        for each in {one.name: one for one in priced}.values():
            check_runs(Combination(self.interface, each, self.way, cuts_through=cuts_through))
        cost_of = shadow_costs if shadow else delivery_costs
        self._costs = [cost_of(each) for each in priced]
        self._platform = " and ".join(dict.fromkeys(each.name for each in priced))
        self._masters = _checked_masters(masters, self.topology.nodes, self.way)
        self._faults = _checked_faults(checked_faults(faults), self.topology.nodes)
        if self.way != Way.PCI:
            self._parameters = _one_machine(priced)
        self.memories = self._new_memories()
        self._counted: list[Counted] = []  # by process

    def __repr__(self) -> str:
        programs = counted(len(self._programs), "program")
        what = title(self._names())
        return f"<Cluster of {counted(self.topology.nodes, 'node')}, {programs}: {what}>"

    def _names(self) -> Names:
        return Names(
            interface=self.interface,
            way=self.way.value,
            delivery=policy_name(self.delivery),
            platform=self._platform,
        )

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
        check_memory(need, f"a cluster of {nodes:,} nodes", advice)

    def _made(self, hosts: Sequence[int]) -> tuple[Simulation, list[Endpoint]]:
        self.memories = self._new_memories()
        rows = len(hosts) + sum(self._rooms)
        self._check_room(self.topology.nodes, rows)
        simulation = Simulation(
            self._costs,
            self.delivery,
            self.topology,
            hosts,
            self._host_bytes if self._parameters is None else 0,
            self._tags,
            self._keep_log,
            bus=None if self._parameters is None else self._bus(self._parameters, rows),
            masters=self._masters,
            faults=self._faults,
            tasks=self._rooms,
        )
        simulation.unclaimed = lambda: unclaimed_messages(
            simulation.machine, simulation.has_running_program
        )
        self.simulation = simulation
        self.memories.store = simulation.machine.store
        for node in range(self.topology.nodes):
            for _ in range(self.delivery.receive_ring):
                address, _ = self.memories.allocate(node, self.delivery.max_payload)
                simulation.attach(node, address)
        endpoints = [
            Endpoint(self, process, place - hosts.index(process.node))
            for place, process in enumerate(simulation.processes)
        ]
        self._counted = [endpoint.counted for endpoint in endpoints]
        return simulation, endpoints

    def _bus(self, parameters: Parameters, programs: int) -> Bus:
        memory = zeros((self.topology.nodes, self._host_bytes), np.dtype(np.uint8))
        mechanism = MECHANISMS[self.way]
        return bus_of_endpoints(parameters, mechanism, self.delivery, memory, programs)

    def _source(self) -> TrapezeRun:
        return TrapezeRun(self._ran().machine, self._names(), self._counted)

    @TrimmedTraceback()
    def memory(self, node: int) -> NDArray[Any]:
        """All bytes of a host's memory, uint8, to be read."""
        memory = self.host_bytes(self._node(node))
        settle_memory(self._ran().machine, node, 0, len(memory))
        return read_only(memory[:])

    def host_bytes(self, node: int) -> NDArray[Any]:
        """The same, as endpoints and the NIC change them."""
        bytes_of_host: NDArray[Any] = self._ran().machine.store.host[node]
        return bytes_of_host

    def _new_memories(self) -> HostMemories:
        return HostMemories(
            self.topology.nodes, self._host_bytes, self._tags, self.delivery.max_payload
        )

    def check_send(self, node: int, destination: object, count: int) -> int:
        """The destination.  Errors: ``SimulationError`` for what no endpoint could send."""
        to = destination if type(destination) is int else whole(destination, "a destination", LEAST)
        if (node, to) not in self.topology.paths:
            self._node(to)
            raise SimulationError(f"no path from node {node} to node {to}: name another node")
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
    if not isinstance(masters, list | tuple):
        raise SimulationError(f"masters is a list of OtherMaster, not {shown(masters)}")
    if masters and way != Way.PCI:
        raise SimulationError(
            f"other masters hold an I/O bus, and way {way.value!r} has the NIC at the memory bus, "
            "whose masters take turns block by block; leave masters out, or way"
        )
    for each in masters:
        one_of(OtherMaster, each, "each of masters", "(node=0, ...)").check(nodes)
    return tuple(masters)


def _checked_faults(faults: Faults, nodes: int) -> Faults:
    """``faults`` that can befall a packet which holds its whole path.  Errors: others."""
    if faults.duplication or faults.reordering:
        raise SimulationError(
            "a packet of Trapeze holds its path to its last byte: none is doubled or overtaken; "
            "leave duplication and reordering out of faults"
        )
    check_deaths(faults, nodes)
    return faults


def _platforms(
    given: str | Path | Platform | Sequence[str | Path | Platform], nodes: int
) -> list[Platform]:
    """The platform of each node.  Errors: ``PlatformError``, ``SimulationError``."""
    if isinstance(given, str | Path | Platform):
        return [_loaded(given)] * nodes
    if len(given) != nodes:
        raise SimulationError(
            f"{len(given)} platforms for {nodes} nodes; name one for all, or one per node"
        )
    return [_loaded(each) for each in given]


def _loaded(given: str | Path | Platform) -> Platform:
    return given if isinstance(given, Platform) else load_platform(given)


def _one_machine(priced: Sequence[Platform]) -> Parameters:
    """The coherent machine that all nodes are.  Errors: if they are several."""
    if len({each.name for each in priced}) > 1:
        raise SimulationError(
            "nodes at a memory bus are all of one platform; name one, or take way 'pci'"
        )
    return machine_parameters(priced[0])
