"""An endpoint: a process's only handle on the network (U-Net/MM 4), its buffer area, its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.platform import WORD, excess_of
from nicscope.drivers.simulate.ports.posting import MORE
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import (
    PS_PER_US,
    a_name,
    has_bytes,
    in_ps,
    raw_bytes,
    shown,
    whole,
)
from nicscope.interfaces.buffers import MemoryRange, checked_range
from nicscope.interfaces.mini.memory import nic_structures
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.tasks import no_answer_error
from nicscope.interfaces.unet.links import NO_CHANNEL
from nicscope.kernel.decorators import row_of
from nicscope.nic.layout import region_bytes
from nicscope.nic.ports.layout import OWN_PORT, RETURNED, SEND

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.process import Arrival, Asked, Done
    from nicscope.interfaces.unet.area import Area
    from nicscope.interfaces.unet.cluster import Process


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
        patience = process.now_us + in_ps(timeout_us, what="timeout_us") / PS_PER_US
        await process.system_call()
        while (port := registry.find(there, name)) is None:
            if process.now_us > patience:
                named = ", ".join(map(repr, registry.names_of(there)))
                raise no_answer_error(
                    process._sim_process,
                    f"node {there} has opened no endpoint {name!r} in {float(timeout_us):,.0f} us "
                    f"(timeout_us=), {f'but {named}' if named else 'nor any other with a name'}",
                    there,
                )
            await process.sleep(10)
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
