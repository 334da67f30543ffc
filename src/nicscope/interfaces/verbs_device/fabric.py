"""The nodes beneath devices: hosts with a NIC each, which also sends to itself, and a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import msgspec

from nicscope.config.delivery import Transport
from nicscope.drivers.simulate.calling import Calling
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.drivers.simulate.ports.datagrams import Ways
from nicscope.drivers.simulate.ports.retiring import Retired
from nicscope.drivers.simulate.turns import Turn, Turns
from nicscope.interfaces.options import DesignSettings, spelt_out
from nicscope.interfaces.ports.cluster import OWN_PORTS, PortCluster
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.verbs_device.routing import addresses
from nicscope.interfaces.verbs_device.run import VerbsRun

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.delivery import Delivery
    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.calling import Caller
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.programs import Simulation
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces.verbs_device.device import Device

DESIGN = "vmmc-interrupt"  # whose NIC asks for a page when it misses it
PLATFORMS = {"vmmc-interrupt": "utlb-prototype", "via-static": "utlb-prototype"}
KEY_BITS = 8  # of a key that say which of those it is that a region or window has had
SIZE = PortSize(
    ring=512,
    ready=1,
    channels=1,
    exports=0,
    imports=0,
    longest=4096,
    connections=1 << 16,
    segments=16,
    receives=512,
    regions=1 << 17,
    queues=1 + 1024,
    entries=1 << 14,
)
HOST = HostSize(frames=1 << 14, pages_per_space=1 << 16, swap_blocks=1 << 12)
PAIRS = 1024 + 64  # shared queues of receives are of the same kind
WAYS = 2  # of datagrams: from the node to itself, of which each end has a tag
# Assumed: what a queue pair does not say of its own.  Acknowledgements wait for a packet to go with
# as those of the other interfaces do.
TRANSPORT = Transport(window=64, time_out_ps=500_000_000, most_retries=7, remaps=False)


class Fabric(PortCluster[Process]):
    """Hosts whose NICs serve queue pairs, and the devices on them."""

    interface = "verbs"
    run_type = VerbsRun
    transport = TRANSPORT

    @spelt_out(DesignSettings)
    def __init__(
        self,
        design: str | Path | Design = DESIGN,
        platform: str | Path | Platform | None = None,
        *,
        delivery: str | Delivery | None = None,
        faults: Faults | None = None,
        host: HostSize | None = None,
        size: PortSize | None = None,
        nodes: int = 1,
        topology: Topology | None = None,
        pairs: int = PAIRS,
        keep_log: int = 0,
        **settings: Unpack[DesignSettings],
    ) -> None:
        """``pairs``: queue pairs of a node, at most; else as a ``PortCluster`` is given it."""
        size = SIZE if size is None else size
        nodes = nodes if topology is None else topology.nodes
        self.pairs = pairs
        size = msgspec.structs.replace(size, channels=OWN_PORTS + pairs + WAYS + nodes - 1)
        super().__init__(
            design,
            platform or PLATFORMS.get(str(getattr(design, "name", design))),
            nodes=nodes,
            topology=topology,
            delivery=delivery,
            faults=faults,
            host=HOST if host is None else host,
            size=size,
            ports=pairs,
            transport=TRANSPORT,
            keep_log=keep_log,
            **settings,
        )

        self.keeps = self._keep_log  # records of the log
        self.devices: list[Device] = []  # one on each node
        # Streams whose other end is made, by node and number of the pair that has none and of that.
        self.awaited: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}

    def begun(self) -> Simulation:
        """The nodes, on which nothing has happened when this is first called."""
        if self._begun is None:
            hosts = range(self.topology.nodes)
            self._begun = self._simulation(hosts, [1] * len(hosts))
            ports = self._begun.machine.ports
            ports.rules["key_bits"] = KEY_BITS
            self.ways = Ways(ports)
            self.retired = Retired(ports)
            if len(hosts) > 1:
                self.turns = Turns(self._begun)
        return self._begun

    _begun: Simulation | None = None
    retired: Retired  # streams of pairs that have left
    turns: Turns | None = None  # of the programs, where there are several

    def source(self) -> VerbsRun:
        """What reports and timelines of the run are made from."""
        self.begun()
        return self._source()

    def _source(self) -> VerbsRun:
        found = super()._source()
        assert isinstance(found, VerbsRun)
        found.devices = self.devices
        return found

    def caller(self) -> Caller:
        """By which the program of a node has its process do something."""
        begun = self.begun()
        return Calling(begun) if self.turns is None else Turn(self.turns)

    def take_turns(self) -> Turns:
        """Have the program that calls be one of several from now on."""
        begun = self.begun()
        if self.turns is None:
            self.turns = Turns(begun)
            self.turns.go_alone()
            for device in self.devices:
                device.be_called_in_turns()
        return self.turns

    def node_at(self, address: bytes, asked: int) -> int | None:
        """Whose address that is; a node alone in its network finds itself behind every one."""
        nodes = self.topology.nodes
        if nodes == 1:
            return asked
        return next((node for node in range(nodes) if address in addresses(node)), None)
