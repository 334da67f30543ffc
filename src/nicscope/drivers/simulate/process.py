"""Programs: coroutines on simulated nodes, resumed when what they wait for has happened.

A program is any coroutine that awaits the operations of its ``Process``.  There are no threads; the
compiled driver runs until an operation ends, and the processes whose operations ended at that time
go on in their order.  So a run depends on nothing but its inputs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.clock import NEVER
from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.advance import AT_ONCE, EventLoop
from nicscope.drivers.simulate.build import new_linked_machine
from nicscope.drivers.simulate.diagnostics import (
    DOING,
    add_error_context,
    collect_unawaited,
    describe_ended,
    describe_wait,
    foreign_await,
    us,
    who,
)
from nicscope.drivers.simulate.machine import Machine, continue_run
from nicscope.drivers.simulate.processor import OtherMaster, place_masters
from nicscope.drivers.simulate.records import NO_OPERATION, OPERATION, SLEEP
from nicscope.errors import (
    ProgramMistakeError,
    SimulationError,
    StuckError,
    WaitTimeoutError,
    shortened,
)
from nicscope.kernel.entry import Switching

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
    from types import CodeType
    from types import coroutine as coroutine

    from numpy.typing import NDArray

    from nicscope.config.design import Delivery
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.fabric.topology import Topology
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
        self.simulation = simulation
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

    def row_now(self) -> int:
        """Row of whichever runs now in this process: its program, or a task."""
        task = self.simulation.tasks.now
        return self.number if task is None else task.row

    def update_clock(self) -> None:
        """Sets the clock to the simulation's, as not the driver has resumed this process."""
        self.now = self.simulation.now

    @property
    def standings(self) -> Simulation:
        """Where all programs of the run wait."""
        return self.simulation

    def wake(self) -> None:
        """Has every node poll for work, as a program changed what one may wait for."""
        self.simulation.all_look = True


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


LAST = int(NEVER) - 1  # ps

_unpack_from, _iter_unpack = OPERATION_STRUCT.unpack_from, OPERATION_STRUCT.iter_unpack


