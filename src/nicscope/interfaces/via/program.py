"""A process on a host with VIs, as its NIC, its kernel agent and its library use it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.process import FOLLOW, HEAD, SIZE, TIME, Ended, coroutine
from nicscope.drivers.simulate.records import ACCESS, CHAIN, COMPUTE
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, PS_PER_US
from nicscope.interfaces.ownership import Owner
from nicscope.interfaces.ports import process as ports
from nicscope.interfaces.programs import ProcessTasks
from nicscope.interfaces.via.descriptor import in_ps, raw_bytes, whole
from nicscope.interfaces.via.names import Return, VipError
from nicscope.memory.coherence.processor import LOAD, STORE
from nicscope.nic.ports.layout import SENT

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.drivers.simulate.process import Record
    from nicscope.interfaces.buffers import Allocation
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.via.agent import Agent
    from nicscope.interfaces.via.cluster import Cluster


MOST_BEFORE = CHAIN - 1  # what the process asks next is the last of the chain


class Process(ports.Process):
    """A process that raises VIPL's errors."""

    cluster: Cluster

    def __init__(self, cluster: Cluster, sim_process: SimProcess, number: int) -> None:
        super().__init__(cluster, sim_process, number)
        refused = partial(VipError, Return.VIP_INVALID_PARAMETER)
        # What goes before the process's next request, put down as a chain, and how many that is.
        self._asked = memoryview(bytearray(CHAIN * SIZE))
        self._before = 0
        self._has_store = False  # among them
        self._owner = Owner(self._owner.name, cluster.simulation, sim_process, refused)

    def _held(self) -> list[tuple[int, int, str]]:
        regions = self.cluster.kernels[self.node].regions.values()
        return [
            (each.address, each.length, "it is registered; deregister_mem() it first")
            for each in regions
            if each._owner is self._owner
        ]

    async def _free(self, room: Allocation) -> None:
        await self.settle()
        await super()._free(room)

    # Stores and posts say no more than that they have ended.  So they wait for what the process
    # asks next, and go before it, in one crossing to the driver.

    def behind(self, what: bytes) -> bytes:
        """Chain the queued operations before ``what`` into one request."""
        before = self._before
        if not before:
            return what
        end = (before + 1) * SIZE
        self._asked[end - SIZE : end] = what
        return self._chained(before + 1)

    def _chained(self, count: int) -> bytes:
        """The first ``count`` operations that are put down, as one request."""
        HEAD.pack_into(self._asked, FOLLOW, count - 1)
        self._before, self._has_store = 0, False
        return self._asked[: count * SIZE].tobytes()

    async def ask(
        self, operation: int, peer: int = 0, payload: int = 0, address: int = 0, duration: int = 0
    ) -> Ended:
        """Perform an operation after the queued ones, and wait for its end."""
        what = self._sim_process.request(operation, peer, payload, 0, address, duration)
        return await self._end_of(self.behind(what))

    @coroutine
    def _end_of(self, what: bytes) -> Generator[bytes, Record, Ended]:
        ended = Ended._make((yield what))
        self._sim_process.now = ended.time
        return ended

    @coroutine
    def settle(self) -> Generator[bytes, Record, None]:
        """Wait until all queued operations have ended."""
        if self._before:
            ended = yield self._chained(self._before)
            self._sim_process.now = ended[TIME]

    def reports(self, port: int, ring: int) -> int:
        """How many unread reports of a port are visible to the process."""
        record: Any = self._ports.table[self.node, port]
        taken = int(record["reaped" if ring == SENT else "read"])
        if self._windows is not None:
            return int(self._machine.bus.shown[self.node, port, ring]) - taken
        return int(record["reported" if ring == SENT else "received"]) - taken


