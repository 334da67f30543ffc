"""Programs of a cluster, whatever its interface: start, run, resume, report; tasks and events.

What each is called with is its interface's; all else is here.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.diagnostics import collect_unawaited, us
from nicscope.drivers.simulate.process import PARKED, Record, coroutine
from nicscope.drivers.simulate.process import Process as SimProcess
from nicscope.drivers.simulate.process import Task as Running
from nicscope.drivers.simulate.records import SLEEP
from nicscope.errors import SimulationError, WaitTimeoutError
from nicscope.interfaces.arguments import LEAST, PS_PER_US, in_ps, shown, whole
from nicscope.interfaces.run_report import (
    MachineRun,
    Names,
    RunReport,
    counted,
    notify_listeners,
    report_of,
    run_progress,
    title,
)
from nicscope.interfaces.run_timeline import write_timeline
from nicscope.tracebacks import TrimmedTraceback, is_ours, is_own, place

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence

    from nicscope.drivers.simulate.process import Simulation
    from nicscope.fabric.topology import Topology
    from nicscope.interfaces.ownership import Owner


NO_END = 0  # in place of a time


def latest(process: SimProcess, timeout_us: float | Fraction | None) -> int:
    """The time (ps) until which ``process`` waits from now on.  Errors: for no time."""
    if timeout_us is None:
        return NO_END
    return max(1, process.now + in_ps(timeout_us, process.now, "timeout_us"))


def left(process: SimProcess, until: int) -> Fraction | None:
    """Time (us) left until ``until`` of a wait that takes several calls."""
    return None if until == NO_END else Fraction(max(0, until - process.now), PS_PER_US)


def no_answer_error(process: SimProcess, said: str, node: int | None = None) -> WaitTimeoutError:
    """The timeout error of a call to ``node``, or to all, with what those do instead."""
    standings = process.standings
    silence = "" if node is None else standings.why_silent(node)
    return WaitTimeoutError(f"{said}{silence}", standings.describe_others(process))


def timeout_error(process: SimProcess) -> WaitTimeoutError:
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
            sim_process.simulation.tasks.wake(row)
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

    @property
    def node(self) -> int:
        """Its node's number."""
        return self._sim_process.node

    @property
    def now_us(self) -> float:
        """The process's clock, in us of virtual time."""
        return self._sim_process.now / PS_PER_US

    def spawn(self, task: Coroutine[Any, Any, Any]) -> Task:
        """Have ``task``, a coroutine, run beside the program; both share the CPU.

        It begins when the program waits next, and ends with it at the latest.  What it raises
        fails the run.  ``start(..., tasks=N)`` gives a process room for N at a time.
        """
        try:
            self._owner.check_caller()
            process = self._sim_process
            return Task(self, process.simulation.spawn(process, self._whole(_checked(task))))
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
        simulation, running = self._sim_process.simulation, list[Running]()

        def undropped(tasks: list[Running]) -> list[Running]:
            return [each for each in tasks if not each.is_done and not simulation.drop(each)]

        try:
            self._owner.check_caller()
            await self._flush()
            until = latest(self._sim_process, timeout_us)
            if not waits:
                raise SimulationError("wait_any() waits for one call or more; none was given")
            for each in [_checked(each) for each in waits]:
                running.append(simulation.spawn(self._sim_process, each))
                running[-1].is_watched = True
            await _wait_for_tasks(self._sim_process, running, until)
        finally:
            _close(waits[len(running) :])  # one was refused, or all were
            left = undropped(running)
        while left := undropped(left):  # what is there is taken, and not lost
            await _wait_for_tasks(self._sim_process, left, NO_END)
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


E = TypeVar("E")
MOST_TASKS = 4096  # of a process


class Started(NamedTuple):
    """A program that is to run."""

    node: int
    program: Callable[[Any], Coroutine[Any, Any, object]]
    is_daemon: bool
    tasks: int  # that it has room for beside itself


