"""The nodes beneath devices: hosts with a NIC each, their runs, addresses of datagrams."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from nicscope.config.design import Transport
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.drivers.simulate.ports.connections import DatagramStreams, Retired
from nicscope.drivers.simulate.records import COMPUTING, POSTING
from nicscope.drivers.simulate.thread_scheduler import (
    ScheduledCaller,
    SingleCaller,
    ThreadScheduler,
)
from nicscope.interfaces.arguments import DesignSettings, with_named_options
from nicscope.interfaces.ports.cluster import OWN_PORTS, PortCluster
from nicscope.interfaces.ports.counters import KINDS, PortsRun
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.run_report import ACTIONS
from nicscope.interfaces.verbs_device import codes
from nicscope.nic.ports.layout import ACKNOWLEDGEMENT, OWN_PORT, REPLY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nicscope.config.design import Delivery, Design
    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.observe import RunLog
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.drivers.simulate.thread_scheduler import Caller
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces.verbs_device.device import Device


HEADER = 40  # bytes
_NEXT_IS_BTH, _UDP = 0x1B, 17  # what follows the header (InfiniBand Architecture, 8.3; IANA)
_MAPPED = bytes(10) + b"\xff\xff"  # how the address of a version 4 begins as one of version 6
NIC_ID = 0x020000FFFE000000  # an EUI-64 of locally administered addresses, below which nodes count
_HOPS = 64
_OF_V4 = 20  # bytes of a header of version 4, which is the latter half


def addresses(node: int) -> tuple[bytes, bytes]:
    """The GIDs of a node's port: the link-local one, and the one of its IPv4 address."""
    local = (0xFE80 << 112) | (guid(node) ^ (1 << 57))
    return local.to_bytes(16, "big"), _MAPPED + bytes([10, 0, 0, node + 1])


def guid(node: int) -> int:
    """The GUID of a node's NIC."""
    return NIC_ID + node + 1


def address_like(other: bytes, node: int) -> bytes:
    """The GID of a node of the same type as another node's."""
    return addresses(node)[other.startswith(_MAPPED)]


def header(source: bytes, destination: bytes, length: int) -> bytes:
    """The 40-byte GRH of a datagram of ``length`` bytes between two GIDs of 16 bytes."""
    if destination.startswith(_MAPPED):
        head = bytearray(bytes((0x45, 0)) + (_OF_V4 + length).to_bytes(2, "big") + bytes(4))
        head += bytes((_HOPS, _UDP, 0, 0)) + source[12:] + destination[12:]
        head[10:12] = _checksum(head).to_bytes(2, "big")
        return bytes(HEADER - _OF_V4) + bytes(head)
    first = bytes((0x60, 0, 0, 0)) + length.to_bytes(2, "big")
    return first + bytes((_NEXT_IS_BTH, _HOPS)) + source + destination


def _checksum(head: bytes | bytearray) -> int:
    """The ones' complement checksum of a header (RFC 791)."""
    total = sum(int.from_bytes(head[at : at + 2], "big") for at in range(0, len(head), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


CALLS = {COMPUTING: "system call or poll", POSTING: "post"}


class VerbsRun(PortsRun):
    """A run report whose ports are queue pairs."""

    devices: Sequence[Device] = ()  # one to each node

    def log(self) -> RunLog:
        """Log records of every engine; the CPU's are named after verbs."""
        actions = {**ACTIONS, Engine.CPU: {**ACTIONS[Engine.CPU], **CALLS}}
        return super().log()._replace(actions=actions)

    def _packets(self) -> Mapping[tuple[int, int], str]:
        ports = self._machine.ports
        made = ports.happenings[: ports.happened[0]]
        return {
            (int(one["sender"]), int(one["number"])): self._called(one)
            for one in made[made["came"] == 0]
        }

    def _called(self, made: Any) -> str:
        """A packet named by its queue pair, its opcode and its ``wr_id``."""
        kind, port = int(made["kind"]), int(made["port"])
        what = KINDS.get(kind, "packet")
        if not OWN_PORT <= int(made["of"]) < len(self.devices):
            return what
        device = self.devices[int(made["of"])]
        whose = f"node {int(made['of'])} QP" if len(self.devices) > 1 else "QP"
        posted = device.posted.get(int(made["cookie"]))
        if posted is not None:
            answers = " answer" if kind == REPLY else ""
            name = codes.NAMES[posted.opcode]
            return f"{whose} {posted.qp_num:#x} {name}{answers}, wr_id {posted.wr_id}"
        number = _holder(device.held, port, int(made["time"]))
        if number is None:
            return what
        return f"{whose} {number:#x} {'ACK' if kind == ACKNOWLEDGEMENT else what}"


def _holder(held: Mapping[int, list[tuple[int, int]]], port: int, time: int) -> int | None:
    """The queue pair that owned a port at that time."""
    several = held.get(port, [])
    place = bisect_right(several, time, key=lambda one: one[0])
    return several[place - 1][1] if place else None


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

    @with_named_options(DesignSettings)
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
        """The simulation of all nodes, created on the first call."""
        if self._begun is None:
            hosts = range(self.topology.nodes)
            self._begun = self._simulation(hosts, [1] * len(hosts))
            ports = self._begun.machine.ports
            ports.rules["key_bits"] = KEY_BITS
            self.ways = DatagramStreams(ports)
            self.retired = Retired(ports)
            if len(hosts) > 1:
                self.turns = ThreadScheduler(self._begun)
        return self._begun

    _begun: Simulation | None = None
    retired: Retired  # streams of pairs that have left
    turns: ThreadScheduler | None = None  # of the programs, where there are several

    def source(self) -> VerbsRun:
        """The source of the run's reports and timelines."""
        self.begun()
        return self._source()

    def _source(self) -> VerbsRun:
        found = super()._source()
        assert isinstance(found, VerbsRun)
        found.devices = self.devices
        return found

    def caller(self) -> Caller:
        """The object through which a node's program performs operations."""
        begun = self.begun()
        return SingleCaller(begun) if self.turns is None else ScheduledCaller(self.turns)

    def take_turns(self) -> ThreadScheduler:
        """Register the calling program with the thread scheduler."""
        begun = self.begun()
        if self.turns is None:
            self.turns = ThreadScheduler(begun)
            self.turns.adopt_calling_thread()
            for device in self.devices:
                device.use_scheduler()
        return self.turns

    def node_at(self, address: bytes, asked: int) -> int | None:
        """The node with that GID; a node alone in its network has every GID."""
        nodes = self.topology.nodes
        if nodes == 1:
            return asked
        return next((node for node in range(nodes) if address in addresses(node)), None)
