"""A program's interface to its driver: operations on its node, its clock, and its tasks."""

from __future__ import annotations

import functools
import inspect
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.drivers.simulate.records import NO_OPERATION, OPERATION, SLEEP
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence
    from types import CodeType
    from types import coroutine as coroutine

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.diagnostics import ProcessStates
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.programs import Simulation
else:

    def coroutine(function: Any) -> Any:
        """Have a generator function make coroutines: the flag of its code says which.

        What ``types.coroutine`` makes are generators, and of one that is called and not awaited
        Python says nothing.  These are true coroutines, at the same cost.
        """
        code = function.__code__
        flags = code.co_flags & ~inspect.CO_GENERATOR | inspect.CO_COROUTINE
        function.__code__ = code.replace(co_flags=flags)
        return function


# Reads and writes single words several times faster than NumPy does.
OPERATION_STRUCT = struct.Struct(f"{len(OPERATION.names or ())}q")
HEAD = struct.Struct("q")  # the first of them, which says whose operation it is
FOLLOW = (OPERATION.names or ()).index("time") * HEAD.size  # where a chain's length stands
_pack, pack_into = OPERATION_STRUCT.pack, OPERATION_STRUCT.pack_into
SIZE = OPERATION_STRUCT.size
Record = tuple[int, ...]  # the same fields as ``Ended``, in their order, and cheaper to make


class Ended(NamedTuple):
    """How an operation ended, as the compiled driver reports it: the fields of ``OPERATION``."""

    process: int
    operation: int
    time: int  # ps
    node: int
    peer: int  # sender of what was received
    packet: int  # number by its sender
    payload: int  # bytes
    tag: int
    address: int
    own: int
    duration: int


TIME, PEER, PACKET, ADDRESS, OWN = map(  # in a Record
    Ended._fields.index, ("time", "peer", "packet", "address", "own")
)
_ended = functools.partial(tuple.__new__, Ended)  # as Ended._make, at half its cost


class Process:
    """One coroutine on one node: what it can ask of its CPU and NIC, and the time of its clock."""

    def __init__(self, simulation: Simulation, number: int, node: int) -> None:
        self.node = node
        self.now = 0  # ps
        # The 128 bytes that the next send takes and the last receive left.
        self.control: NDArray[Any] = simulation.machine.store.control[number]
        self.control_bytes = memoryview(self.control)  # the same, read and written faster
        # The same of posts in a chain, from the second operation on.
        self.inlined: NDArray[Any] = simulation.machine.inlined[number]
        self._simulation = simulation
        self.number = number
        self.name = f"process {number} on node {node}"  # or as its interface calls it
        self.program = "its program"  # its function's name, once there is one
        self.code: CodeType | None = None  # of that
        self.knows: Callable[[], list[str]] = list  # what the NIC knows of what it waits for
        self.lost: Callable[[], list[str]] = list  # and of what it has sent in vain
        self.unread: Callable[[], list[str]] = list  # and of what has come and was not received
        self.run: object = simulation
        self.head = HEAD.pack(number)  # of every request of its own

    def request(
        self,
        operation: int,
        peer: int = 0,
        payload: int = 0,
        tag: int = 0,
        address: int = 0,
        duration: int = 0,
        packet: int = 0,
        own: int = 0,
        follow: int = 0,
    ) -> bytes:
        """What a coroutine yields to begin an operation; it is sent a ``Record`` of its end.

        It should then set ``now``.  The same request can be yielded again and again; ``follow``
        others of a chain are put behind it.
        Errors: ``SimulationError`` for what is no whole number of 64 bits.
        """
        try:
            return _pack(
                self.number, operation, follow, self.node, peer, packet, payload,
                tag, address, own, duration,
            )  # fmt: skip
        except struct.error:
            raise unfit(peer, payload, tag, address, duration, packet, own) from None

    def put_down(
        self,
        asked: memoryview,
        place: int,
        operation: int,
        peer: int = 0,
        payload: int = 0,
        tag: int = 0,
        address: int = 0,
        duration: int = 0,
        packet: int = 0,
        own: int = 0,
    ) -> None:
        """Write the same operation down at ``place`` of a chain in ``asked``; errors: likewise."""
        try:
            pack_into(
                asked, place * SIZE, self.number, operation, 0, self.node, peer, packet,
                payload, tag, address, own, duration,
            )  # fmt: skip
        except struct.error:
            raise unfit(peer, payload, tag, address, duration, packet, own) from None

    def chain(self, requests: Sequence[bytes]) -> bytes:
        """What a coroutine yields to begin operations one after the other; at most ``CHAIN``.

        It is sent a ``Record`` of the last one's end, or of that which was refused: then none
        behind it begins.  All but the last say no more than that they have ended.
        """
        first = requests[0]
        before, behind = first[:FOLLOW], first[FOLLOW + HEAD.size :]
        return b"".join((before, HEAD.pack(len(requests) - 1), behind, *requests[1:]))

    @coroutine
    def ask(
        self,
        operation: int,
        peer: int = 0,
        payload: int = 0,
        tag: int = 0,
        address: int = 0,
        duration: int = 0,
        packet: int = 0,
        own: int = 0,
    ) -> Generator[bytes, Record, Ended]:
        """Begin an operation now and wait for its end."""
        ended = _ended(
            (yield self.request(operation, peer, payload, tag, address, duration, packet, own))
        )
        self.now = ended.time
        return ended

    def attach(self, address: int) -> None:
        """Attach a payload buffer at ``address`` of the host's memory to the receive ring."""
        self._simulation.attach(self.node, address)

    def spawn(self, coroutine: Coroutine[Any, Any, object]) -> Task:
        """Runs ``coroutine`` as a task of this process from now on."""
        return self._simulation.spawn(self, coroutine)

    def drop(self, task: Task) -> bool:
        """Cancels ``task``; False if what it waits for has happened by now."""
        return self._simulation.drop(task)

    def row_now(self) -> int:
        """Row of whichever runs now in this process: its program, or a task."""
        task = self._simulation.tasks.now
        return self.number if task is None else task.row

    def update_clock(self) -> None:
        """Sets the clock to the simulation's, as not the driver has resumed this process."""
        self.now = self._simulation.now

    @property
    def standings(self) -> ProcessStates:
        """Where all programs of the run wait."""
        return self._simulation

    @property
    def tasks(self) -> Tasks:
        """All of the run."""
        return self._simulation.tasks

    def wake(self) -> None:
        """Has every node poll for work, as a program changed what one may wait for."""
        self._simulation.all_look = True


