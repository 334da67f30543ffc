"""Work on a Dask cluster, whose workers may come, go and die."""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

from nicscope.errors import NicscopeError, StudyError
from nicscope.studies.workers.tasks import Done, perform_remotely

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.studies.workers.tasks import Task, Watch

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
