"""U-Net and U-Net/MM: endpoints with a send, a free and a receive queue, over any design.

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await endpoint.send(tag, b"hello")

Source: U-Net/MM, sections 4 and 5 (``docs/unet.md``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Unpack

from nicscope.config.design import Design, Scheme, Transport, chosen_design
from nicscope.config.platform import WORD, Platform, excess_of
from nicscope.drivers.simulate.ports.connections import connect
from nicscope.drivers.simulate.ports.posting import MORE
from nicscope.drivers.simulate.records import COMPUTE
from nicscope.errors import PlatformError, SimulationError
from nicscope.host.calls import deregister_frame, register_frame
from nicscope.host.release import is_tag_idle, release_tag
from nicscope.interfaces.arguments import (
    SharedOptions,
    a_name,
    has_bytes,
    in_ps,
    raw_bytes,
    shown,
    whole,
    with_named_options,
)
from nicscope.interfaces.buffers import Allocation, MemoryRange, allocated, checked_range, memory_of
from nicscope.interfaces.ports import process as ports
from nicscope.interfaces.ports.cluster import MOST_PORTS, PAGE_SIZE, PortCluster
from nicscope.interfaces.ports.memory import FREED, Buffer, refusal
from nicscope.interfaces.ports.nic_memory import nic_structures
from nicscope.interfaces.ports.shared_memory import Rows
from nicscope.kernel.decorators import kernel, row_of
from nicscope.kernel.entry import bound
from nicscope.memory.paging.frames import pin_page, unpin_frame
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.layout import region_bytes
from nicscope.nic.ports.layout import BUFFERS, OWN_PORT, RETURNED, SEND
from nicscope.nic.ports.lookup import key_of
from nicscope.tracebacks import TrimmedTraceback

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.interfaces.ports.process import Arrival, Asked, Done

__all__ = ["AtmCircuits", "Cluster", "Endpoint", "EthernetPorts", "Message", "Process", "TagForm"]

NO_CHANNEL = -1


class TagForm(Protocol):
    """What tags are on one kind of network."""

    def tag(self, node: int, channel: int) -> Hashable:
        """The tag by which programs on ``node`` know its ``channel``."""

    def channel(self, node: int, tag: object) -> int:
        """The channel of ``node`` that ``tag`` names; negative if it is no such tag."""


class AtmCircuits:
    """Virtual circuit identifiers: a number from 32 on, as lower ones are the network's own."""

    first = 32  # ITU-T I.361: VCI 0 to 31 are reserved

    def tag(self, node: int, channel: int) -> int:  # noqa: ARG002 - as on any node
        """The VCI of a channel."""
        return self.first + channel

    def channel(self, node: int, tag: object) -> int:  # noqa: ARG002 - as on any node
        """The channel with this VCI."""
        return tag - self.first if type(tag) is int else NO_CHANNEL


class EthernetTag(NamedTuple):
    """A station and a U-Net port on it."""

    station: str
    port: int


class EthernetPorts:
    """An Ethernet address and a port number, as on the DC21140 (U-Net/MM 5.2)."""

    def tag(self, node: int, channel: int) -> EthernetTag:
        """The station's address, here by its number, and the port."""
        return EthernetTag(_station(node), channel)

    def channel(self, node: int, tag: object) -> int:
        """The channel of that port, if the tag was made for this node."""
        if isinstance(tag, EthernetTag) and tag.station == _station(node):
            return tag.port
        return NO_CHANNEL


def _station(node: int) -> str:
    return f"02:00:00:00:{node >> 8:02x}:{node & 255:02x}"


@kernel
def _is_at_rest(machine: Any, n: int, p: int, tag: int) -> Any:
    return is_tag_idle(machine, n, p, tag)


@kernel
def _let_go(machine: Any, n: int, tag: int) -> Any:
    release_tag(machine, n, tag)


Place = tuple[int, int]  # of an endpoint: its node and its port


