"""A process on a simulated host: its memory, its port, and what it can ask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.config.delivery import Way
from nicscope.drivers.running import RUNNING
from nicscope.drivers.simulate.driven import ADDRESS, OWN, PACKET, PEER, TIME
from nicscope.drivers.simulate.machine import CHAIN, COMPUTE, REPORT, SLEEP
from nicscope.drivers.simulate.ports.posting import (
    BLOCK,
    POLL,
    SIGNAL,
)
from nicscope.drivers.simulate.ports.reporting import GIVEN_BITS, KIND_BITS, LATE
from nicscope.drivers.simulate.yielding import coroutine
from nicscope.errors import SimulationError, did_you_mean
from nicscope.host.calls import close_port
from nicscope.interfaces.arguments import PS_PER_US, in_ps, shown, whole
from nicscope.interfaces.buffers import allocated
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.ports.asking import Asked, PortCalls
from nicscope.interfaces.ports.buffers import Buffer
from nicscope.interfaces.ports.completions import Arrival, Done
from nicscope.interfaces.ports.freeing import Freeing
from nicscope.interfaces.ports.knowing import known_of, lost_of, unread_of
from nicscope.interfaces.ports.own_memory import OwnMemory
from nicscope.interfaces.tasks import Tasking
from nicscope.interfaces.waits import latest, timed_out
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound
from nicscope.nic.ports.layout import BUFFERS, INLINE_BYTES, RECEIVED, SEND, SENT, STATUS_NAMES

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from fractions import Fraction

    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.driven import Record
    from nicscope.interfaces.ports.cluster import PortCluster

LONGEST_PAUSE_US = 32.0  # between two looks at whether a port has closed
MODES = {"poll": POLL, "block": BLOCK, "signal": SIGNAL}
_tuple: Any = tuple.__new__  # makes a report in half the time of its class


@kernel
def _close(machine: Any, n: int, p: int) -> Any:
    return close_port(machine, n, p)


class Process(PortCalls, OwnMemory, Freeing, Tasking):
    """One process: an address space, one port, and a clock."""

    def __init__(self, cluster: PortCluster[Any], driven: Driven, number: int) -> None:
        self.cluster = cluster
        self._node = driven.node
        self._number = number
        self._port = number + 1
        self._driven = driven
        assert cluster.simulation is not None
        assert cluster.memory is not None
        self._machine = cluster.simulation.machine
        self._memory = cluster.memory
        self._ports = self._machine.ports
        # What it holds in registers, where its stores and loads go through caches.
        self._windows = None if cluster.way == Way.PCI else self._machine.bus.windows
        self._owner = Owner(f"process {number} of node {self._node}", cluster.simulation, driven)
        driven.knows = lambda: known_of(self)
        driven.lost = lambda: lost_of(self)
        driven.unread = lambda: unread_of(self)
        self._next_page = 0
        self._freed = {}
        self._next_request = 0
        self._mapped: dict[int, int] = {}  # ports, and what names each as this process's
        # A descriptor's piece of that many bytes is never more than can be pinned at once.
        self._surely_short = (cluster.size.longest - 1) * self._memory.page_size
        self._questions: dict[tuple[int, str, int | None], bytes] = {}  # for reports, as asked
        self._map_port(self._port)
        self._note_port(self._port)

    def __repr__(self) -> str:
        interface = self.cluster.interface or "ports"
        return f"<{type(self).__name__} of {self._owner.place}, {interface}>"

    @property
    def node(self) -> int:
        """Its node's number."""
        return self._node

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
        """What ``port`` does counts for this process from now on."""
        assert self.cluster.book is not None
        self.cluster.book.note(self._node, port, self._number, name)

    def _lose_port(self, port: int) -> None:
        """``port`` has closed and is another's now."""
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

    def _gone(self, port: int | None) -> SimulationError:
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

    @property
    def now_us(self) -> float:
        """The process's clock, in us."""
        return self._driven.now / PS_PER_US

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
        """Keep the CPU busy."""
        self._owner.check_caller()
        await self._driven.ask(COMPUTE, duration=in_ps(microseconds, self._driven.now))

    async def compute_until_signal(self, microseconds: float, port: int | None = None) -> float:
        """Keep the CPU busy until a signal says that something has arrived; us that are left.

        What arrived before and has not been read is signalled at once.
        """
        self._owner.check_caller()
        which = self._own(port)
        ended = await self._driven.ask(
            COMPUTE,
            peer=which,
            payload=1,
            duration=in_ps(microseconds, self._driven.now),
            own=self._mapped[which] | RECEIVED,
        )
        return ended.address / PS_PER_US

    async def sleep(self, microseconds: float) -> None:
        """Leave the CPU to others for a while."""
        self._owner.check_caller()
        await self._driven.ask(SLEEP, duration=in_ps(microseconds, self._driven.now))

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
        self._driven.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._gone(port)
        return asked.request

    @coroutine
    def post_inline(
        self, operation: int, name: int, content: bytes, port: int | None = None
    ) -> Generator[bytes, Record, int]:
        """Post a descriptor that holds its data; its number."""
        driven = self._driven
        request, what, raw, _ = self._inlined(operation, name, content, port, 0)
        driven.control_bytes[: len(raw)] = raw
        ended = yield what
        driven.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._gone(port)
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
            self._driven.now = ended[TIME]
            if ended[OWN] < 0:
                raise self._gone(port)
        return [asked.request for asked in several]

    async def system_call(self) -> None:
        """Spend the time of a call of the operating system."""
        self._owner.check_caller()
        await self._driven.ask(COMPUTE, duration=int(self._ports.costs[self._node]["system_call"]))

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
            ended = yield self._behind(before, last.what)
            self._driven.now = ended[TIME]
            if ended[OWN] < 0:
                raise self._gone(port)

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
        question = self._question(SENT, mode, port)
        if timeout_us is not None:
            question = self._timed(SENT, mode, port, timeout_us)
        ended = yield question if after is None else self._behind(after, question)
        self._driven.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._unheard(ended)
        return self._end_of_sent(ended)

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
        question = self._question(RECEIVED, mode, port)
        if timeout_us is not None:
            question = self._timed(RECEIVED, mode, port, timeout_us)
        ended = yield question if after is None else self._behind(after, question)
        self._driven.now = ended[TIME]
        if ended[OWN] < 0:
            raise self._unheard(ended)
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
        ended = yield self._driven.request(REPORT, peer=place, own=own, address=when)
        self._driven.now = ended[TIME]
        if ended[OWN] == LATE:
            return None
        if ended[OWN] < 0:
            raise self._gone(ended[PEER])
        return self._received(ended)

    def _timed(self, which: int, mode: str, port: int | None, timeout_us: Any) -> bytes:
        """The request for the next report of the ring ``which``, for so long."""
        place = self._own(port)
        own = self._mapped[place] | which | MODES[mode] << 1
        until = latest(self._driven, timeout_us)
        return self._driven.request(REPORT, peer=place, own=own, address=until)

    def _unheard(self, ended: Record) -> SimulationError:
        """The error of a wait for a report that has ended without one."""
        return timed_out(self._driven) if ended[OWN] == LATE else self._gone(ended[PEER])

    def _end_of_sent(self, record: Record) -> Done:
        """What a report of the ring ``SENT`` says."""
        report: Done = _tuple(Done, (record[PACKET], STATUS_NAMES[record[ADDRESS]]))
        return report

    def _received(self, record: Record) -> Arrival:
        """What a report of the ring ``RECEIVED`` says, and what has come with it."""
        _, _, _, _, node, _, length, name, status, own, offset = record
        many = own >> KIND_BITS
        content, buffers = None, ()
        operation = own & ((1 << KIND_BITS) - 1)
        if many:
            row = self._ports.filled[self._driven.number]
            buffers = tuple(row[: min(many, BUFFERS)].tolist())
        elif operation == SEND:
            size = length if length < INLINE_BYTES else INLINE_BYTES
            content = bytes(self._driven.control_bytes[:size])
        said = operation, name, node, length, content, buffers, offset, STATUS_NAMES[status]
        report: Arrival = _tuple(Arrival, said)
        return report

    def _question(self, which: int, mode: str, port: int | None) -> bytes:
        """The request for the next report of the ring ``which``."""
        if RUNNING.program is not self._driven:
            self._owner.check_caller()
        if type(mode) is not str or (port is not None and type(port) is not int):
            mode, port = shown(mode) if type(mode) is not str else mode, self._own(port)
        question = self._questions.get((which, mode, port))
        if question is None:
            if mode not in MODES:
                raise SimulationError(f"no way to wait {mode!r}{did_you_mean(mode, MODES)}")
            place = self._own(port)
            own = self._mapped[place] | which | MODES[mode] << 1
            question = self._driven.request(REPORT, peer=place, own=own)
            self._questions[which, mode, port] = question
        return question
