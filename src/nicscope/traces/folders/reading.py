"""A folder of files read as one trace, and the file and row of an error."""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import MistakenRowError, TraceError, printable
from nicscope.traces.folders.members import (
    FileGroup,
    Order,
    agree,
    files_of,
    look_at,
    open_member,
    stretches,
)
from nicscope.traces.reader import BATCH_ROWS, Trace, check_requests

if TYPE_CHECKING:
    from collections.abc import Iterator


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nicscope.traces.folders.members import Member, Span
    from nicscope.traces.schema import Requests, TraceMetadata
    from nicscope.traces.schema import Rows as RowsAndRegistrations

    # Requests, or rows of every kind, with the Arrow batch that they came from, or None.
    Rows = tuple[Any, Any]
    Read = Callable[[Trace, int], Iterator[Rows]]

LEAST_ROWS = 1 << 12  # of a batch of a file that is read beside others


class Share(NamedTuple):
    """The nodes of a file group whose number modulo ``parts`` is ``part``."""

    stretch: FileGroup
    part: int = 0
    parts: int = 1

    @property
    def rows(self) -> int:
        """About how many rows belong to its nodes."""
        return self.stretch.rows // self.parts

    def batches(self, max_rows: int = BATCH_ROWS) -> Iterator[Requests]:
        """The requests of its nodes, in order for each node; errors: ``TraceError``."""
        for requests, _ in _rows_of(self, _requests, max_rows):
            yield requests

    def batches_of_rows(self, max_rows: int = BATCH_ROWS) -> Iterator[RowsAndRegistrations]:
        """The requests and registrations of its nodes, in order for each node."""
        for rows, _ in _rows_of(self, _all_rows, max_rows):
            yield rows


