"""Payloads of Trapeze: memory that the NIC reads some time after it was told to send from it.

A send returns when its control message is in the ring; hostTx reads the payload later.  That it has
done so the host learns from the ring's state: the entry is free once the message has left (Trapeze,
2.1; ``docs/virtual-time.md``, FINISH).  So a store to a payload waits for that.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.bus.state import has_bus
from nicscope.drivers.simulate.machine import ACCESS, AWAIT_SEND
from nicscope.drivers.simulate.ports.reporting import LATE
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import raw_bytes, whole
from nicscope.interfaces.buffers import Room, Stretch, owner_of, stretch_of, whole_room
from nicscope.interfaces.views import View
from nicscope.interfaces.waits import latest, timed_out
from nicscope.kernel.decorators import kernel
from nicscope.memory.coherence.access import STORE
from nicscope.memory.coherence.frames import forget as forget_lines
from nicscope.memory.coherence.frames import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from nicscope.drivers.simulate.driven import Process
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.trapeze_message import Message


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
                raise timed_out(self._process)

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
        if last is message and not self._comes_to(message.address):
            return
        by = "another" if last is message else f"message {last.number} of node {last.sender}"
        raise SimulationError(
            f"the payload of message {message.number} of node {message.sender} was overwritten by "
            f"{by}, as tag {message.tag} leads to one buffer; copy a payload before the next may "
            "come, or have several tags take turns"
        )

    def _comes_to(self, address: int) -> bool:
        """Whether a message that nobody has received has its payload, or some of it, there."""
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


class HostBuffer(Stretch):
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
        view: NDArray[Any] = payloads.view(*stretch_of(owner, payloads, self))
        return view

    async def write(self, content: Any, offset: int = 0) -> None:
        """Store bytes from ``offset`` on; first wait until no send has them still to read.

        Anything that has bytes, as arrays have, is taken, and ``offset`` counts bytes.
        """
        raw = raw_bytes(content)
        owner, payloads = owner_of(self)
        address, _ = stretch_of(owner, payloads, self, offset, len(raw))
        await payloads.store(address, raw)

    def array(self, dtype: DTypeLike = "uint8") -> View:
        """The same memory as an array: it shows what is there whenever it is read.

        What is stored through it is there at once; neither takes time (``interfaces.views``).
        Where the NIC has still to read, nothing is stored: it is refused.
        """
        owner, payloads = owner_of(self)
        owner.check_caller()
        address, size = stretch_of(owner, payloads, self)
        room = self.room

        def load(at: int, count: int) -> bytes:
            owner.record_of(room, Room)
            found: bytes = payloads.view(address + at, count).tobytes()
            return found

        def store(at: int, content: bytes) -> None:
            owner.check_caller()
            owner.record_of(room, Room)
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
        room = whole_room(owner, self)
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
