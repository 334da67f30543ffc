"""Counts a trace at every point of a grid, on threads or a Dask cluster; resumable."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay.columns import OnlyRequests
from nicscope.drivers.replay.engine import Replayer, alignments_for
from nicscope.drivers.replay.rnic import follows_registrations, lowest_addresses, registers_ahead
from nicscope.errors import StudyError, TraceError
from nicscope.kernel.fingerprint import package_stamp
from nicscope.memory_limit import check_memory
from nicscope.nic.translate.book import COUNT_NAMES
from nicscope.studies.sources import chunks_until
from nicscope.studies.sweep.table import (
    TALLIED,
    UNKNOWN,
    Record,
    TableOutput,
    TraceIdentity,
    content_digest,
    difference_of_table,
    identity_of,
    journal_path,
    no_journal,
    open_journal,
    table_output,
    write_table,
)
from nicscope.studies.workers import Cluster, threaded
from nicscope.traces.columns import requests_in
from nicscope.traces.folders import placed
from nicscope.traces.reader import Trace, open_trace
from nicscope.traces.schema import FIRST_REGISTRATION, Requests, Rows, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.studies.sweep.grid import Grid
    from nicscope.studies.sweep.table import Identity, Journal, Tally

    Tallies = Generator[tuple[Sequence[int], list[Tally]], None, None]


class RowColumns(NamedTuple):
    """Columns of a trace with registrations, 51 bytes a row; see ``schema.Rows``."""

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


_TYPES: dict[type[OnlyRequests | RowColumns], tuple[str, ...]] = {
    OnlyRequests: ("i4", "i4", "u1", "u8", "u4"),
    RowColumns: ("i8", "i4", "i4", "u1", "u1", "u8", "u4", "u8", "i8", "u1"),
}


def load(trace: Trace, instead: str = "sweep a part of the trace") -> OnlyRequests:
    """All requests of ``trace``, checked; errors: ``TraceError`` at the first that is wrong.

    They come node after node: nodes are independent, and one's rows together make long pieces.
    ``instead`` is advised where there is no room for them.
    """
    found = _loaded(OnlyRequests, trace.batches(), trace.rows, instead)
    assert isinstance(found, OnlyRequests)
    return found


def load_rows(trace: Trace) -> OnlyRequests | RowColumns:
    """As ``load``, with what is registered if the trace says so."""
    if not trace.registrations:
        return load(trace)
    batches = trace.batches_of_rows()
    return _loaded(RowColumns, batches, trace.all_rows, "sweep a part of the trace")


def _loaded(
    kind: type[OnlyRequests | RowColumns],
    batches: Iterable[Requests | Rows],
    rows: int,
    instead: str,
) -> OnlyRequests | RowColumns:
    types = _TYPES[kind]
    size = sum(int(one[1]) for one in types)
    check_memory(2 * size * rows, f"keeping {rows:,} requests in memory", instead)
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
    columns: OnlyRequests | RowColumns,
    designs: Sequence[Design],
    page_size: int,
    kinds: bool,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Tally]:
    """Count each of ``designs``, as ``nicscope replay`` does; see ``TALLIED``.

    ``page_size`` is the trace's.  Errors: ``Stopped`` soon after ``stopped()``.
    """
    registrations = _registrations(columns)
    by_region = follows_registrations(designs, registrations)
    lowest = lowest_addresses(_requests(columns, stopped)) if registers_ahead(designs) else None
    alignments = alignments_for(_requests(columns, stopped), designs, page_size)
    replayer = Replayer(designs, kinds, page_size, alignments, lowest, by_region)
    for piece in chunks_until(stopped, [columns]) if by_region else _requests(columns, stopped):
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


def _registrations(columns: OnlyRequests | RowColumns) -> int:
    """The number of rows that are registrations."""
    if isinstance(columns, OnlyRequests):
        return 0
    return int(np.count_nonzero(columns.op >= FIRST_REGISTRATION))


def _requests(
    columns: OnlyRequests | RowColumns, stopped: Callable[[], bool]
) -> Iterator[OnlyRequests | Requests]:
    """The requests in chunks for replay."""
    for piece in chunks_until(stopped, [columns]):
        yield piece if isinstance(piece, OnlyRequests) else requests_in(piece)


class Order(NamedTuple):
    """The common parameters of a sweep's tasks for one trace."""

    path: str  # absolute; the same file for every worker
    sha256: str
    page_size: int
    kinds: bool
    source: str  # stamp of the package that asks


