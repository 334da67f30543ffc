"""Who calls the library, and until when a call waits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from nicscope.interfaces.via.numbers import in_ps

if TYPE_CHECKING:
    from nicscope.interfaces.ownership import Owner


class Caller(ABC):
    """A process that calls."""

    _owner: Owner

    @property
    @abstractmethod
    def now_ps(self) -> int:
        """Whole picoseconds of virtual time."""

    def _enter(self) -> None:
        """Begin a call, which only this process itself may."""
        self._owner.check_caller()

    def _latest(self, timeout_us: float | None) -> int | None:
        if timeout_us is None:
            return None
        now = self.now_ps
        return now + in_ps(timeout_us, now, "a timeout")
