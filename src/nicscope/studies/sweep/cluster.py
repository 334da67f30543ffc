"""Counting designs on a Dask cluster.

Workers read the trace by path instead of being sent it: what a client scatters is lost with the
worker that holds it, while a path can be read again by any worker, also one that joins later.

A worker reads the trace by its path, once for all its threads.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import StudyError, TraceError
from nicscope.kernel.fingerprint import package_stamp
from nicscope.studies.sweep.journal import content_digest
from nicscope.studies.sweep.tally import Columns, RowColumns, load_rows, tally
from nicscope.traces.reader import open_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.config.design import Design
    from nicscope.studies.sweep.tally import Tally
    from nicscope.studies.workers.cluster import Cluster


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
        self._columns: Columns | RowColumns | None = None

    def columns(self, order: Order) -> Columns | RowColumns:
        with self._lock:
            if self._columns is None or self._sha256 != order.sha256:
                self._columns = None  # the old ones may go before the new ones come
                self._columns = _read(order)
                self._sha256 = order.sha256
            return self._columns


_HELD = _Held()


def _read(order: Order) -> Columns | RowColumns:
    where = f"worker {socket.gethostname()}"
    try:
        found = content_digest(Path(order.path))
    except OSError as error:
        raise TraceError(
            f"{where}: {order.path}: {error.strerror}; every worker reads the trace by this path"
        ) from error
    if found != order.sha256:
        raise TraceError(f"{where}: {order.path} has other content there")
    return load_rows(open_trace(order.path))


CONTINUES = "what is done is kept, and the same command continues"


def tallies(
    cluster: Cluster,
    order: Order,
    chunks: Sequence[Sequence[int]],
    design: Callable[[int], Design],
) -> Iterator[tuple[Sequence[int], list[Tally]]]:
    """Each of ``chunks`` (numbers of designs) with its tallies, in the order of finishing.

    Errors: ``StudyError`` if the scheduler or all workers are gone, and what workers raise.
    """

    def arguments(chunk: Sequence[int]) -> tuple[Order, list[Design]]:
        return order, [design(number) for number in chunk]

    return cluster.each(chunks, tally_remotely, arguments)