class Programs(ABC, Generic[E]):
    """What has been started on a cluster, and its one run."""

    topology: Topology
    given: str = "process"  # what a program is called with

    def __init__(self) -> None:
        self._programs: list[Started] = []
        self._rooms: list[int] = []  # for tasks, of each program in the order of the run
        self._order: list[int] = []  # of the programs, as the run has them
        self._is_over = False
        self.simulation: Simulation | None = None

    def __repr__(self) -> str:
        programs = counted(len(self._programs), "program")
        what = title(self._names())
        return f"<Cluster of {counted(self.topology.nodes, 'node')}, {programs}: {what}>"

    @abstractmethod
    def _made(self, hosts: Sequence[int]) -> tuple[Simulation, list[E]]:
        """A run for programs on ``hosts``, and what each is to be called with."""

    @abstractmethod
    def _names(self) -> Names:
        """What it is called by."""

    @abstractmethod
    def _source(self) -> MachineRun:
        """What reports are made from.  Errors: if nothing has run yet."""

    @TrimmedTraceback()
    def start(
        self,
        node: int,
        program: Callable[[E], Coroutine[Any, Any, object]],
        *,
        daemon: bool = False,
        tasks: int = 0,
    ) -> None:
        """Have ``program`` run on ``node``: an ``async def`` that is called with what it works on.

        A run does not wait for a ``daemon``: it ends when all others have.  ``tasks``: how many
        the program may ``spawn``, or wait for with ``wait_any``, at a time.
        """
        where = self._node(node)
        if self.simulation is not None:
            raise SimulationError(
                "a program was started after run(): a cluster is for one run; start all "
                "programs before it; for another call renew(), or make another cluster"
            )
        _check_program(program, self.given)
        room = whole(tasks, "tasks", 0, MOST_TASKS)
        self._programs.append(Started(where, program, bool(daemon), room))

    @TrimmedTraceback()
    def run(self, until_us: float | None = None) -> Sequence[object]:
        """Run all programs to their ends; what they return, in the order of their start.

        With ``until_us`` it returns at that time (us) at the latest, and the next ``run`` goes on
        from there; programs that have not ended have None for a result till then.
        Errors: what a program raises; ``StuckError`` if all that are left wait for what cannot
        come.  ``results`` and ``report()`` then cover the run as far as it went.
        """
        until = None if until_us is None else in_ps(until_us, what="until_us")
        if RUNNING.program is not None and self.simulation is RUNNING.program.run:
            raise SimulationError("a program called run(), which runs it; it only awaits calls")
        if self.simulation is None:
            self._begin()
        elif self._is_over:
            raise SimulationError(
                "a second run(): this cluster has run, and its results are in results; call "
                "renew() or make another cluster, and start programs on it"
            )
        assert self.simulation is not None
        self._is_over = True  # unless it returns
        with run_progress(self.simulation):
            self._is_over = self.simulation.continue_run(until)
        notify_listeners(self._told())
        return self.results

    def renew(self) -> None:
        """Drops the run and its programs: those started from now on begin anew, at time 0."""
        self._programs, self._order = [], []
        self._is_over, self.simulation = False, None

    def _begin(self) -> None:
        if not self._programs:
            raise SimulationError(
                "run() with nothing to run: start(node, program) has a program run on a node; "
                "start one or more before it"
            )
        self._order = sorted(range(len(self._programs)), key=lambda i: self._programs[i].node)
        started = [self._programs[i] for i in self._order]
        self._rooms = [each.tasks for each in started]
        simulation, made = self._made([each.node for each in started])
        self.simulation = simulation
        programs = []
        try:
            with collect_unawaited(lambda: None):  # a plain function's calls lack theirs
                for each, given in zip(started, made, strict=True):
                    programs.append(self._called(each.program, given))
        except BaseException:
            self._is_over = True
            for program in programs:
                program.close()
            raise
        simulation.begin(programs, [place for place, each in enumerate(started) if each.is_daemon])

    def _called(
        self, program: Callable[[E], Coroutine[Any, Any, object]], given: E
    ) -> Coroutine[Any, Any, object]:
        return called(program, given)

    @property
    def results(self) -> list[object]:
        """What programs have returned so far, in the order of their start; None of the others."""
        found: list[object] = [None] * len(self._programs)
        if self.simulation is not None:
            for at, i in enumerate(self._order):
                found[i] = self.simulation.results[at]
        return found

    def _ran(self) -> Simulation:
        """The run, as far as it went.  Errors: before there was one."""
        if self.simulation is None:
            raise SimulationError("nothing has run yet; call run() first")
        return self.simulation

    def _node(self, given: object) -> int:
        """The number of a node.  Errors: if there is none such."""
        node, last = whole(given, "a node", LEAST), self.topology.nodes - 1
        if not 0 <= node <= last:
            raise SimulationError(
                f"no node {node}; there are {last + 1}, numbered from 0 to {last}"
            )
        return node

    def _told(self) -> MachineRun:
        """The source of reports, with remarks on what programs may not have noticed."""
        source = self._source()
        source.remarks = self._ran().remarks()
        return source

    @TrimmedTraceback()
    def report(self) -> RunReport:
        """What the run has cost so far, node by node; it shows itself in notebooks.

        Errors: ``SimulationError`` before there was one.
        """
        return report_of(self._told())

    @TrimmedTraceback()
    def timeline(self, path: str | Path) -> Path:
        """Write what every engine did when: for ui.perfetto.dev, or a page if it ends in .html.

        Of a cluster with ``keep_log``.  Errors: ``SimulationError`` if it kept no records.
        """
        return write_timeline(self._source(), Path(path))


def called(program: Callable[[Any], Any], given: object) -> Coroutine[Any, Any, object]:
    """The coroutine that ``program`` makes.  Errors: ``SimulationError`` if it makes none."""
    made = program(given)
    if inspect.iscoroutine(made):
        return made
    raise SimulationError(
        f"{name_of(program)} is no 'async def': it returned {shown(made)} at once, and nothing of "
        "it waits; write 'async def' before its name, and 'await' before the calls that wait"
    )


def name_of(program: Any) -> str:
    """A program as its author knows it: its name, and where it is."""
    while hasattr(program, "func"):
        program = program.func
    code = getattr(program, "__code__", None)
    name = getattr(program, "__name__", type(program).__name__)
    where = "" if code is None else f", {place(code.co_filename, code.co_firstlineno)},"
    return f"{name}(){where}"


def _check_program(program: Any, given: str) -> None:
    """Errors: ``SimulationError`` for what cannot be a program, and what to give instead."""
    if inspect.iscoroutine(program):
        name = program.__name__
        program.close()
        raise SimulationError(
            f"start() was given a coroutine, {name}(...), which has been called already; give the "
            f"function itself: start(node, {name}), or start(node, lambda {given}: {name}({given}, "
            "...)) for more arguments"
        )
    if not callable(program):
        raise SimulationError(f"a program is an 'async def' function, not {shown(program)}")
    if inspect.isgeneratorfunction(program) or inspect.isasyncgenfunction(program):
        raise SimulationError(
            f"{name_of(program)} has a 'yield' and so is a generator; a program is an 'async def' "
            "without one, which awaits what it waits for and returns its result"
        )
    try:
        signature = inspect.signature(program)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError:
        raise SimulationError(
            f"{name_of(program)} takes {signature}, but a program is called with one argument, "
            f"its {given}; give others by a lambda: start(node, lambda {given}: ...)"
        ) from None
