"""Shares out tasks among threads of this process, processes, or a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from nicscope.errors import NicscopeError, StudyError
from nicscope.traces.folders import FolderTrace, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nicscope.traces.reader import Trace

    Watch = Callable[[int, int], None]


class Task(NamedTuple):
    """A function of the package with its arguments, before a watch of rows done."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    rows: int  # about: by which it is known how much is done

    def perform(self, done: Callable[[int], None]) -> Any:
        """Call the function; ``done`` is told of rows as they are done."""
        return self.call(*self.arguments, done)


class Workers(Protocol):
    """A pool of workers."""

    @property
    def hands(self) -> int:
        """How many tasks are done at once."""

    def results(self, tasks: Sequence[Task], watch: Watch | None = None) -> list[Any]:
        """The results of ``tasks``; reports rows done to ``watch``."""


class Done:
    """Progress over several tasks; the progress of a dead worker's task is taken back."""

    def __init__(self, tasks: Sequence[Task], watch: Watch | None) -> None:
        self._rows = [task.rows for task in tasks]
        self._done = [0] * len(tasks)
        self._told = 0
        self._watch = watch

    def add(self, place: int, rows: int) -> None:
        """Add rows done of a task."""
        self._done[place] = min(self._done[place] + rows, self._rows[place])
        self._tell()

    def reset_task(self, place: int) -> None:
        """Reset a task's progress."""
        self._done[place] = 0

    def finish(self, place: int) -> None:
        """Mark a task as done."""
        self._done[place] = self._rows[place]
        self._tell()

    def _tell(self) -> None:
        self._told = max(self._told, sum(self._done))
        if self._watch is not None:
            self._watch(self._told, sum(self._rows))


class Alone:
    """A process by itself, which does one task after the other."""

    hands = 1

    def results(self, tasks: Sequence[Task], watch: Watch | None = None) -> list[Any]:
        """What came of each of ``tasks``, as of ``Workers``."""
        done = Done(tasks, watch)
        return [task.perform(partial(done.add, place)) for place, task in enumerate(tasks)]


class Nodes:
    """The nodes of a trace, shared out among workers; without them this process has them all."""

    def __init__(self, trace: Trace, workers: Workers | None) -> None:
        self._workers: Workers = workers or Alone()
        self.shares: Sequence[Share | Trace] = [trace]
        if workers is not None:
            assert isinstance(trace, FolderTrace)
            self.shares = trace.shares(workers.hands)

    def each(self, watch: Watch | None, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What ``call`` makes of each share, in one round of work of which ``watch`` is told."""
        return self.each_of(watch, call, [arguments])

    def each_of(
        self, watch: Watch | None, call: Callable[..., Any], rounds: Iterable[tuple[Any, ...]]
    ) -> list[Any]:
        """As ``each`` for several lists of arguments: every share for the first, then the next."""
        tasks = [
            Task(call, (share, *arguments), share.rows)
            for arguments in rounds
            for share in self.shares
        ]
        return self._workers.results(tasks, watch)


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


MOST_DEATHS = 3  # of workers at the same task, or before they had one
END_S = 10.0  # for a process that was killed to be gone


class _Worker:
    """A worker process, and its current task."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self.connection = Connection(ours.detach())
            home = str(Path(__file__).parents[2])
            path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
            # A session of its own: Ctrl-C is for us, who end it; and it ends when we are gone.
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker_process", str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self.place: int | None = None

    def end(self) -> None:
        """Terminate the process and close its connection."""
        self.connection.close()
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)


