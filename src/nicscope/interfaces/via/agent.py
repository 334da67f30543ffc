"""A process on a host with VIs, its kernel agent (VI-KA), and its program's memory and time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.ports.connections import end_connection
from nicscope.drivers.simulate.ports.posting import POLL
from nicscope.drivers.simulate.process import FOLLOW, HEAD, SIZE, TIME, Ended, Record, coroutine
from nicscope.drivers.simulate.process import Process as SimProcess
from nicscope.drivers.simulate.records import (
    ACCESS,
    AWAIT_QUEUE,
    CHAIN,
    COMPUTE,
    GIVE_UP,
    REGISTER,
    REPORT,
    SLEEP,
)
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, PS_PER_US
from nicscope.interfaces.buffers import Allocation, MemoryRange, allocated, checked_range
from nicscope.interfaces.ownership import Owned, Owner
from nicscope.interfaces.ports import process as ports
from nicscope.interfaces.ports.cluster import PortCluster
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.programs import ProcessTasks
from nicscope.interfaces.via.descriptor import (
    PendingDescriptors,
    Region,
    Return,
    State,
    VipError,
    in_ps,
    raw_bytes,
    whole,
)
from nicscope.interfaces.via.vi import (
    RECEIVE_QUEUE,
    SEND_QUEUE,
    Attributes,
    Endpoint,
    Kernel,
    Ring,
    WakeupList,
)
from nicscope.interfaces.work_queues import (
    PinnedPages,
    deregister,
    open_completion_queue,
    open_port,
    store,
)
from nicscope.kernel.entry import bound
from nicscope.memory.coherence.processor import LOAD, STORE
from nicscope.nic.ports.layout import DONE, MAY_FETCH, MAY_WRITE, NOBODY, SENT, STATUS_NAMES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from nicscope.config.platform import Platform
    from nicscope.nic.coherent import Mechanism


class Settings(msgspec.Struct, frozen=True):
    """A platform with overrides, and the parameters of messaging."""

    platform: Platform
    host: dict[str, int]  # parameters of the host and of the interface
    nic: dict[str, int]
    mtu: int
    max_transfer: int
    retry_timeout: int  # ps
    retries: int
    window: int
    read_mbytes_s: int  # at which the interface reads blocks that the host wrote; 0: the bus's


class Nodes(PortCluster["Process"]):
    """A cluster as its processes and their kernel agents see it."""

    settings: Settings
    mechanism: Mechanism | None  # None: the NIC is on an I/O bus
    names: dict[str, tuple[int, ...]]  # nodes of each host name
    kernels: list[Kernel]  # by node; there once ``run`` has begun


class Space:
    """The address space of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._page = process._memory.page_size
        self.pinned = PinnedPages(self._page)
        self._given_back: dict[int, list[int]] = {}  # addresses, by pages

    def allocate(self, owner: Owner, count: int) -> Buffer:
        """Allocate whole pages.  Errors: ``VIP_ERROR_RESOURCE``."""
        pages = max(-(-count // self._page), 1)
        again = self._given_back.get(pages)
        if again:
            address = again.pop()
        else:
            try:
                address = self._process.allocate(max(count, 1)).address
            except SimulationError as error:
                raise VipError(Return.VIP_ERROR_RESOURCE, str(error)) from None
        return allocated(Buffer, owner, self._process, address, count)

    def free_buffer(self, owner: Owner, buffer: Buffer) -> None:
        """Free a buffer that nothing uses any more."""
        owner.take_back(buffer.room, "given back")
        pages = max(-(-buffer.length // self._page), 1)
        self._given_back.setdefault(pages, []).append(buffer.address)

    def unregistered(self, address: int, length: int) -> int:
        """How many pages of the range are not registered."""
        return sum(page not in self.pinned for page in self.pinned.pages(address, length))

    def holds(self, address: int, count: int) -> bool:
        """Whether all of the range is allocated to the process."""
        return 0 <= address <= self._process._next_page * self._page - count

    def is_pinned(self, address: int, count: int) -> bool:
        """Whether the range lies in one registered page: an access cannot fault."""
        if type(address) is not int or type(count) is not int or count < 0:
            return False
        size = self._page
        return address % size + count <= size and address // size in self.pinned


def rights_of(*, rdma_write: bool, rdma_read: bool) -> int:
    """The remote access rights of memory attributes, as the NIC encodes them."""
    return MAY_WRITE * rdma_write | MAY_FETCH * rdma_read


class Agent:
    """The kernel agent of a node, as one of its processes calls it.

    Agents of two nodes agree in no virtual time.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cluster = process.cluster
        self.node = process.node
        self._sim_process = process._sim_process
        self._ports = process._ports
        assert self.cluster.simulation is not None
        machine = self.cluster.simulation.machine
        self.disconnect_port = bound(end_connection, machine)
        self._deregister = bound(deregister, machine)
        self.space = Space(process)
        self.words = PendingDescriptors()
        self.opened = 0  # NICs that the process has open
        self.kernel = self.cluster.kernels[self.node]

    # --- protection and memory -----------------------------------------------------------

    def close_nic(self, owner: Owner) -> None:
        """Close one of the process's open NICs.  Errors: ``VIP_ERROR_RESOURCE``."""
        if self.opened == 1:
            left = {
                "VIs": sum(vi.owner is owner for vi in self.vis),
                "protection tags": len(self.kernel.tags.of(owner)),
            }
            found = [f"{count} {what}" for what, count in left.items() if count]
            if found:  # queues and registered memory have a tag
                raise VipError(
                    Return.VIP_ERROR_RESOURCE,
                    f"{owner.name} has {' and '.join(found)} there; destroy them first",
                )
        self.opened -= 1

    def change_region(self, region: Region, tag: int, *, rdma_write: bool, rdma_read: bool) -> None:
        """Change the attributes of registered memory in the NIC's table."""
        for name, value in (("tag", tag), ("rdma_write", rdma_write), ("rdma_read", rdma_read)):
            object.__setattr__(region, name, value)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        self.kernel.enter(region, self.process.number, rights)

    def is_in_use(self, tag: int) -> bool:
        """Whether a VI or registered memory has the protection tag."""
        regions = self.kernel.regions.values()
        return any(one.tag == tag for one in regions) or any(
            vi.attributes.tag == tag for vi in self.vis
        )

    async def register(
        self, owner: Owner, buffer: MemoryRange, tag: object, *, rdma_write: bool, rdma_read: bool
    ) -> Region:
        """Pin a buffer and let the tag's VIs access it."""
        known = self.kernel.tags.known(owner, tag, Return.VIP_INVALID_PTAG)
        address, length = checked_range(owner, self.process, buffer)
        if length < 1:
            raise VipError(
                Return.VIP_INVALID_PARAMETER, "0 bytes are not registered; give it a buffer of 1"
            )
        await self._await_room(address, length)
        key = self.kernel.take("key")
        ended = await self.process.ask(
            REGISTER, peer=self.process.port, address=address, payload=length
        )
        if ended.address != DONE:
            self.kernel.give("key", key)
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"{length} bytes cannot be pinned: {STATUS_NAMES[ended.address]}",
            )
        region = Region(key, self.node, address, length, known, rdma_write, rdma_read)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        self.kernel.enter(region, self.process.number, rights)
        self.space.pinned.note(address, length, 1)
        return region

    async def deregister(self, handle: int) -> None:
        """Deregister memory.  Errors: ``VIP_INVALID_PARAMETER``."""
        await self.process.settle()
        region = self.kernel.remove_region(handle)
        if region is None:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"no registered memory {handle}")
        address, length = region.address, region.length
        self.space.pinned.note(address, length, -1)
        await self.process.ask(GIVE_UP, peer=self.process.port, address=address, payload=length)
        self._deregister(self.node, self.process.port, address, length)
        self.kernel.given_back.ring()

    async def _await_room(self, address: int, length: int) -> None:
        """Wait until the NIC has free entries for the pages, if registration is to be postponed."""
        room = self.kernel.room
        if room is None:
            return
        if self.space.unregistered(address, length) > room.most:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"the NIC has room for {room.most} registered pages, never for {length} bytes",
            )
        while self.space.unregistered(address, length) > room.left:
            await self.process.hear(self.kernel.given_back, None)

    # --- virtual interfaces --------------------------------------------------------------

    @property
    def vis(self) -> Sequence[Endpoint]:
        """The VIs of the node."""
        return self.kernel.vis

    def create_vi(
        self,
        owner: Owner,
        attributes: Attributes,
        send_queue: Ring | None,
        receive_queue: Ring | None,
    ) -> Endpoint:
        """Create an idle VI with such attributes, which are checked."""
        self.kernel.tags.known(owner, attributes.tag, Return.VIP_INVALID_PTAG)
        port = self.kernel.take("port")
        where = self.node, self.kernel.number(), port
        vi = Endpoint(owner, where, attributes, (send_queue, receive_queue), self._ports)
        self._open(port, attributes, (send_queue, receive_queue))
        self.process._note_port(port, f"VI {where[1]}")
        vi.questions = self._question(port, SEND_QUEUE), self._question(port, RECEIVE_QUEUE)
        self.kernel.vis.append(vi)
        for queue in (send_queue, receive_queue):
            if queue is not None:
                queue.users += 1
                queue.known[port] = vi
        return vi

    def _question(self, port: int, queue: int) -> bytes:
        own = self.process._mapped[port] | queue | POLL << 1
        return self._sim_process.request(REPORT, port, own=own)

    def _open(
        self, port: int, attributes: Attributes, queues: tuple[Ring | None, Ring | None]
    ) -> None:
        """Bind ``port`` of the NIC to a VI of this process."""
        record = self._ports.table[self.node, port]
        record["reaped"] = record["reported"]
        record["read"] = record["reserved"] = record["received"]
        send, receive = (NOBODY if queue is None else queue.place for queue in queues)
        open_port(record, send_queue=send, receive_queue=receive, async_errors=0, notices=0)
        self.process._map_port(port)  # as the owner that it has now
        self._tell_attributes(port, attributes)

    def _tell_attributes(self, port: int, attributes: Attributes) -> None:
        """Write a VI's attributes into the NIC's port."""
        record = self._ports.table[self.node, port]
        store(
            record,
            level=int(attributes.reliability),
            domain=attributes.tag,
            rights=rights_of(rdma_write=attributes.rdma_write, rdma_read=attributes.rdma_read),
            longest=attributes.max_transfer,
        )

    def change_vi(self, vi: Endpoint, attributes: Attributes) -> None:
        """Change the attributes, which are checked, of an idle VI."""
        self.check_state(vi, State.VIP_STATE_IDLE)
        vi.attributes = attributes
        self._tell_attributes(vi.place, attributes)

    def destroy_vi(self, vi: Endpoint) -> None:
        """Errors: ``VIP_INVALID_STATE`` unless idle, ``VIP_ERROR_RESOURCE`` with descriptors."""
        if vi.state is not State.VIP_STATE_IDLE:
            raise VipError(
                Return.VIP_INVALID_STATE, f"VI {vi.number} is in {vi.state.name}; disconnect it"
            )
        if any(vi.posted):
            raise VipError(
                Return.VIP_ERROR_RESOURCE, f"VI {vi.number} has descriptors posted or not taken"
            )
        self.kernel.vis.remove(vi)
        port = vi.place
        for queue in vi.completion_queues:
            if queue is not None:
                queue.hear()
                queue.users -= 1
        vi.close()
        self._ports.table[self.node, port]["open"] = 0
        self.process._on_port_reassigned(port)
        self.kernel.give("port", port)

    def create_completion_queue(self, memory: Buffer, handle: int, entries: int) -> Ring:
        """Create a completion queue in registered memory."""
        self.check_entries(entries)
        place, number = self.kernel.take("queue"), self.kernel.number()
        open_completion_queue(self._ports.work.queues[self.node, place], entries)
        where = self.node, number, place
        return Ring(where, memory, handle, entries, self._ports)

    def check_entries(self, entries: int) -> None:
        """Errors: ``VIP_ERROR_RESOURCE`` if no completion queue of the NIC has so many."""
        most = self._ports.work.entries.shape[2]
        if entries > most:
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"a completion queue has up to {most} entries, got {entries}; give the cluster "
                "more (PortSize(entries=...))",
            )

    def resize_completion_queue(self, queue: Ring, entries: int) -> bool:
        """Resize a completion queue; False if it holds more entries than that."""
        queue.hear()
        record: Any = self._ports.work.queues[self.node, queue.place]
        if int(record["written"]) - queue.read > entries:
            return False
        record["entries"] = queue.entries = entries
        return True

    def destroy_completion_queue(self, queue: Ring) -> None:
        """Destroy a completion queue, which nobody waits for any more."""
        self._ports.work.queues[self.node, queue.place]["open"] = 0
        self.kernel.give("queue", queue.place)

    def check_state(self, vi: Endpoint, state: State) -> None:
        """Errors: ``VIP_INVALID_STATE`` for a VI that is in another state."""
        if vi.state is not state:
            raise VipError(
                Return.VIP_INVALID_STATE,
                f"VI {vi.number} is in {vi.state.name}, not in {state.name}",
            )

    async def call(self) -> None:
        """Charge the cost of a system call."""
        cost = int(self._ports.costs[self.node]["system_call"])
        await self.process.ask(COMPUTE, duration=cost)


