"""Gates: programs and tasks of one run wait at one until another opens it, which takes no time.

For what lies outside the machine, such as a protocol whose messages are charged for as so many
microseconds and not sent; and for tasks of one process, which share its memory.  Programs that
talk to each other through NICs need none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.simulate.tasks import PARKED
from nicscope.drivers.simulate.yielding import coroutine

if TYPE_CHECKING:
    from collections.abc import Generator

    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.driven import Record
    from nicscope.interfaces.tasks import Tasking


class Gate:
    """Where programs wait; once it has been opened nobody waits there any more."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Driven, int]] = []
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._is_open

    @coroutine
    def wait(self, endpoint: Tasking) -> Generator[bytes, Record | None, None]:
        """Wait until another program, or task, opens it, or has."""
        endpoint._owner.check_caller()
        if self._is_open:
            return
        driven = endpoint._driven
        here = driven, driven.row_now()  # a task's own, if one waits
        self._waiting.append(here)
        try:
            while not self._is_open:
                yield PARKED
        finally:  # who no longer waits has its row woken by nobody
            if here in self._waiting:
                self._waiting.remove(here)
        driven.catch_up()

    def open(self) -> None:
        """Let all go on who wait, now and in the order in which they came."""
        self._is_open = True
        for driven, row in self._waiting:
            driven.tasks.wake(row)
        self._waiting.clear()
