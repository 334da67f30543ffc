"""An endpoint: a process's only handle on the network (U-Net/MM 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import SimulationError
from nicscope.interfaces.ports.process import Buffer
from nicscope.interfaces.unet.message import Message
from nicscope.nic.ports import RETURNED, SEND

if TYPE_CHECKING:
    from collections.abc import Hashable

    from nicscope.interfaces.ports.process import Arrival, Done
    from nicscope.interfaces.unet.area import Area
    from nicscope.interfaces.unet.cluster import Process

SMALL = 56  # bytes: below it a message is carried by its descriptors (U-Net/MM 4)
PATIENCE_US = 100_000.0


class Endpoint:
    """Send, free and receive queue of one process.  ``Process.open`` makes them."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.port = port
        self.is_open = True
        self.area: Area | None = process.cluster.new_area(process.node, port)
        self._provided: dict[int, Buffer] = {}

    def allocate(self, byte_count: int) -> Buffer:
        """Memory for messages: anywhere in the process; of the pinned area under U-Net."""
        if self.area is None:
            return self.process.allocate(byte_count)
        return self.area.allocate(byte_count)

    async def connect(self, node: int, name: str) -> Hashable:
        """The tag for messages to endpoint ``name`` of ``node``, which may open later.

        The operating system registers it at both ends.  Errors: ``SimulationError`` if no such
        endpoint opens within a tenth of a second.
        """
        process = self.process
        registry = process.cluster.registry
        patience = process.now_us + PATIENCE_US
        await process.system_call()
        while (port := registry.find(node, name)) is None:
            if process.now_us > patience:
                raise SimulationError(f"node {node} has opened no endpoint {name!r}")
            await process.sleep(10)
        channel = registry.channel(process.node, self.port, node, port)
        return process.cluster.tags.tag(process.node, channel)

    async def send(self, tag: Hashable, *pieces: Buffer | bytes) -> int:
        """Put a send descriptor into the queue; its number, by which ``sent`` will report it.

        The message is what ``pieces`` hold, one after the other; less than 56 bytes travel in the
        descriptor.  Nothing is said of a tag that is not registered: the NI reports it.
        """
        process = self.process
        channel = process.cluster.tags.channel(process.node, tag)
        total = sum(len(piece) for piece in pieces)
        if total < SMALL and process.cluster.small_inside:
            content = b"".join([p if isinstance(p, bytes) else await p.read() for p in pieces])
            return await process.post_inline(SEND, channel, content, port=self.port)
        segments = []
        for piece in pieces:
            if isinstance(piece, bytes):
                raise SimulationError(
                    f"a message of {total} bytes is sent from buffers, of which one is bytes; "
                    "write them to a buffer first"
                )
            segments.append((piece.address, len(piece)))
        return await process.post(SEND, channel, segments, port=self.port)

    async def sent(self, mode: str = "poll") -> Done:
        """How the next send descriptor ended, when it has; its buffers may be used again."""
        return await self.process.done(mode, port=self.port)

    async def provide(self, *buffers: Buffer) -> None:
        """Put empty buffers into the free queue; messages fill them in this order.

        Each has the cluster's ``buffer_bytes`` or more, of which no more are used.
        """
        least = self.process.cluster.buffer_bytes
        for buffer in buffers:
            if len(buffer) < least:
                raise SimulationError(
                    f"a receive buffer has {least} bytes here, one of {len(buffer)} was given"
                )
            self._provided[buffer.address] = buffer
            await self.process.provide(buffer.address, port=self.port)

    @property
    def waiting(self) -> int:
        """How many messages and buffers ``receive`` would find now: the queue is the process's."""
        return self.process.waiting(self.port)

    async def receive(self, mode: str = "poll") -> Message:
        """The next message, when there is one, or the next buffer that comes back unfilled.

        ``mode``: "poll"; "block" leaves the CPU to others; "signal" has the process interrupted.
        """
        return self._message(await self.process.arrival(mode, port=self.port))

    def _message(self, arrival: Arrival) -> Message:
        process = self.process
        buffers = []
        left = 0 if arrival.operation == RETURNED else arrival.length
        for address in arrival.buffers:
            buffer = self._provided.pop(address, None) or Buffer(process, address, 0)
            unit = process.cluster.buffer_bytes
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

        Returns when what has begun has ended, for its pages stay until then.
        """
        process = self.process
        await process.system_call()
        await process.close_port(self.port)
        if self.area is not None:
            self.area.close()
        process.cluster.registry.forget(process.node, self.port)
        self.is_open = False
