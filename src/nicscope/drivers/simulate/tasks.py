"""Tasks: coroutines of one process beside its program, each with a place of its own in the driver.

A process's library speaks in the name of the process, through its rows of what crosses to the
driver.  So while a task goes on its own rows stand in their place, and what it asks is asked in
its own name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.driven import HEAD, OPERATION_STRUCT
from nicscope.drivers.simulate.machine import NO_OPERATION, SLEEP
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.driven import Process
    from nicscope.drivers.simulate.machine import Machine

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
            self._of.wake_waiting(self)  # it may be dropped now
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
        """Have that there."""
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
        """Have ``task`` go on; what it asks, in its own name.  Errors: what it raises."""
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
        """It is over: who waits for it goes on, and another may have its row."""
        task.is_done = True
        self._forget(task.row)
        self.wake_waiting(task)
        del self.by_row[task.row]
        if not self.is_served(task.row):
            self._rooms[task.process.number].append(task.row)

    def wake_waiting(self, task: Task) -> None:
        """Who waits for ``task`` goes on now."""
        for row in task.waiting:
            self.wake(row)

    def wake(self, row: int) -> None:
        """Who waits in ``row``, parked or asleep, goes on now."""
        record = self._machine.processes[row]
        if record["operation"] == SLEEP:
            record["operation"] = NO_OPERATION
        if row not in self.ready:
            self.ready.append(row)

    def is_served(self, row: int) -> bool:
        """Whether a CPU is at what ``row`` has asked, or it has not begun with all of that."""
        record: Any = self._machine.processes[row]
        if record["operation"] == NO_OPERATION:
            return False
        node = self._machine.nodes[int(record["node"])]
        chained = self._machine.chained[row]
        at_cpu = row in (int(node["cpu_process"]), int(node["other_process"])) and node["cpu"] != 0
        return bool(at_cpu or chained["next"] < chained["last"])

    def drop(self, task: Task) -> bool:
        """Have it wait for nothing any more; False if what it waits for is there by now."""
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
        """Those of a process that are not done."""
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
