"""Counting a few designs in one pass over a trace's columns, which are in memory once.

Several passes run at once on threads of this process, which share the columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.replay.engine import Replayer, grains_for
from nicscope.drivers.replay.parting import ROWS
from nicscope.drivers.replay.pools import lowest_addresses, registers_ahead
from nicscope.errors import StudyError
from nicscope.nic.translate.counts import COUNT_NAMES
from nicscope.room import check_room
from nicscope.studies.threads import Stopped, threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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


BYTES_OF_A_ROW = 21


def load(trace: Trace, instead: str = "sweep a part of the trace") -> Columns:
    """All rows of ``trace``, checked; errors: ``TraceError`` at the first that is wrong.

    ``instead`` is advised where there is no room for them.
    """
    check_room(
        2 * BYTES_OF_A_ROW * trace.rows,
        f"keeping {trace.rows:,} requests in memory",
        instead,
    )
    columns = Columns(
        np.empty(trace.rows, np.int32),
        np.empty(trace.rows, np.int32),
        np.empty(trace.rows, np.uint8),
        np.empty(trace.rows, np.uint64),
        np.empty(trace.rows, np.uint32),
    )
    begin = 0
    for batch in trace.batches():
        end = begin + len(batch.length)
        for name in Columns._fields:
            getattr(columns, name)[begin:end] = getattr(batch, name)
        begin = end
    if np.all(columns.node[1:] >= columns.node[:-1]):
        return columns
    order = np.argsort(columns.node, kind="stable")
    for name in Columns._fields:
        column = getattr(columns, name)
        column[:] = column[order]
    return columns


def tally(
    columns: Columns,
    designs: Sequence[Design],
    page_size: int,
    kinds: bool,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Tally]:
    """What each of ``designs`` counts, as ``nicscope replay`` would; see ``TALLIED``.

    ``page_size`` is the trace's.  Errors: ``Stopped`` soon after ``stopped()``.
    """
    lowest = lowest_addresses(_pieces(columns, stopped)) if registers_ahead(designs) else None
    grains = grains_for(_pieces(columns, stopped), designs, page_size)
    replayer = Replayer(designs, kinds, page_size, grains, lowest)
    for piece in _pieces(columns, stopped):
        replayer.feed(piece)
    requested = int(columns.length.sum(dtype=np.int64))
    return [
        [
            *(result.total[name] for name in COUNT_NAMES),
            len(result.nodes),
            sum(result.nic_memory_bytes.values()),
            requested,
        ]
        for result in replayer.results()
    ]


def _pieces(columns: Columns, stopped: Callable[[], bool]) -> Iterator[Columns]:
    """All rows, in parts that replay does at once; ``Stopped`` soon after ``stopped()``."""
    for begin in range(0, len(columns.node), ROWS):
        if stopped():
            raise Stopped
        yield columns.rows(begin, begin + ROWS)


def on_threads(
    columns: Columns,
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