def unfit(*given: object) -> SimulationError:
    """The error of an operation that cannot cross to the driver."""
    wrong = next((value for value in given if not _fits(value)), None)
    return SimulationError(
        f"an operation is of whole numbers of 64 bits; one of what was given is none: {wrong!r:.60}"
    )


def _fits(value: object) -> bool:
    """Whether a number can cross to the driver."""
    try:
        HEAD.pack(value)
    except struct.error:
        return False
    return True


PARKED = b""  # what one yields that asks the driver for nothing, and is woken by another


class Task:
    """One of them; ``spawn`` makes them."""

    def __init__(
        self,
        process: Process,
        row: int,
        coroutine: Coroutine[Any, Any, object],
        own: Rows,
        of: Tasks,
    ) -> None:
        self._of = of
        self.process = process
        self.row = row
        self.coroutine = coroutine
        self.rows = own
        self.name = f"{getattr(coroutine, '__name__', 'a task')}()"
        self.is_done = False
        self.has_result = False
        self.result: object = None
        self.error: BaseException | None = None
        self.is_watched = False  # who waits for it is told what it raises
        self.is_unwanted = False  # who waits for it hears when it waits for something else
        self.waiting: list[int] = []  # rows that are woken when it is done

    def send(self, ended: tuple[int, ...] | None) -> object:
        """Have it go on; what it asks, or ``PARKED`` when it is done.

        Errors: what it raises, unless who waits for it is told of that.
        """
        self._of.now = self
        try:
            request = self._of.step(self, ended)
        except BaseException as error:
            is_return = isinstance(error, StopIteration)
            if is_return:
                self.result, self.has_result = error.value, True  # type: ignore[attr-defined]
            else:
                self.error = error
                if not self.is_watched or not isinstance(error, Exception):
                    raise
            self._of.end(self)
            return PARKED
        finally:
            self._of.now = None
        if self.is_unwanted and type(request) is bytes and request is not PARKED:
            self._of.wake_joiners(self)  # it may be dropped now
        return request


class Rows:
    """What crosses to the driver for one row, beside requests."""

    def __init__(self, machine: Machine, row: int) -> None:
        ports, bus = machine.ports, machine.bus
        every = [machine.store.control, machine.inlined, ports.gathers, ports.gathered]
        every += [ports.filled, bus.windows]
        self._views: list[NDArray[Any]] = [each[row] for each in every if len(each) > row]

    def kept(self) -> list[NDArray[Any]]:
        """A copy of all."""
        return [each.copy() for each in self._views]

    def put(self, content: list[NDArray[Any]]) -> None:
        """Restores saved contents."""
        for view, each in zip(self._views, content, strict=True):
            view[...] = each