class End(NamedTuple):
    """One of the two ends of a channel."""

    node: int
    port: int
    tag: int


class Registry:
    """Which endpoints there are, and the channels between them.

    One for the cluster: how the kernels of two nodes agree on a channel is not simulated, so it
    takes no time beyond the caller's system call.
    """

    def __init__(self, machine: Machine, buffer_bytes: int, most_bytes: int) -> None:
        self._ports = machine.ports
        self._buffer_bytes = buffer_bytes
        self._most_bytes = most_bytes
        self._names: dict[tuple[int, str], int] = {}
        self._channels: dict[tuple[Place, Place], tuple[End, End]] = {}
        self._taken: set[tuple[int, int]] = set()
        nodes, tags = self._ports.channels.shape
        self._tags = Rows(nodes, tags, "tags", "channels")
        self._is_at_rest = bound(_is_at_rest, machine)
        self._let_go = bound(_let_go, machine)

    def take_port(self, node: int, own: int, processes: int) -> int:
        """A port of ``node`` for one more endpoint: the process's ``own``, or one of nobody's."""
        many = int(self._ports.table.shape[1])
        port: int
        for port in (own, *range(processes + 1, many)):
            if (node, port) not in self._taken:
                self._taken.add((node, port))
                return port
        raise SimulationError(
            f"node {node} has no endpoint left; give the cluster endpoints={many} or more"
        )

    def is_taken(self, node: int, port: int) -> bool:
        """Whether there is an endpoint at ``port`` of ``node``."""
        return (node, port) in self._taken

    def publish(self, node: int, name: str, port: int) -> None:
        """Let others find the endpoint at ``port`` of ``node`` as ``name``."""
        if (node, name) in self._names:
            raise SimulationError(f"node {node} has an endpoint {name!r} already; close it first")
        self._names[node, name] = port

    def find(self, node: int, name: str) -> int | None:
        """The port of the endpoint ``name`` of ``node``, if it is open."""
        return self._names.get((node, name))

    def names_of(self, node: int) -> list[str]:
        """What the endpoints of ``node`` are found as."""
        return [name for where, name in self._names if where == node]

    def channel(self, node: int, port: int, peer: int, peer_port: int) -> int:
        """The channel of ``node`` between two endpoints; made at both ends if there is none."""
        mine, theirs = (node, port), (peer, peer_port)
        if (mine, theirs) in self._channels:
            return self._channels[mine, theirs][0].tag
        if (theirs, mine) in self._channels:
            return self._channels[theirs, mine][1].tag
        here = self._tags.take(node)
        try:
            there = self._tags.take(peer)
        except SimulationError:
            self._tags.give_back((node, here), once=lambda: True)
            raise
        try:
            streams = connect(self._ports, node, peer)
        except SimulationError:
            self._tags.give_back((node, here), (peer, there), once=lambda: True)
            raise
        ends = End(node, port, here), End(peer, peer_port, there)
        for one, other, stream in zip(ends, ends[::-1], streams, strict=True):
            channel = self._ports.channels[one.node, one.tag]
            channel["stream"] = stream
            channel["port"] = one.port
            channel["node"] = other.node
            channel["tag"] = other.tag
            channel["unit"] = self._buffer_bytes
            channel["most"] = self._most_bytes
            channel["placed"] = -1
        self._channels[mine, theirs] = ends
        return here

    def forget(self, node: int, port: int) -> None:
        """The endpoint has closed: its name is free, and so are its tags at both ends.

        A tag is free once nothing names it: no descriptor, no packet, no message not yet read.
        """
        self._names = {key: at for key, at in self._names.items() if (key[0], at) != (node, port)}
        for key in [*self._channels]:
            if (node, port) in key:
                ends = self._channels.pop(key)
                rows = [(end.node, end.tag) for end in ends]
                self._tags.give_back(*rows, once=partial(self._are_over, ends))
        self._taken.discard((node, port))

    def tags_in_use(self, node: int) -> int:
        """How many tags of ``node`` are registered, or still named."""
        return self._tags.in_use(node)

    def _are_over(self, ends: tuple[End, End]) -> bool:
        """Whether nothing names a channel any more at either end; then it is nobody's."""
        if not all(self._is_at_rest(*end) for end in ends):
            return False
        for end in ends:
            self._let_go(end.node, end.tag)
        return True


