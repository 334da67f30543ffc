"""Gates: programs of one run wait at one until another program opens it, which takes no time.

For what lies outside the machine, such as a protocol whose messages are charged for as so many
microseconds and not sent.  Programs that talk to each other through NICs need none.
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
        self._waiting: list[Driven] = []
        self._is_open = False

    @coroutine
    def wait(self, endpoint: Tasking) -> Generator[bytes, Record | None, None]:
        """Wait until another program opens it, or has."""
        endpoint._owner.check_caller()
        if self._is_open:
            return
        driven = endpoint._driven
        self._waiting.append(driven)
        while not self._is_open:
            yield PARKED
        driven.catch_up()

    def open(self) -> None:
        """Let all go on who wait, now and in the order in which they came."""
        self._is_open = True
        for driven in self._waiting:
            driven.tasks.wake(driven.number)
        self._waiting.clear()