class FolderTrace(Trace):
    """A folder of trace files; the rows of each node are in the order of their times.

    Rows of one time come in the order of the files' names, and of one file in its order.
    """

    def __init__(
        self, folder: Path, members: Sequence[Member], metadata: TraceMetadata, schema: Any
    ) -> None:
        self.name = printable(str(folder))
        self.all_rows = sum(member.rows + member.registrations for member in members)
        self.metadata = metadata
        self.members = members
        self._folder = folder
        self._schema = schema

    @cached_property
    def registrations(self) -> int:
        """The number of registrations in all files."""
        return sum(member.registrations for member in self.members)

    @property
    def arrow_schema(self) -> Any:
        """The Arrow schema of the first file, which all others share."""
        return self._schema

    @property
    def path(self) -> Path | None:
        """The folder."""
        return self._folder

    @property
    def byte_count(self) -> int:
        """The size of all files."""
        return sum(member.byte_count for member in self.members)

    @cached_property
    def stretches(self) -> list[FileGroup]:
        """Groups of files that share nodes; rows are read only if footers do not suffice."""
        return stretches(self.members)

    def batches(self, max_rows: int = BATCH_ROWS) -> Iterator[Requests]:
        """All requests, in order for each node; errors: as of a file, which is named."""
        for stretch in self.stretches:
            yield from Share(stretch).batches(max_rows)

    def batches_of_rows(self, max_rows: int = BATCH_ROWS) -> Iterator[RowsAndRegistrations]:
        """All requests and registrations, in order for each node."""
        for stretch in self.stretches:
            yield from Share(stretch).batches_of_rows(max_rows)

    def record_batches(self, max_rows: int = BATCH_ROWS) -> Iterator[Rows]:
        """As ``batches``, each with the Arrow record batch of every column."""
        for stretch in self.stretches:
            yield from _rows_of(Share(stretch), _with_columns, max_rows)

    def shares(self, hands: int) -> list[Share]:
        """The nodes divided among ``hands`` workers, the largest share first.

        Files that are read by several are read that often, so only what is more than half of one
        hand's part is divided.
        """
        fair = max(self.rows // max(hands, 1), 1)
        found = []
        for stretch in self.stretches:
            most = max(stretch.nodes.high - stretch.nodes.low + 1, 1)
            parts = min(hands, most) if 2 * stretch.rows > fair else 1
            found += [Share(stretch, part, parts) for part in range(parts)]
        return sorted(found, key=lambda share: -share.rows)


def open_folder(folder: Path) -> FolderTrace:
    """The trace in the files of ``folder``.

    Errors: ``TraceError`` if it holds anything else than trace files, two of them differ in what
    holds for a whole trace, or one cannot be read, is damaged or empty, which is named.
    """
    looks = [look_at(path) for path in files_of(folder)]
    members = [look.member for look in looks]
    trace = FolderTrace(folder, members, agree(looks), looks[0].schema)
    check_requests(trace)
    return trace


def _requests(trace: Trace, max_rows: int) -> Iterator[Rows]:
    return ((requests, None) for requests in trace.batches(max_rows))


def _all_rows(trace: Trace, max_rows: int) -> Iterator[Rows]:
    return ((rows, None) for rows in trace.batches_of_rows(max_rows))


def _with_columns(trace: Trace, max_rows: int) -> Iterator[Rows]:
    return trace.record_batches(max_rows)


def _rows_of(share: Share, read: Read, max_rows: int) -> Iterator[Rows]:
    stretch, part, parts = share
    if stretch.order is Order.IN_TURN:
        for member in stretch.members:
            for rows in _within(member, read(open_member(member), max_rows)):
                yield from _select_rows(rows, rows[0].node % parts == part if parts > 1 else None)
    elif stretch.order is Order.SIDE_BY_SIDE:
        for rows in _merged(stretch.members, read, max_rows, None):
            yield from _select_rows(rows, rows[0].node % parts == part if parts > 1 else None)
    else:
        for node in stretch.listed:
            if node % parts == part:
                yield from _merged(stretch.members, read, max_rows, node)


def _select_rows(rows: Rows, wanted: Any) -> Iterator[Rows]:
    """The ``rows`` that are ``wanted``, None if there are none."""
    if wanted is None or wanted.all():
        yield rows
        return
    places = np.flatnonzero(wanted)
    if places.size:
        yield _take(rows, places)


def _take(rows: Rows, places: Any) -> Rows:
    requests, batch = rows
    taken = type(requests)._make(column[places] for column in requests)
    return taken, None if batch is None else batch.take(pa.array(places))


def _within(member: Member, batches: Iterator[Rows]) -> Iterator[Rows]:
    """Check that nodes and times of ``batches`` lie in the ranges that the file's footer states.

    Errors: ``TraceError`` if one has others.
    """
    for rows in batches:
        for what, column, span in (
            ("node", rows[0].node, member.nodes),
            ("time_ns", rows[0].time_ns, member.times),
        ):
            if span is not None and len(column) and not _is_within(column, span):
                raise TraceError(
                    f"{member.name}: damaged: its footer says that {what} is from {span.low} to "
                    f"{span.high}, and a row has another; record or copy it again"
                )
        yield rows


def _is_within(column: Any, span: Span) -> bool:
    return bool(int(column.min()) >= span.low and int(column.max()) <= span.high)


class _Reader:
    """A file that is merged with others, and its rows not yet passed on."""

    def __init__(self, batches: Iterator[Rows], node: int | None) -> None:
        self._batches = batches
        self._node = node
        self.rows: Rows | None = None
        self.is_over = False
        self.refill()

    def refill(self) -> None:
        """Read the next batch if all rows are used up."""
        while self.rows is None and not self.is_over:
            rows = next(self._batches, None)
            if rows is None:
                self.is_over = True
                return
            wanted = None if self._node is None else rows[0].node == self._node
            self.rows = next(_select_rows(rows, wanted), None)

    def last(self) -> int:
        """The time of the last row in memory."""
        assert self.rows is not None
        return int(self.rows[0].time_ns[-1])

    def cut(self, end: int) -> Rows | None:
        """Remove and return the rows before ``end``."""
        if self.rows is None or not end:
            return None
        count = len(self.rows[0].time_ns)
        rows = self.rows if end == count else _take(self.rows, np.arange(end))
        self.rows = None if end == count else _take(self.rows, np.arange(end, count))
        return rows


def _merged(
    members: Sequence[Member], read: Read, max_rows: int, node: int | None
) -> Iterator[Rows]:
    """The rows of files merged by time, of one ``node`` or of all."""
    each = max(max_rows // len(members), LEAST_ROWS)
    readers = [
        _Reader(_within(member, read(open_member(member), each)), node) for member in members
    ]
    while any(reader.rows is not None for reader in readers):
        # Whose rows end first: what comes after them in its file is not known yet.
        ending = [
            (reader.last(), place)
            for place, reader in enumerate(readers)
            if reader.rows is not None
        ]
        time, first = min(ending)
        pieces = []
        for place, reader in enumerate(readers):
            if reader.rows is not None:
                # The first row that comes after: rows of that time in a later file wait for more.
                bound = time + 1 if place <= first else time
                end = int((reader.rows[0].time_ns < bound).sum())
                pieces.append(reader.cut(end))
                reader.refill()
        yield _in_order([piece for piece in pieces if piece is not None])


def _in_order(pieces: list[Rows]) -> Rows:
    """Rows of several files, given in the order of their names, sorted by time."""
    if len(pieces) == 1:
        return pieces[0]
    columns = zip(*(requests for requests, _ in pieces), strict=True)
    joined = type(pieces[0][0])._make(np.concatenate(column) for column in columns)
    places = np.argsort(joined.time_ns, kind="stable")
    batch = None
    if pieces[0][1] is not None:
        schema = pieces[0][1].schema
        table = pa.Table.from_batches([batch.cast(schema) for _, batch in pieces])
        [batch] = table.unify_dictionaries().combine_chunks().to_batches()
    return _take((joined, batch), places)


@contextlib.contextmanager
def placed(trace: Trace) -> Iterator[None]:
    """Convert a ``MistakenRowError`` of the block into one that names file and row of ``trace``.

    Errors: ``TraceError`` instead of that.
    """
    try:
        yield
    except MistakenRowError as error:
        name, row = _place_of(trace, error.node, error.nth)
        raise TraceError(f"{name}: row {row} (the first is 0): {error}") from error


def _place_of(trace: Trace, node: int, nth: int) -> tuple[str, int]:
    """The file and row of row ``nth`` of node ``node``.

    Of a folder, rows that are alike in everything come by the order of the files' names, as those
    of one time do.
    """
    row, values = _row_of(trace, node, nth)
    if not isinstance(trace, FolderTrace):
        return trace.name, row
    before = sum(1 for place in _equal_rows(trace, values) if place < row)
    for member in trace.members:
        for place in _equal_rows(open_member(member), values):
            if not before:
                return member.name, place
            before -= 1
    raise AssertionError("a row that was read is in one of the files")


def _row_of(trace: Trace, node: int, nth: int) -> tuple[int, list[Any]]:
    """The position of that row in reading order, and its values."""
    first = 0
    for rows in trace.batches_of_rows():
        mine = np.flatnonzero(rows.node == node)
        if nth < len(mine):
            return first + int(mine[nth]), [column[mine[nth]] for column in rows]
        nth -= len(mine)
        first += len(rows.node)
    raise AssertionError("a row that was read is read again")


def _equal_rows(trace: Trace, values: list[Any]) -> Iterator[int]:
    """Rows of ``trace`` with those values, by their position in reading order."""
    first = 0
    for rows in trace.batches_of_rows():
        alike = np.ones(len(rows.node), np.bool_)
        for column, value in zip(rows, values, strict=True):
            alike &= column == value
        yield from (np.flatnonzero(alike) + first).tolist()
        first += len(rows.node)
