"""A process on a simulated host: its port, its calls, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from nicscope.config.design import SCHEMES, Design, Pins, ServedBy, Way
from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.ports.posting import BLOCK, GATHER, MORE, POLL, SIGNAL
from nicscope.drivers.simulate.ports.reports import GIVEN_BITS, KIND_BITS, LATE
from nicscope.drivers.simulate.process import ADDRESS, OWN, PACKET, PEER, TIME, Record, coroutine
from nicscope.drivers.simulate.process import Process as SimProcess
from nicscope.drivers.simulate.records import (
    CHAIN,
    COMPUTE,
    GIVE_UP,
    POST,
    PROVIDE,
    REGISTER,
    REPORT,
    SLEEP,
)
from nicscope.errors import SimulationError, did_you_mean
from nicscope.host.calls import close_port
from nicscope.interfaces.arguments import LEAST, PS_PER_US, in_ps, raw_bytes, shown, whole
from nicscope.interfaces.buffers import allocated
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.ports.counters import PortDiagnostics, PortOwners
from nicscope.interfaces.ports.memory import Buffer, Memory, ProcessMemory
from nicscope.interfaces.programs import ProcessTasks, latest, no_answer_error, timeout_error
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import (
    BUFFERS,
    INLINE,
    INLINE_BYTES,
    NOTIFY,
    RECEIVED,
    SEND,
    SENT,
    STATUS_NAMES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Hashable, Sequence
    from fractions import Fraction

    from nicscope.config.platform import Platform
    from nicscope.drivers.simulate.ports.build import PortSize
    from nicscope.drivers.simulate.process import Simulation
    from nicscope.fabric.topology import Topology


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


T = TypeVar("T")
NO_REGION = 0  # where memory need not be registered for a port
MOST_BEFORE = CHAIN - 1  # the call itself is the last of the chain
_tuple: Any = tuple.__new__  # makes a NamedTuple in half the time of its class


class Asked(NamedTuple):
    """A call without a result, to be chained before one that has one; it has not begun."""

    request: int  # the descriptor's number, by which ``done`` reports it; -1: there is none
    what: bytes  # as the driver is asked
    inline: bytes = b""
    segments: Sequence[tuple[int, int, int]] = ()  # where there are several, each with its key


def _no_call(given: object) -> SimulationError:
    return SimulationError(
        "what is put before a call is made by posting(), posting_inline() or providing(), not "
        f"something of type {type(given).__name__}"
    )


def _whole_segments(segments: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Pieces of memory as whole numbers.  Errors: ``SimulationError`` for what is none."""
    return [
        (whole(address, "an address", LEAST), whole(length, "a length", LEAST), NO_REGION)
        for address, length in segments
    ]


LONGEST_PAUSE_US = 32.0  # between two looks at whether a port has closed
MODES = {"poll": POLL, "block": BLOCK, "signal": SIGNAL}


@kernel
def _close(machine: Any, n: int, p: int) -> Any:
    return close_port(machine, n, p)


class PortMachine:
    """What a cluster of ports is made of, as its processes look it up."""

    interface: str | None = None  # what its papers call it; None: ports without a library
    design: Design
    platform: Platform
    way: Way
    topology: Topology
    served_by: str
    size: PortSize
    simulation: Simulation | None
    memory: Memory | None = None
    book: PortOwners | None = None

    @property
    def nic_serves(self) -> bool:
        """Whether the NIC serves ports itself; else a fast trap and a handler of the kernel do."""
        return self.served_by == ServedBy.NIC

    def check_path(self, here: int, there: int) -> None:
        """Return if packets of node ``here`` can come to node ``there``.

        Errors: ``SimulationError``, as for a node and itself: no link leads back to a NIC.
        """
        if (here, there) not in self.topology.paths:
            raise SimulationError(
                f"no path from node {here} to node {there}: name another node's endpoint or buffer"
            )

    def tag_of(self, node: int, channel: int) -> Hashable:  # noqa: ARG002 - as on any node
        """What programs on ``node`` know its ``channel`` by."""
        return channel


