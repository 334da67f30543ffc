"""A program on shared memory: its process's views, locks, barriers, and a run in logical time.

A run's record says what its processes asked of their network interface, and what each waited for.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from nicscope.apps.svm.coherence import (
    PAGE,
    READABLE,
    WRITABLE,
    Caller,
    Coherence,
    Costs,
    Diff,
    Domain,
    Layout,
    LogicalWire,
    Notices,
    RemoteDomain,
    SharedArray,
)
from nicscope.errors import SimulationError
from nicscope.interfaces.programs import Gate
from nicscope.interfaces.trapeze import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray


SHARED_BASE = 1 << 32  # virtual address of shared memory, in every process
CONTROL_BASE = 1 << 20  # of the page from which requests are sent, always resident
REQUEST_BYTES = 32
SEND, WRITE, READ = 0, 1, 4  # codes of a trace's operations

COLUMNS = {
    "time_ns": np.int64,
    "node": np.int32,
    "pid": np.int32,
    "op": np.uint8,
    "address": np.uint64,
    "length": np.uint32,
    "peer": np.int32,
    "initial": np.bool_,  # the first distribution of what stood there before the processes
}


class Records:
    """Rows of a request trace, and counts of events."""

    def __init__(self, program: ProgramRecord, page_bytes: int = PAGE) -> None:
        self.program = program
        self._page_bytes = page_bytes
        self._rows: list[tuple[int, int, int, int, int, int, int, bool]] = []
        self.fetches = 0
        self.initial_copies = 0
        self.diffs = 0
        self.diff_bytes = 0

    def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool
    ) -> None:
        """Record a fetch: a request sent from the control page, and a read into the page."""
        self.initial_copies += is_initial
        self.fetches += not is_initial
        to = (home.node, is_initial)
        self._add(caller, SEND, CONTROL_BASE, REQUEST_BYTES, *to)
        self._add(caller, READ, self._address(page), self._page_bytes, *to)
        self.program.fetch(caller, page, home, is_initial=is_initial)

    def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Record a diff's write to its page's home, from where its first word lies.

        Its row ends with the page at the latest: heads of runs are no memory of the page's.
        """
        self.diffs += 1
        self.diff_bytes += diff.message_bytes
        length = min(diff.message_bytes, self._page_bytes - diff.first_byte)
        address = self._address(diff.page) + diff.first_byte
        writer = caller._replace(pid=diff.pid)
        self._add(writer, WRITE, address, length, home.node, False)
        self.program.deposit(caller, diff, home)

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """The rows, rising in time."""
        rows = sorted(self._rows, key=lambda row: row[0])
        held = [*zip(*rows, strict=True)] or [()] * len(COLUMNS)
        return {
            name: np.array(values, kind)
            for (name, kind), values in zip(COLUMNS.items(), held, strict=True)
        }

    def _address(self, page: int) -> int:
        return SHARED_BASE + page * self._page_bytes

    def _add(
        self, caller: Caller, op: int, address: int, length: int, peer: int, is_initial: bool
    ) -> None:
        time_ns = round(caller.endpoint.now_us * 1000)
        node, pid = caller.domain.node, caller.pid
        self._rows.append((time_ns, node, pid, op, address, length, peer, is_initial))


NS_PER_US = 1000
# What is not in it, for whoever reads what is.
LEFT_OUT = [
    "which pages are fetched and which diffs deposited are as recorded; only times change",
    "the order in which processes ask for a lock is as recorded",
    "making a diff and applying it takes no time of the CPU",
    "write notices are no bytes of locks and barriers",
]

Place: TypeAlias = "tuple[int, int]"  # a process, and a row's place among its rows


class ProgramRow(NamedTuple):
    """One operation of a process; ``operation`` is named as in program traces."""

    operation: str
    peer: int = -1  # the node at the other end
    address: int = 0  # in shared memory
    length: int = 0  # bytes
    name: int = 0  # of a lock
    duration_ns: int = 0
    after: tuple[int, ...] | None = None  # own rows that must have ended; None: the one before
    after_others: tuple[Place, ...] = ()  # others' rows that must have ended
    after_start_others: tuple[Place, ...] = ()  # others' rows that must have begun


