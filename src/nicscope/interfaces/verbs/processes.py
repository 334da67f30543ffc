"""Processes that a program of verbs forks: further programs on its node, in turn with it.

A process that is forked has a copy of all that is simulated, so nothing that it sends could ever
come to its parent.  Within a run ``multiprocessing`` therefore begins threads of which one goes on
at a time, under the rules of ``turns``, and its queues, locks, events and barriers are the run's.
They share what the modules of a program hold, where real processes would have copies.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import multiprocessing.context
import multiprocessing.process
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.turns import StoppedError
from nicscope.errors import SimulationError
from nicscope.interfaces.verbs import passing, synchronizing
from nicscope.interfaces.verbs.base import close_all
from nicscope.interfaces.verbs.synchronizing import waited
from nicscope.interfaces.verbs.world import here, note_what_is_opened, run_here, whose

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PID = 1 << 22  # above all that Linux gives, so that no process of the system is meant
NO_POOLS = (
    "pools, managers and executors of processes are not simulated; start a multiprocessing.Process "
    "for each piece of work"
)
_own = threading.local()


class Forked:
    """A process that goes on, as ``multiprocessing`` looks after it."""

    method = "fork"
    sentinel = None

    def __init__(self, process: Process) -> None:
        self.returncode: int | None = None
        self._name, self._signal = process.name, 0
        self._world = here()
        self._turns = self._world.take_turns().turns
        copied = copy.copy(process)  # its maker forgets what it is to do
        self._number = self._turns.begin(lambda: self._live(copied))
        self._world.called[self._number] = self._name
        self.pid = FIRST_PID + self._number

    def _live(self, process: Any) -> None:
        run_here(self._world)
        opened = note_what_is_opened()
        _own.process = process
        code = 1
        try:
            process.run()
            code = 0
        except SystemExit as leaving:
            code = left_with(leaving.code)
        except StoppedError:
            code = -self._signal
            raise
        except BaseException:
            print(f"Process {self._name}:", file=sys.stderr)
            traceback.print_exc()
        finally:
            process.__dict__.clear()
            close_all([*opened.values()])  # as when a process ends
            self.returncode = code

    def poll(self, flag: int = 0) -> int | None:  # noqa: ARG002
        """What it has left with, if it has; who only asks lets it go on for a moment."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> int | None:
        """The same, waited for."""
        waited(f"{self._name} to end", lambda: self.returncode is not None, timeout)
        return self.returncode

    def _stop(self, by: int) -> None:
        if self.returncode is None:
            self._signal = by
            self._turns.doom(self._number)

    def terminate(self) -> None:
        """Have it go no further."""
        self._stop(signal.SIGTERM)

    def kill(self) -> None:
        """The same."""
        self._stop(signal.SIGKILL)

    def close(self) -> None:
        """There is nothing to give back."""


def left_with(code: Any) -> int:
    """What a program leaves with: text is told, as Python does."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


class Process(multiprocessing.process.BaseProcess):
    """A program beside the one that starts it."""

    _start_method = "fork"

    @staticmethod
    def _Popen(process_obj: Process) -> Forked:  # noqa: N802 - its name is given
        target = getattr(getattr(process_obj, "_target", None), "__module__", None) or ""
        if target.startswith(("concurrent.", "multiprocessing.")):
            raise SimulationError(NO_POOLS)
        return Forked(process_obj)


class Together(multiprocessing.context.BaseContext):
    """What ``multiprocessing`` offers within a run, whatever way of starting is asked for."""

    Process = Process

    def get_context(self, method: str | None = None) -> Any:
        """The only one."""
        multiprocessing.context.BaseContext.get_context(self, method)  # errors: no such method
        return self

    def get_start_method(self, allow_none: bool = False) -> str:  # noqa: ARG002
        """The only one."""
        return "fork"

    def set_start_method(self, method: str | None, force: bool = False) -> None:
        """All are the same."""

    def Pool(self, *_: Any, **__: Any) -> Any:  # noqa: N802 - its name is given
        """Errors: ``SimulationError``."""
        raise SimulationError(NO_POOLS)

    Manager = Pool

    @staticmethod
    def current_process() -> Any:
        """The process that calls."""
        return getattr(_own, "process", None) or multiprocessing.process._current_process  # type: ignore[attr-defined]


_TOGETHER: Any = Together()
_NAMES = {name: getattr(_TOGETHER, name) for name in ("get_context", "get_start_method")}
_NAMES |= {name: getattr(_TOGETHER, name) for name in ("set_start_method", "current_process")}
_NAMES["Process"] = Process
_MADE = {
    name: getattr(module, name)
    for module, names in (
        (synchronizing, ("Barrier", "BoundedSemaphore", "Condition", "Event", "Lock", "RLock")),
        (synchronizing, ("Semaphore",)),
        (passing, ("JoinableQueue", "Queue", "SimpleQueue")),
    )
    for name in names
}
_MADE["Pipe"] = passing.pipe
for _name, _made in _MADE.items():
    setattr(Together, _name, staticmethod(_made))
for _name in ("Value", "Array", "Pool", "Manager"):
    _MADE[_name] = getattr(_TOGETHER, _name)


def sleep(seconds: float) -> None:
    """Let other programs of the run go on meanwhile; where there are none it is the system's."""
    world = whose()
    if world is None or world.turn is None:
        _SLEEP(seconds)
    else:
        waited("the end of a sleep", lambda: False, seconds)


_SLEEP = time.sleep


@contextlib.contextmanager
def processes_joined() -> Iterator[None]:
    """Within the block, programs fork processes of their nodes."""
    patched: Any = multiprocessing
    kept = {name: getattr(patched, name) for name in (*_NAMES, *_MADE)}
    for name, value in {**_NAMES, **_MADE}.items():
        setattr(patched, name, value)
    time.sleep = sleep  # type: ignore[assignment]  # seconds are numbers
    try:
        yield
    finally:
        time.sleep = _SLEEP
        for name, value in kept.items():
            setattr(patched, name, value)
        children: Any = multiprocessing.process._children  # type: ignore[attr-defined]
        children.difference_update([each for each in children if isinstance(each, Process)])


def join_children() -> None:
    """Wait for the processes that a program has left, as Python does at its end."""
    world, children = here(), multiprocessing.process._children  # type: ignore[attr-defined]
    for each in sorted(children, key=lambda one: str(one.name)):
        forked = getattr(each, "_popen", None)
        if isinstance(forked, Forked) and forked._world is world:
            if each.daemon:
                each.terminate()
            each.join()