MOST_BEFORE = CHAIN - 1  # what the process asks next is the last of the chain


class Process(ports.Process):
    """A process that raises VIPL's errors."""

    cluster: Nodes

    def __init__(self, cluster: Nodes, sim_process: SimProcess, number: int) -> None:
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

    async def play(self, program: Coroutine[Any, Any, object]) -> object:
        """Run a program until the last operation that it asked for has ended."""
        result = await program
        await self.settle()
        return result

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

    async def hear(self, wakeups: WakeupList, latest: int | None) -> None:
        """Wait for the next wakeup of a list, or until ``latest`` (ps)."""
        wakeups.waiting.append(self)
        try:
            await self.ask(AWAIT_QUEUE, peer=self.number, address=latest or 0)
        finally:
            if self in wakeups.waiting:
                wakeups.waiting.remove(self)

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
        self._kernel = agent.kernel
        self._cluster = agent.cluster
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

    async def sleep(self, microseconds: float) -> None:
        """Leave the processor to others for a while: the operating system's call, not VIPL's."""
        self._enter()
        await self._process.ask(SLEEP, duration=in_ps(microseconds, self._sim_process.now))

    def _enter(self) -> None:
        """Begin a call; errors: if another process makes it."""
        self._owner.check_caller()
        if self._is_closed:
            raise VipError(Return.VIP_INVALID_PARAMETER, "the NIC is closed; open_nic() opens it")

    def _entered_with(self, thing: object, kind: type[Owned]) -> Any:
        """Begin a call about ``thing``, a ``kind``: what that stands for."""
        self._enter()
        return self._owner.record_of(thing, kind)

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
