"""One process's Trapeze endpoint: what it asks of NIC and CPU, and payloads under way."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import CONTROL_BYTES, PAYLOAD_ALIGNMENT
from nicscope.drivers.simulate.bus.state import has_bus
from nicscope.drivers.simulate.ports.reports import LATE
from nicscope.drivers.simulate.records import (
    ACCESS,
    AWAIT_SEND,
    COMPUTE,
    COPY,
    RECEIVE,
    SEND,
    SLEEP,
)
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, PS_PER_US, in_ps, raw_bytes, whole
from nicscope.interfaces.buffers import (
    Allocation,
    MemoryRange,
    View,
    allocated,
    checked_range,
    owner_of,
    whole_allocation,
)
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.tasks import ProcessTasks, latest, timeout_error
from nicscope.interfaces.trapeze_memory import Message, check_aligned, describe_rings
from nicscope.kernel.decorators import kernel
from nicscope.memory.coherence.bus import forget as forget_lines
from nicscope.memory.coherence.bus import settle
from nicscope.memory.coherence.processor import STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Process
    from nicscope.interfaces.trapeze import Cluster


class _Sent(NamedTuple):
    """A message of which the ring's entry was not free yet, when this was last looked at."""

    number: int
    begin: int  # of its payload in the host's memory
    end: int


class _Numbers:
    """The numbers of one process's messages, which its node's processes count together.

    Kept as runs of successive ones, of which there are as many as others have sent in between.
    """

    def __init__(self) -> None:
        self._begins, self._ends = array("q"), array("q")

    def add(self, number: int) -> None:
        """``number``, above all that there are."""
        if self._ends and self._ends[-1] == number:
            self._ends[-1] += 1
        else:
            self._begins.append(number)
            self._ends.append(number + 1)

    def __contains__(self, number: int) -> bool:
        run = bisect_right(self._begins, number) - 1
        return run >= 0 and number < self._ends[run]


