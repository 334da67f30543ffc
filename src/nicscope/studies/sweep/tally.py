"""Counting a few designs in one pass over a trace's columns, which are in memory once.

Several passes run at once on threads of this process, which share the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.replay.engine import Replayer, grains_for
from nicscope.drivers.replay.parting import ROWS
from nicscope.drivers.replay.pools import lowest_addresses, registers_ahead
from nicscope.drivers.replay.regions import follows_registrations
from nicscope.errors import StudyError
from nicscope.nic.translate.counts import COUNT_NAMES
from nicscope.room import check_room
from nicscope.studies.threads import Stopped, threaded
from nicscope.traces.registrations import requests_in
from nicscope.traces.schema import FIRST_REGISTRATION, Requests, Rows, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.traces.reader import Trace

# What is kept of each design and trace: totals over the nodes.
BYTES = "requested_bytes"  # of all requests, the same for every design
TALLIED = (*COUNT_NAMES, "nodes", "nic_memory_bytes", BYTES)
Tally = list[int | None]


class Columns(NamedTuple):
    """A trace's columns as replay wants them, 21 bytes a request, node after node.

    Nodes are independent, so their order is free; one node's rows together make long pieces,
    however many nodes there are, and little work between them for the interpreter.
    """

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]

    def rows(self, begin: int, end: int) -> Columns:
        """Those rows, as views."""
        rows = slice(begin, end)
        return Columns(
            self.node[rows],
            self.pid[rows],
            self.receive[rows],
            self.address[rows],
            self.length[rows],
        )


class RowColumns(NamedTuple):
    """The same of a trace that says what is registered, 51 bytes a row; see ``schema.Rows``."""

    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    op: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]
    region_bytes: NDArray[np.uint64]
    page_size: NDArray[np.int64]
    rights: NDArray[np.uint8]

    @property
    def kind(self) -> NDArray[np.uint8]:
        """As of ``schema.Rows``."""
        return kinds_of(self.op)

    def rows(self, begin: int, end: int) -> RowColumns:
        """Those rows, as views."""
        return RowColumns._make(column[begin:end] for column in self)


_TYPES: dict[type[Columns | RowColumns], tuple[str, ...]] = {
    Columns: ("i4", "i4", "u1", "u8", "u4"),
    RowColumns: ("i8", "i4", "i4", "u1", "u1", "u8", "u4", "u8", "i8", "u1"),
}


def load(trace: Trace, instead: str = "sweep a part of the trace") -> Columns:
    """All requests of ``trace``, checked; errors: ``TraceError`` at the first that is wrong.

    ``instead`` is advised where there is no room for them.
    """
    found = _loaded(Columns, trace.batches(), trace.rows, instead)
    assert isinstance(found, Columns)
    return found


def load_rows(trace: Trace) -> Columns | RowColumns:
    """As ``load``, with what is registered if the trace says so."""
    if not trace.registrations:
        return load(trace)
    batches = trace.batches_of_rows()
    return _loaded(RowColumns, batches, trace.all_rows, "sweep a part of the trace")


def _loaded(
    kind: type[Columns | RowColumns], batches: Iterable[Requests | Rows], rows: int, instead: str
) -> Columns | RowColumns:
    types = _TYPES[kind]
    size = sum(int(one[1]) for one in types)
    check_room(2 * size * rows, f"keeping {rows:,} requests in memory", instead)
    columns = kind._make(np.empty(rows, one) for one in types)
    begin = 0
    for batch in batches:
        end = begin + len(batch.length)
        for name in kind._fields:
            getattr(columns, name)[begin:end] = getattr(batch, name)
        begin = end
    if np.all(columns.node[1:] >= columns.node[:-1]):
        return columns
    order = np.argsort(columns.node, kind="stable")
    for column in columns:
        column[:] = column[order]
    return columns


def tally(
    columns: Columns | RowColumns,
    designs: Sequence[Design],
    page_size: int,
    kinds: bool,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Tally]:
    """What each of ``designs`` counts, as ``nicscope replay`` would; see ``TALLIED``.

    ``page_size`` is the trace's.  Errors: ``Stopped`` soon after ``stopped()``.
    """
    registrations = _registrations(columns)
    by_region = follows_registrations(designs, registrations)
    lowest = lowest_addresses(_requests(columns, stopped)) if registers_ahead(designs) else None
    grains = grains_for(_requests(columns, stopped), designs, page_size)
    replayer = Replayer(designs, kinds, page_size, grains, lowest, by_region)
    for piece in _pieces(columns, stopped) if by_region else _requests(columns, stopped):
        replayer.feed(piece)
    requested = sum(int(one.length.sum(dtype=np.int64)) for one in _requests(columns, stopped))
    return [
        [
            *(result.total[name] for name in COUNT_NAMES),
            len(result.nodes),
            sum(result.nic_memory_bytes.values()),
            requested,
        ]
        for result in replayer.results()
    ]


def _registrations(columns: Columns | RowColumns) -> int:
    """How many rows are no requests."""
    if isinstance(columns, Columns):
        return 0
    return int(np.count_nonzero(columns.op >= FIRST_REGISTRATION))


def _pieces(
    columns: Columns | RowColumns, stopped: Callable[[], bool]
) -> Iterator[Columns | RowColumns]:
    """All rows, in parts that replay does at once; ``Stopped`` soon after ``stopped()``."""
    for begin in range(0, len(columns.node), ROWS):
        if stopped():
            raise Stopped
        yield columns.rows(begin, begin + ROWS)


def _requests(
    columns: Columns | RowColumns, stopped: Callable[[], bool]
) -> Iterator[Columns | Requests]:
    """The requests among them, likewise."""
    for piece in _pieces(columns, stopped):
        yield piece if isinstance(piece, Columns) else requests_in(piece)


def on_threads(
    columns: Columns | RowColumns,
    page_size: int,
    kinds: bool,
    chunks: Sequence[Sequence[int]],
    design: Callable[[int], Design],
    workers: int,
) -> Iterator[tuple[Sequence[int], list[Tally]]]:
    """Each of ``chunks`` (numbers of designs) with its tallies, in the order of finishing.

    Errors: whatever a thread met; ``StudyError`` if memory does not do.
    """

    def work(chunk: Sequence[int], stopped: Callable[[], bool]) -> list[Tally]:
        designs = [design(number) for number in chunk]
        return tally(columns, designs, page_size, kinds, stopped)

    try:
        yield from threaded(chunks, work, workers)
    except MemoryError as error:
        raise StudyError(
            f"designs do not fit in memory, {workers} times some at once; use fewer --workers, or "
            "smaller sizes"
        ) from error