@kernel
def _pin_area(machine: Any, n: int, space: int, pages: int) -> int:
    for page in range(pages):
        frame = pin_page(machine.ports.memory, n, space, page, 1)
        if frame < 0:
            for before in range(page):
                key = key_of(machine, n, space, before)
                unpin_frame(machine.ports.memory, n, space, machine.ports.frames[n, key])
                machine.ports.frames[n, key] = GARBAGE_FRAME
            return int(frame)
        machine.ports.frames[n, key_of(machine, n, space, page)] = frame
    for page in range(pages if machine.ports.rules[0].registers else 0):
        register_frame(machine, n, machine.ports.frames[n, key_of(machine, n, space, page)])
    return 0


@kernel
def _unpin_area(machine: Any, n: int, space: int, pages: int) -> int:
    for page in range(pages):
        key = key_of(machine, n, space, page)
        frame = machine.ports.frames[n, key]
        if (
            unpin_frame(machine.ports.memory, n, space, frame) == 0
            and machine.ports.rules[0].registers
        ):
            deregister_frame(machine, n, frame)
        machine.ports.frames[n, key] = GARBAGE_FRAME
    return 0


class Area:
    """Pinned pages whose addresses are offsets; programs build and read messages in it."""

    def __init__(self, process: ports.Process, space: int, pages: int) -> None:
        self._process = process
        self._owner = process._owner
        self._machine = process._machine
        self._memory = memory = process._memory
        self._node = node = process.node
        self._space = space
        self.pages = pages
        self._next = 0
        self._freed: dict[int, list[int]] = {}  # offsets of what was, by its pages
        self._rooms: list[Allocation] = []
        self._is_closed = False
        memory.map(node, space, 0, pages)
        found = bound(_pin_area, self._machine)(node, space, pages)
        if found < 0:
            memory.unmap(node, space, 0, pages)
            raise refusal("pin", 0, pages * memory.page_size, found)

    @property
    def frames(self) -> list[int]:
        """The physical frames of its pages, in their order."""
        self._check()
        entries = self._memory.state.entries[self._node, self._space, : self.pages]
        return [int(frame) for frame in entries["frame"]]

    def allocate(self, byte_count: int) -> Buffer:
        """A part of the area that nobody has yet, from a page's begin on."""
        self._check()
        page = self._memory.page_size
        count = whole(byte_count, "a number of bytes")
        again = self._freed.get(-(-count // page))
        if again:
            begin = again.pop()
        elif count < 1 or self._next + count > self.pages * page:
            raise SimulationError(
                f"no {count} bytes left in a buffer area of {self.pages * page}; give the "
                "cluster a larger area_bytes"
            )
        else:
            begin = self._next
            self._next += -(-count // page) * page
        buffer = allocated(Buffer, self._owner, self, begin, count)
        self._rooms.append(buffer.room)
        return buffer

    async def _store_at(self, address: int, content: bytes) -> None:
        """Store bytes at an offset."""
        self._check()
        if self._process._windows is not None:
            await self._process._access(address, len(content), content, self._space)
            return
        self._memory.write(self._node, self._space, address, content)

    async def _load_at(self, address: int, count: int) -> bytes:
        """Load bytes from an offset."""
        self._check()
        if self._process._windows is not None:
            return await self._process._access(address, count, space=self._space)
        return self._memory.read(self._node, self._space, address, count)

    def _view_accessors(
        self, room: Allocation, address: int
    ) -> tuple[Callable[[int, int], bytes], Callable[[int, bytes], None]]:
        """How a view of ``room`` loads and stores bytes from an offset on, taking no time."""
        self._check()
        return self._process._view_accessors(room, address, self._space)

    async def _free(self, room: Allocation) -> None:
        """Have that part of the area be nobody's; its pages stay pinned with all others."""
        self._check()
        _, begin, end = self._owner.record_of(room, Allocation)
        self._process._check_unused(begin, end)
        self._owner.take_back(room, FREED)
        self._rooms.remove(room)
        self._freed.setdefault(-(-(end - begin) // self._memory.page_size), []).append(begin)

    def _check(self) -> None:
        """Return if the area is its process's: another's pages may lie at its addresses else."""
        self._owner.check_caller()
        if self._is_closed:
            raise SimulationError(
                f"a buffer area of {self._owner.name} that is closed with its endpoint already; "
                "open another endpoint"
            )

    def _close(self) -> None:
        """The pages may be used for something else, and buffers in them name nothing."""
        self._is_closed = True
        for room in self._rooms:
            self._owner.take_back(room, "of an area that has closed")
        self._rooms.clear()
        bound(_unpin_area, self._machine)(self._node, self._space, self.pages)
        self._memory.unmap(self._node, self._space, 0, self.pages)


RINGS_OF_REPORTS = 2  # of ends of sends, which the NI writes beside the send queue, and of receives
DESCRIPTOR = 16  # bytes of the DC21140's: status, lengths and two addresses, a word each (assumed)
# What each part is made of, by the arrays of ``Ports``.
OF_ENDPOINT = {
    "endpoints": ("table", "current", "carried", "ready", "provided"),
    "send queues": ("requests", "segments", "inline"),
    "free queues": ("free",),
}
OF_RECEIVE_QUEUE = ("report_bytes", "report_buffers")
OF_NODE = {"tags": ("channels", "filling"), "firmware": ("nodes", "firmware")}


class Placed(NamedTuple):
    """Bytes of each structure, by where it lies."""

    nic: dict[str, int]
    host: dict[str, int]


def place_structures(machine: Machine, node: int) -> Placed:
    """What lies on the NIC of ``node`` and what in its host's memory, as it was built."""
    found = {name: each.byte_count for name, each in nic_structures(machine, node).items()}
    ports = machine.ports
    many = int(ports.table.shape[1])
    endpoints = many - 1 - OWN_PORT  # the firmware's own answers fetches, which U-Net has not

    def of_endpoints(*names: str) -> int:
        return sum(found.get(name, 0) for name in names) // many * endpoints

    ends = of_endpoints("reports") // RINGS_OF_REPORTS
    nic = {name: of_endpoints(*arrays) for name, arrays in OF_ENDPOINT.items()}
    nic["send queues"] += ends
    nic |= {name: sum(found.get(one, 0) for one in arrays) for name, arrays in OF_NODE.items()}
    host = {"receive queues": ends + of_endpoints(*OF_RECEIVE_QUEUE)}
    cache = region_bytes(row_of(ports.translations.nic, node))
    nic["translation cache"] = sum(cache.values())
    if ports.rules[0]["serves"] == 1:
        return Placed(nic, host)
    endpoint = machine.endpoints[node]
    rings = int(endpoint["send_ring"]) + int(endpoint["receive_ring"])
    kernel_frames = ports.kernel_frames.shape[1] << int(ports.rules[0]["page_bits"])
    rest = {"descriptor rings": rings * DESCRIPTOR, "receive buffers of the kernel": kernel_frames}
    return Placed({}, nic | host | rest)


def check_fits(machine: Machine, platform: Platform) -> None:
    """Return if the endpoints of a node have room in the NIC memory that ``platform`` states.

    Errors: ``SimulationError`` saying what takes how much, and how many endpoints would fit.
    """
    nic = place_structures(machine, 0).nic  # nodes are built alike
    excess = excess_of(nic, platform)
    if excess is None:
        return
    endpoints = machine.ports.table.shape[1] - 1 - OWN_PORT
    each = sum(nic[name] for name in OF_ENDPOINT) // endpoints
    beside = sum(nic.values()) - each * endpoints
    fits = max(platform.machine[WORD].value - beside, 0) // each
    raise SimulationError(
        f"{excess}; {fits} of {endpoints} endpoints fit: give fewer endpoints or processes, a "
        "PortSize with a shorter ring or fewer channels, a smaller cache (entries=...), or a NIC "
        f"with more, as {platform.name.split('@')[0]}@{WORD}=8MiB"
    )


class Message(NamedTuple):
    """A message, or a buffer that comes back unfilled."""

    tag: Hashable  # of this end: messages sent by it go back to the sender
    node: int  # the sender's
    length: int  # bytes
    buffers: tuple[Buffer, ...]  # that hold it, cut to what they hold; the program's again
    content: bytes | None  # of a small message, which takes no buffer
    status: str  # "done", or why the buffer was not filled

    @property
    def filled(self) -> bool:
        """Whether this is a message, not a buffer that could not be used."""
        return self.status == "done"

    async def read(self) -> bytes:
        """Its bytes, wherever they are; page faults take their time."""
        if self.content is not None:
            return self.content
        return b"".join([await buffer.read() for buffer in self.buffers if self.filled])


SMALL = 56  # bytes: below it a message is carried by its descriptors (U-Net/MM 4)
PATIENCE_US = 100_000.0
ASK_AGAIN_US = 10  # how often the operating system looks for an endpoint that is not open yet
MOST_CHANNELS = 1 << 31


class Endpoint:
    """Send, free and receive queue of one process.  ``Process.open`` makes them."""

    def __init__(
        self, process: Process, port: int, area: Area | None, name: str | None = None
    ) -> None:
        self.process = process
        self.name = name  # by which others find it
        self._area = area
        self._port = port
        self._memory: Process | Area = process if area is None else area
        self._open = True
        self._lost = False
        self._provided: dict[int, Buffer] = {}
        self._given_back: dict[int, Buffer] = {}  # whole, of which messages have what they fill

    def __repr__(self) -> str:
        called = f"{self.name!r} of " if self.name is not None else "of "
        closed = "" if self._open else ", closed"
        return f"<Endpoint {called}{self.process._owner.place}, U-Net{closed}>"

    @property
    def port(self) -> int:
        """Its number on its node."""
        return self._port

    @property
    def area(self) -> Area | None:
        """Its pinned area, where it has one."""
        return self._area

    @property
    def memory(self) -> Process | Area:
        """What its messages are sent from and received into."""
        return self._memory

    @property
    def is_open(self) -> bool:
        """Whether it has not closed."""
        return self._open

    def _lose(self) -> None:
        """The port is another endpoint's now: what was left to be read of this one is gone."""
        self._lost = True
        self.process._on_port_reassigned(self._port)

    def allocate(self, byte_count: int) -> Buffer:
        """Memory for messages: anywhere in the process; of the pinned area under U-Net."""
        self._check_open()
        return self._memory.allocate(byte_count)

    async def connect(self, node: int, name: str, *, timeout_us: float = PATIENCE_US) -> Hashable:
        """The tag for messages to endpoint ``name`` of ``node``, which may open later.

        The operating system registers it at both ends.  Errors: ``WaitTimeoutError`` if no such
        endpoint opens for ``timeout_us`` of virtual time, by default a tenth of a second.
        """
        self._check_open()
        process, here = self.process, self.process.node
        there = whole(node, "a node", 0, process.cluster.topology.nodes - 1)
        process.cluster.check_path(here, there)
        a_name(name)
        registry = process.cluster.registry
        until = process._sim_process.now + in_ps(timeout_us, what="timeout_us") + 1
        await process.system_call()

        def silence() -> str:
            named = ", ".join(map(repr, registry.names_of(there)))
            return (
                f"node {there} has opened no endpoint {name!r} in {float(timeout_us):,.0f} us "
                f"(timeout_us=), {f'but {named}' if named else 'nor any other with a name'}"
            )

        found = partial(registry.find, there, name)
        port = await process._await_found(found, until, ASK_AGAIN_US, silence, there)
        channel = registry.channel(here, self._port, there, port)
        return process.cluster.tags.tag(here, channel)

    async def send(self, tag: Hashable, *pieces: Buffer | bytes) -> int:
        """Put a send descriptor into the queue; its number, by which ``sent`` will report it.

        The message is what ``pieces`` hold, one after the other; less than 56 bytes travel in the
        descriptor.  Nothing is said of a tag that is not registered: the NI reports it.
        """
        [number] = await self.send_all((tag, *pieces))
        return number

    async def send_all(self, *messages: tuple[Any, ...]) -> list[int]:
        """Put a send descriptor for each of ``messages`` into the queue; their numbers.

        A message is a tag and its pieces, as ``send`` takes them.  Where a kernel serves the
        endpoint, one trap has it look at them all (U-Net/MM 5.2); a NIC looks by itself.
        """
        self._check_open()
        places = self.process.cluster.size.ring
        if len(messages) > places:
            raise SimulationError(
                f"{len(messages)} messages at once, and the send queue has {places} places; send "
                "fewer, or give the cluster a PortSize with a longer ring"
            )
        last = len(messages) - 1
        several = [
            await self._asked(tag, pieces, place < last)
            for place, (tag, *pieces) in enumerate(messages)
        ]
        return await self.process.post_all(several, self._port)

    async def _asked(self, tag: Hashable, pieces: Sequence[Buffer | bytes], more: bool) -> Asked:
        """The descriptor of a message, to be posted."""
        process = self.process
        if tag is None or isinstance(tag, str | bytes | bytearray | MemoryRange):
            raise SimulationError(
                "a message begins with its tag, which connect() or a message that has come gives: "
                f"send(tag, ...); got {shown(tag)}"
            )
        channel = process.cluster.tags.channel(process.node, tag)
        if type(channel) is not int or not 0 <= channel < MOST_CHANNELS:
            channel = NO_CHANNEL
        segments: list[tuple[int, int]] = []
        given: list[bytes | tuple[int, int]] = []
        total = 0
        for piece in pieces:
            if isinstance(piece, MemoryRange) or not has_bytes(piece):
                stretch = checked_range(process._owner, self._memory, piece)
                segments.append(stretch)
                given.append(stretch)
                total += stretch[1]
            else:
                raw = raw_bytes(piece)
                given.append(raw)
                total += len(raw)
        if total < SMALL and process.cluster.small_inside:
            content = b"".join(
                [
                    piece if isinstance(piece, bytes) else await self._memory._load_at(*piece)
                    for piece in given
                ]
            )
            flags = MORE if more else 0
            return process._inlined(SEND, channel, content, self._port, 0, flags)
        if len(segments) < len(given):
            least = SMALL if process.cluster.small_inside else 0
            raise SimulationError(
                f"a message of {least} bytes or more, as this one of {total}, is sent from "
                "buffers: write what is bytes to one that allocate() gave first"
            )
        return process.posting(SEND, channel, segments, port=self._port, more=more)

    async def sent(self, mode: str = "poll", *, timeout_us: float | None = None) -> Done:
        """How the next send descriptor ended, when it has; its buffers may be used again."""
        self._check_port()
        return await self.process.done(mode, port=self._port, timeout_us=timeout_us)

    async def provide(self, *buffers: Buffer) -> None:
        """Put empty buffers into the free queue; messages fill them in this order.

        Each has the cluster's ``buffer_bytes`` or more, of which no more are used; what a message
        gave back may be provided again as it is.
        """
        addresses: list[int] = []
        try:
            addresses.extend(map(self._take_in, buffers))
        finally:  # those before one that is refused are provided all the same
            await self.process.provide(*addresses, port=self._port)

    def _take_in(self, buffer: Buffer) -> int:
        """Note that ``buffer`` will be in the free queue; its address."""
        self._check_open()
        least = self.process.cluster.buffer_bytes
        address, length = checked_range(self.process._owner, self._memory, buffer)
        whole_of = self._given_back.pop(address, None)
        if length < least and whole_of is not None and whole_of.room is buffer.room:
            buffer, length = whole_of, whole_of.length
        if length < least:
            raise SimulationError(
                f"a receive buffer has {least} bytes here, one of {length} was given"
            )
        if address in self._provided:
            raise SimulationError(
                f"the buffer at address {address:#x} is in the free queue already; provide it "
                "again when a message has filled it"
            )
        self._provided[address] = Buffer(buffer.room, address, length)
        return address

    @property
    def waiting(self) -> int:
        """How many messages and buffers ``receive`` would find now: the queue is the process's."""
        self._check_port()
        return self.process.waiting(self._port)

    async def receive(self, mode: str = "poll", *, timeout_us: float | None = None) -> Message:
        """The next message, when there is one, or the next buffer that comes back unfilled.

        ``mode``: "poll"; "block" leaves the CPU to others; "signal" has the process interrupted.
        Errors: ``WaitTimeoutError`` if there was neither for ``timeout_us``.
        """
        self._check_port()
        return self._message(
            await self.process.arrival(mode, port=self._port, timeout_us=timeout_us)
        )

    async def receive_until(self, when_us: float) -> Message | None:
        """The next message or unfilled buffer, polled for; None if there is none at ``when_us``."""
        self._check_port()
        arrival = await self.process.arrival_until(when_us, port=self._port)
        return None if arrival is None else self._message(arrival)

    async def compute(self, microseconds: float) -> float:
        """Keep the CPU busy until a message arrives, whose signal interrupts; us that are left.

        What arrived before and has not been received is signalled at once.
        """
        self._check_open()
        return await self.process.compute_until_signal(microseconds, self._port)

    def _message(self, arrival: Arrival) -> Message:
        process = self.process
        buffers = []
        left = 0 if arrival.operation == RETURNED else arrival.length
        for address in arrival.buffers:
            buffer = self._provided.pop(address, None)
            if buffer is None:  # it was never provided here: the report's memory is the process's
                continue
            unit = process.cluster.buffer_bytes
            self._given_back[address] = buffer
            size = len(buffer) if arrival.operation == RETURNED else min(left, unit)
            buffers.append(buffer.part(0, size))
            left -= size
        content = None
        if not arrival.buffers:
            assert arrival.content is not None
            content = arrival.content[: arrival.length]
        tag = process.cluster.tags.tag(process.node, arrival.name) if arrival.name >= 0 else None
        return Message(tag, arrival.node, arrival.length, tuple(buffers), content, arrival.status)

    async def close(self) -> None:
        """End the endpoint: what it queued ends as "closed", and its pages are unpinned.

        Returns when what has begun has ended, for its pages stay until then.  The reports that are
        there by then can still be read, until the port is opened again.
        """
        self._check_open()
        self._open = False
        process = self.process
        await process.system_call()
        await process.close_port(self._port)
        if self._area is not None:
            self._area._close()
        process.cluster.registry.forget(process.node, self._port)

    def _check_open(self) -> None:
        self.process._owner.check_caller()
        if not self._open:
            raise SimulationError(
                f"an endpoint of {self.process._owner.name} that is closed already; open another"
            )

    def _check_port(self) -> None:
        if self._lost:
            raise SimulationError(
                f"an endpoint of {self.process._owner.name} that is closed, and its port is "
                "another's by now; open another"
            )


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
            area = None
            if cluster.is_pinned_area:
                pages = -(-(cluster.design.area_bytes or 0) // cluster.page_size)
                area = Area(self, cluster.space_of_area(port), pages)
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
