"""A process on a simulated host: its memory, its port, and what it can ask of them."""

from __future__ import annotations

from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.scheme import Scheme
from nicscope.drivers.simulate.machine import COMPUTE, POST, PROVIDE, REPORT, SLEEP
from nicscope.drivers.simulate.ports.calls import close_port
from nicscope.drivers.simulate.ports.posting import (
    BLOCK,
    FLAG_BITS,
    GATHER,
    KIND_BITS,
    POLL,
    SIGNAL,
)
from nicscope.drivers.simulate.programs import ADDRESS, PACKET, TIME
from nicscope.errors import SimulationError
from nicscope.handover import bound
from nicscope.jit import kernel
from nicscope.nic.ports import (
    BUFFERS,
    INLINE,
    INLINE_BYTES,
    NOTIFY,
    RECEIVED,
    SEGMENTS,
    SEND,
    SENT,
    STATUS_NAMES,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from nicscope.drivers.simulate.programs import Process as Driven
    from nicscope.drivers.simulate.programs import Record
    from nicscope.interfaces.ports.cluster import PortCluster

PS_PER_US = 1_000_000
# Schemes under which the pages of a descriptor are pinned before it is posted.
PINS_FIRST = (Scheme.STATIC, Scheme.UTLB, Scheme.UTLB_SHARED, Scheme.UTLB_PROCESS)
LONGEST_PAUSE_US = 32.0  # between two looks at whether a port has closed
MODES = {"poll": POLL, "block": BLOCK, "signal": SIGNAL}


@kernel
def _close(machine: Any, n: int, p: int) -> Any:
    return close_port(machine, n, p)


class Buffer:
    """A stretch of a process's memory.

    ``process`` stores and loads bytes by address: a process, or an endpoint with an area.
    """

    def __init__(self, process: Any, address: int, length: int) -> None:
        self.process = process
        self.address = address
        self.length = length

    def __len__(self) -> int:
        return self.length

    async def write(self, content: bytes, offset: int = 0) -> None:
        """Store ``content``; page faults take their time."""
        self._check(offset, len(content))
        await self.process.store(self.address + offset, content)

    async def read(self, count: int | None = None, offset: int = 0) -> bytes:
        """Load ``count`` bytes, by default all; page faults take their time."""
        size = self.length - offset if count is None else count
        self._check(offset, size)
        content: bytes = await self.process.load(self.address + offset, size)
        return content

    def part(self, offset: int, count: int) -> Buffer:
        """``count`` bytes from ``offset`` on: the same memory."""
        self._check(offset, count)
        return Buffer(self.process, self.address + offset, count)

    def _check(self, offset: int, count: int) -> None:
        if offset < 0 or count < 0 or offset + count > self.length:
            raise SimulationError(
                f"bytes {offset} to {offset + count} are not in a buffer of {self.length}"
            )


class Done(NamedTuple):
    """How a descriptor ended."""

    request: int
    status: str  # "done", or what was wrong

    @property
    def ok(self) -> bool:
        """Whether it did what it should."""
        return self.status == "done"


class Arrival(NamedTuple):
    """What a port reports as received."""

    operation: int
    name: int  # tag or export
    node: int  # the peer's
    length: int
    content: bytes | None  # of a small message, in the report itself
    buffers: tuple[int, ...]  # addresses of those that were filled
    offset: int
    status: str


class Process:
    """One process: an address space, one port, and a clock."""

    def __init__(self, cluster: PortCluster[Any], driven: Driven, number: int) -> None:
        self.cluster = cluster
        self.node = driven.node
        self.number = number  # on its node, and of its address space
        self.port = number + 1
        self._driven = driven
        assert cluster.simulation is not None
        assert cluster.memory is not None
        self._memory = cluster.memory
        self._ports = cluster.simulation.machine.ports
        self._next_page = 0
        self._next_request = 0
        self._mapped: set[int] = set()  # ports
        # A descriptor's piece of that many bytes is never more than can be pinned at once.
        self._surely_short = (cluster.size.longest - 1) * self._memory.page_size
        self._questions: dict[tuple[int, str, int | None], bytes] = {}  # for reports, as asked
        self.open_port(self.port)

    def open_port(self, port: int) -> None:
        """Open ``port`` of the node for this process."""
        record = self._ports.table[self.node, port]
        record["open"] = 1
        record["space"] = self.number
        self._mapped.add(port)

    def waiting(self, port: int | None = None) -> int:
        """How many arrivals the port's queue holds, which the process may look at any time."""
        record = self._ports.table[self.node, self._own(port)]
        return int(record["received"]) - int(record["read"])

    def lose_port(self, port: int) -> None:
        """``port`` has closed and is another's now."""
        self._mapped.discard(port)
        self._questions.clear()

    async def close_port(self, port: int | None = None) -> None:
        """Close a port: what is posted ends as "closed", and what comes for it is rejected.

        Returns when what has begun has ended: its packets are acknowledged or rejected, or their
        receiver is dead.  Reports can be read afterwards; what is posted then ends as "closed".
        """
        which = self._own(port)
        assert self.cluster.simulation is not None
        close = bound(_close, self.cluster.simulation.machine)
        pause = 1.0
        while not close(self.node, which):
            await self.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_US)

    def _own(self, port: int | None) -> int:
        """The port meant, which is mapped into this process's address space and no other's."""
        if port is None:
            return self.port
        if port not in self._mapped:
            raise SimulationError(
                f"port {port!r} of node {self.node} is not this process's; open it first"
            )
        return port

    @property
    def now_us(self) -> float:
        """The process's clock, in us."""
        return self._driven.now / PS_PER_US

    def allocate(self, byte_count: int) -> Buffer:
        """Fresh memory that begins at a page: zeros, without a frame until it is touched."""
        if byte_count < 1:
            raise SimulationError(f"a buffer must have at least 1 byte, got {byte_count}")
        pages = -(-byte_count // self._memory.page_size)
        self._memory.map(self.node, self.number, self._next_page, pages)
        buffer = Buffer(self, self._next_page * self._memory.page_size, byte_count)
        self._next_page += pages
        return buffer

    async def store(self, address: int, content: bytes) -> None:
        """Store bytes at an address of this process; page faults take their time."""
        before = self._memory.faults(self.node, self.number)
        self._memory.write(self.node, self.number, address, content)
        await self._spend_faults(before)

    async def load(self, address: int, count: int) -> bytes:
        """Load bytes from an address of this process; page faults take their time."""
        before = self._memory.faults(self.node, self.number)
        content = self._memory.read(self.node, self.number, address, count)
        await self._spend_faults(before)
        return content

    async def _spend_faults(self, before: tuple[int, int, int]) -> None:
        after = self._memory.faults(self.node, self.number)
        if after == before:
            return
        costs = self._ports.costs[self.node]
        each = (int(costs["zero"]), int(costs["pin_shared"]), int(costs["page_in"]))
        spent = sum(
            (now - then) * cost for now, then, cost in zip(after, before, each, strict=True)
        )
        if spent:
            await self._driven.ask(COMPUTE, duration=spent)

    async def compute(self, microseconds: float) -> None:
        """Keep the CPU busy."""
        await self._driven.ask(COMPUTE, duration=in_ps(microseconds))

    async def sleep(self, microseconds: float) -> None:
        """Leave the CPU to others for a while."""
        await self._driven.ask(SLEEP, duration=in_ps(microseconds))

    # What programs do most often are generators that yield what they ask of the driver: a coroutine
    # in between would take a tenth of a message's time.

    @coroutine
    def post(
        self,
        operation: int,
        name: int,
        segments: Sequence[tuple[int, int]],
        *,
        offset: int = 0,
        notify: bool = False,
        port: int | None = None,
    ) -> Generator[bytes, Record, int]:
        """Post a descriptor; its number, by which ``done`` will report it.

        ``segments``: up to ``SEGMENTS`` times address and length, which are sent as one.
        """
        if not 1 <= len(segments) <= SEGMENTS:
            raise SimulationError(
                f"a descriptor names 1 to {SEGMENTS} pieces of memory, {len(segments)} were given"
            )
        if operation != SEND and not self.cluster.nic_serves:
            raise SimulationError(
                f"the kernel serves the ports of platform {self.cluster.platform.name!r} and takes "
                "messages only; for remote memory choose a platform whose NIC can be programmed"
            )
        for piece in segments:
            if piece[1] > self._surely_short:
                self._check_length(*piece)
        own = operation | ((NOTIFY if notify else 0) << KIND_BITS)
        request = self._next_request
        self._next_request += 1
        address, length = segments[0]
        if len(segments) > 1:
            own |= GATHER
            length = len(segments)
            for place, segment in enumerate(segments):
                self._ports.gathers[self._driven.number, place] = segment
        ended = yield self._driven.request(
            POST, self._own(port), length, name, address, offset, request, own
        )
        self._driven.now = ended[TIME]
        return request

    def _check_length(self, address: int, length: int) -> None:
        """Refuse what is longer than whoever pins it before it is posted can pin at once."""
        if self.cluster.design.scheme not in PINS_FIRST or address < 0:
            return  # or what the NIC is to refuse
        page, longest = self._memory.page_size, self.cluster.size.longest
        pages = (address + length - 1) // page - address // page + 1
        if longest < pages <= self._memory.state.entries.shape[2]:
            raise SimulationError(
                f"a piece of memory of {pages} pages is more than can be pinned for one "
                f"descriptor, {longest}; give the cluster a PortSize with longest={pages}"
            )

    @coroutine
    def post_inline(
        self, operation: int, name: int, content: bytes, port: int | None = None
    ) -> Generator[bytes, Record, int]:
        """Post a descriptor that holds its data; its number."""
        if len(content) > INLINE_BYTES:
            raise SimulationError(
                f"a descriptor holds up to {INLINE_BYTES} bytes, {len(content)} were given"
            )
        self._driven.control_bytes[: len(content)] = content
        request = self._next_request
        self._next_request += 1
        own = operation | (INLINE << KIND_BITS)
        ended = yield self._driven.request(
            POST, self._own(port), len(content), name, 0, 0, request, own
        )
        self._driven.now = ended[TIME]
        return request

    async def system_call(self) -> None:
        """Spend the time of a call of the operating system."""
        await self._driven.ask(COMPUTE, duration=int(self._ports.costs[self.node]["system_call"]))

    async def provide(self, address: int, port: int | None = None) -> None:
        """Put a buffer into the free queue."""
        await self._driven.ask(PROVIDE, peer=self._own(port), address=address)

    @coroutine
    def done(self, mode: str = "poll", port: int | None = None) -> Generator[bytes, Record, Done]:
        """How the next descriptor ended, when it has."""
        ended = yield self._question(SENT, mode, port)
        self._driven.now = ended[TIME]
        return Done(ended[PACKET], STATUS_NAMES[ended[ADDRESS]])

    @coroutine
    def arrival(
        self, mode: str = "poll", port: int | None = None
    ) -> Generator[bytes, Record, Arrival]:
        """The next arrival, when there is one."""
        ended = yield self._question(RECEIVED, mode, port)
        _, _, self._driven.now, _, node, _, length, name, status, own, offset = ended
        many = own >> KIND_BITS
        content, buffers = None, ()
        operation = own & ((1 << FLAG_BITS) - 1)
        if many:
            row = self._ports.filled[self._driven.number]
            buffers = tuple(row[: min(many, BUFFERS)].tolist())
        elif operation == SEND:
            content = bytes(self._driven.control_bytes[: min(length, INLINE_BYTES)])
        return Arrival(
            operation, name, node, length, content, buffers, offset, STATUS_NAMES[status]
        )

    def _question(self, which: int, mode: str, port: int | None) -> bytes:
        """The request for the next report of the ring ``which``."""
        question = self._questions.get((which, mode, port))
        if question is None:
            question = self._driven.request(
                REPORT, peer=self._own(port), own=which | MODES[mode] << 1
            )
            self._questions[which, mode, port] = question
        return question


def in_ps(microseconds: float) -> int:
    """Whole picoseconds.  Errors: ``SimulationError`` for a negative time."""
    if microseconds < 0:
        raise SimulationError(f"a time must not be negative, got {microseconds} us")
    return round(microseconds * PS_PER_US)
