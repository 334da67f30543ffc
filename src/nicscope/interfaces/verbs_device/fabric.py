"""What is beneath devices: nodes with a NIC each, their runs, addresses, processes and memory."""

from __future__ import annotations

import errno
import functools
import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from gc import disable, enable, isenabled
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

import msgspec

from nicscope.config.design import Delivery, Design, Scheme, Transport
from nicscope.drivers.simulate.observe import Engine, RunLog
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize
from nicscope.drivers.simulate.ports.connections import DatagramStreams, Retired
from nicscope.drivers.simulate.ports.reports import LATE
from nicscope.drivers.simulate.process import OWN, pack_into, unfit
from nicscope.drivers.simulate.process import SIZE as RECORD_BYTES
from nicscope.drivers.simulate.process import Process as SimProcess
from nicscope.drivers.simulate.records import AWAIT_QUEUE, CHAIN, COMPUTE, COMPUTING, POSTING
from nicscope.drivers.simulate.thread_scheduler import (
    Caller,
    NodeCaller,
    ScheduledCaller,
    SingleCaller,
    ThreadScheduler,
)
from nicscope.errors import SimulationError
from nicscope.host.calls import drop_page
from nicscope.interfaces.arguments import DesignSettings, with_named_options
from nicscope.interfaces.ports.cluster import OWN_PORTS, PortCluster
from nicscope.interfaces.ports.counters import KINDS, PortsRun
from nicscope.interfaces.ports.process import Process
from nicscope.interfaces.run_report import ACTIONS
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import (
    Caps,
    Piece,
    Posted,
    QpState,
    Receive,
    Refused,
    Send,
)
from nicscope.interfaces.work_queues import PinnedPages
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.paging.layout import UNMAPPED
from nicscope.nic.ports import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.observe import RunLog
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.drivers.simulate.thread_scheduler import Caller
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces.ports.memory import Memory


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


def is_of_v4(gid: bytes) -> bool:
    """Whether a GID is that of an IPv4 address."""
    return gid.startswith(_MAPPED)


def address_like(other: bytes, node: int) -> bytes:
    """The GID of a node of the same type as another node's."""
    return addresses(node)[is_of_v4(other)]


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

    devices: Sequence[AddressSpace] = ()  # one to each node

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
        if not layout.OWN_PORT <= int(made["of"]) < len(self.devices):
            return what
        device = self.devices[int(made["of"])]
        whose = f"node {int(made['of'])} QP" if len(self.devices) > 1 else "QP"
        posted = device.posted.get(int(made["cookie"]))
        if posted is not None:
            answers = " answer" if kind == layout.REPLY else ""
            name = calls.NAMES[posted.opcode]
            return f"{whose} {posted.qp_num:#x} {name}{answers}, wr_id {posted.wr_id}"
        number = _holder(device.held, port, int(made["time"]))
        if number is None:
            return what
        return f"{whose} {number:#x} {'ACK' if kind == layout.ACKNOWLEDGEMENT else what}"


def _holder(held: Mapping[int, list[tuple[int, int]]], port: int, time: int) -> int | None:
    """The queue pair that owned a port at that time."""
    several = held.get(port, [])
    place = bisect_right(several, time, key=lambda one: one[0])
    return several[place - 1][1] if place else None


