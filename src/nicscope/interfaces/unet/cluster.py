"""A cluster whose processes talk through U-Net endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from nicscope.config.design import Design, Scheme, Transport, chosen_design
from nicscope.drivers.simulate.records import COMPUTE
from nicscope.errors import PlatformError, SimulationError
from nicscope.interfaces.arguments import a_name, whole
from nicscope.interfaces.buffers import checked_range, memory_of
from nicscope.interfaces.options import SharedOptions, with_named_options
from nicscope.interfaces.ports import process as ports
from nicscope.interfaces.ports.cluster import MOST_PORTS, PAGE_SIZE, PortCluster
from nicscope.interfaces.unet.area import Area
from nicscope.interfaces.unet.endpoint import Endpoint, Placed, check_fits, place_structures
from nicscope.interfaces.unet.links import AtmCircuits, Registry, TagForm
from nicscope.nic.ports.layout import BUFFERS
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.drivers.simulate.programs import Simulation
    from nicscope.interfaces.ports.memory import Buffer


FRAME_BYTES = 1498  # what a frame of Fast Ethernet carries (U-Net/MM, Table 1)


class Process(ports.Process):
    """A process: memory, CPU, and as many endpoints as it opens."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, sim_process: SimProcess, number: int) -> None:
        super().__init__(cluster, sim_process, number)
        self._ports.table[self.node, self.port]["open"] = 0  # until the program opens it
        self.copied_bytes = 0

    async def open(self, name: str | None = None) -> Endpoint:
        """Open an endpoint, which others find as ``name``."""
        if name is not None:
            a_name(name)
        await self.system_call()
        cluster, node = self.cluster, self.node
        registry = cluster.registry
        port = registry.take_port(node, self.port, cluster.processes[node])
        try:
            if name is not None:
                registry.publish(node, name, port)
            area = cluster.new_area(self, node, port)
        except SimulationError:
            registry.forget(node, port)
            raise
        record = self._ports.table[node, port]
        record["reaped"] = record["reported"]
        record["read"] = record["reserved"] = record["received"]
        last = cluster.opened.get((node, port))
        if last is not None:
            last._lose()
            record["given"] += 1
        self._map_port(port)
        self._note_port(port, name)
        if area is not None:
            record["space"] = cluster.space_of_area(port)
        endpoint = cluster.opened[node, port] = Endpoint(self, port, area, name)
        return endpoint

    def open_port(self, port: int) -> None:
        """Open the port of an endpoint again, as any.  Errors: if there is no endpoint at it."""
        self._owner.check_caller()
        which = self._own(port)
        if not self.cluster.registry.is_taken(self.node, which):
            raise SimulationError(
                f"port {which} of node {self.node} has no endpoint; open() opens one"
            )
        super().open_port(which)

    async def copy(self, source: Buffer, target: Buffer) -> None:
        """Copy ``source`` to the begin of ``target`` with the CPU."""
        self._owner.check_caller()
        for each in (source, target):
            checked_range(self._owner, memory_of(self._owner, each), each)
        costs = self._ports.costs[self.node]
        duration = costs["copy_start"] + costs["copy_per_byte"] * source.length
        await target.write(await source.read())
        await self._sim_process.ask(COMPUTE, duration=int(duration))
        self.copied_bytes += source.length

    def _held(self) -> list[tuple[int, int, str]]:
        what = "it is in a free queue; it comes back with a message, or when its endpoint closes"
        return [
            (address, len(buffer), what)
            for (node, _), endpoint in self.cluster.opened.items()
            if node == self.node and endpoint.process is self and endpoint.is_open
            if endpoint.area is None
            for address, buffer in endpoint._provided.items()
        ]

    def swap_out(self) -> int:
        """Have the host's operating system take every frame that is not pinned; how many."""
        self._owner.check_caller()
        taken = 0
        while self._memory.swap_out(self.node):
            taken += 1
        return taken