class Program(ProcessTasks):
    """A program's own calls: memory access, computing, time."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._process = process = agent.process
        self._space = agent.space
        self._words = agent.words
        self._owner = process._owner
        self._sim_process = process._sim_process
        self._ports = process._ports
        self._poll_cost = int(process._ports.costs[process.node]["poll"])
        windows = process._windows
        self._window = None if windows is None else windows[self._sim_process.number].data
        self._memory = process._memory
        self._is_closed = False
        self._has_names = False  # it uses the name service
        self._accesses: dict[tuple[int, int, int], bytes] = {}  # as they are asked for

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<Nic of {self._owner.place}, VIA{closed}>"

    async def _flush(self) -> None:
        await self._process.settle()

    def _whole(self, task: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        async def whole() -> Any:
            result = await task
            await self._process.settle()
            return result

        made: Any = whole()
        made.__name__ = getattr(task, "__name__", "a task")
        found: Coroutine[Any, Any, Any] = made
        return found

    @property
    def node(self) -> int:
        """The program's node number."""
        return self._process.node

    @property
    def now_us(self) -> float:
        """Virtual time in microseconds at the end of the last call that had an answer.

        Stores and posts behind that begin with what is asked next.
        """
        return self._sim_process.now / PS_PER_US

    @property
    def now_ps(self) -> int:
        """The same in whole picoseconds."""
        return self._sim_process.now

    def allocate(self, byte_count: int) -> Buffer:
        """Allocate whole pages."""
        self._enter()
        return self._space.allocate(self._owner, whole(byte_count, "a number of bytes"))

    @coroutine
    def write(self, address: int, raw: bytes) -> Generator[Any, Any, None]:
        """Store ``raw`` word by word, through the caches if there are some."""
        raw = raw if type(raw) is bytes else raw_bytes(raw)
        count, process = len(raw), self._process
        if RUNNING.program is not self._sim_process or not self._space.is_pinned(address, count):
            address, _ = self._own(address, count)
            if count and not self._space.is_pinned(address, count):
                yield from process.settle()
                yield from _within(process._store_at(address, raw))
                return
        if not count:
            return
        if self._window is None:
            self._memory.write(process._node, process._number, address, raw)
            return
        if process._has_store or process._before == MOST_BEFORE:
            yield from process.settle()
        self._window[:count] = raw
        begin = process._before * SIZE
        process._asked[begin : begin + SIZE] = self._access(STORE, address, count)
        process._before, process._has_store = process._before + 1, True

    @coroutine
    def read(self, address: int, byte_count: int) -> Generator[Any, Any, bytes]:
        """Load that many bytes, through the caches if there are some."""
        process, is_pinned = self._process, self._space.is_pinned(address, byte_count)
        if RUNNING.program is not self._sim_process or not is_pinned:
            address, byte_count = self._own(address, byte_count)
            is_pinned = self._space.is_pinned(address, byte_count)
        if not byte_count:
            return b""
        if self._words.are_in(address, byte_count, self._memory.page_size):
            yield from process.settle()
            self._store_descriptors()
            is_pinned = self._space.is_pinned(address, byte_count)
        if not is_pinned:
            yield from process.settle()
            content: bytes = yield from _within(process._load_at(address, byte_count))
            return content
        if self._window is None:
            return self._memory.read(process._node, process._number, address, byte_count)
        ended = yield process.behind(self._access(LOAD, address, byte_count))
        self._sim_process.now = ended[TIME]
        return bytes(self._window[:byte_count])

    def _store_descriptors(self) -> None:
        """Store pending descriptors' bytes into memory."""
        node, number = self._process.node, self._process.number
        self._words.put(lambda at, raw: self._memory.write(node, number, at, raw))

    def _access(self, kind: int, address: int, count: int) -> bytes:
        """What the driver is asked to have the CPU move bytes of a page that is pinned."""
        what = self._accesses.get((kind, address, count))
        if what is None:
            own = self._process.number + 1
            what = self._sim_process.request(ACCESS, 0, count, kind, address, own=own)
            self._accesses[kind, address, count] = what
        return what

    async def compute(self, microseconds: float) -> None:
        """Keep the processor busy for a while."""
        self._enter()
        await self._process.ask(COMPUTE, duration=in_ps(microseconds, self._sim_process.now))

    def _enter(self) -> None:
        """Begin a call; errors: if another process makes it."""
        self._owner.check_caller()
        if self._is_closed:
            raise VipError(Return.VIP_INVALID_PARAMETER, "the NIC is closed; open_nic() opens it")

    def _latest(self, timeout_us: float | None) -> int | None:
        if timeout_us is None:
            return None
        now = self._sim_process.now
        return now + in_ps(timeout_us, now, "a timeout")

    def _own(self, address: int, byte_count: int) -> tuple[int, int]:
        """The two as whole numbers.  Errors: if they name no memory of this process."""
        if RUNNING.program is not self._sim_process:
            self._enter()
        if type(address) is not int or type(byte_count) is not int or byte_count < 0:
            address = whole(address, "an address", LEAST)
            byte_count = whole(byte_count, "a number of bytes")
        if not self._space.holds(address, byte_count):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"{byte_count} bytes at {address:#x} are not memory of {self._owner.name}",
            )
        return address, byte_count


def _within(call: Any) -> Generator[Any, Any, Any]:
    """Await ``call`` and convert running out of memory into a VIPL error.

    Errors: ``VIP_ERROR_RESOURCE``.
    """
    try:
        return (yield from call.__await__())
    except SimulationError as error:
        raise VipError(Return.VIP_ERROR_RESOURCE, str(error)) from None
