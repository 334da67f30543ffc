"""Tasks of a process, gates between programs, and waiting for the first of several calls."""

from __future__ import annotations

import inspect
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.diagnostics import us
from nicscope.drivers.simulate.process import PARKED, Process, Record, coroutine
from nicscope.drivers.simulate.process import Process as SimProcess
from nicscope.drivers.simulate.process import Task as Running
from nicscope.drivers.simulate.records import SLEEP
from nicscope.errors import SimulationError, WaitTimeoutError
from nicscope.interfaces.arguments import PS_PER_US, in_ps, shown
from nicscope.tracebacks import is_ours, is_own, place

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from nicscope.interfaces.ownership import Owner


NO_END = 0  # in place of a time


def latest(process: Process, timeout_us: float | Fraction | None) -> int:
    """The time (ps) until which ``process`` waits from now on.  Errors: for no time."""
    if timeout_us is None:
        return NO_END
    return max(1, process.now + in_ps(timeout_us, process.now, "timeout_us"))


def left(process: Process, until: int) -> Fraction | None:
    """Time (us) left until ``until`` of a wait that takes several calls."""
    return None if until == NO_END else Fraction(max(0, until - process.now), PS_PER_US)


def no_answer_error(process: Process, said: str, node: int | None = None) -> WaitTimeoutError:
    """The timeout error of a call to ``node``, or to all, with what those do instead."""
    standings = process.standings
    silence = "" if node is None else standings.why_silent(node)
    return WaitTimeoutError(f"{said}{silence}", standings.describe_others(process))


def timeout_error(process: Process) -> WaitTimeoutError:
    """The timeout error of the call in which a program waits."""
    call, where = "a call", ""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if is_own(code.co_filename):
            where = f", {place(code.co_filename, frame.f_lineno)}"
            break
        if is_ours(code.co_filename):
            of = frame.f_locals.get("self")
            call = f"{type(of).__name__.lower()}.{code.co_name}()"
        frame = frame.f_back  # type: ignore[assignment]
    known = "; ".join(process.knows())
    return WaitTimeoutError(
        f"{call}{where}, has waited long enough at {us(process.now)}: nothing has come"
        f"{f' ({known})' if known else ''}"
    )


class Gate:
    """A one-time event for programs: once it is opened, nobody waits for it any more."""

    def __init__(self) -> None:
        self._waiting: list[tuple[SimProcess, int]] = []
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._is_open

    @coroutine
    def wait(self, endpoint: ProcessTasks) -> Generator[bytes, Record | None, None]:
        """Wait until another program, or task, opens it, or has."""
        endpoint._owner.check_caller()
        if self._is_open:
            return
        sim_process = endpoint._sim_process
        here = sim_process, sim_process.row_now()  # a task's own, if one waits
        self._waiting.append(here)
        try:
            while not self._is_open:
                yield PARKED
        finally:  # who no longer waits has its row woken by nobody
            if here in self._waiting:
                self._waiting.remove(here)
        sim_process.update_clock()

    def open(self) -> None:
        """Wakes all programs that wait, now and in the order in which they came."""
        self._is_open = True
        for sim_process, row in self._waiting:
            sim_process.tasks.wake(row)
        self._waiting.clear()


class Task:
    """A coroutine that runs beside its process's program; ``spawn`` makes them."""

    def __init__(self, of: ProcessTasks, running: Running) -> None:
        self._of = of
        self._owner = of._owner
        self._sim_process = of._sim_process
        self._running = running

    @property
    def is_done(self) -> bool:
        """Whether it has returned."""
        return self._running.is_done

    async def join(self, *, timeout_us: float | None = None) -> Any:
        """What it returns, when it has.  Errors: ``WaitTimeoutError``; it goes on then."""
        self._owner.check_caller()
        await self._of._flush()
        until = latest(self._sim_process, timeout_us)
        if not self._running.is_done:
            await _wait_for_tasks(self._sim_process, [self._running], until)
        if not self._running.is_done:
            raise timeout_error(self._sim_process)
        return self._running.result


class ProcessTasks:
    """Tasks and combined waits of a process."""

    _owner: Owner
    _sim_process: SimProcess

    def spawn(self, task: Coroutine[Any, Any, Any]) -> Task:
        """Have ``task``, a coroutine, run beside the program; both share the CPU.

        It begins when the program waits next, and ends with it at the latest.  What it raises
        fails the run.  ``start(..., tasks=N)`` gives a process room for N at a time.
        """
        try:
            self._owner.check_caller()
            return Task(self, self._sim_process.spawn(self._whole(_checked(task))))
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
            until = latest(self._sim_process, timeout_us)
            if not waits:
                raise SimulationError("wait_any() waits for one call or more; none was given")
            for each in [_checked(each) for each in waits]:
                running.append(self._sim_process.spawn(each))
                running[-1].is_watched = True
            await _wait_for_tasks(self._sim_process, running, until)
        finally:
            _close(waits[len(running) :])  # one was refused, or all were
            left = [
                each for each in running if not each.is_done and not self._sim_process.drop(each)
            ]
        while left := [
            each for each in left if not each.is_done and not self._sim_process.drop(each)
        ]:
            await _wait_for_tasks(
                self._sim_process, left, NO_END
            )  # what is there is taken, and not lost
        for task in running:
            if task.error is not None:
                raise task.error
        done = [(which, task) for which, task in enumerate(running) if task.has_result]
        if not done:
            raise timeout_error(self._sim_process)
        return [(which, task.result) for which, task in done]


@coroutine
def _wait_for_tasks(
    sim_process: SimProcess, tasks: list[Running], until: int
) -> Generator[bytes, Record, None]:
    """Waits until one of ``tasks`` is done, or until that time."""
    row = sim_process.row_now()
    for task in tasks:
        task.waiting.append(row)
    if until == NO_END:
        yield PARKED
    else:
        yield sim_process.request(SLEEP, duration=max(0, until - sim_process.now))
    for task in tasks:
        if row in task.waiting:
            task.waiting.remove(row)
    sim_process.update_clock()


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
