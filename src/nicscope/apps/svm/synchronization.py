"""How processes wait for each other: at locks and at a barrier, in logical time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nicscope.errors import SimulationError
from nicscope.interfaces.tasks import Gate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.apps.svm.coherence import Caller, Coherence, Costs
    from nicscope.apps.svm.records import ProgramRecord


class Waiter(NamedTuple):
    """A process that waits for a lock, and where."""

    process: int
    domain: int
    gate: Gate


class Lock:
    """One lock; those who wait have it in the order in which they came."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self.domain: int | None = None  # that had it last
        # What who has it next has to know; None while that is still the last domain's own affair.
        self.clock: NDArray[np.int64] | None = None
        self.waiting: list[Waiter] = []

    @property
    def goes_elsewhere(self) -> bool:
        """Whether who has it next is known, and of another domain than its holder's."""
        return bool(self.waiting) and self.waiting[0].domain != self.domain

    def hand_on(self) -> None:
        """Have the first who waits hold it; nobody, if nobody waits."""
        self.holder = None
        if self.waiting:
            following = self.waiting.pop(0)
            self.holder = following.process
            following.gate.open()


class Barrier:
    """Where every process waits until all have come."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._come = 0
        self._gate = Gate()

    def come(self) -> Gate | None:
        """One more has: where it waits for the others; None if it is the last."""
        self._come += 1
        return self._gate if self._come < self._processes else None

    def open(self) -> None:
        """Let all go on; they meet here again."""
        self._gate.open()
        self._come, self._gate = 0, Gate()


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