class Cluster(PortCluster[Process]):
    """Hosts on one switch whose NIs serve U-Net endpoints."""

    interface = "U-Net"
    process_type = Process
    transport = Transport(reliable=False)
    polling_keeps = True

    @with_named_options(SharedOptions)
    def __init__(
        self,
        design: str | Path | Design = "unet-mm-pca200",
        platform: str | Path | Platform | None = None,
        *,
        endpoints: int | None = None,
        buffer_bytes: int | None = None,
        fresh: bool | None = None,
        small_inside: bool = True,
        tags: TagForm | None = None,
        **others: Unpack[SharedOptions],
    ) -> None:
        """``design`` and ``platform`` are of the catalog, and ``others`` as in ``PortCluster``.

        ``endpoints`` of each node, one per process by default; ``buffer_bytes`` of a receive
        buffer, which lies in one page; ``area_bytes``, a setting, of U-Net's pinned area.
        ``fresh``: an absent receive buffer gets a page of zeros instead of its content from disk;
        by default so where U-Net/MM's NIC serves and buffers are pages.
        ``small_inside``: messages of less than 56 bytes travel in their descriptors.  Messages may
        be lost unless ``transport`` is reliable.
        """
        chosen = chosen_design(design, {})
        if others.get("area_bytes", 0) is None:
            del others["area_bytes"]
        if "area_bytes" in others and others.get("scheme", chosen.scheme) != Scheme.PINNED:
            raise SimulationError(f"design {chosen.name!r} has no pinned area; drop area_bytes")
        if endpoints is not None:
            endpoints = whole(endpoints, "endpoints", 1, MOST_PORTS)
        super().__init__(chosen, platform, ports=endpoints, **others)
        if buffer_bytes is None:
            buffer_bytes = PAGE_SIZE if self.nic_serves else FRAME_BYTES
        self.buffer_bytes = whole(buffer_bytes, "buffer_bytes", 1, PAGE_SIZE)
        # a NIC asks for such a page (5.1); a kernel that serves brings it in its owner's trap (5.2)
        is_mapped = self.design.scheme is Scheme.UNET_MM and self.nic_serves
        if fresh and buffer_bytes < PAGE_SIZE:
            raise SimulationError("buffers that share a page cannot be zeroed; drop fresh")
        self._fresh = is_mapped and buffer_bytes == PAGE_SIZE if fresh is None else fresh
        if self._fresh and "zero_map_in" not in self.platform.costs:
            raise PlatformError(
                f"platform {self.platform.name!r} states no zero_map_in, which an absent receive "
                "buffer of zeros costs; state it in a file of your own, or give fresh=False"
            )
        self.small_inside = small_inside
        self.tags = tags or AtmCircuits()
        self.processes: list[int] = []  # of each node
        self.opened: dict[tuple[int, int], Endpoint] = {}  # the last at each port

    @property
    def most_bytes(self) -> int:
        """Bytes of the longest message."""
        return BUFFERS * self.buffer_bytes

    def tag_of(self, node: int, channel: int) -> Hashable:
        """The tag for it on this network."""
        return self.tags.tag(node, channel)

    def spaces(self, processes: int, ports: int) -> int:
        """Address spaces of a node: the processes', and the pinned areas that U-Net has."""
        return processes + (ports if self.is_pinned_area else 0)

    def space_of_area(self, port: int) -> int:
        """The address space whose addresses are the offsets in the area of ``port``."""
        return max(self.processes) + port - 1

    def new_area(self, process: Process, node: int, port: int) -> Area | None:
        """The pinned area of an endpoint that ``process`` opens, where it has one."""
        if not self.is_pinned_area:
            return None
        assert self.simulation is not None
        assert self.memory is not None
        pages = -(-(self.design.area_bytes or 0) // self.page_size)
        space = self.space_of_area(port)
        return Area(process, self.simulation.machine, self.memory, node, space, pages)

    @TrimmedTraceback()
    def structures(self, node: int) -> Placed:
        """Bytes of each structure on the NIC of ``node``, and in its host; after a run."""
        return place_structures(self._ran().machine, self._node(node))

    def _simulation(self, hosts: Sequence[int], processes: Sequence[int]) -> Simulation:
        simulation = super()._simulation(hosts, processes)
        check_fits(simulation.machine, self.platform)
        self.processes = list(processes)
        self.opened = {}
        self.registry = Registry(simulation.machine, self.buffer_bytes, self.most_bytes)
        return simulation