@dataclass
class _RowSequence:
    """Successive rows of a process."""

    process: int
    last: int | None = None  # place of the newest
    waits: list[Place] = field(default_factory=list)  # for what its next row does too


class ProgramRecord:
    """Program trace rows of every process of a run."""

    def __init__(
        self, processes_of_node: int, page_bytes: int = PAGE, *, with_initial: bool = False
    ) -> None:
        """``with_initial``: also the first distribution of what stood there before them."""
        self._each = processes_of_node
        self._page_bytes = page_bytes
        self.with_initial = with_initial
        self._rows: dict[int, list[ProgramRow]] = {}
        self._strands: dict[Caller, _RowSequence] = {}
        self._carriers: dict[Gate, list[Place]] = {}  # rows after which a gate opens
        self._locks: dict[object, int] = {}  # numbers of their names
        self._asked: dict[int, Place] = {}  # who asked last, by lock

    def rows_of(self, process: int) -> list[ProgramRow]:
        """The rows of a process, by its global number."""
        return self._rows.get(process, [])

    def compute(self, caller: Caller, microseconds: float) -> None:
        """Record computing; adjacent computing is merged into one row."""
        strand, duration = self._strand(caller), round(microseconds * NS_PER_US)
        rows = self._rows.setdefault(strand.process, [])
        is_newest = strand.last is not None and strand.last == len(rows) - 1
        if is_newest and not strand.waits and rows[-1].operation == "compute":
            last = rows[-1]
            rows[-1] = ProgramRow(*last[:5], last.duration_ns + duration, *last[6:])
        else:
            self._add(strand, ProgramRow("compute", duration_ns=duration))

    def fetch(
        self, caller: Caller, page: int, home: Domain | RemoteDomain, *, is_initial: bool
    ) -> None:
        """Record that the caller fetches a page from its home."""
        if self.with_initial or not is_initial:
            at = page * self._page_bytes
            row = ProgramRow("fetch", peer=home.node, address=at, length=self._page_bytes)
            self._add(self._strand(caller), row)

    def deposit(self, caller: Caller, diff: Diff, home: Domain | RemoteDomain) -> None:
        """Record that the caller writes a diff to its page's home, as in a request trace."""
        address = diff.page * self._page_bytes + diff.first_byte
        length = min(diff.message_bytes, self._page_bytes - diff.first_byte)
        row = ProgramRow("deposit", peer=home.node, address=address, length=length)
        self._add(self._strand(caller), row)

    def ask(self, caller: Caller, lock: object) -> None:
        """Record that the caller requests a lock that others requested before."""
        name = self._locks.setdefault(lock, len(self._locks))
        before = self._asked.get(name)
        strand = self._strand(caller)
        is_others = before is not None and before[0] != strand.process
        behind = (before,) if is_others and before is not None else ()
        self._add(strand, ProgramRow("lock", name=name, after_start_others=behind))
        self._asked[name] = self._newest(strand)

    def let_go(self, caller: Caller, lock: object) -> None:
        """Record that the caller releases a lock."""
        self._add(self._strand(caller), ProgramRow("unlock", name=self._locks[lock]))

    def meet(self, caller: Caller) -> None:
        """Record that the caller arrives at the barrier."""
        self._add(self._strand(caller), ProgramRow("barrier"))

    def opens(self, caller: Caller, gate: Gate) -> None:
        """Record that the caller's last row is what others wait for at ``gate``."""
        strand = self._strand(caller)
        if strand.last is not None:
            self._carriers.setdefault(gate, []).append(self._newest(strand))

    def passed(self, caller: Caller, gate: Gate) -> None:
        """Record that the caller has waited at ``gate``."""
        strand = self._strand(caller)
        strand.waits += self._carriers.get(gate, [])

    def begin_on_behalf(self, caller: Caller, asking: Caller) -> None:
        """Attribute the caller's rows from now on to ``asking``, which waits for them."""
        of = self._strand(asking)
        number = caller.domain.processes[0]
        waits = [] if of.last is None else [self._newest(of)]
        self._strands[caller] = _RowSequence(number, None, waits)

    def end_on_behalf(self, caller: Caller, asking: Caller) -> None:
        """Record that ``asking`` has waited for what ``caller`` did for it."""
        strand = self._strands.pop(caller)
        if strand.last is not None:
            self._strand(asking).waits.append(self._newest(strand))

    def _strand(self, caller: Caller) -> _RowSequence:
        number = caller.domain.node * self._each + caller.pid
        return self._strands.setdefault(caller, _RowSequence(number))

    def _newest(self, strand: _RowSequence) -> Place:
        assert strand.last is not None
        return strand.process, strand.last

    def _add(self, strand: _RowSequence, row: ProgramRow) -> None:
        rows = self._rows.setdefault(strand.process, [])
        own = {place for process, place in strand.waits if process == strand.process}
        own |= set() if strand.last is None else {strand.last}
        others = sorted({each for each in strand.waits if each[0] != strand.process})
        usual = {len(rows) - 1} if rows else set()
        after = None if own == usual else tuple(sorted(own))
        rows.append(ProgramRow(*row[:6], after, tuple(others), row.after_start_others))
        strand.last, strand.waits = len(rows) - 1, []