DESIGN = "rnic"  # an RDMA NIC of today
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
# Assumed: what a queue pair does not say of its own.  An acknowledgement is not held back for a
# packet to go with: a responder answers a request that asks for it (InfiniBand's bit AckReq).  Of
# a long message, or of many silent ones, each 16th packet asks, a quarter of the window; Linux has
# a ConnectX ask with each 256th (mlx5, ``log_ack_req_freq`` = 8), whose window is larger.
TRANSPORT = Transport(
    window=64, time_out_ps=500_000_000, most_retries=7, ack_delay_ps=0, ack_every=16, remaps=False
)


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
        delay: str | None = None,
        pairs: int = PAIRS,
        bursts: bool = False,
        one_program: bool = False,
        keep_log: int = 0,
        **settings: Unpack[DesignSettings],
    ) -> None:
        """``pairs``: queue pairs of a node, at most; else as a ``PortCluster`` is given it.

        ``bursts``: up to ``BURST_PAGES`` of a message move as one packet, which takes the bus and
        the link as long as those that it stands for; of RDMA NICs alone, whose hits take no time.
        ``one_program``: it uses the devices of all nodes, where else each node has one of its own.
        """
        size = SIZE if size is None else size
        nodes = nodes if topology is None else topology.nodes
        self.pairs, self._one_program, self._bursts = pairs, one_program, bursts
        size = msgspec.structs.replace(size, channels=OWN_PORTS + pairs + WAYS + nodes - 1)
        super().__init__(
            design,
            platform or PLATFORMS.get(str(getattr(design, "name", design))),
            nodes=nodes,
            topology=topology,
            delay=delay,
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
        self.devices: list[AddressSpace] = []  # one on each node
        # Streams whose other end is made, by node and number of the pair that has none and of that.
        self.awaited: dict[tuple[tuple[int, int], tuple[int, int]], int] = {}

    def begun(self) -> Simulation:
        """The simulation of all nodes, created on the first call."""
        if self._begun is None:
            hosts = range(self.topology.nodes)
            self._begun = self._simulation(hosts, [1] * len(hosts))
            ports = self._begun.machine.ports
            ports.rules["key_bits"] = KEY_BITS
            ports.rules["burst"] = self._burst_bytes
            # Assumed: of smaller steps a burst's time is truer, and the simulation slower.
            self._begun.machine.endpoints["burst_pulse"] = self._burst_bytes // 8
            self.ways = DatagramStreams(ports)
            self.retired = Retired(ports)
            if len(hosts) > 1 and not self._one_program:
                self.turns = ThreadScheduler(self._begun)
        return self._begun

    _begun: Simulation | None = None
    retired: Retired  # streams of pairs that have left
    turns: ThreadScheduler | None = None  # of the programs, where there are several

    @property
    def _burst_bytes(self) -> int:
        has_bursts = self._bursts and self.design.scheme is Scheme.RNIC
        return layout.BURST_PAGES * self.page_size if has_bursts else 0

    @property
    def _wide_delivery(self) -> Delivery:
        wide = super()._wide_delivery
        return msgspec.structs.replace(wide, max_payload=max(wide.max_payload, self._burst_bytes))

    def source(self) -> VerbsRun:
        """The source of the run's reports and timelines."""
        self.begun()
        return self._source()

    def _source(self) -> VerbsRun:
        found = super()._source()
        assert isinstance(found, VerbsRun)
        found.devices = self.devices
        return found

    def caller(self, device: AddressSpace) -> Caller:
        """The object through which the program on a device's node performs operations."""
        begun = self.begun()
        if self._one_program:
            return NodeCaller(begun, device._node, lambda: self._flush_all_but(device))
        return SingleCaller(begun) if self.turns is None else ScheduledCaller(self.turns)

    def _flush_all_but(self, device: AddressSpace) -> None:
        """Carry out what was posted on other devices; one that was never used has nothing."""
        for each in self.devices:
            if each is not device and vars(each).get("_before"):
                each._flush_posted()

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


P = ParamSpec("P")
T = TypeVar("T")

SPACE = 0
ANY_QUEUE = 0  # in which every end of work and every trouble is announced
OWN_PORT = 1  # of the process, at which it registers
NEVER_FULL = 1 << 62
MOST_BEFORE = CHAIN - 1  # what is asked next is the last of the chain
PS_PER_NS = 1000


def uninterrupted(call: Callable[P, T]) -> Callable[P, T]:
    """Wrap ``call`` so that the garbage collector, whose finalizers call the device, is off.

    A queue pair that nobody has any more is closed when it is collected, which must not be amid
    another operation.
    """

    @functools.wraps(call)
    def carried(*given: P.args, **named: P.kwargs) -> T:
        if not isenabled():
            return call(*given, **named)
        disable()
        try:
            return call(*given, **named)
        finally:
            enable()

    return carried


NO_STREAM = 0


class Pair(msgspec.Struct, eq=False):
    """A queue pair."""

    number: int
    kind: int
    port: int
    domain: int
    send_cq: int
    recv_cq: int
    caps: Caps
    sig_all: bool
    srq: int = 0
    xrcd: int = 0
    state: int = calls.RESET
    attributes: QpState = QpState(calls.RESET)
    stream: int = NO_STREAM
    dgid: bytes = bytes(16)  # where the last datagram went
    peer: int | None = None  # the other end's number
    peer_node: int = 0
    heard: int = 0  # of the port's troubles
    inline_at: int = 0
    inline_key: int = 0
    inlined: int = 0  # requests that were given by value
    answers_from: int = -1  # the number of its first packet, if the peer had to say that
    # Posted and not known to have ended: number, what the program calls it, what it is.
    sends: deque[tuple[int, int, int]] = msgspec.field(default_factory=deque)
    receives: deque[tuple[int, int, tuple[Piece, ...]]] = msgspec.field(default_factory=deque)
    waiting_sends: deque[tuple[int, Send]] = msgspec.field(default_factory=deque)
    waiting_receives: deque[tuple[int, Receive]] = msgspec.field(default_factory=deque)

    @property
    def queues(self) -> set[int]:
        """The pair's completion queues."""
        return {self.send_cq, self.recv_cq} - {0}

    def remove_receive(self, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        """Remove a receive from the queue: its ``wr_id`` and buffers."""
        for place, (number, wr_id, pieces) in enumerate(self.receives):
            if number == cookie:
                del self.receives[place]
                return wr_id, pieces
        raise LookupError(cookie)

    def forget(self) -> None:
        """Discard all posted work requests."""
        for queue in (self.sends, self.receives, self.waiting_sends, self.waiting_receives):
            queue.clear()

    def has_outstanding(self, ports: Any, node: int) -> bool:
        """Whether a posted descriptor has not completed yet."""
        record = ports.table[node, self.port]
        return bool(record["posted"] + record["refused"] > record["reported"])


FIRST_PAGE = 16  # lower addresses are nobody's: a null pointer is no memory
HUGE = 1 << 21  # bytes
PATIENCE_PS = 10_000_000  # between two looks whether a transfer has done with a page
LOOKS = 20


@kernel
def _drop(machine: Any, n: int, space: int, page: int) -> Any:
    return drop_page(machine, n, space, page)


class AddressSpace(ABC):
    """A device's process on the machine of ports, and the virtual address space of its program."""

    _fabric: Fabric
    _memory: Memory
    _machine: Machine
    _sim_process: SimProcess
    _ports: Any
    _calling: Caller
    _node = 0  # of the fabric
    _pairs: dict[int, Pair]  # by number
    _by_port: dict[int, Pair]
    _draining: dict[int, Pair]
    posted: dict[int, Posted]  # for a log that is kept, by cookie
    held: dict[int, list[tuple[int, int]]]  # likewise: which pair has had a port since when (ps)
    _heard = _told = 0  # entries that have been seen, and troubles among them

    def _begin_machine(self) -> None:
        simulation = self._fabric.begun()
        assert self._fabric.memory is not None
        self._memory = self._fabric.memory
        self._machine = simulation.machine
        self._ports = simulation.machine.ports
        self._have_caller()
        self._sim_process = simulation.processes[self._node]
        self._process = self._sim_process.number
        costs = self._ports.costs[self._node]
        self._call_ps, self._poll_ps = int(costs["system_call"]), int(costs["poll"])
        record = self._ports.table[self._node, OWN_PORT]
        record["open"], record["space"] = 1, SPACE
        self._any: Any = self._ports.work.queues[self._node, ANY_QUEUE]
        self._any["open"], self._any["entries"] = 1, NEVER_FULL
        # Read one number at a time, these are several times faster than records.
        queues = self._ports.work.queues
        own = queues[self._node]
        self._shown, self._read_to = own["shown"].data, own["read"].data
        self._written = own["written"].data
        self._troubles = self._ports.nodes["async_errors"].data
        entries = self._ports.work.entries[self._node, ANY_QUEUE]
        self._sides, self._owners = entries["side"].data, entries["port"].data
        assert self._fabric.book is not None
        self._fabric.book.note(self._node, OWN_PORT, SPACE)
        self._page = self._memory.page_size
        self._pinned = PinnedPages(self._page)
        self._next_page = FIRST_PAGE
        self._free: dict[int, list[int]] = {}  # first pages, by how many
        self._in_use: set[int] = set()  # pages of nobody that a transfer still uses
        self._ghosts: set[int] = set()  # pages that only regions have any more
        self._drop_page = bound(_drop, self._machine)

    @property
    def now_ns(self) -> int:
        """Virtual time."""
        self._flush_posted()
        return self._sim_process.now // PS_PER_NS

    def _have_caller(self) -> None:
        self._calling = self._fabric.caller(self)
        # Where operations are put down, and how many posts are, which go before what is asked next.
        self._asked, self._before = self._calling.asked, 0
        self._rest = self._calling.rest

    @uninterrupted
    def _ask(self, operation: int, *numbers: int, **named: int) -> Sequence[int] | None:
        """Perform an operation of the process, after the work that was posted before."""
        self._sim_process.put_down(self._asked, self._before, operation, *numbers, **named)
        return self._carry_out(1)

    def _carry_out(self, more: int) -> Sequence[int] | None:
        """Carry out what was posted and ``more`` that are put down behind; how the last ended."""
        count, self._before = self._before + more, 0
        return self._calling.carry_out(count)

    def _put(
        self,
        operation: int,
        peer: int,
        payload: int,
        tag: int,
        duration: int,
        packet: int,
        own: int,
    ) -> None:
        """Queue an operation ahead of the next request; it reports only that it has ended.

        The call that posts is uninterrupted, from when the post's pieces are put down.
        """
        place = self._before
        try:
            pack_into(
                self._asked, place * RECORD_BYTES, self._process, operation, 0, self._node, peer,
                packet, payload, tag, 0, own, duration,
            )  # fmt: skip
        except struct.error:
            raise unfit(peer, payload, tag, 0, duration, packet, own) from None
        self._before = place + 1
        if place + 1 == MOST_BEFORE:
            self._carry_out(0)

    @uninterrupted
    def _flush_posted(self) -> None:
        """Hand all queued operations over to the NIC."""
        if self._before:
            self._carry_out(0)

    def _spend(self, ps: int) -> None:
        """Advance virtual time while the processor is busy."""
        self._ask(COMPUTE, duration=ps)

    def _system_call(self) -> None:
        """Advance virtual time by the cost of a system call."""
        self._spend(self._call_ps)

    def use_scheduler(self) -> None:
        """Switch to the thread scheduler: calling programs take turns from now on."""
        self._flush_posted()
        self._have_caller()

    @uninterrupted
    def _wait_for(self, ps: int) -> bool:
        """Wait until something ends or fails, at most ``ps``; True if something did."""
        return self._go_on(ps)

    def _go_on(self, ps: int) -> bool:
        self._read_to[ANY_QUEUE] = self._written[ANY_QUEUE]
        before = self._before
        latest = self._sim_process.now + ps
        pack_into(
            self._asked, before * RECORD_BYTES, self._process, AWAIT_QUEUE, 0, self._node,
            ANY_QUEUE, 0, 0, 0, latest, 0, 0,
        )  # fmt: skip
        self._before = 0
        ended = self._calling.carry_out(before + 1)
        is_heard = ended is not None and ended[OWN] != LATE
        if self._draining or self._told != self._troubles[self._node]:
            self._collect_errors()
        else:
            self._heard = self._written[ANY_QUEUE]
        return is_heard

    @abstractmethod
    def _collect_errors(self) -> None:
        """Collect asynchronous errors of ports."""

    @abstractmethod
    def qp_state(self, number: int) -> int:
        """The state of a queue pair."""

    def map(self, length: int, huge: bool = False) -> int:
        """Fresh zeroed memory; its address.  Errors: ENOMEM, EINVAL."""
        if length < 1:
            raise Refused(errno.EINVAL)
        unit = HUGE if huge else self._page
        pages = -(-length // unit) * (unit // self._page)
        first = self._place_for(pages, unit // self._page)
        try:
            self._memory.map(self._node, SPACE, first, pages)
        except SimulationError as error:
            raise Refused(errno.ENOMEM, str(error)) from None
        return first * self._page

    def _place_for(self, pages: int, alignment: int) -> int:
        """The first page of a free range of so many pages.  Errors: ENOMEM."""
        if alignment == 1 and self._free.get(pages):
            return self._free[pages].pop()
        first = self._next_page + -self._next_page % alignment
        if first + pages <= self._room // self._page:
            if first > self._next_page:
                self._free.setdefault(first - self._next_page, []).append(self._next_page)
            self._next_page = first + pages
            return first
        return self._place_among_free(pages, alignment)

    def _place_among_free(self, pages: int, alignment: int) -> int:
        """The first page of a large enough run of adjacent freed pages.  Errors: ENOMEM."""
        free = self._free
        for page in [each for each in self._in_use if self._drop_page(self._node, SPACE, each)]:
            self._in_use.discard(page)
            free.setdefault(1, []).append(page)
        stretches = sorted((first, many) for many, firsts in free.items() for first in firsts)
        joined: list[tuple[int, int]] = []
        for first, many in stretches:
            if joined and sum(joined[-1]) == first:
                first, many = joined[-1][0], joined.pop()[1] + many
            joined.append((first, many))
        free.clear()
        found = None
        for first, many in joined:
            at = first + -first % alignment
            left, right = at - first, first + many - at - pages
            if found is not None or right < 0:
                free.setdefault(many, []).append(first)
                continue
            found = at
            for begin, rest in ((first, left), (at + pages, right)):
                if rest:
                    free.setdefault(rest, []).append(begin)
        if found is None:
            raise Refused(errno.ENOMEM)
        return found

    def unmap(self, address: int, length: int) -> None:
        """Unmap memory; pages that a region has pinned stay.  Errors: EINVAL.

        Addresses are given out again when no NIC knows them any more.
        """
        self._flush_posted()
        first, pages = self._stretch(address, length)
        kept = {page for page in range(first, first + pages) if page in self._pinned}
        self._ghosts |= kept
        if not kept:
            self._memory.unmap(self._node, SPACE, first, pages)
            gone = [
                self._drop_page(self._node, SPACE, page) for page in range(first, first + pages)
            ]
            if all(gone):
                self._free.setdefault(pages, []).append(first)
                return
            for page, is_gone in zip(range(first, first + pages), gone, strict=True):
                self._free_page(page, is_gone)
            return
        for page in range(first, first + pages):
            if page not in kept:
                self._unmap_page(page)

    def _unmap_page(self, page: int) -> None:
        """Unmap a page that neither the program nor a region uses any more."""
        self._ghosts.discard(page)
        self._memory.unmap(self._node, SPACE, page, 1)
        self._free_page(page, self._drop_page(self._node, SPACE, page))

    def _free_page(self, page: int, is_gone: bool) -> None:
        """Free a page for reuse, or after a transfer is done if a NIC still uses it."""
        if is_gone:
            self._free.setdefault(1, []).append(page)
        else:
            self._in_use.add(page)

    def _check_view(self, address: int, length: int) -> None:
        """Errors: EFAULT for memory that the program has unmapped."""
        if self._ghosts and length > 0:
            last = (address + length - 1) // self._page
            if not self._ghosts.isdisjoint(range(address // self._page, last + 1)):
                raise Refused(errno.EFAULT)

    def drop(self, address: int, length: int) -> None:
        """Discard pages: they read as zeros when next used; pinned ones stay with their region.

        Transfers that use one end first.  Errors: EINVAL, ENOMEM where nothing is mapped.
        """
        first, pages = self._stretch(address, length)
        if not self.mapped(address, length):
            raise Refused(errno.ENOMEM)
        self._system_call()
        for page in range(first, first + pages):
            if page not in self._pinned:
                self._drop_one(page)

    def _drop_one(self, page: int) -> None:
        """Discard a page.  One that a packet needs, which may go again, stays where it is."""
        for _ in range(LOOKS):
            if self._drop_page(self._node, SPACE, page):
                rights = int(self._entry(page)["rights"])
                self._memory.unmap(self._node, SPACE, page, 1)
                self._memory.map(self._node, SPACE, page, 1, rights)
                return
            self._wait_for(PATIENCE_PS)
        self._memory.write(self._node, SPACE, page * self._page, bytes(self._page))

    def read(self, address: int, length: int) -> bytes:
        """Bytes of memory.  Errors: EFAULT where nothing is mapped."""
        self._check_view(address, length)
        try:
            return self._memory.read(self._node, SPACE, address, length)
        except SimulationError as error:
            raise Refused(errno.EFAULT, str(error)) from None

    def write(self, address: int, data: bytes) -> None:
        """Store bytes.  Errors: EFAULT where nothing is mapped."""
        self._check_view(address, len(data))
        try:
            self._memory.write(self._node, SPACE, address, bytes(data))
        except SimulationError as error:
            raise Refused(errno.EFAULT, str(error)) from None

    def mapped(self, address: int, length: int) -> bool:
        """Whether all of the range is mapped."""
        if length < 1 or not 0 <= address <= self._room - length:
            return False
        entries = self._memory.state.entries[self._node, SPACE]
        first, last = address // self._page, (address + length - 1) // self._page
        if self._ghosts and not self._ghosts.isdisjoint(range(first, last + 1)):
            return False
        return bool((entries["state"][first : last + 1] != UNMAPPED).all())

    @property
    def _room(self) -> int:
        """Bytes of the address space."""
        return int(self._memory.state.entries.shape[2]) * self._page

    def _entry(self, page: int) -> Any:
        return self._memory.state.entries[self._node, SPACE, page]

    def _stretch(self, address: int, length: int) -> tuple[int, int]:
        """First page of a range, and how many.  Errors: EINVAL for what is no stretch of pages."""
        if address % self._page or length < 1 or not 0 <= address <= self._room - length:
            raise Refused(errno.EINVAL)
        return address // self._page, -(-length // self._page)