class LocalWorkers:
    """Worker processes, for the duration of a ``with`` block."""

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
        """The number of tasks performed at once."""
        return self._hands

    def processes(self) -> list[int]:
        """The process ids."""
        return [worker.process.pid for worker in self._workers]

    def results(self, tasks: Sequence[Task], watch: Watch | None = None) -> list[Any]:
        """The results of ``tasks``; reports rows done to ``watch``.

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
                        done.reset_task(worker.place)
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


REACH_S = 5.0  # for the scheduler to answer
LOOK_S = 2.0  # between looks at a cluster that gives no results
LONELY_S = 60.0  # without any worker until we give up
AHEAD = 3  # tasks per worker thread that are waiting or running
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:[0-9]{1,5}")
Job = TypeVar("Job")


class Cluster:
    """A connection to a scheduler."""

    def __init__(self, client: Any, address: str, ending: str) -> None:
        self._client = client
        self._address = address
        self._ending = ending  # what becomes of the work, of an error

    def each(
        self,
        jobs: Sequence[Job],
        call: Callable[..., Any],
        arguments: Callable[[Job], tuple[Any, ...]],
    ) -> Iterator[tuple[Job, Any]]:
        """Each of ``jobs`` with what ``call`` makes of its ``arguments``, as they finish.

        Errors: ``StudyError`` if the scheduler or all workers are gone, and what workers raise.
        """
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting = list(reversed(jobs))
        running: dict[str, tuple[Any, Job]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._room():
                    job = waiting.pop()
                    future = self._client.submit(call, *arguments(job), pure=False)
                    running[future.key] = (future, job)
                    future.add_done_callback(done.put)
                future = self._next(done)
                _, job = running.pop(future.key)
                yield job, self._result(future)
        finally:
            with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to cancel
                self._client.cancel([future for future, _ in running.values()], force=True)

    def _room(self) -> int:
        return AHEAD * self.threads()

    @property
    def hands(self) -> int:
        """How many tasks are done at once."""
        return self.threads()

    def results(self, tasks: Sequence[Task], watch: Watch | None = None) -> list[Any]:
        """What came of each of ``tasks``; ``watch`` is told how many rows are done of how many.

        Errors: as ``each``.
        """
        from nicscope.kernel.fingerprint import package_stamp

        found: list[Any] = [None] * len(tasks)
        done, stamp = Done(tasks, watch), package_stamp()

        def arguments(place: int) -> tuple[bytes, str]:
            return pickle.dumps(tasks[place]), stamp

        for place, result in self.each(range(len(tasks)), perform_remotely, arguments):
            found[place] = pickle.loads(result)
            done.finish(place)
        return found

    def threads(self) -> int:
        """Threads of all workers, at least 1."""
        return max(1, sum(self._workers().values()))

    def _workers(self) -> dict[str, int]:
        try:
            threads: dict[str, int] = self._client.ncores()
        except (OSError, TimeoutError, ValueError) as error:
            raise self._gone() from error
        return threads

    def _next(self, done: queue.SimpleQueue[Any]) -> Any:
        """The next future to end; looks after the cluster while there is none."""
        last_seen = time.monotonic()
        while True:
            try:
                return done.get(timeout=LOOK_S)
            except queue.Empty:
                now = time.monotonic()
                if self._workers():
                    last_seen = now
                elif now - last_seen > LONELY_S:
                    raise StudyError(
                        f"the scheduler at {self._address} has had no workers for {LONELY_S:.0f} "
                        f"s; start some with 'dask worker {self._address}': {self._ending}"
                    ) from None

    def _result(self, future: Any) -> Any:
        from concurrent.futures import CancelledError

        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        try:
            return future.result()
        except (FutureCancelledError, CancelledError) as error:
            raise self._gone() from error
        except NicscopeError:
            raise
        except KilledWorker as error:
            raise StudyError(
                "workers died of the same task again and again, perhaps for want of memory; "
                f"{self._ending}"
            ) from error
        except Exception as error:
            raise StudyError(
                f"a worker failed: {' '.join(repr(error).split())}; {self._ending}"
            ) from error

    def _gone(self) -> StudyError:
        return StudyError(f"the scheduler at {self._address} is gone; {self._ending}")


@contextlib.contextmanager
def connected(address: str, ending: str = "begin again") -> Iterator[Cluster]:
    """The cluster whose scheduler is at ``address``, such as ``tcp://10.0.0.1:8786``.

    ``ending`` says at the end of an error of its own what becomes of the work.

    Errors: ``StudyError`` if Dask is not installed, or nothing answers within ``REACH_S``.
    """
    if not _ADDRESS.fullmatch(address):
        raise StudyError(f"--scheduler {address}: write it as tcp://HOST:PORT")
    try:
        from distributed import Client
    except ImportError as error:
        raise StudyError(
            "--scheduler needs Dask; install it with: pip install 'nicscope[cluster]'"
        ) from error
    log = logging.getLogger("distributed")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what matters to the user is one line of ours
    try:
        _check_scheduler(address)
        client: Any = Client(  # type: ignore[no-untyped-call]
            address, timeout=REACH_S, set_as_default=False
        )
        try:
            yield Cluster(client, address, ending)
        finally:
            client.close(timeout=REACH_S)
    finally:
        log.setLevel(level)


def _check_scheduler(address: str) -> None:
    """Return if a scheduler answers; a client that fails to start takes long to give up."""
    import asyncio

    async def kind() -> str:
        from distributed import rpc

        async with rpc(address) as remote:  # type: ignore[no-untyped-call]
            return str((await remote.identity())["type"])

    try:
        found = asyncio.run(asyncio.wait_for(kind(), REACH_S))
    except Exception as error:  # whatever listens there may answer anything
        raise StudyError(
            f"no Dask scheduler answers at {address!r} within {REACH_S:.0f} s; start one with "
            "'dask scheduler', or leave --scheduler out"
        ) from error
    if found != "Scheduler":
        raise StudyError(f"{address!r} is a Dask {found.lower()}; name the scheduler")


MOST_WORKERS = 1024


def worker_count(workers: int | None, scheduler: str | None) -> int:
    """The number of workers; by default the number of available processors.

    Errors: ``StudyError`` for fewer than 1, too many, or a number beside a scheduler.
    """
    if workers is None:
        return len(os.sched_getaffinity(0))
    if scheduler is not None:
        raise StudyError("--workers are this machine's; a cluster has its own, so leave it out")
    if not 1 <= workers <= MOST_WORKERS:
        raise StudyError(f"--workers must be from 1 to {MOST_WORKERS}, got {workers}")
    return workers


THREAD_PATIENCE_S = 2.0  # for threads to notice that they are to stop
Item = TypeVar("Item")
Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - nobody's error
    """The result is not wanted any more."""


def threaded(
    tasks: Sequence[Item], work: Callable[[Item, Callable[[], bool]], Result], workers: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each of ``tasks`` with its result, in the order of finishing.

    ``work`` gets a function that says whether it is to stop, which it does by ``Stopped``.
    Errors: whatever a thread met; the others are stopped then, as when nobody asks for more.
    """
    todo: queue.SimpleQueue[Item] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Item, Any, BaseException | None]] = queue.SimpleQueue()
    stop = threading.Event()
    for task in tasks:
        todo.put(task)

    def run() -> None:
        while not stop.is_set():
            try:
                task = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((task, work(task, stop.is_set), None))
            except Stopped:
                return
            except BaseException as error:
                done.put((task, None, error))
                return

    # Daemons: one long request may keep a kernel busy for minutes after Ctrl-C.
    threads = [threading.Thread(target=run, daemon=True) for _ in range(min(workers, len(tasks)))]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            task, result, error = done.get()
            if error is not None:
                raise error
            yield task, result
    finally:
        stop.set()
        for thread in threads:
            thread.join(THREAD_PATIENCE_S)