class Process:
    """One process of a shared-memory program.

    A view that it gets stands until it waits for anything: after that, what it reads or writes has
    to be asked for again, as another may have changed it.
    """

    def __init__(
        self,
        number: int,
        processes: int,
        caller: Caller,
        coherence: Coherence,
        costs: Costs,
        record: ProgramRecord,
        synchronization: Synchronization,
    ) -> None:
        self.number = number
        self.processes = processes
        self._caller = caller
        self._coherence = coherence
        self._costs = costs
        self._record = record
        self._synchronization = synchronization
        self._place = caller.domain.local[number]
        self._mapped = caller.domain.mapped[self._place]
        self._written = caller.domain.written
        self._accesses = 0  # that have taken no time yet

    async def read(self, array: SharedArray, begin: int = 0, end: int | None = None) -> Any:
        """Elements ``begin`` to ``end`` of an array, counted through all its axes, to read."""
        begin, end = self._range(array, begin, end)
        await self._touch(array.pages(begin, end), READABLE, end - begin)
        return self._elements(array, begin, end, writable=False)

    async def write(self, array: SharedArray, begin: int = 0, end: int | None = None) -> Any:
        """The same, to read and write.  Only what it changes is another's to see."""
        begin, end = self._range(array, begin, end)
        await self._touch(array.pages(begin, end), WRITABLE, end - begin)
        size = array.dtype.itemsize
        self._written.add_bytes(self._place, array.first + begin * size, array.first + end * size)
        return self._elements(array, begin, end, writable=True)

    async def read_block(self, array: SharedArray, rows: range, columns: range) -> Any:
        """A block of a matrix, to read; its pages are touched row by row."""
        return await self._block(array, rows, columns, READABLE)

    async def write_block(self, array: SharedArray, rows: range, columns: range) -> Any:
        """The same, to read and write."""
        return await self._block(array, rows, columns, WRITABLE)

    async def write_row(self, array: SharedArray, row: int) -> Any:
        """One of an array's rows, to read and write."""
        width = array.row_elements
        return await self.write(array, row * width, (row + 1) * width)

    async def gather_rows(self, array: SharedArray, rows: NDArray[np.int64]) -> Any:
        """Copies of some rows of an array, touched in that order."""
        width = array.row_elements
        await self._touch(array.pages_of_each_row(rows), READABLE, len(rows) * width)
        return self._caller.domain.array(array)[rows]

    async def write_rows(self, array: SharedArray, rows: NDArray[np.int64]) -> Any:
        """A whole array, of which ``rows`` may be read and written; touched in that order."""
        width = array.row_elements
        await self._touch(array.pages_of_each_row(rows), WRITABLE, len(rows) * width)
        self._wrote_items(array, rows, width)
        return self._caller.domain.array(array)

    async def read_elements(self, array: SharedArray, elements: NDArray[np.int64]) -> Any:
        """A whole array of one axis, of which ``elements`` may be read; touched in that order."""
        return await self._elements_of(array, elements, READABLE)

    async def write_elements(self, array: SharedArray, elements: NDArray[np.int64]) -> Any:
        """The same, to read and write."""
        return await self._elements_of(array, elements, WRITABLE)

    async def gather(self, array: SharedArray, elements: NDArray[np.int64]) -> Any:
        """Copies of some elements of an array of one axis, touched in that order."""
        await self._touch(array.pages_of_elements(elements), READABLE, len(elements))
        return self._caller.domain.array(array)[elements]

    async def scatter(
        self, array: SharedArray, elements: NDArray[np.int64], values: NDArray[Any]
    ) -> None:
        """Write ``values`` to some elements of an array of one axis, in that order."""
        await self._touch(array.pages_of_elements(elements), WRITABLE, len(elements))
        self._wrote_items(array, elements)
        self._caller.domain.array(array)[elements] = values

    def work(self, accesses: int) -> None:
        """Charge further accesses to shared elements, whose time passes before the next wait."""
        self._accesses += accesses

    async def compute(self, accesses: int = 0) -> None:
        """Advance time by what was computed since the last wait."""
        accesses += self._accesses
        self._accesses = 0
        if accesses:
            self._record.compute(self._caller, accesses * self._costs.access)
            await self._caller.endpoint.sleep(accesses * self._costs.access)

    async def acquire(self, name: object) -> None:
        """Acquire a lock, created on first use; granted in order."""
        await self.compute()
        await self._synchronization.acquire(self._caller, self.number, name)

    async def release(self, name: object) -> None:
        """Release a lock: its next holder sees what was written till now."""
        await self.compute()
        await self._synchronization.release(self._caller, self.number, name)

    async def barrier(self) -> None:
        """Wait until all processes have arrived; then each sees what any has written."""
        await self.compute()
        await self._coherence.flush(self._caller, [self.number])
        await self._synchronization.meet(self._caller, self.number)

    async def _block(self, array: SharedArray, rows: range, columns: range, least: int) -> Any:
        pages = array.pages_of_rows(rows, columns)
        await self._touch(pages, least, len(rows) * len(columns))
        if least == WRITABLE:
            begins = np.arange(rows.start, rows.stop) * array.row_elements + columns.start
            self._wrote_items(array, begins, 1, len(columns))
        whole = self._caller.domain.array(array).view()
        view = whole[rows.start : rows.stop, columns.start : columns.stop]
        view.flags.writeable = least == WRITABLE
        return view

    async def _elements_of(
        self, array: SharedArray, elements: NDArray[np.int64], least: int
    ) -> Any:
        await self._touch(array.pages_of_elements(elements), least, len(elements))
        if least == WRITABLE:
            self._wrote_items(array, elements)
        whole = self._caller.domain.array(array).view()
        whole.flags.writeable = least == WRITABLE
        return whole

    def _wrote_items(
        self, array: SharedArray, items: NDArray[np.int64], width: int = 1, many: int = 1
    ) -> None:
        """Mark ``items`` of ``width`` elements each as written, ``many`` elements of each."""
        size = array.dtype.itemsize
        begins = array.first + items * (width * size)
        self._written.add_items(self._place, begins, width * size * many)

    async def _touch(self, pages: NDArray[np.int64], least: int, accesses: int) -> None:
        """Make all of ``pages`` accessible at once; pages lost meanwhile are faulted again.

        One that is named more than once has its first place.
        """
        self._accesses += accesses
        while True:
            missing = pages[self._mapped[pages] < least]
            if not len(missing):
                return
            await self.compute()
            if least == WRITABLE:
                await self._coherence.ensure_home_writable(self._caller, self.number, missing)
                missing = missing[self._mapped[missing] < least]
            for page in dict.fromkeys(missing.tolist()):
                await self._coherence.have(self._caller, self.number, page, least)

    def _range(self, array: SharedArray, begin: int, end: int | None) -> tuple[int, int]:
        many = math.prod(array.shape)
        end = many if end is None else end
        if not 0 <= begin < end <= many:
            raise SimulationError(
                f"elements {begin} to {end} of shared array {array.name!r}, which has {many}"
            )
        return begin, end

    def _elements(self, array: SharedArray, begin: int, end: int, *, writable: bool) -> Any:
        view = self._caller.domain.array(array).reshape(-1)[begin:end]
        view.flags.writeable = writable
        return view