def tally_on_worker(order: Order, designs: Sequence[Design]) -> list[Tally]:
    """Count each of ``designs``, on any machine.

    Errors: ``StudyError`` or ``TraceError``, naming the machine, if its nicscope or its trace is
    another.
    """
    if package_stamp() != order.source:
        raise StudyError(f"worker {socket.gethostname()} runs another nicscope; install this one")
    return tally(_HELD.columns(order), designs, order.page_size, order.kinds)


class _CachedColumns:
    """The columns of the most recent trace, one copy in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sha256 = ""
        self._columns: OnlyRequests | RowColumns | None = None

    def columns(self, order: Order) -> OnlyRequests | RowColumns:
        with self._lock:
            if self._columns is None or self._sha256 != order.sha256:
                self._columns = None  # the old ones may go before the new ones come
                self._columns = _read(order)
                self._sha256 = order.sha256
            return self._columns


_HELD = _CachedColumns()


def _read(order: Order) -> OnlyRequests | RowColumns:
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


# Designs counted in one pass: beyond, sharing the parting and numbering of pages gains no more.
CHUNK = 8
CHUNKS_EACH = 4  # chunks per worker at least, so that none waits long for the last


class Sweep(NamedTuple):
    """A checked sweep."""

    grid: Grid
    traces: Sequence[tuple[str, Trace]]  # with their names, all different
    out: Path
    kinds: bool = True


class Done(NamedTuple):
    """Progress of a sweep: replays in all, those of earlier runs, and whether it is finished."""

    replays: int
    found: int
    was_there: bool


def sweep(
    what: Sweep,
    workers: int,
    cluster: Cluster | None = None,
    watch: Callable[[int, int], None] | None = None,
    begun: Callable[[Done], None] = lambda _: None,
    output: TableOutput | None = None,
) -> Done:
    """Count what is missing and write the table; by ``cluster``, or else ``workers`` threads.

    The table goes to ``output``, which is made for ``what.out`` if left out.  Tells ``begun`` what
    is done already and ``watch`` how many replays are done of those that were not.  Errors:
    ``StudyError`` if output or journal are another sweep's, ``OutputError`` if they cannot be
    written, ``TraceError`` at the first row that the schema does not allow.
    """
    if output is None:
        with table_output(what.out) as output:
            return sweep(what, workers, cluster, watch, begun, output)
    identity = _identity(what)
    replays = len(what.traces) * what.grid.designs
    if output.says_whose and output.is_there():
        difference = difference_of_table(what.out, identity)
        if difference is not None:
            raise StudyError(
                f"{what.out}: was written by another sweep: {difference}; name another file with "
                "--out, or move this one away"
            )
        _remove_journal(what.out, identity)
        return Done(replays, replays, was_there=True)
    with _journal_for(output, identity) as journal:
        tallies = _Tallies(len(what.traces), what.grid.designs, journal)
        done = Done(replays, tallies.done, was_there=False)
        if output.is_there() and done.found < replays:  # with all found, this sweep has written it
            raise StudyError(
                f"{what.out}: exists, and only a .parquet table says which sweep it is; name "
                "another file with --out, or move this one away"
            )
        begun(done)
        _count(what, tallies, workers, cluster, watch)
        sizes = [(name, trace.metadata.page_size) for name, trace in what.traces]
        output.write(lambda file: write_table(file, identity, what.grid, sizes, tallies.values))
        journal.remove()
    return done


class _Tallies:
    """All counts, in memory and in the journal."""

    def __init__(self, traces: int, designs: int, journal: Journal) -> None:
        self.values: NDArray[np.int64]
        self.values = np.full((traces, designs, len(TALLIED)), UNKNOWN, np.int64)
        self._is_done = np.zeros((traces, designs), bool)
        self._journal = journal
        for record in journal.records:
            self._check(record)
            self._keep(record)
        journal.records.clear()

    @property
    def done(self) -> int:
        return int(self._is_done.sum())

    def missing(self, trace: int) -> list[int]:
        """The numbers of the designs not yet counted on that trace."""
        return [int(number) for number in np.flatnonzero(~self._is_done[trace])]

    def add(self, trace: int, designs: Sequence[int], tallies: Sequence[Tally]) -> None:
        records = [
            Record(trace, design, tally) for design, tally in zip(designs, tallies, strict=True)
        ]
        self._journal.append(records)
        for record in records:
            self._keep(record)

    def _check(self, record: Record) -> None:
        """Errors: ``StudyError`` for a record that this sweep cannot have written."""
        traces, designs, width = self.values.shape
        fits = 0 <= record.trace < traces and 0 <= record.design < designs
        counts = (0 if value is None else value for value in record.values)
        if not fits or len(record.values) != width or not all(0 <= n < 1 << 63 for n in counts):
            raise StudyError(
                f"{self._journal.path}: holds a record that is none of this sweep's; remove the "
                "file to begin anew"
            )

    def _keep(self, record: Record) -> None:
        values = [UNKNOWN if value is None else value for value in record.values]
        self.values[record.trace, record.design] = values
        self._is_done[record.trace, record.design] = True


def _count(
    what: Sweep,
    tallies: _Tallies,
    workers: int,
    cluster: Cluster | None,
    watch: Callable[[int, int], None] | None,
) -> None:
    """Count the missing ``tallies``, one trace after the other."""
    left = tallies.values.shape[0] * tallies.values.shape[1] - tallies.done
    done = 0
    for place, (_, trace) in enumerate(what.traces):
        missing = tallies.missing(place)
        if not missing:
            continue
        hands = workers if cluster is None else cluster.threads()
        chunks = _chunks(what.grid, missing, hands)
        counting = _counted(what, trace, chunks, workers, cluster)
        with placed(trace), contextlib.closing(counting) as counted:
            for designs, found in counted:
                tallies.add(place, designs, found)
                done += len(designs)
                if watch is not None:
                    watch(done, left)


def _chunks(grid: Grid, missing: Sequence[int], hands: int) -> list[list[int]]:
    """Designs to be counted in one pass each, grouped by page size."""
    size = max(1, min(CHUNK, len(missing) // (CHUNKS_EACH * hands)))
    alike: dict[tuple[int | None, int | None], list[int]] = {}
    for number in missing:
        design = grid.design(number)
        alike.setdefault((design.page_size, design.line), []).append(number)
    return [
        numbers[begin : begin + size]
        for numbers in alike.values()
        for begin in range(0, len(numbers), size)
    ]


def _counted(
    what: Sweep,
    trace: Trace,
    chunks: Sequence[Sequence[int]],
    workers: int,
    cluster: Cluster | None,
) -> Tallies:
    """Each of ``chunks`` (numbers of designs) with its tallies, in the order of finishing.

    Errors: whatever a thread or worker met; ``StudyError`` if memory does not do, or if the
    scheduler or all workers are gone.
    """
    page_size = trace.metadata.page_size
    if cluster is not None:
        if not trace.is_named_file:
            raise TraceError(
                f"{trace.name}: is no file that the workers of a cluster find; name one"
            )
        assert trace.path is not None
        path = trace.path.resolve()
        order = Order(str(path), content_digest(path), page_size, what.kinds, package_stamp())
        yield from cluster.each(
            chunks, tally_on_worker, lambda chunk: (order, [*map(what.grid.design, chunk)])
        )
        return
    columns = load_rows(trace)

    def work(chunk: Sequence[int], stopped: Callable[[], bool]) -> list[Tally]:
        designs = [*map(what.grid.design, chunk)]
        return tally(columns, designs, page_size, what.kinds, stopped)

    try:
        yield from threaded(chunks, work, workers)
    except MemoryError as error:
        raise StudyError(
            f"designs do not fit in memory, {workers} times some at once; use fewer --workers, or "
            "smaller sizes"
        ) from error


def _identity(what: Sweep) -> Identity:
    traces: list[TraceIdentity] = []
    for name, trace in what.traces:
        if any(name == other.name for other in traces):
            raise TraceError(f"{trace.name}: two traces are called {name!r}; rename one")
        digest = _digest_of(trace)
        traces.append(TraceIdentity(name=name, requests=trace.rows, sha256=digest))
    return identity_of(what.grid, traces, what.grid.platforms(), what.kinds)


def _journal_for(output: TableOutput, identity: Identity) -> AbstractContextManager[Journal]:
    if output.is_stream:
        return contextlib.nullcontext(no_journal(output.path))
    return open_journal(journal_path(output.path), identity)


def _digest_of(trace: Trace) -> str:
    """The digest that identifies a trace: of the file, or of a table's columns.

    The size of the pages that it was recorded in counts too, which a file has in its bytes.
    """
    if trace.path is not None:
        return content_digest(trace.path)
    columns: list[Any] = []
    for batch in trace.batches():
        arrays: list[Any] = list(batch)
        columns = columns or [hashlib.sha256() for _ in arrays]
        for array, digest in zip(arrays, columns, strict=True):
            digest.update(array.tobytes())
    whole = hashlib.sha256(str(trace.metadata.page_size).encode())
    for each in columns:
        whole.update(each.digest())
    return whole.hexdigest()


def _remove_journal(out: Path, identity: Identity) -> None:
    """Remove the journal of a sweep that was killed when its table was just written."""
    path = journal_path(out)
    if path.exists():
        with open_journal(path, identity) as journal:
            journal.remove()
