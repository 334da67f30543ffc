"""Locks and barriers: who has one, who waits, and which clock it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
