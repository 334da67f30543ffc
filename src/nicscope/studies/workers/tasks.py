"""What a worker is asked to do, and who has it done: the same result whoever does it, and once."""

from __future__ import annotations

import pickle
import socket
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from nicscope.errors import NicscopeError, StudyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Watch = Callable[[int, int], None]


class Task(NamedTuple):
    """A function of the package, and what it is called with, before a watch of rows done."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    rows: int  # about: by which it is known how much is done

    def perform(self, done: Callable[[int], None]) -> Any:
        """What the function returns; ``done`` is told of rows as they are done."""
        return self.call(*self.arguments, done)


def within(watch: Watch | None, before: int, after: int) -> Watch:
    """A watch of one round of work, where ``watch`` is told of other rounds before and after it."""

    def watched(done: int, total: int) -> None:
        if watch is not None:
            watch(before + done, before + total + after)

    return watched


class Workers(Protocol):
    """Whoever does tasks."""

    @property
    def hands(self) -> int:
        """How many tasks are done at once."""

    def results(self, tasks: Sequence[Task], watch: Watch | None = None) -> list[Any]:
        """What came of each of ``tasks``; ``watch`` is told how many rows are done of how many."""


class Done:
    """Rows done of several tasks, told to a watch; what a dead worker had done is not done."""

    def __init__(self, tasks: Sequence[Task], watch: Watch | None) -> None:
        self._rows = [task.rows for task in tasks]
        self._done = [0] * len(tasks)
        self._told = 0
        self._watch = watch

    def add(self, place: int, rows: int) -> None:
        """So many rows more of a task."""
        self._done[place] = min(self._done[place] + rows, self._rows[place])
        self._tell()

    def begin_again(self, place: int) -> None:
        """Nothing of a task is done any more."""
        self._done[place] = 0

    def finish(self, place: int) -> None:
        """All of a task is done."""
        self._done[place] = self._rows[place]
        self._tell()

    def _tell(self) -> None:
        self._told = max(self._told, sum(self._done))
        if self._watch is not None:
            self._watch(self._told, sum(self._rows))


def perform_remotely(task: bytes, stamp: str) -> bytes:
    """As ``Task.perform``, on whatever machine this runs; pickled, or Dask looks into it.

    Errors: ``StudyError`` if its nicscope is another than that of ``stamp``, and what the task
    meets, naming the machine.
    """
    from nicscope.kernel.fingerprint import package_stamp

    where = f"worker {socket.gethostname()}"
    if package_stamp() != stamp:
        raise StudyError(f"{where} runs another nicscope; install this one")
    try:
        asked: Task = pickle.loads(task)
        return pickle.dumps(asked.perform(lambda _: None))
    except NicscopeError as error:
        raise type(error)(f"{where}: {error}") from error