class Payloads:
    """One process's memory on its host, and which of it the NIC may still have to read."""

    def __init__(
        self,
        owner: Owner,
        process: Process,
        machine: Machine,
        memory: NDArray[Any],
        finished: memoryview,
        give_back: Callable[[int, int], None],
    ) -> None:
        """``memory``: all bytes of the host; ``finished``: messages done with, by node.

        ``give_back(address, count)``: has memory be nobody's.
        """
        self.give_back = give_back
        self._machine = machine
        self._owner = owner
        self.node = process.node
        self.memory = memory
        self._process = process
        self._finished = finished
        self._outstanding: deque[_Sent] = deque()
        self._sent = _Numbers()
        self._mapped: dict[int, Message] = {}  # the last that came there under a tag
        self.overwritten = 0  # of these, before they were released
        self._last = -1  # number of the last message

    def note_sent(self, number: int, address: int, count: int) -> None:
        """Message ``number`` is in the ring, with that payload."""
        self._done()
        self._last = number
        self._sent.add(number)
        self._outstanding.append(_Sent(number, address, address + count))

    def sent(self, number: int) -> Sent:
        """``number``, of a message that is in the ring, for its program."""
        said = Sent(number)
        said._payloads = self
        return said

    def is_sent(self, number: object) -> bool:
        """Whether the NIC has done with message ``number``."""
        self._owner.check_caller()
        named = whole(number, "a message's number")
        if named not in self._sent:
            raise SimulationError(f"{self._owner.name} has sent no message {named}")
        return named < self._done()

    async def wait_for(self, number: object, timeout_us: float | None = None) -> None:
        """Return when the NIC has done with message ``number``, by default the last one."""
        named = self._last if number is None else number
        if named == -1 and number is None:
            raise SimulationError("there is no message to wait for; send one first")
        if not self.is_sent(named):
            until = latest(self._process, timeout_us)
            packet = whole(named, "a message's number")
            ended = await self._process.ask(AWAIT_SEND, packet=packet, address=until)
            if ended.own == LATE:
                raise timeout_error(self._process)

    def check_read(self, address: int, count: int) -> None:
        """Refuse memory that the NIC has still to read: ``SimulationError``."""
        self._done()
        if any(each.begin < address + count and address < each.end for each in self._outstanding):
            raise SimulationError(
                "the NIC has still to read from this buffer; sent() waits until it has"
            )

    async def store(self, address: int, content: bytes) -> None:
        """Store bytes, once the NIC will not read what was there any more."""
        self._owner.check_caller()
        self._done()
        end = address + len(content)
        read_last = max(
            (each.number for each in self._outstanding if each.begin < end and address < each.end),
            default=-1,
        )
        if read_last >= 0:
            await self._process.ask(AWAIT_SEND, packet=read_last)
        if machine_has_caches(self._machine):
            await self._store_through_caches(address, content)
        else:
            self.memory[address:end] = np.frombuffer(content, np.uint8)

    async def _store_through_caches(self, address: int, content: bytes) -> None:
        window = self._machine.bus.windows[self._process.number]
        for done in range(0, len(content), len(window)):
            piece = np.frombuffer(content[done : done + len(window)], np.uint8)
            window[: len(piece)] = piece
            await self._process.ask(ACCESS, 0, len(piece), STORE, address + done)

    def view(self, address: int, count: int) -> NDArray[Any]:
        """Bytes of the host's memory, to be read."""
        self._owner.check_caller()
        settle_memory(self._machine, self.node, address, count)
        return read_only(self.memory[address : address + count])

    def note_mapped(self, message: Message) -> None:
        """``message`` has come to where its tag says: the one before it there is no more."""
        before = self._mapped.get(message.address)
        if before is not None and not before._gone:
            self.overwritten += 1
        self._mapped[message.address] = message

    def check_not_overwritten(self, message: Message) -> None:
        """Errors: ``SimulationError`` if another payload lies where that of ``message`` was."""
        last = self._mapped.get(message.address, message)
        if last is message and not self._has_unreceived_payload(message.address):
            return
        by = "another" if last is message else f"message {last.number} of node {last.sender}"
        raise SimulationError(
            f"the payload of message {message.number} of node {message.sender} was overwritten by "
            f"{by}, as tag {message.tag} leads to one buffer; copy a payload before the next may "
            "come, or have several tags take turns"
        )

    def _has_unreceived_payload(self, address: int) -> bool:
        """Whether an unreceived message has some of its payload at ``address``."""
        machine, node = self._machine, self.node
        endpoint = machine.endpoints[node]
        for ring, first, last in (
            (machine.inboxes[node], "read", "shown"),
            (machine.arrivals[node], "completed", "accepted"),
        ):
            for number in range(int(endpoint[first]), int(endpoint[last])):
                packet = ring[number % len(ring)]
                if packet["payload"] and int(packet["address"]) == address:
                    return True
        return False

    def _done(self) -> int:
        done: int = self._finished[self.node]
        while self._outstanding and self._outstanding[0].number < done:
            self._outstanding.popleft()
        return done


class Sent(int):
    """The number of a message, and what is to be known of its payload."""

    _payloads: Payloads

    @property
    def was_read(self) -> bool:
        """Whether the NIC has read the payload, which may be overwritten then."""
        return self._payloads.is_sent(int(self))

    async def read(self, timeout_us: float | None = None) -> None:
        """Return when the NIC has read the payload."""
        await self._payloads.wait_for(int(self), timeout_us)