class Waiter(NamedTuple):
    """A process that waits for a lock, and its gate."""

    process: int
    domain: int
    gate: Gate


class Lock:
    """A lock with a first-in first-out queue of waiters."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self.domain: int | None = None  # that had it last
        # What who has it next has to know; None while that is still the last domain's own affair.
        self.clock: NDArray[np.int64] | None = None
        self.waiting: list[Waiter] = []

    @property
    def leaves_domain(self) -> bool:
        """Whether the next holder is known and of another domain than the current holder."""
        return bool(self.waiting) and self.waiting[0].domain != self.domain

    def grant_next(self) -> None:
        """Grant the lock to the first waiter, or free it."""
        self.holder = None
        if self.waiting:
            following = self.waiting.pop(0)
            self.holder = following.process
            following.gate.open()


class Barrier:
    """A barrier of all processes."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._come = 0
        self._gate = Gate()

    def come(self) -> Gate | None:
        """Count an arrival: the gate to wait at; None for the last process."""
        self._come += 1
        return self._gate if self._come < self._processes else None

    def open(self) -> None:
        """Release the barrier for all waiters; it can be used again."""
        self._gate.open()
        self._come, self._gate = 0, Gate()


class Synchronization(Protocol):
    """Locks and barriers that also propagate write notices."""

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Acquire the lock for ``process``, in the order of requests."""

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Release the lock for ``process``."""

    async def meet(self, caller: Caller, process: int) -> None:
        """Wait until all processes have arrived and sent their diffs home."""


