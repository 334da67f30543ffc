"""Programs of plain Python on one simulation, in threads of which one goes on at a time.

Python takes no virtual time, so time goes on only when every program waits: for an operation of
its process, or for what another program does.  Who goes on next is said by the simulation and by
numbers, never by the system's threads, so a run is the same each time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.simulate.driven import OPERATION_STRUCT
from nicscope.drivers.simulate.growth import go_on
from nicscope.drivers.simulate.programs import LAST

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.driven import Record
    from nicscope.drivers.simulate.programs import Simulation

_AT_ONCE = 1 << 20  # events between two chances to be interrupted
_ALL_LOOK = -1
_PATIENCE = 1.0  # seconds until a thread that is to stop is left alone
_PROCESS = 0  # in a Record
_TIME = 2


def _pass(_: int) -> None:
    pass


class StoppedError(BaseException):
    """The programs are to go no further: one has been interrupted, or none can go on."""


class Parked(NamedTuple):
    """What a program waits for that another does."""

    what: str
    has_come: Callable[[], bool]
    may_fail: bool


class Turns:
    """Whose turn it is among the programs of a simulation, one to each process."""

    def __init__(self, simulation: Simulation) -> None:
        machine = simulation.machine
        self._simulation, self._machine = simulation, machine
        self._enter = simulation._go_on
        self._outbox = machine.outbox.view(np.uint8).data
        self._inbox = machine.inbox.view(np.uint8).data
        self._ended = machine.tally["ended"].data
        self._wants = machine.tally["wants"].data
        self._gates = [threading.Semaphore(0) for _ in simulation.processes]
        self._ready: list[int] = []
        self._asked: dict[int, bytes] = {}  # not begun yet
        self._begun: set[int] = set()  # processes whose operation goes on
        self._records: dict[int, Record | None] = {}
        self._parked: dict[int, Parked] = {}
        self._living: set[int] = set()
        self.is_stopped = False
        self.stuck: dict[int, str] = {}  # what each waits for that never comes
        self.over = threading.Event()
        self.taken: Callable[[int], None] = _pass  # when its turn begins
        self.left: Callable[[int], None] = _pass  # and when it ends
        machine.tally["until"] = LAST
        self.look()

    def run(self, programs: list[Callable[[], None]]) -> None:
        """Run each in a thread until all have ended.  Errors: what interrupts this."""
        self._living = {*range(len(programs))}
        self._ready = sorted(self._living)
        threads = [
            threading.Thread(target=self._live, args=(number, program), daemon=True)
            for number, program in enumerate(programs)
        ]
        for thread in threads:
            thread.start()
        try:
            self._gates[self._ready.pop(0)].release()
            self.over.wait()
        finally:
            self._stop()
            for thread in threads:
                thread.join(_PATIENCE)  # but for one that never asks for anything

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
                self._hand_on(None)

    def _stop(self) -> None:
        """Have every program that waits go no further."""
        self.is_stopped = True
        for gate in self._gates:
            gate.release()
        self.over.set()

    def carry_out(self, number: int, request: bytes) -> Record | None:
        """How an operation of a program's process ended; meanwhile others go on."""
        self._check()
        self._asked[number] = request
        self._hand_on(number)
        return self._records.pop(number)

    def wait(
        self, number: int, what: str, has_come: Callable[[], bool], may_fail: bool = False
    ) -> bool:
        """Let others go on until something has come by them, which takes no virtual time.

        If nobody can go on, who ``may_fail`` does so, with False.  Errors: ``StoppedError`` if
        there is none such; ``stuck`` then says what each waits for.
        """
        self._check()
        if has_come():
            return True
        self._parked[number] = Parked(what, has_come, may_fail)
        self._hand_on(number)
        self._simulation.processes[number].now = self._simulation.now
        return has_come()

    def _check(self) -> None:
        if self.is_stopped:
            raise StoppedError

    def _await_turn(self, number: int) -> None:
        self._gates[number].acquire()
        self._check()
        self.taken(number)

    def _hand_on(self, number: int | None) -> None:
        """Have who is next go on, and wait for the next turn of ``number``, if it has one."""
        following = self._next()
        if following is None:
            self.stuck = {each: self._parked[each].what for each in sorted(self._living)}
            self._stop()
        elif following != number:
            if number is not None:
                self.left(number)
            self._gates[following].release()
        if number is not None:
            if following != number:
                self._await_turn(number)
            self._check()

    def _next(self) -> int | None:
        """Who goes on next; None if nobody ever will."""
        while not self._ready:
            for number in sorted(self._parked):
                if self._parked[number].has_come():
                    del self._parked[number]
                    return number
            if not self._asked and not self._begun:
                return self._failing()
            self._advance()
        return self._ready.pop(0)

    def _failing(self) -> int | None:
        """Who is told that what it waits for never comes."""
        for number in sorted(self._parked):
            if self._parked[number].may_fail:
                del self._parked[number]
                return number
        return None

    def _advance(self) -> None:
        """Begin what was asked, and go on in time until something has ended."""
        asked = [self._asked[number] for number in sorted(self._asked)]
        self._begun.update(self._asked)
        self._asked.clear()
        joined = b"".join(asked)
        self._outbox[: len(joined)] = joined
        self.look()
        fired = self._enter(len(asked), _AT_ONCE)
        while True:
            if self._wants[0]:
                fired += go_on(
                    self._enter, self._machine, self._simulation.topology, _AT_ONCE - fired
                )
            ended = int(self._ended[0])
            if ended:
                self._note(ended)
                return
            if fired < _AT_ONCE:
                self._give_up()
                return
            fired = self._enter(0, _AT_ONCE)

    def _note(self, ended: int) -> None:
        size = OPERATION_STRUCT.size
        for record in sorted(OPERATION_STRUCT.iter_unpack(self._inbox[: ended * size])):
            number = record[_PROCESS]
            self._begun.discard(number)
            self._records[number] = record
            self._simulation.processes[number].now = record[_TIME]
            self._ready.append(number)

    def _give_up(self) -> None:
        """Nothing more happens: whoever waits for an operation is told so."""
        self._ready = sorted(self._begun)
        self._records.update(dict.fromkeys(self._begun))
        self._begun.clear()

    def look(self) -> None:
        """Have the NICs see what was changed beside operations."""
        self._enter(_ALL_LOOK, 0)
        go_on(self._enter, self._machine, self._simulation.topology, 0)
        self._note(int(self._ended[0]))


class Turn:
    """A program's part in the turns."""

    def __init__(self, turns: Turns, number: int) -> None:
        self.turns, self.number = turns, number

    def carry_out(self, request: bytes) -> Record | None:
        """How an operation of the process ended; None if it waits for what can never come."""
        return self.turns.carry_out(self.number, request)

    def look(self) -> None:
        """Have the NICs see what was changed beside operations."""
        self.turns.look()

    def wait(self, what: str, has_come: Callable[[], bool], may_fail: bool = False) -> bool:
        """Let others go on until something has come by them."""
        return self.turns.wait(self.number, what, has_come, may_fail)
