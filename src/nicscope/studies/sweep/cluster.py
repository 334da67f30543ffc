"""Counting on a Dask cluster, whose workers may come, go and die.

Workers read the trace by path instead of being sent it: what a client scatters is lost with the
worker that holds it, while a path can be read again by any worker, also one that joins later.

A worker reads the trace by its path, once for all its threads.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import NicscopeError, StudyError, TraceError
from nicscope.kernel.fingerprint import package_stamp
from nicscope.studies.sweep.journal import content_digest
from nicscope.studies.sweep.tally import Columns, load, tally
from nicscope.traces.reader import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.config.design import Design
    from nicscope.studies.sweep.tally import Tally


class Order(NamedTuple):
    """What every task of a sweep has in common, for one trace."""

    path: str  # absolute; the same file for every worker
    sha256: str
    page_size: int
    kinds: bool
    source: str  # stamp of the package that asks


def tally_remotely(order: Order, designs: Sequence[Design]) -> list[Tally]:
    """What each of ``designs`` counts, on whatever machine this runs.

    Errors: ``StudyError`` or ``TraceError``, naming the machine, if its nicscope or its trace is
    another.
    """
    if package_stamp() != order.source:
        raise StudyError(f"worker {socket.gethostname()} runs another nicscope; install this one")
    return tally(_HELD.columns(order), designs, order.page_size, order.kinds)


class _Held:
    """The columns of the trace that was asked for last, one copy in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sha256 = ""
        self._columns: Columns | None = None

    def columns(self, order: Order) -> Columns:
        with self._lock:
            if self._columns is None or self._sha256 != order.sha256:
                self._columns = None  # the old ones may go before the new ones come
                self._columns = _read(order)
                self._sha256 = order.sha256
            return self._columns


_HELD = _Held()


def _read(order: Order) -> Columns:
    where = f"worker {socket.gethostname()}"
    try:
        found = content_digest(Path(order.path))
    except OSError as error:
        raise TraceError(
            f"{where}: {order.path}: {error.strerror}; every worker reads the trace by this path"
        ) from error
    if found != order.sha256:
        raise TraceError(f"{where}: {order.path} has other content there")
    return load(open_trace(order.path))


REACH_S = 5.0  # for the scheduler to answer
LOOK_S = 2.0  # between looks at a cluster that gives no results
LONELY_S = 60.0  # without any worker until we give up
AHEAD = 3  # tasks per worker thread that are waiting or running
_ADDRESS = re.compile(r"(tcp|tls)://[^/\s]+:[0-9]{1,5}")
CONTINUES = "what is done is kept, and the same command continues"


class Cluster:
    """A connection to a scheduler."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    def tallies(
        self,
        order: Order,
        chunks: Sequence[Sequence[int]],
        design: Callable[[int], Design],
    ) -> Iterator[tuple[Sequence[int], list[Tally]]]:
        """Each of ``chunks`` (numbers of designs) with its tallies, in the order of finishing.

        Errors: ``StudyError`` if the scheduler or all workers are gone, and what workers raise.
        """
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting = list(reversed(chunks))
        running: dict[str, tuple[Any, Sequence[int]]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._room():
                    chunk = waiting.pop()
                    future = self._submit(order, [design(number) for number in chunk])
                    running[future.key] = (future, chunk)
                    future.add_done_callback(done.put)
                future = self._next(done)
                _, chunk = running.pop(future.key)
                yield chunk, self._result(future)
        finally:
            with contextlib.suppress(Exception):  # a scheduler that is gone has nothing to cancel
                self._client.cancel([future for future, _ in running.values()], force=True)

    def _submit(self, order: Order, designs: list[Design]) -> Any:

        return self._client.submit(tally_remotely, order, designs, pure=False)

    def _room(self) -> int:
        return AHEAD * self.threads()

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
                        f"s; start some with 'dask worker {self._address}': {CONTINUES}"
                    ) from None

    def _result(self, future: Any) -> list[Tally]:
        from concurrent.futures import CancelledError

        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker

        try:
            result: list[Tally] = future.result()
        except (FutureCancelledError, CancelledError) as error:
            raise self._gone() from error
        except NicscopeError:
            raise
        except KilledWorker as error:
            raise StudyError(
                "workers died of the same designs again and again, perhaps for want of memory; "
                f"{CONTINUES}"
            ) from error
        except Exception as error:
            raise StudyError(
                f"a worker failed: {' '.join(repr(error).split())}; {CONTINUES}"
            ) from error
        return result

    def _gone(self) -> StudyError:
        return StudyError(f"the scheduler at {self._address} is gone; {CONTINUES}")


@contextlib.contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster whose scheduler is at ``address``, such as ``tcp://10.0.0.1:8786``.

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
            yield Cluster(client, address)
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
