"""A process that is no coroutine: each call is carried out before it returns to plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from nicscope.drivers.simulate.driven import OPERATION_STRUCT
from nicscope.drivers.simulate.growth import go_on
from nicscope.drivers.simulate.programs import LAST

if TYPE_CHECKING:
    from nicscope.drivers.simulate.driven import Record
    from nicscope.drivers.simulate.programs import Simulation

_AT_ONCE = 1 << 20  # events between two chances to be interrupted
_ALL_LOOK = -1


class Caller(Protocol):
    """By which plain Python has a process of a simulation do something."""

    def carry_out(self, request: bytes) -> Record | None:
        """How an operation of the process ended; None if it waits for what can never come."""

    def look(self) -> None:
        """Have the NIC see what was changed beside operations."""

    def rest(self, mark: int) -> bool:
        """Let other programs of the process go on; False at once if none can."""


class Entrance:
    """Where plain Python, which is no coroutine, has a simulation go on."""

    def __init__(self, simulation: Simulation) -> None:
        machine = simulation.machine
        self._machine, self._topology = machine, simulation.topology
        self._enter = simulation._go_on
        self._outbox = machine.outbox.view(np.uint8).data
        self._inbox = machine.inbox.view(np.uint8).data
        self._ended = machine.tally["ended"].data
        self._wants = machine.tally["wants"].data
        machine.tally["until"] = LAST
        self.look()

    def _go_on(self, begun: int) -> bool:
        """Begin so many operations, which are in the outbox, and go on in time until one ends.

        False if none can ever end.
        """
        enter, ended, wants = self._enter, self._ended, self._wants
        fired = enter(begun, _AT_ONCE)
        while True:
            if wants[0]:
                fired += go_on(enter, self._machine, self._topology, _AT_ONCE - fired)
            if ended[0]:
                return True
            if fired < _AT_ONCE:
                return False
            fired = enter(0, _AT_ONCE)

    def look(self) -> None:
        """Have the NICs see what was changed beside operations."""
        self._enter(_ALL_LOOK, 0)
        go_on(self._enter, self._machine, self._topology, 0)


class Calling(Entrance):
    """The only process of a simulation, as whoever has it do something calls it."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.process = simulation.processes[0]

    def carry_out(self, request: bytes) -> Record | None:
        """How an operation of the process ended; None if it waits for what can never come.

        It may wait on, and is forgotten with the next one that is asked for.
        """
        self._outbox[: len(request)] = request
        if not self._go_on(1):
            return None
        record = OPERATION_STRUCT.unpack_from(self._inbox)
        self.process.now = record[2]
        return record

    def rest(self, mark: int) -> bool:  # noqa: ARG002
        """There are no other programs."""
        return False
