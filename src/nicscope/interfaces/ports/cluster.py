"""Clusters whose NICs serve ports: hosts, their processes, and the report of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from nicscope.config.design import (
    Delivery,
    Design,
    Policy,
    Scheme,
    Transport,
    Way,
    chosen_design,
    chosen_transport,
    policy_name,
    read_part,
)
from nicscope.config.platform import MIDDLE, Platform, load_platform, program_costs, transfer_costs
from nicscope.drivers.simulate.build import machine_bytes
from nicscope.drivers.simulate.bus.build import bus_frames, bus_of_ports
from nicscope.drivers.simulate.bus.state import bytes_at_buses, machine_parameters
from nicscope.drivers.simulate.ports.build import (
    Faults,
    HostSize,
    PortSize,
    Setup,
    new_ports,
    ports_bytes,
)
from nicscope.drivers.simulate.ports.connections import with_connections
from nicscope.drivers.simulate.ports.costs import service_costs
from nicscope.drivers.simulate.process import Simulation
from nicscope.drivers.translation import counts_of
from nicscope.errors import SimulationError
from nicscope.fabric.topology import Topology, crossbar
from nicscope.interfaces.arguments import (
    DesignSettings,
    a_fraction,
    check_deaths,
    checked_faults,
    checked_host,
    checked_size,
    checked_topology,
    chosen_delivery,
    node_count,
    whole,
    with_named_options,
)
from nicscope.interfaces.ports.counters import PortOwners, PortsRun
from nicscope.interfaces.ports.memory import Memory
from nicscope.interfaces.ports.process import PortMachine, Process
from nicscope.interfaces.programs import Programs
from nicscope.interfaces.run_report import Names, records_to_keep
from nicscope.interfaces.ways import PORTS, Combination, check_runs
from nicscope.memory_limit import check_memory
from nicscope.nic.coherent import NAMES as MECHANISMS
from nicscope.nic.ports.layout import OWN_PORT, STATUS_NAMES
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction
    from pathlib import Path


E = TypeVar("E", bound=Process)
PAGE_SIZE = 4096
OWN_PORTS = 1  # of the firmware, per node
MOST_PORTS = 1 << 20


class PortCluster(PortMachine, Programs[E]):
    """Hosts on one switch, each with a NIC that serves ports, and programs on them."""

    process_type: type[Any] = Process
    run_type: type[PortsRun] = PortsRun
    transport: Transport = Transport()
    garbage = False  # whether what is not pinned has the garbage page in its table (UTLB 4.2)
    polling_keeps = False  # whether who polls keeps the CPU until the end of its time slice
    statuses: Sequence[str] = STATUS_NAMES  # what the ends of descriptors are called
    buffer_bytes: int = 1  # of a receive buffer: it must lie in one page

    @with_named_options(DesignSettings)
    def __init__(
        self,
        design: str | Path | Design,
        platform: str | Path | Platform | None = None,
        *,
        nodes: int = 2,
        policy: str | Delivery | None = None,
        delivery: str | Delivery | None = None,
        topology: Topology | None = None,
        delay: str | None = None,
        transport: str | Transport | None = None,
        faults: Faults | None = None,
        host: HostSize | None = None,
        size: PortSize | None = None,
        ports: int | None = None,
        fresh: bool = False,
        keep_log: int = 0,
        place: Fraction = MIDDLE,
        **settings: Unpack[DesignSettings],
    ) -> None:
        """``design`` and ``platform`` are of the catalog, or files; a design may name a platform.

        ``delivery`` (or ``policy``) and ``transport``, a design's word or in full: the design's
        unless given.  ``settings`` change the design's, by the names of ``docs/designs.md``:
        ``pin_limit=64``.  ``ports``: of each node, at least one per process.  ``delay``: how
        long a packet propagates between two nodes, such as ``"40ms"``.  ``place``: which
        value of a cost that is stated as a range, from 0, its low end, to 1.  Errors:
        ``DesignError``, ``PlatformError``, ``SimulationError`` naming what is not there, or why it
        cannot run together.
        """
        super().__init__()
        self.design = chosen_design(design, dict(settings)).at_page_size(PAGE_SIZE)
        name = platform or self.design.platform
        if name is None:
            raise SimulationError(f"design {self.design.name!r} names no platform; give one")
        self.platform = name if isinstance(name, Platform) else load_platform(name)
        self.delivery = chosen_delivery(delivery, policy, self.design.delivery)
        self.served_by = self.design.served_by or self.platform.served_by
        self.way = Way(self.design.way)
        cuts_through = self.delivery.policy == Policy.CUT_THROUGH
        asked = Combination(
            self.interface or PORTS, self.platform, self.way, self.design, cuts_through
        )
        check_runs(asked)
        self.transport_of_run = self._transport(transport)
        self.host = checked_host(host)
        self.processors = self._processors()
        self.size = with_connections(checked_size(size), self.transport_of_run)
        self._fresh = fresh
        self.faults = checked_faults(faults)
        self._keep_log = records_to_keep(keep_log)
        self._ports = None if ports is None else whole(ports, "a number of ports", 1, MOST_PORTS)
        self._transfers = transfer_costs(self.platform)
        a_fraction(place, "place")
        costs = program_costs(
            self.platform, self.design.scheme, place=place, served_by=self.served_by
        )
        self._service = service_costs(costs, self.design)
        self._interrupt = costs.steps["interrupt"]  # for what a NIC cannot move by itself
        if topology is None:
            self._check_nodes(node_count(nodes))
            topology = crossbar(nodes)
        self.topology = checked_topology(topology, delay)
        check_deaths(self.faults, self.topology.nodes)

    def _transport(self, given: str | Transport | None) -> Transport:
        """The transport that was ``given``, or else the design's, or the interface's own."""
        if isinstance(given, Transport):
            return given
        word = self.design.transport if given is None else read_part("transport", given, "Cluster")
        return chosen_transport(word, self.transport)

    def _made(self, hosts: Sequence[int]) -> tuple[Simulation, list[E]]:
        processes = [max(1, hosts.count(node)) for node in range(self.topology.nodes)]
        simulation = self._simulation(hosts, processes)
        made = []
        for place, process in enumerate(simulation.processes):
            number = place - hosts.index(process.node)  # on its node
            made.append(self.process_type(self, process, number))
        self.prepare(made)
        return simulation, made

    def spaces(self, processes: int, ports: int) -> int:  # noqa: ARG002 - one per process
        """Address spaces of a node with so many processes and ports: by default one per process."""
        return processes

    def prepare(self, processes: Sequence[E]) -> None:
        """Prepares the system before the programs begin; most interfaces need nothing."""

    def _processors(self) -> int:
        """Processors of a host: two where one slot of the agenda is enough for them."""
        asked, stated = self.host.processors, self.platform.machine.get("processors")
        can_have_two = self.way == Way.PCI and self.nic_serves
        if asked is None:
            return 2 if can_have_two and stated is not None and stated.value > 1 else 1
        if asked not in (1, 2) or isinstance(asked, bool):
            raise SimulationError(f"a host has 1 or 2 processors, got {asked!r}")
        if asked == 2 and not can_have_two:
            raise SimulationError(
                "a host has two processors where its NIC is behind the PCI and serves ports "
                "itself; give HostSize(processors=1), or another way or platform"
            )
        return asked

    def _check_nodes(self, nodes: int) -> None:
        """Refuse more nodes than there is room for, each with one program."""
        self._check(
            machine_bytes(self._wide_delivery, nodes, nodes, keep_log=self._keep_log), nodes
        )
        if nodes > 0:
            self._check_room([1] * nodes, 2 * nodes, nodes)

    def _check_room(self, processes: Sequence[int], links: int, programs: int) -> None:
        """Refuses a cluster that does not fit in memory, before anything of it is made."""
        nodes, delivery = len(processes), self._wide_delivery
        need = ports_bytes(self._setup(processes, links), delivery)
        if self.way != Way.PCI:
            host, nic = machine_parameters(self.platform)
            need += bytes_at_buses(nodes, host, nic, nic["memory_bytes"] // self.page_size)
        self._check(need + machine_bytes(delivery, nodes, programs, keep_log=self._keep_log), nodes)

    def _check(self, need: int, nodes: int) -> None:
        check_memory(
            need,
            f"a cluster of {nodes:,} nodes",
            "ask for fewer nodes, ports, frames, blocks of swap or records of the log",
        )

    def _setup(self, processes: Sequence[int], links: int) -> Setup:
        nodes = len(processes)
        ports = OWN_PORTS + max(self._ports or 0, max(processes))
        queue_frames = 0  # of a host, in which its CPU and a NIC at its bus meet
        if self.way != Way.PCI:
            rings, entries = (ports, self.size.ring), self.size.queues * self.size.entries
            mechanism, parameters = MECHANISMS[self.way], machine_parameters(self.platform)
            queue_frames = bus_frames(parameters, mechanism, rings, self.page_size, entries)
        return Setup(
            design=self.design,
            processes=processes,
            ports=ports,
            costs=[self._service.steps] * nodes,
            user_pin=[self._service.user_pin] * nodes,
            user_unpin=[self._service.user_unpin] * nodes,
            transport=self.transport_of_run,
            faults=self.faults,
            host=self.host,
            size=self.size,
            fresh=self._fresh,
            garbage=self.garbage,
            buffer_bytes=self.buffer_bytes,
            queue_frames=queue_frames,
            serves=self.nic_serves,
            polling_keeps=self.polling_keeps,
            spaces=self.spaces(max(processes), ports - OWN_PORTS),
            links=links,
            tasks=sum(self._rooms),
            keep_log=self._keep_log,
        )

    @property
    def _wide_delivery(self) -> Delivery:
        """The delivery policy, with packets that hold a page."""
        most = max(self.delivery.max_payload, self.page_size)
        return msgspec.structs.replace(self.delivery, max_payload=most)

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        links = self.topology.links
        rows = len(hosts) + sum(self._rooms)
        self._check_room(processes, links, rows)
        delivery = self._wide_delivery
        ports, bus = new_ports(self._setup(processes, links), delivery), None
        if self.way != Way.PCI:
            parameters = machine_parameters(self.platform)
            mechanism = MECHANISMS[self.way]
            bus = bus_of_ports(
                parameters,
                mechanism,
                delivery,
                ports.memory,
                rows,
                self._interrupt,
                (ports.table.shape[1], self.size.ring),
                self.size.queues * self.size.entries,
            )
            ports = ports._replace(memory=ports.memory._replace(caches=bus.hosts))
        simulation = Simulation(
            [self._transfers] * self.topology.nodes,
            delivery,
            self.topology,
            hosts,
            0,
            keep_log=self._keep_log,
            ports=ports,
            bus=bus,
            tasks=self._rooms,
        )
        simulation.machine.nodes["processors"] = self.processors
        self.simulation = simulation
        self.memory = Memory(simulation.machine.ports.memory)
        self.book = PortOwners(simulation.machine.ports)
        simulation.machine.ports.table["open"][:, OWN_PORT] = 1
        return simulation

    @property
    def page_size(self) -> int:
        """Bytes of a page."""
        assert self.design.page_size is not None
        return self.design.page_size

    @TrimmedTraceback()
    def counts(self, node: int) -> dict[str, int | None]:
        """What translation has counted on ``node``, by the names of a replay."""
        return counts_of(self._ran().machine.ports.translations, self._node(node))

    def _source(self) -> PortsRun:
        machine = self._ran().machine
        counts = [self.counts(node) for node in range(self.topology.nodes)]
        assert self.book is not None
        return self.run_type(machine, counts, self._names(), self.book, self.statuses)

    def _names(self) -> Names:
        return Names(
            interface=self.interface,
            design=self.design.name,
            way=self.design.way,
            delivery=policy_name(self.delivery),
            platform=self.platform.name,
        )

    @property
    def is_pinned_area(self) -> bool:
        """Whether each process has one pinned area instead of translations."""
        return self.design.scheme is Scheme.PINNED
