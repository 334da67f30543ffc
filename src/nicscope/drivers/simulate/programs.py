"""Programs: coroutines on simulated nodes, resumed when what they wait for has happened.

A program is any coroutine that awaits the operations of its ``Process``.  There are no threads; the
compiled driver runs until an operation ends, and the processes whose operations ended at that time
go on in their order.  So a run depends on nothing but its inputs.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.advance import advance
from nicscope.drivers.simulate.build import new_machine
from nicscope.drivers.simulate.bus.build import buffers_of
from nicscope.drivers.simulate.diagnostics import (
    ProcessStates,
    collect_unawaited,
    foreign_await,
    us,
)
from nicscope.drivers.simulate.machine import continue_run
from nicscope.drivers.simulate.ports.linked import FUNCTIONS
from nicscope.drivers.simulate.process import (
    HEAD,
    OPERATION_STRUCT,
    PARKED,
    Process,
    Record,
    Task,
    Tasks,
    places_of,
)
from nicscope.drivers.simulate.processor import OtherMaster, place_masters
from nicscope.drivers.simulate.store import new_store
from nicscope.errors import (
    ProgramMistakeError,
    SimulationError,
    StuckError,
    shortened,
)
from nicscope.kernel.distant import link
from nicscope.kernel.entry import Switching, bound, portion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from nicscope.config.design import Delivery
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.ports.build import Faults
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.fabric.topology import Topology

_ALL_LOOK = -1
LAST = int(NEVER) - 1  # ps
_EVENTS_AT_ONCE = 1 << 22  # between two chances to be interrupted
_INTERPRETED_AT_ONCE = 1 << 12  # as compiled code is taken up between two calls only

_unpack_from, _iter_unpack = OPERATION_STRUCT.unpack_from, OPERATION_STRUCT.iter_unpack
_SIZE = OPERATION_STRUCT.size


class Simulation(ProcessStates):
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
        store = new_store(
            topology.nodes,
            len(rows),
            host_bytes,
            (delivery.send_ring, delivery.receive_ring),
            (delivery.send_buffers, delivery.receive_buffers),
            delivery.max_payload,
            tags,
        )
        if ports is not None:
            store = store._replace(host=ports.memory.bytes)
        elif bus is not None:
            store = store._replace(host=bus.hosts.memory)
        if bus is not None:
            sent, received = buffers_of(bus, delivery)
            store = store._replace(send_buffers=sent, receive_buffers=received)
        self.delivery = delivery
        self.topology = topology
        self.machine = new_machine(
            costs,
            delivery,
            topology,
            store,
            keep_messages=0,
            keep_log=keep_log,
            hosts=rows,
            ports=ports,
            bus=bus,
            faults=faults,
        )
        for p, rows_of_tasks in rooms.items():
            self.machine.chained["main"][rows_of_tasks] = p
            self.machine.nodes["last_process"][rows[p]] -= len(rows_of_tasks)
        place_masters(self.machine.nodes, masters)
        self.machine.endpoints["attached"] = 0 if ports is None else 1
        if ports is not None or bus is not None:
            link(self.machine, FUNCTIONS)
        self._run_events = bound(advance, self.machine)
        # The same each time where compiled code is bound for good.
        self._most = 0 if isinstance(self._run_events, Switching) else _EVENTS_AT_ONCE
        self._outbox = self.machine.outbox.view(np.uint8).data
        self._inbox = self.machine.inbox.view(np.uint8).data
        self._ended = self.machine.tally["ended"].data
        self._wants = self.machine.tally["wants"].data
        self._attached = self.machine.endpoints["attached"].data
        self._ring = store.attached.data
        self._ring_tail = store.attached_tail.data
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
        self.results: list[object] = [None] * len(hosts)
        self._deaths = self.machine.ports.deaths.nodes.tolist()
        self._first_death = min(self._deaths)
        self._is_mortal = self._first_death < int(NEVER)
        self.all_look = False  # before the next time

    @property
    def now(self) -> int:
        """Time (ps) of the last event."""
        return int(self.machine.tally[0]["now"])

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
        enter, outbox, inbox = self._run_events, self._outbox, self._inbox
        ended_now, wants, resume = self._ended, self._wants, self._resume
        bounded, is_mortal = self._most, self._is_mortal
        ready, forgotten = self._ready, self._forgotten
        while not self._has_ended:
            begun = self._begun
            asked = begun[0] if len(begun) == 1 else b"".join(begun)
            outbox[: len(asked)] = asked
            if self._at_rest or self.all_look:
                self.all_look = False
                enter(_ALL_LOOK, 0)
                continue_run(enter, self.machine, self.topology, 0)
            most = bounded or portion(enter, _EVENTS_AT_ONCE, _INTERPRETED_AT_ONCE)
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
                for record in sorted(_iter_unpack(inbox[: ended * _SIZE])):
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
