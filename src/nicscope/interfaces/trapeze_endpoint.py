"""One process's Trapeze endpoint: what it can ask of its NIC and of its CPU.

Source: Trapeze, 2.1 and 2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.delivery import CONTROL_BYTES, PAYLOAD_ALIGNMENT
from nicscope.drivers.simulate.machine import COMPUTE, COPY, RECEIVE, SEND, SLEEP
from nicscope.drivers.simulate.ports.reporting import LATE
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, PS_PER_US, in_ps, whole
from nicscope.interfaces.buffers import Room, allocated, stretch_of
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.payloads import HostBuffer, Payloads, Sent
from nicscope.interfaces.tasks import Tasking
from nicscope.interfaces.trapeze_knowing import known_of
from nicscope.interfaces.trapeze_memory import check_aligned
from nicscope.interfaces.trapeze_message import Message
from nicscope.interfaces.waits import latest, timed_out

if TYPE_CHECKING:
    from nicscope.drivers.simulate.driven import Process
    from nicscope.interfaces.trapeze import Cluster

NO_TAG = -1
_ZEROS = bytes(CONTROL_BYTES)
MOST_COPIED = 1 << 40  # bytes


class Counted:
    """Messages and bytes that one process has handed over and taken."""

    def __init__(self, node: int, process: int) -> None:
        self.node, self.process = node, process
        self.messages_out = self.bytes_out = 0
        self.messages_in = self.bytes_in = 0

    def sent(self, count: int) -> None:
        """A message with a payload of ``count`` bytes was handed over."""
        self.messages_out += 1
        self.bytes_out += count

    def received(self, count: int) -> None:
        """One was taken."""
        self.messages_in += 1
        self.bytes_in += count


class Endpoint(Tasking):
    """One process's Trapeze endpoint; ``now_us`` is the time at which it last went on."""

    def __init__(self, cluster: Cluster, process: Process, number: int) -> None:
        assert cluster.simulation is not None
        self._cluster = cluster
        self._memories = cluster.memories
        self._process = self._driven = process
        self._control = process.control.data  # as sent and received last: the driver's
        self._outgoing = memoryview(bytearray(CONTROL_BYTES))  # the next one, as it is built
        self._memory = cluster.host_bytes(process.node)
        self._reserved = 0
        self.counted = Counted(process.node, number)
        name = f"process {number} of node {process.node}"
        self._owner = Owner(name, cluster.simulation, process)
        machine = cluster.simulation.machine
        process.knows = lambda: known_of(machine, process.node)
        finished = machine.endpoints["finished"].data
        self._payloads = Payloads(
            self._owner,
            process,
            machine,
            self._memory,
            finished,
            lambda address, count: self._memories.give_back(self.node, address, count),
        )

    def __repr__(self) -> str:
        return f"<Endpoint of {self._owner.place}, Trapeze>"

    @property
    def node(self) -> int:
        """Its node's number."""
        return self._process.node

    @property
    def now_us(self) -> float:
        """Microseconds of virtual time."""
        return self._process.now / PS_PER_US

    def allocate(self, byte_count: int, align: int = PAYLOAD_ALIGNMENT) -> HostBuffer:
        """Fresh host memory at a multiple of ``align``, by default as DMA needs it.

        Errors: ``SimulationError`` when there is no more, or for an ``align`` no power of two.
        """
        self._owner.check_caller()
        begin, count = self._memories.allocate(self.node, byte_count, align)
        return allocated(HostBuffer, self._owner, self._payloads, begin, count)

    def map_payload(self, tag: int, buffer: HostBuffer) -> None:
        """Have payloads with ``tag`` go to ``buffer``: an entry of the incoming payload table.

        The entry is this process's from then on.  Errors: if it is another's.
        """
        self._owner.check_caller()
        address, count = stretch_of(self._owner, self._payloads, buffer)
        self._memories.map_payload(self._owner, self.node, tag, address, count)

    def unmap_payload(self, tag: int) -> None:
        """Give the entry of ``tag`` back.  A message that has come in by then still goes there."""
        self._owner.check_caller()
        self._memories.unmap_payload(self._owner, self.node, tag)

    def reserve(self, byte_count: int) -> memoryview:
        """The next ``byte_count`` bytes of the outgoing control message (``tpz_reserve``).

        Each call goes on where the one before stopped; ``send`` takes what was reserved, whatever
        has come in between.
        """
        self._owner.check_caller()
        begin, end = self._reserved, self._reserved + whole(byte_count, "a number of bytes")
        if end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are reserved, "
                f"{byte_count} more do not fit"
            )
        self._reserved = end
        return self._outgoing[begin:end]

    async def send(
        self,
        destination: int,
        payload: HostBuffer | None = None,
        tag: int = NO_TAG,
        *,
        timeout_us: float | None = None,
    ) -> Sent:
        """Hand the message over; its number.  Waits while the send ring is full.

        The NIC reads the payload later.  ``read()`` of the number waits until it has, as does
        ``sent``, and a ``write`` to the payload.  Errors: a payload that does not begin where DMA
        can.
        """
        self._owner.check_caller()
        if type(destination) is not int:
            whole(destination, "a destination, which comes first,", LEAST)
        address, count = 0, 0
        if payload is not None:
            address, count = stretch_of(self._owner, self._payloads, payload)
            check_aligned(address, "a payload")
        to = self._cluster.check_send(self.node, destination, count)
        marked = tag if type(tag) is int else whole(tag, "a tag", NO_TAG)
        until = latest(self._process, timeout_us)
        self._control[: self._reserved] = self._outgoing[: self._reserved]
        self._control[self._reserved :] = _ZEROS[self._reserved :]
        ended = await self._process.ask(SEND, to, count, marked, address, until)
        if ended.own == LATE:
            raise timed_out(self._process)  # what is reserved stays so
        self._reserved = 0
        self._payloads.note_sent(ended.packet, address, count)
        self.counted.sent(count)
        return self._payloads.sent(ended.packet)

    async def sent(self, number: int | None = None, *, timeout_us: float | None = None) -> None:
        """Wait until the NIC has done with message ``number``, by default the last one sent.

        Its payload may be overwritten then.  To see that takes no time of its own.
        """
        self._owner.check_caller()
        await self._payloads.wait_for(number, timeout_us)

    def is_sent(self, number: int) -> bool:
        """Whether the NIC has done with message ``number``."""
        return self._payloads.is_sent(number)

    async def receive(self, *, timeout_us: float | None = None) -> Message:
        """The next message, when it has come and been read.

        Errors: ``WaitTimeoutError`` if none has come for ``timeout_us``.
        """
        self._owner.check_caller()
        until = latest(self._process, timeout_us)
        ended = await self._process.ask(RECEIVE, address=until)
        if ended.own == LATE:
            raise timed_out(self._process)
        self.counted.received(ended.payload)
        message = Message(ended, self._control.tobytes(), self._payloads)
        return self._owner.give(message, ended.address) if message.own else self._lend(message)

    def _lend(self, message: Message) -> Message:
        """A message without a buffer of the ring has nothing to come back: no table keeps it."""
        message._owner = self._owner
        if message.byte_count:
            self._payloads.note_mapped(message)
        return message

    def release(self, message: Message) -> None:
        """Attach the payload's buffer to the receive ring again; its bytes may then change."""
        self._owner.check_caller()
        if self._owner.has(message):
            address = self._owner.record_of(message, Message)
            self._owner.take_back(message, "released")
            message.own = False
            self._process.attach(address)
        elif self._lent(message):
            message._gone = "released"
        else:
            self._owner.refuse(message, Message)

    def keep(self, message: Message, instead: HostBuffer) -> HostBuffer:
        """Keep the payload's buffer, and attach ``instead`` to the receive ring in its place.

        ``instead`` is as it came from ``allocate`` and is the ring's from then on.  Errors: if it
        is too small, mapped under a tag, or still to be sent; or the payload lies where a tag says.
        """
        self._owner.check_caller()
        address, count = stretch_of(self._owner, self._payloads, instead)
        held = self._owner.record_of(message, Message) if self._owner.has(message) else None
        if held is None and self._lent(message):
            raise SimulationError(
                "the payload of this message is in a buffer of the program's own: there is none "
                "off the receive ring to keep"
            )
        if held is None:
            self._owner.refuse(message, Message)
        _, begin, end = self._owner.record_of(instead.room, Room)
        if (address, count) != (begin, end - begin):
            raise SimulationError("a buffer for the ring is whole, as allocate() gave it")
        self._memories.check_free(self.node, address, count)
        self._payloads.check_read(address, count)
        self._owner.take_back(instead.room, "attached to the receive ring")
        self._owner.take_back(message, "kept")
        message.own = False
        self._process.attach(address)
        size = self._cluster.delivery.max_payload
        return allocated(HostBuffer, self._owner, self._payloads, held, size)

    def _lent(self, message: object) -> bool:
        """Whether it is a message of this process's that nothing is to come back of."""
        if not isinstance(message, Message) or message._owner is not self._owner:
            return False
        return not message._gone and not message.own

    @property
    def overwritten(self) -> int:
        """Messages under tags whose payloads others overwrote before they were released."""
        self._owner.check_caller()
        return self._payloads.overwritten

    async def compute(self, microseconds: float) -> None:
        """Keep the CPU busy."""
        self._owner.check_caller()
        await self._process.ask(COMPUTE, duration=in_ps(microseconds, self._process.now))

    async def sleep(self, microseconds: float) -> None:
        """Leave the CPU to others for a while."""
        self._owner.check_caller()
        await self._process.ask(SLEEP, duration=in_ps(microseconds, self._process.now))

    async def copy(self, byte_count: int) -> None:
        """Copy memory with the CPU, which competes with DMA for it."""
        self._owner.check_caller()
        count = whole(byte_count, "a copy's number of bytes", 1, MOST_COPIED)
        await self._process.ask(COPY, payload=count)
