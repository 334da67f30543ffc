"""How processes wait for each other: at locks and at a barrier, in logical time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from nicscope.apps.svm.locks import Barrier, Lock, Waiter
from nicscope.errors import SimulationError
from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from nicscope.apps.svm.coherence import Coherence
    from nicscope.apps.svm.program_record import ProgramRecord
    from nicscope.apps.svm.wire import Caller, Costs


class Synchronization(Protocol):
    """A way for processes to wait for each other, and to learn what others wrote before."""

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Have ``process`` hold the lock, in the order of asking."""

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Have ``process`` hold it no longer."""

    async def meet(self, caller: Caller, process: int) -> None:
        """Have ``process`` go on when all have come, and brought home what they wrote."""


class LogicalSynchronization:
    """All see the same locks and the same barrier; each takes the time that it costs."""

    def __init__(
        self, processes: int, coherence: Coherence, costs: Costs, record: ProgramRecord
    ) -> None:
        self._coherence = coherence
        self._costs = costs
        self._record = record
        self._locks: defaultdict[object, Lock] = defaultdict(Lock)
        self._barrier = Barrier(processes)

    async def acquire(self, caller: Caller, process: int, name: object) -> None:
        """Wait until nobody who asked before holds it, and know what its last holder knew."""
        lock = self._locks[name]
        if lock.holder == process:
            raise held_already(process, name)
        self._record.ask(caller, name)
        if lock.holder is None:
            lock.holder = process
        else:
            gate = Gate()
            lock.waiting.append(Waiter(process, caller.domain.number, gate))
            await gate.wait(caller.endpoint)
        await self._coherence.acquire(caller, lock)

    async def release(self, caller: Caller, process: int, name: object) -> None:
        """Hand it on to who has asked first."""
        lock = self._locks[name]
        if lock.holder != process:
            raise not_held(process, name)
        await self._coherence.release(caller, lock)
        self._record.let_go(caller, name)
        lock.hand_on()

    async def meet(self, caller: Caller, process: int) -> None:  # noqa: ARG002 - they are counted
        """Wait for all; the last one has every domain know what any does."""
        self._record.meet(caller)
        gate = self._barrier.come()
        if gate is None:
            self._coherence.meet()
            self._barrier.open()
        else:
            await gate.wait(caller.endpoint)
        self._coherence.accept(caller)
        await caller.endpoint.sleep(self._costs.barrier)


def held_already(process: int, name: object) -> SimulationError:
    """The error of who asks for what it has."""
    return SimulationError(f"process {process} acquires lock {name!r}, which it holds")


def not_held(process: int, name: object) -> SimulationError:
    """The error of who lets go of what it has not."""
    return SimulationError(f"process {process} releases lock {name!r}, not its own")
