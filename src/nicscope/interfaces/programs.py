"""Programs of a cluster, whatever its interface: start, run, resume, report.

What each is called with is its interface's; all else is here.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from nicscope.drivers.current_program import RUNNING
from nicscope.drivers.simulate.diagnostics import collect_unawaited
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST, in_ps, shown, whole
from nicscope.interfaces.run_report import (
    RunReport,
    Source,
    notify_listeners,
    report_of,
    run_progress,
)
from nicscope.interfaces.run_timeline import write_timeline
from nicscope.tracebacks import TrimmedTraceback, place

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from nicscope.drivers.simulate.programs import Simulation
    from nicscope.fabric.topology import Topology

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

    @abstractmethod
    def _made(self, hosts: Sequence[int]) -> tuple[Simulation, list[E]]:
        """A run for programs on ``hosts``, and what each is to be called with."""

    @abstractmethod
    def _source(self) -> Source:
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

    def _told(self) -> Source:
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