class Process(ProcessMemory, ProcessTasks):
    """One process: an address space, one port, and a clock."""

    def __init__(self, cluster: PortMachine, sim_process: SimProcess, number: int) -> None:
        self.cluster = cluster
        self._node = sim_process.node
        self._number = number
        self._port = number + 1
        self._sim_process = sim_process
        assert cluster.simulation is not None
        assert cluster.memory is not None
        self._machine = cluster.simulation.machine
        self._memory = cluster.memory
        self._ports = self._machine.ports
        # What it holds in registers, where its stores and loads go through caches.
        self._windows = None if cluster.way == Way.PCI else self._machine.bus.windows
        self._owner = Owner(
            f"process {number} of node {self._node}", cluster.simulation, sim_process
        )
        self._mapped: dict[int, int] = {}  # ports, and what names each as this process's
        diagnostics = PortDiagnostics(self._machine, sim_process, self._mapped, cluster.tag_of)
        sim_process.knows = diagnostics.describe_state
        sim_process.lost = diagnostics.failed_sends
        sim_process.unread = diagnostics.unread_arrivals
        self._next_page = 0
        self._freed = {}
        self._next_request = 0
        # A descriptor's piece of that many bytes is never more than can be pinned at once.
        self._surely_short = (cluster.size.longest - 1) * self._memory.page_size
        self._questions: dict[tuple[int, str, int | None], bytes] = {}  # for reports, as asked
        self._map_port(self._port)
        self._note_port(self._port)

    def __repr__(self) -> str:
        interface = self.cluster.interface or "ports"
        return f"<{type(self).__name__} of {self._owner.place}, {interface}>"

    @property
    def number(self) -> int:
        """Its own on its node, and its address space's."""
        return self._number

    @property
    def port(self) -> int:
        """The port that it was given."""
        return self._port

    def open_port(self, port: int) -> None:
        """Open a port of this process again that has closed.  Errors: if it is another's.

        How descriptors ended can still be read; what had come and was not read is gone.
        """
        self._owner.check_caller()
        which = self._own(port)
        record = self._ports.table[self._node, which]
        if record["open"] == 0:
            record["read"] = record["reserved"] = record["received"]
            self._map_port(which)

    def _map_port(self, port: int) -> None:
        """Have ``port`` be this process's, and open."""
        record = self._ports.table[self._node, port]
        record["open"] = 1
        record["space"] = self._number
        self._mapped[port] = int(record["given"]) << GIVEN_BITS

    def _note_port(self, port: int, name: str | None = None) -> None:
        """Counts what ``port`` does for this process from now on."""
        assert self.cluster.book is not None
        self.cluster.book.note(self._node, port, self._number, name)

    def _on_port_reassigned(self, port: int) -> None:
        """Handles the close of ``port``, which another process has now."""
        del self._mapped[port]
        self._questions.clear()

    def waiting(self, port: int | None = None) -> int:
        """How many arrivals the port's queue holds, which the process may look at any time."""
        self._owner.check_caller()
        which = self._own(port)
        record = self._ports.table[self._node, which]
        came = int(record["received"])
        if self._windows is not None:
            came = int(self._machine.bus.shown[self._node, which, RECEIVED])
        return max(came - int(record["read"]), 0)

    async def close_port(self, port: int | None = None) -> None:
        """Close a port: what is posted ends as "closed", and what comes for it is rejected.

        Returns when what has begun has ended: its packets are acknowledged or rejected, or their
        receiver is dead.  Reports can be read afterwards; what is posted then ends as "closed".
        """
        self._owner.check_caller()
        which = self._own(port)
        close = bound(_close, self._machine)
        pause = 1.0
        while not close(self._node, which):
            await self.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_US)

    def _closed_port_error(self, port: int | None) -> SimulationError:
        """The error for what a port that has closed does not do any more."""
        which = self._port if port is None else port
        return SimulationError(
            f"port {which} of node {self._node} is closed: nothing more comes of it for "
            f"{self._owner.name}; open it again, or another"
        )

    def _check_open(self) -> None:
        """Return if the process's port is open: what is closed is not given new rights."""
        if self._ports.table[self._node, self._port]["open"] == 0:
            raise SimulationError(
                f"the port of {self._owner.name} is closed; open_port() opens it again"
            )

    def allocate(self, byte_count: int) -> Buffer:
        """Fresh memory that begins at a page: zeros, without a frame until it is touched."""
        self._owner.check_caller()
        if type(byte_count) is int and byte_count < 1:
            raise SimulationError(f"a buffer must have at least 1 byte, got {byte_count}")
        count = whole(byte_count, "a number of bytes", 1)
        size = self._memory.page_size
        begin = self._take_pages(-(-count // size)) * size
        return allocated(Buffer, self._owner, self, begin, count)

    async def compute(self, microseconds: float) -> None:
        """Keeps the CPU busy for that time."""
        self._owner.check_caller()
        await self._sim_process.ask(COMPUTE, duration=in_ps(microseconds, self._sim_process.now))

    async def compute_until_signal(self, microseconds: float, port: int | None = None) -> float:
        """Keep the CPU busy until a signal says that something has arrived; us that are left.

        What arrived before and has not been read is signalled at once.
        """
        self._owner.check_caller()
        which = self._own(port)
        ended = await self._sim_process.ask(
            COMPUTE,
            peer=which,
            payload=1,
            duration=in_ps(microseconds, self._sim_process.now),
            own=self._mapped[which] | RECEIVED,
        )
        return ended.address / PS_PER_US

    async def sleep(self, microseconds: float) -> None:
        """Releases the CPU to others for that time."""
        self._owner.check_caller()
        await self._sim_process.ask(SLEEP, duration=in_ps(microseconds, self._sim_process.now))

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

        ``segments``: up to ``PortSize.segments`` times address and length, which are sent as one.
        """
        asked = self.posting(operation, name, segments, offset=offset, notify=notify, port=port)
        self._place(asked)
        ended = yield asked.what
        self._sim_process.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._closed_port_error(port)
        return asked.request

    @coroutine
    def post_inline(
        self, operation: int, name: int, content: bytes, port: int | None = None
    ) -> Generator[bytes, Record, int]:
        """Post a descriptor that holds its data; its number."""
        sim_process = self._sim_process
        request, what, raw, _ = self._inlined(operation, name, content, port, 0)
        sim_process.control_bytes[: len(raw)] = raw
        ended = yield what
        sim_process.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._closed_port_error(port)
        return request

    @coroutine
    def post_all(
        self, several: Sequence[Asked], port: int | None = None
    ) -> Generator[bytes, Record, list[int]]:
        """Post descriptors one after the other; their numbers.

        All but the last were made with ``more``: then one trap is for them all.
        """
        self._owner.check_caller()
        self._own(port)
        self._check_own(several)
        for asked in several:
            self._place(asked)
            ended = yield asked.what
            self._sim_process.now = ended[TIME]
            if ended[OWN] < 0:
                raise self._closed_port_error(port)
        return [asked.request for asked in several]

    async def system_call(self) -> None:
        """Spend the time of a call of the operating system."""
        self._owner.check_caller()
        await self._sim_process.ask(
            COMPUTE, duration=int(self._ports.costs[self._node]["system_call"])
        )

    async def _register_pages(self, place: tuple[int, int]) -> str:
        """Pins the pages of memory, an address and a length, for good; "done", or why it cannot."""
        ended = await self._sim_process.ask(
            REGISTER, peer=self._port, address=place[0], payload=place[1]
        )
        return STATUS_NAMES[ended.address]

    async def _deregister_pages(self, place: tuple[int, int]) -> None:
        await self._sim_process.ask(GIVE_UP, peer=self._port, address=place[0], payload=place[1])

    async def _await_found(
        self,
        find: Callable[[], T | None],
        until: int,
        pause_us: float,
        silence: Callable[[], str],
        node: int | None = None,
    ) -> T:
        """What ``find`` gives once it is there, asked for every ``pause_us`` until a time (ps).

        Errors: ``WaitTimeoutError`` that says ``silence``, and what ``node`` does, if it is one's.
        """
        while (found := find()) is None:
            if self._sim_process.now >= until:
                raise no_answer_error(self._sim_process, silence(), node)
            await self.sleep(pause_us)
        return found

    @coroutine
    def provide(self, *addresses: int, port: int | None = None) -> Generator[bytes, Record, None]:
        """Put buffers into the free queue, one after the other; one trap is for them all."""
        last_place = len(addresses) - 1
        asked = [
            self.providing(address, port, place < last_place)
            for place, address in enumerate(addresses)
        ]
        for first in range(0, len(asked), CHAIN):
            *before, last = asked[first : first + CHAIN]
            ended = yield self._chain_requests(before, last.what)
            self._sim_process.now = ended[TIME]
            if ended[OWN] < 0:
                raise self._closed_port_error(port)

    @coroutine
    def done(
        self,
        mode: str = "poll",
        port: int | None = None,
        *,
        after: Asked | Sequence[Asked] | None = None,
        timeout_us: float | Fraction | None = None,
    ) -> Generator[bytes, Record, Done]:
        """How the next descriptor ended, when it has; ``after``: what is asked for before that.

        Errors: ``SimulationError`` if the port is closed and has no report left, or if that of what
        is asked for before is; ``WaitTimeoutError`` if there was none for ``timeout_us``.
        """
        question = self._question(SENT, mode, port, timeout_us)
        ended = yield question if after is None else self._chain_requests(after, question)
        self._sim_process.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._wait_error(ended)
        report: Done = _tuple(Done, (ended[PACKET], STATUS_NAMES[ended[ADDRESS]]))
        return report

    @coroutine
    def arrival(
        self,
        mode: str = "poll",
        port: int | None = None,
        *,
        after: Asked | Sequence[Asked] | None = None,
        timeout_us: float | Fraction | None = None,
    ) -> Generator[bytes, Record, Arrival]:
        """The next arrival, when there is one.  Errors: as of ``done``."""
        question = self._question(RECEIVED, mode, port, timeout_us)
        ended = yield question if after is None else self._chain_requests(after, question)
        self._sim_process.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._wait_error(ended)
        return self._received(ended)

    @coroutine
    def arrival_until(
        self, when_us: float, port: int | None = None
    ) -> Generator[bytes, Record, Arrival | None]:
        """The next arrival, or None if there is none at ``when_us``."""
        self._owner.check_caller()
        place = self._own(port)
        own = self._mapped[place] | RECEIVED
        when = max(1, in_ps(when_us, 0))
        ended = yield self._sim_process.request(REPORT, peer=place, own=own, address=when)
        self._sim_process.now = ended[TIME]
        if ended[OWN] == LATE:
            return None
        if ended[OWN] < 0:
            raise self._closed_port_error(ended[PEER])
        return self._received(ended)

    def posting(
        self,
        operation: int,
        name: int,
        segments: Sequence[tuple[int, int]],
        *,
        offset: int = 0,
        notify: bool = False,
        port: int | None = None,
        more: bool = False,
    ) -> Asked:
        """``post``, to be put before ``done`` or ``arrival``.

        ``more``: a kernel that serves ports is not asked to look yet, as another follows.
        """
        self._owner.check_caller()
        most = self.cluster.size.segments
        if not 1 <= len(segments) <= most:
            raise SimulationError(
                f"a descriptor names 1 to {most} pieces of memory, {len(segments)} were given"
            )
        if type(operation) is not int or not 0 <= operation < 1 << KIND_BITS:
            operation = whole(operation, "an operation", 0, (1 << KIND_BITS) - 1)
        if operation != SEND and not self.cluster.nic_serves:
            raise SimulationError(
                f"the kernel serves the ports of platform {self.cluster.platform.name!r} and takes "
                "messages only; for remote memory choose a platform whose NIC can be programmed"
            )
        for address, length in segments:
            if type(address) is not int or type(length) is not int:
                segments = [one[:2] for one in _whole_segments(segments)]
            elif length > self._surely_short:
                self._check_length(address, length)
        if type(name) is not int or type(offset) is not int:
            name, offset = whole(name, "a name", LEAST), whole(offset, "an offset", LEAST)
        which = self._own(port)
        own = self._mapped[which] | operation | ((NOTIFY if notify else 0) << KIND_BITS)
        own |= MORE if more else 0
        request = self._next_request
        address, length = segments[0]
        if len(segments) > 1:
            own |= GATHER
            length, several = len(segments), _whole_segments(segments)
        else:
            several = []
        what = self._sim_process.request(POST, which, length, name, address, offset, request, own)
        self._next_request += 1
        return Asked(request, what, b"", several)

    def _check_length(self, address: int, length: int) -> None:
        """Refuse what is longer than whoever pins it before it is posted can pin at once."""
        if SCHEMES[self.cluster.design.scheme].pins is not Pins.FIRST or address < 0:
            return  # or what the NIC is to refuse
        page, longest = self._memory.page_size, self.cluster.size.longest
        pages = (address + length - 1) // page - address // page + 1
        if longest < pages <= self._memory.state.entries.shape[2]:
            raise SimulationError(
                f"a piece of memory of {pages} pages is more than can be pinned for one "
                f"descriptor, {longest}; give the cluster a PortSize with longest={pages}"
            )

    def posting_inline(
        self, operation: int, name: int, content: bytes, port: int | None = None
    ) -> Asked:
        """``post_inline``, to be put before ``done`` or ``arrival``."""
        return self._inlined(operation, name, content, port, 1)

    def _inlined(
        self,
        operation: int,
        name: int,
        content: bytes,
        port: int | None,
        follow: int,
        flags: int = 0,
    ) -> Asked:
        """A post that holds its data, and behind which ``follow`` others are put."""
        sim_process = self._sim_process
        if RUNNING.program is not sim_process:
            self._owner.check_caller()
        raw = content if type(content) is bytes else raw_bytes(content)
        size = len(raw)
        if size > INLINE_BYTES:
            raise SimulationError(
                f"a descriptor holds up to {INLINE_BYTES} bytes, {size} were given"
            )
        if type(operation) is not int or not 0 <= operation < 1 << KIND_BITS:
            operation = whole(operation, "an operation", 0, (1 << KIND_BITS) - 1)
        if type(name) is not int:
            name = whole(name, "a name", LEAST)
        which = self._port if port is None else self._own(port)
        own = self._mapped[which] | operation | (INLINE << KIND_BITS) | flags
        request = self._next_request
        what = sim_process.request(POST, which, size, name, 0, 0, request, own, follow)
        self._next_request = request + 1
        asked: Asked = _tuple(Asked, (request, what, raw, ()))
        return asked

    def providing(self, address: int, port: int | None = None, more: bool = False) -> Asked:
        """``provide``, to be put before ``done``, ``arrival`` or another ``provide``.

        ``more``: as of ``posting``.
        """
        self._owner.check_caller()
        at = whole(address, "an address", LEAST)
        which = self._own(port)
        own = self._mapped[which] | (MORE if more else 0)
        return Asked(-1, self._sim_process.request(PROVIDE, which, address=at, own=own))

    def _own(self, port: int | None) -> int:
        """The port meant, which is mapped into this process's address space and no other's."""
        if port is None:
            return self._port
        if type(port) is not int:
            port = whole(port, "a port")
        if port not in self._mapped:
            raise SimulationError(
                f"port {port} of node {self._node} is not this process's; open it first"
            )
        return port

    def _place(self, asked: Asked) -> None:
        """Writes out the data that ``asked`` has beside its request, as it begins at once."""
        sim_process = self._sim_process
        inline = asked[2]
        sim_process.control_bytes[: len(inline)] = inline
        if asked.segments:
            self._ports.gathers[sim_process.number, : len(asked.segments)] = asked.segments

    def _chain_requests(self, before: Asked | Sequence[Asked], last: bytes) -> bytes:
        """The chained request: all of ``before`` in sequence, and then ``last``."""
        sim_process = self._sim_process
        if type(before) is Asked:
            _, what, inline, segments = before
            if inline and not segments and what.startswith(sim_process.head):
                # It says itself that one follows.
                sim_process.control_bytes[: len(inline)] = inline
                return what + last
            before = [before]
        if not isinstance(before, (list, tuple)):
            raise _no_call(before)
        if len(before) > MOST_BEFORE:
            raise SimulationError(
                f"up to {MOST_BEFORE} calls can be put before one, {len(before)} were given"
            )
        self._check_own(before)
        for place, asked in enumerate(before):
            if place == 0:
                self._place(asked)
                continue
            if asked.segments:
                self._write_chained_segments(asked, place - 1)
            content = np.frombuffer(asked.inline, np.uint8)
            sim_process.inlined[place - 1, : len(content)] = content
        return sim_process.chain([*(asked.what for asked in before), last])

    def _check_own(self, several: Sequence[Asked]) -> None:
        """Return if these are calls that this process has made."""
        for asked in several:
            if type(asked) is not Asked:
                raise _no_call(asked)
            if not asked.what.startswith(self._sim_process.head):
                raise SimulationError(
                    f"{self._owner.name} was given what another process asked for; a process puts "
                    "its own calls before its own"
                )

    def _write_chained_segments(self, asked: Asked, place: int) -> None:
        """Writes out the memory segments of a call that is not the first of a chain."""
        gathered = self._ports.gathered
        if not gathered.size:
            raise SimulationError(
                "of calls that are put before one, only the first can post several pieces of memory"
            )
        gathered[self._sim_process.number, place, : len(asked.segments)] = asked.segments

    def _wait_error(self, ended: Record) -> SimulationError:
        """The error of a wait for a report that ended without one."""
        return (
            timeout_error(self._sim_process)
            if ended[OWN] == LATE
            else self._closed_port_error(ended[PEER])
        )

    def _received(self, record: Record) -> Arrival:
        """The arrival that a report of the ring ``RECEIVED`` carries."""
        _, _, _, _, node, _, length, name, status, own, offset = record
        many = own >> KIND_BITS
        content, buffers = None, ()
        operation = own & ((1 << KIND_BITS) - 1)
        if many:
            row = self._ports.filled[self._sim_process.number]
            buffers = tuple(row[: min(many, BUFFERS)].tolist())
        elif operation == SEND:
            size = length if length < INLINE_BYTES else INLINE_BYTES
            content = bytes(self._sim_process.control_bytes[:size])
        said = operation, name, node, length, content, buffers, offset, STATUS_NAMES[status]
        report: Arrival = _tuple(Arrival, said)
        return report

    def _question(
        self, which: int, mode: str, port: int | None, timeout_us: float | Fraction | None
    ) -> bytes:
        """The request for the next report of the ring ``which``, for so long."""
        if RUNNING.program is not self._sim_process:
            self._owner.check_caller()
        if type(mode) is not str or (port is not None and type(port) is not int):
            mode, port = shown(mode) if type(mode) is not str else mode, self._own(port)
        question = self._questions.get((which, mode, port))
        if question is None:
            if mode not in MODES:
                raise SimulationError(f"no way to wait {mode!r}{did_you_mean(mode, MODES)}")
        elif timeout_us is None:
            return question
        place = self._own(port)
        own = self._mapped[place] | which | MODES[mode] << 1
        if timeout_us is not None:
            until = latest(self._sim_process, timeout_us)
            return self._sim_process.request(REPORT, peer=place, own=own, address=until)
        question = self._sim_process.request(REPORT, peer=place, own=own)
        self._questions[which, mode, port] = question
        return question
