"""Workers that are processes of this machine; what one that died was at another does again."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
from collections import deque
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import nicscope
from nicscope.errors import StudyError
from nicscope.studies.workers.tasks import Done

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.studies.workers.tasks import Task, Watch

MOST_DEATHS = 3  # of workers at the same task, or before they had one
END_S = 10.0  # for a process that was killed to be gone


class _Worker:
    """A process, and the task that it is at."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self.connection = Connection(ours.detach())
            home = str(Path(nicscope.__file__).parent.parent)
            path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
            # A session of its own: Ctrl-C is for us, who end it; and it ends when we are gone.
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.serving", str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self.place: int | None = None

    def end(self) -> None:
        """Let nothing be left of it."""
        self.connection.close()
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)


class LocalWorkers:
    """Some processes, from the beginning of a ``with`` block to its end."""

    def __init__(self, hands: int) -> None:
        self._hands = hands
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        try:
            for _ in range(self._hands):
                self._workers.append(_Worker())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        while self._workers:
            self._workers.pop().end()

    @property
    def hands(self) -> int:
        """How many tasks are done at once."""
        return self._hands

    def processes(self) -> list[int]:
        """Their numbers."""
        return [worker.process.pid for worker in self._workers]

    def results(self, tasks: Sequence[Task], watch: Watch | None = None) -> list[Any]:
        """What came of each of ``tasks``; ``watch`` is told how many rows are done of how many.

        Errors: what a task meets; ``StudyError`` if workers die of the same one again and again.
        """
        found: list[Any] = [None] * len(tasks)
        waiting = deque(range(len(tasks)))
        deaths: dict[int | None, int] = {}
        done = Done(tasks, watch)
        left = len(tasks)
        while left:
            for worker in self._workers:
                if worker.place is None and waiting:
                    self._give(worker, waiting.popleft(), tasks)
            for worker in self._heard():
                try:
                    what, place, content = worker.connection.recv()
                except (EOFError, OSError, pickle.UnpicklingError):
                    self._replace(worker, deaths)
                    if worker.place is not None:
                        done.begin_again(worker.place)
                        waiting.appendleft(worker.place)
                    continue
                if what == "rows":
                    done.add(place, content)
                elif what == "failed":
                    raise content
                else:
                    worker.place = None
                    found[place] = content
                    done.finish(place)
                    left -= 1
        return found

    def _give(self, worker: _Worker, place: int, tasks: Sequence[Task]) -> None:
        worker.place = place
        # One that is dead is found so when it is listened to.
        with contextlib.suppress(OSError):
            worker.connection.send((place, tasks[place]))

    def _heard(self) -> list[_Worker]:
        """Those that have something to say, or have died."""
        ready = wait([worker.connection for worker in self._workers])
        return [worker for worker in self._workers if worker.connection in ready]

    def _replace(self, worker: _Worker, deaths: dict[int | None, int]) -> None:
        """Have another in the place of one that died.

        Errors: ``StudyError`` if that is of no use.
        """
        worker.end()
        deaths[worker.place] = deaths.get(worker.place, 0) + 1
        if deaths[worker.place] == MOST_DEATHS:
            how = f"the last with status {worker.process.returncode}"
            if worker.place is None:
                raise StudyError(f"workers die before they have begun, {how}; try --workers 1")
            raise StudyError(
                f"workers died of the same nodes again and again, {how}, perhaps for want of "
                "memory; use fewer --workers"
            )
        self._workers[self._workers.index(worker)] = _Worker()
