"""Trapeze: hosts' memories, buffers and payloads under way, messages, and what rings hold."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.config.design import CONTROL_BYTES, PAYLOAD_ALIGNMENT
from nicscope.drivers.simulate.ports.reports import LATE
from nicscope.drivers.simulate.records import ACCESS, AWAIT_SEND
from nicscope.drivers.simulate.store import UNMAPPED, Store
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, whole
from nicscope.interfaces.buffers import (
    Allocation,
    MemoryRange,
    checked_range,
    machine_has_caches,
    owner_of,
    settle_memory,
)
from nicscope.interfaces.ownership import Owned, Owner
from nicscope.interfaces.programs import latest, timeout_error
from nicscope.interfaces.run_report import counted, has, was
from nicscope.memory.coherence.processor import STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.process import Ended, Process


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

    def sent(self, number: int) -> MessageNumber:
        """``number``, of a message that is in the ring, for its program."""
        said = MessageNumber(number)
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

    async def _store_at(self, address: int, content: bytes) -> None:
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

    def _view_accessors(
        self, room: Allocation, address: int
    ) -> tuple[Callable[[int, int], bytes], Callable[[int, bytes], None]]:
        """The load and store functions of an array view of ``room``, which take no time."""
        self._owner.check_caller()

        def load(at: int, count: int) -> bytes:
            self._owner.record_of(room, Allocation)
            found: bytes = self.view(address + at, count).tobytes()
            return found

        def store(at: int, content: bytes) -> None:
            self._owner.check_caller()
            self._owner.record_of(room, Allocation)
            begin = address + at
            self.check_read(begin, len(content))
            settle_memory(self._machine, self.node, begin, len(content), forget=True)
            self.memory[begin : begin + len(content)] = np.frombuffer(content, np.uint8)

        return load, store

    async def _free(self, room: Allocation) -> None:
        """Give all of ``room`` back; this takes no time."""
        self._owner.check_caller()
        _, begin, end = self._owner.record_of(room, Allocation)
        self.check_read(begin, end - begin)
        self.give_back(begin, end - begin)
        self._owner.take_back(room, "freed")

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


class MessageNumber(int):
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


def read_only(view: NDArray[Any]) -> NDArray[Any]:
    """The same bytes, through which nobody stores: what the array lies upon is read-only too."""
    return np.asarray(view.data.toreadonly())


_MOST_ALIGNED = 1 << 30


class HostMemories:
    """What of each host's memory is taken, and whose the entries of its payload table are."""

    def __init__(self, nodes: int, host_bytes: int, tags: int, max_payload: int) -> None:
        self._host_bytes = host_bytes
        self._tags = tags
        self._max_payload = max_payload
        self._used = [0] * nodes
        self._free: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]  # given back, rising
        self.mapped: dict[tuple[int, int], Owner] = {}  # by node and tag
        self.store: Store | None = None  # of the run that goes on

    def allocate(
        self, node: int, byte_count: int, align: int = PAYLOAD_ALIGNMENT
    ) -> tuple[int, int]:
        """Address and length of fresh memory of ``node``, from a multiple of ``align`` on."""
        step = whole(align, "an alignment", 1, _MOST_ALIGNED)
        if step & (step - 1):
            raise SimulationError(f"an alignment must be a power of two, got {step}")
        begin = -(-self._used[node] // step) * step
        left = max(0, self._host_bytes - begin)
        count = whole(byte_count, "a number of bytes", LEAST)
        again = self._again(node, count, step) if count > 0 else None
        if again is not None:
            return again, count
        if not 1 <= count <= left:
            raise SimulationError(
                f"node {node} has {left} bytes of memory left, {count} were asked for; give the "
                "cluster more host_bytes"
            )
        self._used[node] = begin + count
        return begin, count

    def _again(self, node: int, count: int, step: int) -> int | None:
        """Where ``count`` bytes of what was given back begin, if so many are."""
        free = self._free[node]
        for place, (begin, end) in enumerate(free):
            first = -(-begin // step) * step
            if first + count <= end:
                free[place : place + 1] = [
                    each for each in ((begin, first), (first + count, end)) if each[0] < each[1]
                ]
                return first
        return None

    def give_back(self, node: int, address: int, count: int) -> None:
        """Frees that memory.  Errors: if a tag leads there."""
        assert self.store is not None
        for tag, begin in enumerate(self.store.payload_table[node].tolist()):
            if (
                begin != UNMAPPED
                and begin < address + count
                and address < begin + self._max_payload
            ):
                raise SimulationError(
                    f"a buffer is not freed while tag {tag} leads there; unmap_payload gives "
                    "it back"
                )
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([*self._free[node], (address, address + count)]):
            if merged and merged[-1][1] == begin:
                begin = merged.pop()[0]
            merged.append((begin, end))
        self._free[node] = merged

    def map_payload(self, owner: Owner, node: int, tag: object, address: int, count: int) -> None:
        """Enter ``owner``'s buffer under ``tag`` in the incoming payload table of ``node``."""
        entry = self._entry(owner, node, tag)
        if count < self._max_payload:
            raise SimulationError(
                f"a mapped buffer must hold the largest payload, {self._max_payload} bytes, "
                f"got {count}"
            )
        check_aligned(address, "a mapped buffer")
        assert self.store is not None
        self.mapped[node, entry] = owner
        self.store.payload_table[node, entry] = address

    def unmap_payload(self, owner: Owner, node: int, tag: object) -> None:
        """Frees the table entry of ``tag``."""
        entry = self._entry(owner, node, tag)
        if (node, entry) not in self.mapped:
            raise SimulationError(f"tag {entry} of node {node} is not mapped; map_payload maps it")
        assert self.store is not None
        del self.mapped[node, entry]
        self.store.payload_table[node, entry] = UNMAPPED

    def check_free(self, node: int, address: int, count: int) -> None:
        """Refuse, for the receive ring, what is too small or where a tag sends payloads."""
        if count < self._max_payload:
            raise SimulationError(
                f"a buffer for the ring must hold the largest payload, {self._max_payload} bytes, "
                f"got {count}"
            )
        check_aligned(address, "a buffer for the ring")
        assert self.store is not None
        for tag, begin in enumerate(self.store.payload_table[node].tolist()):
            if begin != UNMAPPED and begin < address + count and address < begin + count:
                raise SimulationError(
                    f"a buffer for the ring must not be mapped, and tag {tag} leads there; "
                    "unmap_payload gives it back"
                )

    def _entry(self, owner: Owner, node: int, tag: object) -> int:
        number = whole(tag, "a tag", LEAST)
        if not 0 <= number < self._tags:
            raise SimulationError(f"tag must be from 0 to {self._tags - 1}, got {number}")
        holder = self.mapped.get((node, number), owner)
        if holder is not owner:
            raise SimulationError(
                f"tag {number} of node {node} is {holder.name}'s, not {owner.name}'s; take another"
            )
        return number


def check_aligned(address: int, what: str) -> None:
    """Refuse a buffer that DMA cannot begin at: ``SimulationError``."""
    past = address % PAYLOAD_ALIGNMENT
    if past:
        raise SimulationError(
            f"{what} must begin at a multiple of {PAYLOAD_ALIGNMENT} bytes, where DMA can; this "
            f"one begins {past} past one: allocate() gives aligned memory, so take a part of it "
            "at another offset, or write() what is to be sent into one"
        )


class Message(Owned):
    """What ``receive`` gives."""

    what = "a message"
    origin = "receive()"

    def __init__(self, ended: Ended, control: bytes, payloads: Payloads) -> None:
        self.sender = ended.peer
        self.number = ended.packet  # counts from 0 per sender
        self.tag = ended.tag
        self.control = control
        self.address = ended.address  # of the payload in the host's memory
        self.byte_count = ended.payload
        self.own = bool(ended.own)  # whether that is a buffer off the receive ring
        self.scanned = 0  # bytes of the control message that ``scan`` has given
        self._payloads = payloads

    def __repr__(self) -> str:
        tag = "" if self.tag < 0 else f", tag {self.tag}"
        return f"<Message {self.number} from node {self.sender}{tag}, {self.byte_count} bytes>"

    @property
    def payload(self) -> NDArray[Any]:
        """uint8, a view of the host's memory, to be read; of no length without a payload.

        Errors: ``SimulationError`` once it is released, or another has overwritten it under its
        tag: what is there now is not this message's.
        """
        if self._gone and self.byte_count:
            raise SimulationError(
                f"the payload of a message that is {self._gone} already: its buffer may hold "
                "another's by now; read it before release(), or copy it"
            )
        if not self.own and self.byte_count:
            self._payloads.check_not_overwritten(self)
        return self._payloads.view(self.address, self.byte_count)

    def scan(self, byte_count: int) -> bytes:
        """The next ``byte_count`` bytes of the control message (``tpz_scan``)."""
        begin, end = self.scanned, self.scanned + whole(byte_count, "a number of bytes")
        if end > CONTROL_BYTES:
            raise SimulationError(
                f"a control message has {CONTROL_BYTES} bytes: {begin} are scanned, "
                f"{byte_count} more are not there"
            )
        self.scanned = end
        return self.control[begin:end]


def unclaimed_messages(machine: Machine, running: Callable[[int], bool]) -> list[str]:
    """Messages that have come to nodes on which no program goes on, which is what ``running`` says.

    Each line says of how many, and why nobody receives them.
    """
    said = []
    for node, endpoint in enumerate(machine.endpoints[: len(machine.arrivals)]):
        record = machine.nodes[node]
        has_any = int(record["last_process"]) > int(record["first_process"])
        # A host without programs empties its ring all the same.
        unread = int(endpoint["shown"]) - (int(endpoint["read"]) if has_any else 0)
        if unread and not running(node):
            why = "its program has ended" if has_any else "no program runs there"
            messages = counted(unread, "message")
            said.append(f"node {node}: {messages} {was(unread)} not received: {why}")
    return said


def describe_rings(machine: Machine, node: int) -> list[str]:
    """Of the rings of ``node``, and of packets that its network gave up."""
    endpoint, record = machine.endpoints[node], machine.nodes[node]
    said = []
    if endpoint["attached"] == 0:
        said.append(
            "its receive ring has no buffer left: release() or keep() what was received gives it "
            "some"
        )
    if int(endpoint["written"]) - int(endpoint["finished"]) == int(endpoint["send_ring"]):
        said.append("its send ring is full")
    unsent = int(endpoint["written"]) - int(endpoint["sent"])
    if unsent:
        said.append(
            f"{unsent:,} of its messages {has(unsent)} not left: their receivers take no more"
        )
    if number := int(record["aborted"]):
        messages = counted(number, "message")
        said.append(f"{messages} {was(number)} taken off the network by its watchdog")
    return said
