"""Plain Python programs on one simulation: blocking calls, in threads run one at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from nicscope.drivers.simulate.advance import AT_ONCE
from nicscope.drivers.simulate.process import (
    FOLLOW,
    HEAD,
    LAST,
    OPERATION_STRUCT,
    TIME,
    Record,
    Simulation,
)
from nicscope.drivers.simulate.records import CHAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Caller(Protocol):
    """The way in which plain Python code has a process of a simulation carry out an operation."""

    asked: memoryview  # where operations are put down, one behind the other

    def carry_out(self, count: int) -> Sequence[int] | None:
        """How the last of the first ``count`` in ``asked`` ended, a ``Record`` until the next.

        None if it never can.
        """

    def look(self) -> None:
        """Has the NIC poll for changes made beside operations."""

    @property
    def rest(self) -> Callable[[int], bool] | None:
        """Lets other programs of the process run; False at once if none can.  None: none ever."""


class SingleCaller:
    """The only process of a simulation, called by plain Python code."""

    rest = None  # there are no other programs

    def __init__(self, simulation: Simulation) -> None:
        self.process = simulation.processes[0]
        self.asked = simulation.outbox
        self._enter, self._wait = simulation.enter, simulation.run_until_ended
        self._ended, self._wants = simulation.ended, simulation.wants
        self.look = simulation.look
        simulation.machine.tally["until"] = LAST
        self.look()
        self._record: memoryview = simulation.machine.inbox.view(np.int64).data

    def carry_out(self, count: int) -> Sequence[int] | None:
        """How the last of the first ``count`` in ``asked`` ended; None if it never can.

        It may wait on, and is forgotten with the next one that is asked for.
        """
        if count > 1:
            HEAD.pack_into(self.asked, FOLLOW, count - 1)
        fired = self._enter(1, AT_ONCE)
        if (self._wants[0] or not self._ended[0]) and not self._wait(fired):
            return None
        self.process.now = self._record[TIME]
        return self._record


class NodeCaller(SingleCaller):
    """One process of a simulation, all of whose processes one plain program calls in turn."""

    def __init__(self, simulation: Simulation, node: int, flush_others: Callable[[], None]) -> None:
        """``flush_others`` carries out what the program has put down for the other processes."""
        super().__init__(simulation)
        self._processes, self._outbox = simulation.processes, simulation.outbox
        self.process = simulation.processes[node]
        self.asked = memoryview(bytearray(CHAIN * OPERATION_STRUCT.size))
        self._flush_others = flush_others

    def carry_out(self, count: int) -> Sequence[int] | None:
        """How the last of the first ``count`` in ``asked`` ended; None if it never can."""
        self._flush_others()
        size = count * OPERATION_STRUCT.size
        self._outbox[:size] = self.asked[:size]
        HEAD.pack_into(self._outbox, FOLLOW, count - 1)
        fired = self._enter(1, AT_ONCE)
        if (self._wants[0] or not self._ended[0]) and not self._wait(fired):
            return None
        for process in self._processes:
            process.now = self._record[TIME]
        return self._record


_PATIENCE = 1.0  # seconds until a thread that is to stop is left alone
NEVER = 1 << 80  # a moment that does not come
_PROCESS = 0  # in a Record


def _pass(_: int) -> None:
    pass


class StoppedError(BaseException):
    """Raised in a program that must stop: it or another was stopped, or none can run."""


class Parked(NamedTuple):
    """What a program waits for another program to do, and until when."""

    what: str
    has_come: Callable[[], bool]
    until: int | None  # None: for ever; NEVER: until nobody can go on


class ThreadScheduler:
    """Schedules the programs of a simulation, one or more to each process, in turns."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._gates = [threading.Semaphore(0) for _ in simulation.processes]
        self._of: list[int] = [*range(len(simulation.processes))]  # the process of each program
        self.holder = 0  # the program whose turn it is
        self._ready: list[int] = []
        self._asked: dict[int, bytes] = {}  # not begun yet, by program
        self._begun: dict[int, int] = {}  # whose operation goes on, by process
        self._records: dict[int, Record | None] = {}
        self._parked: dict[int, Parked] = {}
        self._resting: dict[int, int] = {}  # and what there was when each began to rest
        self._living: set[int] = set()
        self._cancelled: set[int] = set()
        self._threads: list[threading.Thread] = []
        self._skipped = 0  # ps of waiting in which nothing could happen
        self.is_stopped = False
        self.stuck: dict[int, str] = {}  # what each waits for that never comes
        self.over = threading.Event()
        self.taken: Callable[[int], None] = _pass  # when its turn begins
        self.left: Callable[[int], None] = _pass  # and when it ends
        simulation.machine.tally["until"] = LAST
        self.look()

    def run(self, programs: list[Callable[[], None]]) -> None:
        """Run each in a thread until all have ended.  Errors: what interrupts this."""
        self._living = {*range(len(programs))}
        self._ready = sorted(self._living)
        for number, program in enumerate(programs):
            self._start(number, program)
        try:
            self.holder = self._ready.pop(0)
            self._gates[self.holder].release()
            self.over.wait()
        finally:
            self.end()

    def _start(self, number: int, program: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._live, args=(number, program), daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        """Stops all programs that still run."""
        self._stop()
        for thread in self._threads:
            thread.join(_PATIENCE)  # but for one that never asks for anything

    def adopt_calling_thread(self) -> None:
        """Makes the calling thread program 0, the only one so far."""
        self._living = {0}

    def begin(self, program: Callable[[], None]) -> int:
        """Starts a program beside the one whose turn it is; returns its number."""
        number = len(self._gates)
        self._gates.append(threading.Semaphore(0))
        self._of.append(self._of[self.holder])
        self._living.add(number)
        self._ready.append(number)
        self._start(number, program)
        return number

    def process_of(self, number: int) -> int:
        """The process to which a program belongs."""
        return self._of[number]

    def cancel(self, number: int) -> None:
        """Stops a program at its next turn."""
        if number in self._living:
            self._cancelled.add(number)

    def _live(self, number: int, program: Callable[[], None]) -> None:
        try:
            self._await_turn(number)
            program()
        except StoppedError:
            pass
        finally:
            if not self.is_stopped:
                self.left(number)
                self._living.discard(number)
                self._pass_turn(None)

    def _stop(self) -> None:
        """Stops every program that waits."""
        self.is_stopped = True
        for gate in self._gates:
            gate.release()
        self.over.set()

    def carry_out(self, number: int, request: bytes) -> Record | None:
        """Carries out an operation of a program's process while others run; how it ended."""
        self._check(number)
        self._asked[number] = request
        self._pass_turn(number)
        return self._records.pop(number)

    def wait(
        self,
        number: int,
        what: str,
        has_come: Callable[[], bool],
        may_fail: bool = False,
        patience_ps: int | None = None,
    ) -> bool:
        """Lets other programs run until ``has_come``, which takes no virtual time.

        If nobody can go on, who ``may_fail`` does so, with False.  So does who has waited for
        ``patience_ps``; if nobody can go on, the time of who has least left is up.  Errors:
        ``StoppedError`` if there is none such; ``stuck`` then says what each waits for.
        """
        self._check(number)
        if has_come():
            return True
        until = NEVER if may_fail else None
        if patience_ps is not None:
            until = self._clock() + patience_ps
        self._parked[number] = Parked(what, has_come, until)
        self._pass_turn(number)
        self._simulation.processes[self._of[number]].now = self._simulation.now
        return has_come()

    def rest(self, number: int, mark: int) -> bool:
        """Lets programs of the same process run; False at once if none can and time has to pass.

        ``mark``: how much has happened to their process so far.
        """
        others = [each for each in self._living if each != number and self._shares_process(each)]
        if not others:
            return False
        self._check(number)
        if not any(self._can_run(each, mark) for each in others):
            return False
        self._resting[number] = mark
        self._pass_turn(number)
        return True

    def _shares_process(self, number: int) -> bool:
        return self._of[number] == self._of[self.holder]

    def _can_run(self, number: int, mark: int) -> bool:
        if number in self._parked:
            return self._is_over(self._parked[number]) or number in self._cancelled
        return self._resting.get(number) != mark

    def _is_over(self, parked: Parked) -> bool:
        return parked.has_come() or (parked.until is not None and self._clock() >= parked.until)

    def _clock(self) -> int:
        return int(self._simulation.now) + self._skipped

    def _check(self, number: int) -> None:
        if self.is_stopped:
            raise StoppedError
        if number in self._cancelled:
            self._cancelled.discard(number)  # once: what it has opened is closed behind it
            raise StoppedError

    def _await_turn(self, number: int) -> None:
        self._gates[number].acquire()
        self._check(number)
        self.taken(number)

    def _pass_turn(self, number: int | None) -> None:
        """Resumes the next program and, if ``number`` is one, waits for its next turn."""
        following = self._next()
        if following is None:
            self.stuck = {each: self._parked[each].what for each in sorted(self._living)}
            self._stop()
        else:
            self.holder = following
            if following != number:
                if number is not None:
                    self.left(number)
                self._gates[following].release()
        if number is not None:
            if following != number:
                self._await_turn(number)
            self._check(number)

    def _next(self) -> int | None:
        """The program that runs next; None if none ever will."""
        while True:
            busy = {self._of[number] for number in self._asked} | self._begun.keys()
            for number in [*self._ready, *self._parked, *self._resting]:
                if self._of[number] not in busy and self._is_runnable(number):
                    return number
            if not self._asked and not self._begun:
                return self._next_timeout()
            self._advance()

    def _is_runnable(self, number: int) -> bool:
        """Whether a program has stopped waiting; it is then removed from those that wait."""
        if number in self._ready:
            self._ready.remove(number)
        elif number in self._resting:
            del self._resting[number]
        elif number in self._cancelled or self._is_over(self._parked[number]):
            del self._parked[number]
        else:
            return False
        return True

    def _next_timeout(self) -> int | None:
        """The program whose wait fails or times out next."""
        limits = {each: parked.until for each, parked in self._parked.items() if parked.until}
        if not limits:
            return None
        number = min(limits, key=lambda each: (limits[each], each))
        until = self._parked.pop(number).until
        if until is not None and until < NEVER:
            self._skipped += until - self._clock()
        return number

    def _advance(self) -> None:
        """Begins what was asked, and fires events until an operation has ended."""
        asked = [self._asked[number] for number in sorted(self._asked)]
        self._begun.update({self._of[number]: number for number in self._asked})
        self._asked.clear()
        joined = b"".join(asked)
        self._simulation.outbox[: len(joined)] = joined
        self.look()
        if self._simulation.run_until_ended(self._simulation.enter(len(asked), AT_ONCE)):
            self._record_ended()
        else:
            self._give_up()

    def _record_ended(self) -> None:
        size = OPERATION_STRUCT.size * int(self._simulation.ended[0])
        for record in sorted(OPERATION_STRUCT.iter_unpack(self._simulation.inbox[:size])):
            process = record[_PROCESS]
            number = self._begun.pop(process, None)
            if number is not None:  # else it is one that was given up
                self._simulation.processes[process].now = record[TIME]
                self._deliver_record(number, record)

    def _deliver_record(self, number: int, record: Record | None) -> None:
        """Delivers an ended operation's record to its program; its siblings check their waits."""
        self._records[number] = record
        self._ready.append(number)
        rested = [each for each in self._resting if self._of[each] == self._of[number]]
        for each in rested:
            del self._resting[each]
        self._ready.extend(rested)

    def _give_up(self) -> None:
        """Ends the wait of every program for its operation, as no event is left."""
        for number in sorted(self._begun.values()):
            self._deliver_record(number, None)
        self._begun.clear()

    def look(self) -> None:
        """Have the NICs see what was changed beside operations."""
        self._simulation.look()
        self._record_ended()


class ScheduledCaller:
    """One process's interface to the scheduler, used by whichever of its programs has the turn."""

    def __init__(self, turns: ThreadScheduler) -> None:
        self.turns = turns
        self.asked = memoryview(bytearray(CHAIN * OPERATION_STRUCT.size))

    def carry_out(self, count: int) -> Record | None:
        """How the last of the first ``count`` in ``asked`` ended; None if it never can."""
        HEAD.pack_into(self.asked, FOLLOW, count - 1)
        request = self.asked[: count * OPERATION_STRUCT.size].tobytes()
        return self.turns.carry_out(self.turns.holder, request)

    def look(self) -> None:
        """Have the NICs see what was changed beside operations."""
        self.turns.look()

    def rest(self, mark: int) -> bool:
        """Lets the process's other programs run; False at once if none can."""
        return self.turns.rest(self.turns.holder, mark)

    def wait(
        self,
        what: str,
        has_come: Callable[[], bool],
        may_fail: bool = False,
        patience_ps: int | None = None,
    ) -> bool:
        """Lets other programs run until ``has_come``."""
        return self.turns.wait(self.turns.holder, what, has_come, may_fail, patience_ps)