class LogicalSynchronization:
    """Locks and a barrier that all processes see directly, each at its cost."""

    def __init__(
        self, processes: int, coherence: Coherence, costs: Costs, record: ProgramRecord
    ) -> None:
        self._coherence = coherence
        self._costs = costs
        self._record = record
        self._locks: defaultdict[object, Lock] = defaultdict(Lock)
        self._barrier = Barrier(processes)

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Wait for the lock, granted in order, and apply its last holder's notices."""
        lock = self._locks[name]
        if lock.holder == process:
            raise already_held_error(process, name)
        self._record.ask(caller, name)
        if lock.holder is None:
            lock.holder = process
        else:
            gate = Gate()
            lock.waiting.append(Waiter(process, caller.domain.number, gate))
            await gate.wait(caller.endpoint)
        await self._coherence.acquire(caller, lock)

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Grant the lock to the first waiter."""
        lock = self._locks[name]
        if lock.holder != process:
            raise not_held_error(process, name)
        await self._coherence.release(caller, lock)
        self._record.let_go(caller, name)
        lock.grant_next()

    async def meet(self, caller: Caller, process: int) -> None:  # noqa: ARG002 - they are counted
        """Wait for all; the last arrival gives every domain all notices."""
        self._record.meet(caller)
        gate = self._barrier.come()
        if gate is None:
            self._coherence.meet()
            self._barrier.open()
        else:
            await gate.wait(caller.endpoint)
        self._coherence.accept(caller)
        await caller.endpoint.sleep(self._costs.barrier)


def already_held_error(process: int, name: object) -> SimulationError:
    """The error of acquiring a lock that the process holds."""
    return SimulationError(f"process {process} acquires lock {name!r}, which it holds")


def not_held_error(process: int, name: object) -> SimulationError:
    """The error of releasing a lock that the process does not hold."""
    return SimulationError(f"process {process} releases lock {name!r}, not its own")


PLATFORM = "p6-natoma"  # whose costs nothing here pays: programs only let time pass
PS_PER_US = 1_000_000

Program: TypeAlias = "Callable[[Process], Coroutine[Any, Any, object]]"
SetUp: TypeAlias = "Callable[[Callable[[SharedArray], NDArray[Any]]], None]"


class Placement(NamedTuple):
    """Placement of processes: adjacent numbers share a node."""

    nodes: int = 4
    processes: int = 4  # of each node
    are_copies_private: bool = False  # every process has its own, as if it were a node


class Run(NamedTuple):
    """The result of a run."""

    results: list[object]  # what each process returned
    records: Records
    microseconds: float  # of logical time
    memory: NDArray[np.uint8]  # each page as it stands at its home

    def array(self, array: SharedArray) -> NDArray[Any]:
        """A shared array, assembled from the homes of its pages."""
        return array.in_bytes(self.memory)


def run_on_shared_memory(
    program: Program,
    layout: Layout,
    placement: Placement,
    set_up: SetUp | None = None,
    costs: Costs | None = None,
    *,
    with_initial: bool = False,
) -> Run:
    """Run ``program`` once in every process, with the arrays of ``layout`` in shared memory.

    ``set_up`` writes what stands in them before the processes are made; it is called with what
    gives it an array to write.  ``with_initial``: its program is recorded with the first
    distribution of that.  Errors: ``SimulationError`` for a placement without processes.
    """
    if placement.nodes < 1 or placement.processes < 1:
        raise SimulationError("a program has at least one process on at least one node")
    costs = costs or Costs()
    record = ProgramRecord(placement.processes, layout.page_bytes, with_initial=with_initial)
    records = Records(record, layout.page_bytes)
    domains = domains_of(layout, placement)
    coherence = Coherence(
        domains, Notices(len(domains)), LogicalWire(costs, records), costs, record
    )
    cluster = Cluster(PLATFORM, nodes=max(2, placement.nodes), host_bytes=1 << 20)
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
        coherence.is_initial[:] = domains[0].memory.any(axis=1)
    many = placement.nodes * placement.processes
    synchronization = LogicalSynchronization(many, coherence, costs, record)

    def started(number: int, domain: Domain) -> Callable[[Any], Coroutine[Any, Any, object]]:
        async def process(endpoint: Any) -> object:
            caller = Caller(endpoint, domain, number % placement.processes)
            shared = Process(number, many, caller, coherence, costs, record, synchronization)
            await coherence.open(caller)
            await shared.barrier()
            result = await program(shared)
            await shared.barrier()  # what it wrote is home
            return result

        return process

    for domain in domains:
        for number in domain.processes:
            cluster.start(domain.node, started(number, domain))
    results = cluster.run()
    memory = memory_at_homes([(domain, coherence.homes) for domain in domains])
    assert cluster.simulation is not None
    return Run(list(results), records, cluster.simulation.now / PS_PER_US, memory)


def memory_at_homes(of: Sequence[tuple[Domain, NDArray[np.int32]]]) -> NDArray[np.uint8]:
    """Shared memory assembled from each page's home.

    What nobody has touched is as the first of them has it.
    """
    memory = of[0][0].memory.copy()
    for domain, homes in of:
        own = homes == domain.number
        memory[own] = domain.memory[own]
    return memory


def domains_of(layout: Layout, placement: Placement) -> list[Domain]:
    """The coherence domains of a placement, initially without any page."""
    nodes, each = placement.nodes, placement.processes
    shape = (layout.pages, layout.page_bytes)
    size = 1 if placement.are_copies_private else each
    return [
        Domain(number, first // each, range(first, first + size), each, shape)
        for number, first in enumerate(range(0, nodes * each, size))
    ]
