"""Virtual time: whoever is next to do something does it, and what it waits for comes later.

An actor is a coroutine that awaits ``turns.until(time)`` or a ``Bell``.  Actors at the same time
go in the order in which they asked, so a run depends on nothing but its inputs.
"""

from __future__ import annotations

import contextlib
import heapq
from types import coroutine
from typing import TYPE_CHECKING, Any

from nicscope.drivers.running import RUNNING
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator, Iterator

    from nicscope.interfaces.via.observer import Worker


class Bell:
    """Wakes those that wait for it when it rings."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._waiting: list[tuple[Actor, int]] = []

    def ring(self) -> None:
        """Wake all, now."""
        waiting, self._waiting = self._waiting, []
        for actor, wake in waiting:
            self._turns.at(self._turns.now, actor, wake)

    def add(self, actor: Actor) -> None:
        """``actor`` waits from now on."""
        self._waiting.append((actor, actor.wake))


class _Wait:
    """Goes on at ``time``."""

    __slots__ = ("_time",)

    def __init__(self, time: int) -> None:
        self._time = time

    def __await__(self) -> Generator[int, None, None]:
        yield self._time


class _Pass:
    """Goes on at once."""

    __slots__ = ()

    def __await__(self) -> Any:
        return _NOTHING


_NOTHING: Iterator[Any] = iter(())
_PASS = _Pass()
NO_FRAME = (-1, -1)


@coroutine
def hear(bell: Bell, latest: int | None = None) -> Generator[Any, None, None]:
    """Go on when ``bell`` rings, or at ``latest`` (ps)."""
    yield bell, latest


class Actor:
    """A coroutine, and when it goes on."""

    def __init__(
        self,
        program: Coroutine[Any, Any, object],
        name: str,
        serves: bool,
        worker: Worker,
    ) -> None:
        self.program = program
        self.name = name
        self.worker = worker
        self.run: object = None  # that the program is a process of, as its interface has it
        self.serves = serves  # it may wait for ever
        self.wake = 0  # entries of the agenda with another number are stale
        self.result: object = None
        self.done = False


class Turns:
    """All actors and the present, ``now`` (ps)."""

    def __init__(self) -> None:
        self.now = 0
        self.taken = 0  # turns
        self._acting: Actor | None = None
        self._agenda: list[tuple[int, int, int, Actor]] = []
        self._order = 0
        self._actors: list[Actor] = []
        self._running = 0  # programs that have not ended

    def start(
        self,
        program: Coroutine[Any, Any, object],
        name: str,
        worker: Worker,
        *,
        serves: bool = False,
    ) -> Actor:
        """Have ``program`` begin now; ``worker`` is who works when it does."""
        actor = Actor(program, name, serves, worker)
        self._actors.append(actor)
        self._running += not serves
        self.at(self.now, actor)
        return actor

    def until(
        self, time: int, doing: str | None = None, frame: tuple[int, int] = NO_FRAME
    ) -> Awaitable[None]:
        """Go on at ``time`` (ps), to be awaited now.

        Whom nobody else comes before then goes on without a turn.  ``doing``: what it works at
        until then, None if it waits; ``frame``: for which, by sender and number.
        """
        if doing is not None and self._acting is not None:
            self._acting.worker.work(self.now, time, doing, frame)
        agenda = self._agenda
        if agenda and agenda[0][0] <= time:
            return _Wait(time)
        self.now = time
        return _PASS

    def at(self, time: int, actor: Actor, wake: int | None = None) -> None:
        """``actor`` goes on at ``time``, unless something has woken it before.

        ``wake``: how often it had been woken when it began to wait, if that was not just now.
        """
        self._order += 1
        wake = actor.wake if wake is None else wake
        heapq.heappush(self._agenda, (time, self._order, wake, actor))

    def run(self) -> None:
        """Until every program has ended.  Errors: ``SimulationError`` if some never would."""
        before = RUNNING.program  # which runs this as a part of itself
        try:
            while self._running:
                if not self._agenda:
                    raise SimulationError(self._stuck())
                self._next()
        finally:
            for actor in self._actors:
                RUNNING.program = actor
                with contextlib.suppress(Exception):  # of what it does at its end
                    actor.program.close()
            RUNNING.program = before
            self._actors = []
            self._running = 0
            self._agenda.clear()

    def _next(self) -> None:
        time, _, wake, actor = heapq.heappop(self._agenda)
        if actor.done or wake != actor.wake:
            return
        self.now = time
        self.taken += 1
        actor.wake += 1
        RUNNING.program = self._acting = actor
        try:
            wanted = actor.program.send(None)
        except StopIteration as stop:
            actor.done = True
            actor.result = stop.value
            self._running -= not actor.serves
            return
        if type(wanted) is int:
            self.at(wanted, actor)
            return
        if type(wanted) is not tuple or not isinstance(wanted[0], Bell):
            raise SimulationError(
                f"{actor.name} awaits what is not its own: a program awaits the calls of what it "
                "was given, and nothing else"
            )
        bell, latest = wanted
        bell.add(actor)
        if latest is not None:
            self.at(latest, actor)

    def _stuck(self) -> str:
        waiting = [actor.name for actor in self._actors if not actor.done and not actor.serves]
        more = f" and {len(waiting) - 4} more" if len(waiting) > 4 else ""
        return (
            f"nothing more will happen after {self.now / 1e6:.3f} us, but programs wait: "
            f"{', '.join(waiting[:4])}{more}"
        )