class Simulation(EventLoop):
    """Programs on the nodes of one cluster."""

    def __init__(
        self,
        costs: Sequence[Mapping[str, int]],
        delivery: Delivery,
        topology: Topology,
        hosts: Sequence[int],
        host_bytes: int,
        tags: int = 0,
        keep_log: int = 0,
        ports: Ports | None = None,
        bus: Bus | None = None,
        masters: Sequence[OtherMaster] = (),
        faults: Faults | None = None,
        tasks: Sequence[int] = (),
    ) -> None:
        """``hosts``: the node of each process, rising; ``host_bytes`` of memory per node.

        ``tasks``: how many tasks each process has room for beside its program.

        With ``ports``, whose paged memory is the hosts', their NICs serve those; with a ``bus``,
        before that memory or, without ports, its own, what they send and receive crosses it.
        """
        own, rooms, rows = places_of(hosts, tasks)
        self.delivery = delivery
        super().__init__(
            new_linked_machine(
                costs,
                delivery,
                topology,
                rows,
                host_bytes=host_bytes,
                tags=tags,
                ports=ports,
                bus=bus,
                keep_log=keep_log,
                faults=faults,
            ),
            topology,
        )
        for p, rows_of_tasks in rooms.items():
            self.machine.chained["main"][rows_of_tasks] = p
            self.machine.nodes["last_process"][rows[p]] -= len(rows_of_tasks)
        place_masters(self.machine.nodes, masters)
        self.machine.endpoints["attached"] = 0 if ports is None else 1
        # The same each time where compiled code is bound for good.
        self._most = 0 if isinstance(self.enter, Switching) else AT_ONCE
        self._attached = self.machine.endpoints["attached"].data
        self._ring = self.machine.store.attached.data
        self._ring_tail = self.machine.store.attached_tail.data
        self.processes = [Process(self, p, node) for p, node in zip(own, hosts, strict=True)]
        self._actors = [self.processes[0]] * len(rows) if rows else []  # by row: in whose name
        for process in self.processes:
            self._actors[process.number] = process
        self._places = {p: place for place, p in enumerate(own)}
        self._heads = [HEAD.pack(row) for row in range(len(rows))]  # of requests, by row
        self.tasks = Tasks(self.machine, rooms, self._free_row)
        self._ready = self.tasks.ready
        self._running: dict[int, Coroutine[Any, Any, object]] = {}
        # What has each go on: its own ``send``, without anything in between, or its task's; in
        # whose name; and what its requests begin with.
        self._sends: dict[int, tuple[Callable[[Any], object], Process, bytes]] = {}
        self._has_ended = False  # somebody, since that was looked at
        self._daemons: set[int] = set()  # whom a run does not wait for, tasks among them
        self._begun: list[bytes] = []  # what programs ask for now
        self._has_begun = False
        self._at_rest = True
        self._forgotten: list[str] = []
        self.is_over = False
        self.unclaimed: Callable[[], list[str]] = list  # what has come where no program is
        self.results: list[object] = [None] * len(hosts)
        self._deaths = self.machine.ports.deaths.nodes.tolist()
        self._first_death = min(self._deaths)
        self._is_mortal = self._first_death < int(NEVER)
        self.all_look = False  # before the next time

    def attach(self, node: int, address: int) -> None:
        """Attach a payload buffer at ``address`` of the host's memory to the receive ring."""
        ring = self.delivery.receive_ring
        if self._attached[node] == ring:
            raise SimulationError(f"the receive ring of node {node} has all its {ring} buffers")
        tail = self._ring_tail[node]
        self._ring[node, tail % ring] = address
        self._ring_tail[node] = tail + 1
        self._attached[node] += 1

    def run(self, programs: Sequence[Coroutine[Any, Any, object]]) -> None:
        """Run one program per process to its end; what each returns is in ``results``.

        A program goes no further when its node has died, and returns None.
        Errors: ``StuckError`` if all that are left wait for what cannot come.
        """
        self.begin(programs)
        self.continue_run()

    def begin(
        self, programs: Sequence[Coroutine[Any, Any, object]], daemons: Collection[int] = ()
    ) -> None:
        """Adds one program per process, run by ``continue_run``; ``daemons`` are not waited for."""
        self._daemons = {self.processes[place].number for place in daemons}
        for process, program in zip(self.processes, programs, strict=True):
            self._running[process.number] = program
            self._sends[process.number] = program.send, process, process.head
            process.program = f"{getattr(program, '__name__', 'its program')}()"
            process.code = process.code or getattr(program, "cr_code", None)

    def continue_run(self, until: int | None = None) -> bool:
        """Run the programs to their ends, or until a time (ps); whether they have ended.

        Errors: as of ``run``; and whatever a program raises, with a note whose that is.
        """
        before = RUNNING.program  # which runs this as a part of itself
        self.machine.tally["until"] = LAST if until is None else until
        is_over = True
        try:
            with collect_unawaited(lambda: RUNNING.program) as self._forgotten:
                try:
                    is_over = self._run_loop()
                except KeyboardInterrupt as interrupt:
                    for line in shortened(self.stands()):
                        interrupt.add_note(line)
                    raise
                finally:
                    if is_over:
                        self._close()
                self._check_awaits()
        finally:
            RUNNING.program = before
        return is_over

    def _run_loop(self) -> bool:
        if not self._has_begun:
            self._has_begun = True
            for number in [*self._running]:
                self._resume(number, None, self._begun)
            self._resume_tasks(self._begun)
        while not self._daemons.issuperset(self._running):
            self._has_ended = False
            if not self._advance():
                return False
        return True

    def _close(self) -> None:
        """Closes all programs that have not ended."""
        for number, program in [*self._running.items()]:  # one that waits for any drops tasks
            RUNNING.program = self._actors[number]
            with contextlib.suppress(Exception):  # of what it does at its end
                program.close()
        self._running.clear()
        self._sends.clear()
        self.is_over = True

    def _advance(self) -> bool:
        """Fires events until an operation ends and resumes its process, until a program has ended.

        False if it is too late for that.  When programs are at rest all nodes look before the next
        time: a program that has ended may have left something behind, and its node is not asked
        for anything.
        """
        enter, outbox, inbox = self.enter, self.outbox, self.inbox
        ended_now, wants, resume = self.ended, self.wants, self._resume
        bounded, is_mortal = self._most, self._is_mortal
        ready, forgotten = self._ready, self._forgotten
        while not self._has_ended:
            begun = self._begun
            asked = begun[0] if len(begun) == 1 else b"".join(begun)
            outbox[: len(asked)] = asked
            if self._at_rest or self.all_look:
                self.all_look = False
                self.look()
            most = bounded or self.portion()
            fired = enter(len(begun), most)
            self._begun = begun = []
            if wants[0]:
                fired += continue_run(enter, self.machine, self.topology, most - fired)
            ended = ended_now[0]
            if ended == 1:
                if is_mortal:
                    self._drop(self.now)
                record = _unpack_from(inbox)
                resume(record[0], record, begun)
                self._at_rest = not begun
            else:
                if ended == 0 and fired < most:
                    return self._idle()
                if is_mortal:
                    self._drop(self.now)
                for record in sorted(_iter_unpack(inbox[: ended * SIZE])):
                    resume(record[0], record, begun)
                self._at_rest = len(begun) < ended
            if ready or forgotten:
                self._check_awaits()
                self._resume_tasks(begun)
        return True

    def _idle(self) -> bool:
        """Nothing happens now: False if it is only too early.  Errors: if nothing ever will."""
        until = int(self.machine.tally[0]["until"])
        self._drop(until)
        self._at_rest = until == LAST
        if self._daemons.issuperset(self._running) or until < LAST:
            return until == LAST
        self._check_awaits()
        many = len(self._running)
        number = f"{many:,} programs wait" if many > 1 else "a program waits"
        have_ended = any(process.number not in self._running for process in self.processes)
        serving = "; one that serves others for good takes daemon=True" if have_ended else ""
        said = f"nothing more will happen after {us(self.now)}, but {number}{serving}:"
        raise StuckError(said, self.stands())

    def _resume(self, number: int, ended: Record | None, begun: list[bytes]) -> None:
        """Resumes the program or task of that row and begins what it asks for next."""
        there = self._sends.get(number)
        if there is None:
            return
        send, RUNNING.program, head = there
        try:
            request = send(ended)
        except BaseException as error:
            self._end(number, error)
            return
        if type(request) is bytes and request.startswith(head):
            begun.append(request)
        elif request is not PARKED:
            self._refuse_foreign(number, request)

    def _end(self, number: int, error: BaseException) -> None:
        """A program has returned, or a task or it has raised ``error``.  Errors: that."""
        process = self._actors[number]
        self._free_row(number)
        if not isinstance(error, StopIteration):
            self._note(error, process)
            raise error
        self.results[self._places[number]] = error.value
        for task in self.tasks.of(process):  # what it has left running
            if not task.is_done:  # as another's wait, which has been dropped
                self.drop(task)

    def _free_row(self, number: int) -> None:
        """Frees a row whose program or task is gone."""
        self._running.pop(number, None)
        self._sends.pop(number, None)
        self._daemons.discard(number)
        self._has_ended = True

    def spawn(self, process: Process, coroutine: Coroutine[Any, Any, object]) -> Task:
        """Runs ``coroutine`` as a task of ``process``, from its next wait on."""
        task = self.tasks.add(process, coroutine)
        self._running[task.row] = coroutine
        self._sends[task.row] = task.send, process, self._heads[task.row]
        self._actors[task.row] = process
        self._daemons.add(task.row)
        return task

    def _resume_tasks(self, begun: list[bytes]) -> None:
        """Resumes begun or woken tasks until all of them wait."""
        ready = self._ready
        if not ready:
            return
        while ready:
            row = ready.pop(0)
            if row not in self._running:
                continue
            head = self._heads[row]  # of what it has asked and does not wait for any more
            begun[:] = [each for each in begun if not each.startswith(head)]
            self._resume(row, None, begun)
        begun.sort(key=HEAD.unpack_from)
        self._at_rest = True

    def drop(self, task: Task) -> bool:
        """Cancels ``task``; False if what it waits for has happened by now."""
        if not self.tasks.drop(task):
            return False
        head = self._heads[task.row]
        self._begun[:] = [each for each in self._begun if not each.startswith(head)]
        return True

    def _refuse_foreign(self, number: int, request: object) -> None:
        """Say where a program awaits what is not the simulation's.  Errors: that."""
        process, program = self._actors[number], self._running[number]
        self._free_row(number)
        said = foreign_await(process, program, type(request).__name__)
        with contextlib.suppress(Exception):
            program.close()
        raise ProgramMistakeError(said)

    def _check_awaits(self) -> None:
        """Errors: ``ProgramMistakeError`` if a program has called something without ``await``."""
        if self._forgotten:
            raise ProgramMistakeError(self._forgotten[0])

    def _drop(self, now: int) -> None:
        """Ends the programs of nodes that have died by ``now``."""
        if now < self._first_death:
            return
        for number in [*self._running]:
            program = self._running.get(number)  # none of a task that another has just dropped
            if program is not None and self._deaths[self._actors[number].node] <= now:
                RUNNING.program = self._actors[number]
                self._free_row(number)
                with contextlib.suppress(Exception):  # nobody hears of it
                    program.close()

    def stands(self) -> list[str]:
        """One line for each program that has not ended: where it waits."""
        lines = []
        for number, program in self._running.items():
            operation = self.machine.processes[number]
            since = int(operation["time"]) if operation["operation"] else None
            doing = DOING.get(int(operation["operation"]), "go on")
            task = self.tasks.by_row.get(number)
            name = None if task is None else task.name
            lines.append(describe_wait(self._actors[number], program, since, doing, name))
        ended = [each for each in self.processes if each.number not in self._running]
        return [*lines, *filter(None, map(describe_ended, ended)), *self.unclaimed()]

    def remarks(self) -> list[str]:
        """What programs may have missed: where they wait, or which sends failed."""
        if not self.is_over:
            return self.stands()
        lost = [f"{who(each)}: {said}" for each in self.processes for said in each.lost()]
        return [*lost, *self.unclaimed()]

    def describe_others(self, process: Process) -> list[str]:
        """Where all programs but those of ``process`` wait."""
        own = f"{who(process)}"
        return [line for line in self.stands() if not line.startswith(own)]

    def why_silent(self, node: int) -> str:
        """Why ``node`` can never answer, as the end of a message; empty if it can."""
        if self.has_running_program(node):
            return ""
        record = self.machine.nodes[node]
        has_any = int(record["last_process"]) > int(record["first_process"])
        return f"; {'its program has ended' if has_any else 'no program runs there'}"

    def has_running_program(self, node: int) -> bool:
        """Whether a program of ``node`` still runs."""
        return any(self._actors[number].node == node for number in self._running)

    def _note(self, error: BaseException, process: Process) -> None:
        """Adds to an error that leaves a program whose it is, and to a timeout where all wait."""
        add_error_context(error, process)
        if isinstance(error, WaitTimeoutError) and not error.stands:
            error.stands = self.stands()