class HostBuffer(MemoryRange):
    """A stretch of a host's memory that payloads can be sent from or received into."""

    __slots__ = ()

    @property
    def node(self) -> int:
        """Whose host's."""
        _, payloads = owner_of(self)
        number: int = payloads.node
        return number

    @property
    def bytes(self) -> NDArray[Any]:
        """What is there, uint8: a view that shows what changes, and through which nothing does."""
        owner, payloads = owner_of(self)
        view: NDArray[Any] = payloads.view(*checked_range(owner, payloads, self))
        return view

    async def write(self, content: Any, offset: int = 0) -> None:
        """Store bytes from ``offset`` on; first wait until no send has them still to read.

        Anything that has bytes, as arrays have, is taken, and ``offset`` counts bytes.
        """
        raw = raw_bytes(content)
        owner, payloads = owner_of(self)
        address, _ = checked_range(owner, payloads, self, offset, len(raw))
        await payloads.store(address, raw)

    def array(self, dtype: DTypeLike = "uint8") -> View:
        """The same memory as an array: it shows what is there whenever it is read.

        What is stored through it is there at once; neither takes time (``interfaces.buffers``).
        Where the NIC has still to read, nothing is stored: it is refused.
        """
        owner, payloads = owner_of(self)
        owner.check_caller()
        address, size = checked_range(owner, payloads, self)
        room = self.room

        def load(at: int, count: int) -> bytes:
            owner.record_of(room, Allocation)
            found: bytes = payloads.view(address + at, count).tobytes()
            return found

        def store(at: int, content: bytes) -> None:
            owner.check_caller()
            owner.record_of(room, Allocation)
            begin = address + at
            payloads.check_read(begin, len(content))
            settle_memory(payloads._machine, payloads.node, begin, len(content), forget=True)
            payloads.memory[begin : begin + len(content)] = np.frombuffer(content, np.uint8)

        return View(size, dtype, load, store)

    async def free(self) -> None:
        """Give the memory back, all that was allocated at once; this takes no time.

        Errors: ``SimulationError`` while the NIC has still to read it, or a tag leads there.
        """
        owner, payloads = owner_of(self)
        owner.check_caller()
        room = whole_allocation(owner, self)
        payloads.check_read(self.address, self.length)
        payloads.give_back(self.address, self.length)
        owner.take_back(room, "freed")


def read_only(view: NDArray[Any]) -> NDArray[Any]:
    """The same bytes, through which nobody stores: what the array lies upon is read-only too."""
    return np.asarray(view.data.toreadonly())


def machine_has_caches(machine: Machine) -> bool:
    """Whether its hosts have caches, through which their programs store."""
    return bool(has_bus(machine.bus))


def settle_memory(
    machine: Machine, node: int, address: int, count: int, *, forget: bool = False
) -> None:
    """What the caches of ``node`` have modified there reaches its memory; that takes no time.

    ``forget``: they hold nothing of it then, as the memory is to be overwritten.
    """
    if machine_has_caches(machine) and count > 0:
        (_forget if forget else _settle)(machine.bus.hosts, node, address, count)


@kernel
def _forget(hosts: Any, node: int, address: int, count: int) -> int:
    forget_lines(hosts, node, address, count)
    return 0


@kernel
def _settle(hosts: Any, node: int, address: int, count: int) -> int:
    settle(hosts, node, address, count)
    return 0


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


class Endpoint(ProcessTasks):
    """One process's Trapeze endpoint; ``now_us`` is the time at which it last went on."""

    def __init__(self, cluster: Cluster, process: Process, number: int) -> None:
        assert cluster.simulation is not None
        self._cluster = cluster
        self._memories = cluster.memories
        self._process = self._sim_process = process
        self._control = process.control.data  # as sent and received last: the driver's
        self._outgoing = memoryview(bytearray(CONTROL_BYTES))  # the next one, as it is built
        self._memory = cluster.host_bytes(process.node)
        self._reserved = 0
        self.counted = Counted(process.node, number)
        name = f"process {number} of node {process.node}"
        self._owner = Owner(name, cluster.simulation, process)
        machine = cluster.simulation.machine
        process.knows = lambda: describe_rings(machine, process.node)
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
        address, count = checked_range(self._owner, self._payloads, buffer)
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
            address, count = checked_range(self._owner, self._payloads, payload)
            check_aligned(address, "a payload")
        to = self._cluster.check_send(self.node, destination, count)
        marked = tag if type(tag) is int else whole(tag, "a tag", NO_TAG)
        until = latest(self._process, timeout_us)
        self._control[: self._reserved] = self._outgoing[: self._reserved]
        self._control[self._reserved :] = _ZEROS[self._reserved :]
        ended = await self._process.ask(SEND, to, count, marked, address, until)
        if ended.own == LATE:
            raise timeout_error(self._process)  # what is reserved stays so
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
            raise timeout_error(self._process)
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
        address, count = checked_range(self._owner, self._payloads, instead)
        held = self._owner.record_of(message, Message) if self._owner.has(message) else None
        if held is None and self._lent(message):
            raise SimulationError(
                "the payload of this message is in a buffer of the program's own: there is none "
                "off the receive ring to keep"
            )
        if held is None:
            self._owner.refuse(message, Message)
        _, begin, end = self._owner.record_of(instead.room, Allocation)
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
        """Whether it is a message of this process that need not be released."""
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
