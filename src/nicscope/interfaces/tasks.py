"""Tasks of a process, and waiting for any of several things: alike for every interface."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.machine import SLEEP
from nicscope.drivers.simulate.tasks import PARKED
from nicscope.drivers.simulate.yielding import coroutine
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import shown
from nicscope.interfaces.waits import NO_END, latest, timed_out

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.driven import Record
    from nicscope.drivers.simulate.tasks import Task as Running
    from nicscope.interfaces.ownership import Owner


class Task:
    """A coroutine that runs beside its process's program; ``spawn`` makes them."""

    def __init__(self, of: Tasking, running: Running) -> None:
        self._of = of
        self._owner = of._owner
        self._driven = of._driven
        self._running = running

    @property
    def is_done(self) -> bool:
        """Whether it has returned."""
        return self._running.is_done

    async def join(self, *, timeout_us: float | None = None) -> Any:
        """What it returns, when it has.  Errors: ``WaitTimeoutError``; it goes on then."""
        self._owner.check_caller()
        await self._of._flush()
        until = latest(self._driven, timeout_us)
        if not self._running.is_done:
            await _parked(self._driven, [self._running], until)
        if not self._running.is_done:
            raise timed_out(self._driven)
        return self._running.result


class Tasking:
    """What a process can do at once."""

    _owner: Owner
    _driven: Driven

    def spawn(self, task: Coroutine[Any, Any, Any]) -> Task:
        """Have ``task``, a coroutine, run beside the program; both share the CPU.

        It begins when the program waits next, and ends with it at the latest.  What it raises
        fails the run.  ``start(..., tasks=N)`` gives a process room for N at a time.
        """
        try:
            self._owner.check_caller()
            return Task(self, self._driven.spawn(self._whole(_checked(task))))
        except SimulationError:
            _close([task])
            raise

    async def _flush(self) -> None:
        """Have begun what the process has put before its next call, where an interface does."""

    def _whole(self, task: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """``task`` to the end of all that it asks for."""
        return task

    async def wait_any(
        self, *waits: Coroutine[Any, Any, Any], timeout_us: float | None = None
    ) -> list[tuple[int, Any]]:
        """Wait for the first of several calls: which of ``waits``, and what it gave.

        Mostly one; more if they ended at the same time.  The others are not waited for any more,
        and have taken nothing.  Each is a task while it waits.  Errors: ``WaitTimeoutError``.
        """
        running: list[Running] = []
        try:
            self._owner.check_caller()
            await self._flush()
            until = latest(self._driven, timeout_us)
            if not waits:
                raise SimulationError("wait_any() waits for one call or more; none was given")
            for each in [_checked(each) for each in waits]:
                running.append(self._driven.spawn(each))
                running[-1].is_watched = True
            await _parked(self._driven, running, until)
        finally:
            _close(waits[len(running) :])  # one was refused, or all were
            left = [each for each in running if not each.is_done and not self._driven.drop(each)]
        while left := [each for each in left if not each.is_done and not self._driven.drop(each)]:
            await _parked(self._driven, left, NO_END)  # what is there is taken, and not lost
        for task in running:
            if task.error is not None:
                raise task.error
        done = [(which, task) for which, task in enumerate(running) if task.has_result]
        if not done:
            raise timed_out(self._driven)
        return [(which, task.result) for which, task in done]


@coroutine
def _parked(driven: Driven, tasks: list[Running], until: int) -> Generator[bytes, Record, None]:
    """Wait until one of ``tasks`` is done, or that time."""
    row = driven.row_now()
    for task in tasks:
        task.waiting.append(row)
    if until == NO_END:
        yield PARKED
    else:
        yield driven.request(SLEEP, duration=max(0, until - driven.now))
    for task in tasks:
        if row in task.waiting:
            task.waiting.remove(row)
    driven.catch_up()


def _close(waits: Sequence[object]) -> None:
    """Nobody awaits these, and whoever gave them has been told why."""
    for each in waits:
        if inspect.iscoroutine(each):
            each.close()


def _checked(given: object) -> Coroutine[Any, Any, Any]:
    if inspect.iscoroutine(given):
        return given
    what = "an awaited result" if not callable(given) else "a function"
    raise SimulationError(
        f"a call without its 'await' is needed, as in spawn(work(endpoint)), not {what}: "
        f"{shown(given)}"
    )