class Tasks:
    """Those of one run."""

    def __init__(
        self, machine: Machine, rooms: dict[int, list[int]], forget: Callable[[int], None]
    ) -> None:
        """``rooms``: rows for tasks, by their process's own row.

        ``forget``: called with the row of a task that goes no further.
        """
        self._forget = forget
        self.now: Task | None = None  # that goes on, if it is one
        self._machine = machine
        self._rooms = rooms
        self._rows = {row: Rows(machine, row) for row in rooms if rooms[row]}
        self.by_row: dict[int, Task] = {}
        self.ready: list[int] = []  # rows that go on now, as they have been begun or woken

    def add(self, process: Process, coroutine: Coroutine[Any, Any, object]) -> Task:
        """A task of ``process``, which begins when that waits for something.

        Errors: ``SimulationError`` if the process has no room for one more.
        """
        free = self._rooms.get(process.number, [])
        if not free:
            coroutine.close()
            raise SimulationError(
                f"{process.name} has room for no further task: start(..., tasks=N) gives it room "
                "for N at a time"
            )
        row = min(free)
        free.remove(row)
        task = Task(process, row, coroutine, Rows(self._machine, row), self)
        self.by_row[row] = task
        self.ready.append(row)
        node = self._machine.nodes[process.node]
        node["last_process"] = max(int(node["last_process"]), row + 1)
        return task

    def step(self, task: Task, ended: tuple[int, ...] | None) -> bytes:
        """Resumes ``task``; returns what it asks, in its own name.  Errors: what it raises."""
        main, own = self._rows[task.process.number], task.rows
        held = main.kept()
        main.put(own.kept())
        try:
            request = task.coroutine.send(ended)
        finally:
            own.put(main.kept())
            main.put(held)
        if type(request) is not bytes or not request.startswith(task.process.head):
            return request  # type: ignore[no-any-return]
        size, head = OPERATION_STRUCT.size, HEAD.pack(task.row)
        return b"".join(
            head + request[at + HEAD.size : at + size] for at in range(0, len(request), size)
        )

    def end(self, task: Task) -> None:
        """Ends a task: wakes whoever joins it, and frees its row."""
        task.is_done = True
        self._forget(task.row)
        self.wake_joiners(task)
        del self.by_row[task.row]
        if not self.is_served(task.row):
            self._rooms[task.process.number].append(task.row)

    def wake_joiners(self, task: Task) -> None:
        """Wakes whoever waits for ``task``."""
        for row in task.waiting:
            self.wake(row)

    def wake(self, row: int) -> None:
        """Wakes what waits in ``row``, parked or asleep."""
        record = self._machine.processes[row]
        if record["operation"] == SLEEP:
            record["operation"] = NO_OPERATION
        if row not in self.ready:
            self.ready.append(row)

    def is_served(self, row: int) -> bool:
        """Whether a CPU serves the request of ``row``, or parts of it have not begun."""
        record: Any = self._machine.processes[row]
        if record["operation"] == NO_OPERATION:
            return False
        node = self._machine.nodes[int(record["node"])]
        chained = self._machine.chained[row]
        at_cpu = row in (int(node["cpu_process"]), int(node["other_process"])) and node["cpu"] != 0
        return bool(at_cpu or chained["next"] < chained["last"])

    def drop(self, task: Task) -> bool:
        """Cancels the wait of a task; False if what it waits for has happened by now."""
        if self.is_served(task.row):
            task.is_unwanted = True
            return False
        self._machine.processes[task.row]["operation"] = NO_OPERATION
        task.coroutine.close()
        if task.row in self.ready:
            self.ready.remove(task.row)
        self.end(task)
        return True

    def of(self, process: Process) -> list[Task]:
        """Tasks of a process that have not ended."""
        return [task for task in self.by_row.values() if task.process is process]


def places_of(
    hosts: Sequence[int], tasks: Sequence[int]
) -> tuple[list[int], dict[int, list[int]], list[int]]:
    """Rows of processes, rows for the tasks of each by its own, and the node of every row.

    A node's tasks have their rows behind its processes.
    """
    own: list[int] = []
    rooms: dict[int, list[int]] = {}
    rows: list[int] = []
    for node in dict.fromkeys(hosts):
        places = [place for place, each in enumerate(hosts) if each == node]
        first = len(rows)
        own.extend(range(first, first + len(places)))
        rows.extend([node] * len(places))
        for p, place in enumerate(places, first):
            count = tasks[place] if tasks else 0
            rooms[p] = list(range(len(rows), len(rows) + count))
            rows.extend([node] * count)
    return own, rooms, rows
