"""A program on shared memory: its process's views, locks, barriers, and a run in logical time."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from nicscope.apps.svm.coherence import (
    Caller,
    Coherence,
    Costs,
    Lock,
    LogicalWire,
    ProgramRecord,
    Records,
    Waiter,
)
from nicscope.apps.svm.memory import (
    READABLE,
    WRITABLE,
    Domain,
    Layout,
    Notices,
    SharedArray,
)
from nicscope.errors import SimulationError
from nicscope.interfaces.programs import Gate
from nicscope.interfaces.trapeze import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray


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
        if not self._has(array, begin, end, READABLE):
            await self._touch(array.pages(begin, end), READABLE, end - begin)
        return self._elements(array, begin, end, writable=False)

    async def write(self, array: SharedArray, begin: int = 0, end: int | None = None) -> Any:
        """The same, to read and write.  Only what it changes is another's to see."""
        begin, end = self._range(array, begin, end)
        if not self._has(array, begin, end, WRITABLE):
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
        await self._synchronization.meet(self._caller)

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

    def _has(self, array: SharedArray, begin: int, end: int, least: int) -> bool:
        """Charge the accesses and return True if elements of one or two pages are accessible.

        As ``_touch`` would, but without arrays of pages: most reads are of one element.
        """
        size, page_bytes = array.dtype.itemsize, array.page_bytes
        first = (array.first + begin * size) // page_bytes
        last = (array.first + end * size - 1) // page_bytes
        mapped = self._mapped
        is_here = last - first <= 1 and bool(mapped[first] >= least and mapped[last] >= least)
        if is_here:
            self._accesses += end - begin
        return is_here

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
            for page in in_order(missing, len(self._mapped)):
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


def in_order(pages: NDArray[np.int64], every: int) -> list[int]:
    """The different ones of ``pages``, of ``every`` there are, each where it comes first."""
    if len(pages) < every:
        return [*dict.fromkeys(pages.tolist())]
    first = np.full(every, len(pages))
    first[pages[::-1]] = np.arange(len(pages))[::-1]  # what is put down last stays
    found = np.flatnonzero(first < len(pages))
    in_turn: list[int] = found[np.argsort(first[found])].tolist()
    return in_turn


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

    async def meet(self, caller: Caller) -> None:
        """Wait until all processes have arrived and sent their diffs home."""


class LogicalSynchronization:
    """Locks and a barrier that all processes see directly, each at its cost."""

    def __init__(
        self,
        processes: int,
        coherence: Coherence,
        costs: Costs,
        record: ProgramRecord,
        seed: int = 0,
    ) -> None:
        """``seed``: of the skew, if the costs have one."""
        self._coherence = coherence
        self._costs = costs
        self._rng = np.random.default_rng(seed)
        self._record = record
        self._locks: dict[object, Lock] = {}
        self._barrier = Barrier(processes)
        self._come: Counter[int] = Counter()  # to the barrier, by domain

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Wait for the lock, granted in order, and apply its last holder's notices."""
        lock = self._locks.get(name)
        if lock is None:
            domains = len(self._coherence.domains)
            lock = self._locks[name] = Lock(len(self._locks) % domains, domains)
        if lock.holder == process:
            raise already_held_error(process, name)
        self._record.ask(caller, name)
        self._coherence.ask(caller, lock)
        if lock.holder is None:
            lock.holder = process
        else:
            gate = Gate()
            lock.waiting.append(Waiter(process, caller.domain.number, gate))
            await gate.wait(caller.endpoint)
        await self._coherence.acquire(caller, lock)

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Grant the lock to the first waiter."""
        lock = self._locks.get(name)
        if lock is None or lock.holder != process:
            raise not_held_error(process, name)
        await self._coherence.release(caller, lock)
        self._record.let_go(caller, name)
        lock.holder = None
        if lock.waiting:
            following = lock.waiting.pop(0)
            lock.holder = following.process
            following.gate.open()

    async def meet(self, caller: Caller) -> None:
        """Wait for all, and go on by a random part of the skew later.

        The last arrival gives every domain all notices.
        """
        self._record.meet(caller)
        self._come[caller.domain.number] += 1
        if self._come[caller.domain.number] == len(caller.domain.processes):
            self._come[caller.domain.number] = 0
            self._coherence.arrive(caller)
        gate = self._barrier.come()
        if gate is None:
            self._coherence.leave(caller)
            self._barrier.open()
        else:
            await gate.wait(caller.endpoint)
        self._coherence.accept(caller)
        late = self._rng.uniform(0.0, self._costs.skew) if self._costs.skew else 0.0
        await caller.endpoint.sleep(self._costs.barrier + late)


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
    is_direct: bool = False,
    seed: int = 0,
) -> Run:
    """Run ``program`` once in every process, with the arrays of ``layout`` in shared memory.

    ``set_up`` writes what stands in them before the processes are made; it is called with what
    gives it an array to write.  ``with_initial``: its program is recorded with the first
    distribution of that.  ``is_direct``: nobody at the other end takes part, as in GeNIMA.
    ``seed``: of the processes' skew.

    Errors: ``SimulationError`` for a placement without processes.
    """
    if placement.nodes < 1 or placement.processes < 1:
        raise SimulationError("a program has at least one process on at least one node")
    costs = costs or Costs()
    record = ProgramRecord(placement.processes, layout.page_bytes, with_initial=with_initial)
    records = Records(record, layout.pages, layout.page_bytes, is_direct=is_direct)
    domains = domains_of(layout, placement)
    wire = LogicalWire(costs, records)
    coherence = Coherence(domains, Notices(len(domains)), wire, costs, record, is_eager=is_direct)
    cluster = Cluster(PLATFORM, nodes=max(2, placement.nodes), host_bytes=1 << 20)
    if set_up is not None:
        set_up(lambda array: array.in_bytes(domains[0].memory))
        coherence.is_initial[:] = domains[0].memory.any(axis=1)
    many = placement.nodes * placement.processes
    synchronization = LogicalSynchronization(many, coherence, costs, record, seed)

    def started(number: int, domain: Domain) -> Callable[[Any], Coroutine[Any, Any, object]]:
        async def process(endpoint: Any) -> object:
            caller = Caller(endpoint, domain, number % placement.processes)
            shared = Process(number, many, caller, coherence, costs, record, synchronization)
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
