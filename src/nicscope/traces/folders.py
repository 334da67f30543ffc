"""A folder of trace files that is one trace: their footers, how a trace is split, and reading.

The rows of a node come in the order of their times, then of the files' names, then of rows.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import MistakenRowError, OutputError, TraceError, did_you_mean, printable
from nicscope.inputs import STDIN
from nicscope.outputs import OutputFolder, whole_folder
from nicscope.traces.columns import TYPES, Checker
from nicscope.traces.files import Watch, footer_digest, open_bytes
from nicscope.traces.reader import BATCH_ROWS, Trace, check_requests, trace_of
from nicscope.traces.writer import TraceWriter, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.traces.schema import Requests, TraceMetadata
    from nicscope.traces.schema import Rows as RowsAndRegistrations

    Owners = Callable[[Requests, int], NDArray[np.int64]]
    Rows = tuple[Any, Any]
    Read = Callable[[Trace, int], Iterator[Rows]]

ENDING = ".parquet"
HIDDEN = (".", "_")  # how names begin that other tools leave out as well
# What all files must agree in; the rest of the first file's metadata holds if all have the same.
AGREED = ("schema_version", "page_size", "regions", "connections")
FREE = ("origin", "observed", "unknown")


class Span(NamedTuple):
    """The lowest and the highest of a column's values in a file."""

    low: int
    high: int


class Member(NamedTuple):
    """A file of the folder, with its size and time when it was examined."""

    name: str  # fit to be printed
    path: str  # absolute
    rows: int  # requests
    registrations: int
    byte_count: int
    digest: int  # of its footer, by which the file is known again
    nodes: Span | None  # None: only its rows say
    times: Span | None


class Look(NamedTuple):
    """Footer data of a file; the file is closed again, as there may be thousands."""

    member: Member
    metadata: TraceMetadata
    schema: Any  # Arrow's


def is_folder(path: Path | str) -> bool:
    """Whether there is a folder of that name; ``-`` is standard input."""
    try:
        return os.fspath(path) != STDIN and Path(path).is_dir()
    except (OSError, ValueError):
        return False


def files_of(folder: Path) -> list[Path]:
    """The trace files in ``folder``, in the order of their names' bytes.

    Names that begin with a dot or an underscore are left out.  Errors: ``TraceError`` if the
    folder cannot be read, holds none, or holds anything else, a folder for instance.
    """
    shown = printable(str(folder))
    try:
        names = sorted((path.name for path in folder.iterdir()), key=os.fsencode)
    except OSError as error:
        raise TraceError(f"{shown}: cannot be read: {error.strerror}") from error
    found = []
    for name in names:
        if name.startswith(HIDDEN):
            continue
        path = folder / name
        if path.is_dir():
            raise TraceError(
                f"{shown}: is a folder that holds another, {printable(name)!r}; a trace's files "
                "lie side by side"
            )
        if path.suffix != ENDING:
            raise TraceError(
                f"{shown}: is a folder that holds {printable(name)!r}; one that is a trace holds "
                f"{ENDING} files and nothing else, so move it away"
            )
        if not path.is_file():
            raise TraceError(f"{printable(str(path))}: is no plain file; move it away")
        found.append(path)
    if not found:
        raise TraceError(
            f"{shown}: is a folder without a trace: no {ENDING} file is in it; 'nicscope trace "
            "split' makes one of a trace"
        )
    return found


def look_at(path: Path) -> Look:
    """Read the footer of the file ``path``.

    Errors: as ``nicscope.traces.reader.open_trace``, naming the file.
    """
    source = open_bytes(path)
    trace = trace_of(source)
    digest, is_signed = footer_digest(path)
    nodes, times = _footer_spans(path) if is_signed else (None, None)
    member = Member(
        trace.name,
        str(path.resolve()),
        trace.rows,
        trace.registrations,
        trace.byte_count,
        digest,
        nodes,
        times,
    )
    return Look(member, trace.metadata, trace.arrow_schema)


def open_member(member: Member) -> Trace:
    """The file ``member`` as a trace by itself.

    Errors: ``TraceError`` if it is not the file that was looked at.
    """
    source = open_bytes(member.path)
    source.name = member.name
    trace = trace_of(source)
    if (trace.rows, trace.byte_count) != (member.rows, member.byte_count) or (
        footer_digest(Path(member.path))[0] != member.digest
    ):
        raise TraceError(f"{member.name}: has changed since it was looked at; begin again")
    return trace


def _footer_spans(path: Path) -> tuple[Span | None, Span | None]:
    """Ranges of nodes and of times, from the statistics of the row groups.

    For a footer whose checksum is right: asked of a damaged one, the library ends the process.
    """
    footer = pq.read_metadata(path)
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    found: list[Span | None] = []
    for name in ("node", "time_ns"):
        place = names.index(name)
        known = [
            footer.row_group(group).column(place).statistics
            for group in range(footer.num_row_groups)
            if footer.row_group(group).num_rows
        ]
        if not known or any(one is None or not one.has_min_max for one in known):
            found.append(None)
        else:
            found.append(Span(min(one.min for one in known), max(one.max for one in known)))
    return found[0], found[1]


def agree(looks: Sequence[Look]) -> TraceMetadata:
    """The metadata that all files share, taken from the first one.

    Errors: ``TraceError`` that names two files which differ in their columns or in ``AGREED``.
    """
    first = looks[0]
    columns = _columns(first.schema)
    for look in looks:
        two = f"{look.member.name}: differs from {first.member.name} in"
        for field in AGREED:
            mine, its = getattr(first.metadata, field), getattr(look.metadata, field)
            if mine != its:
                said = f" ({mine} and {its})" if isinstance(mine, int) else ""
                raise TraceError(
                    f"{two} {field}{said}; the files of a folder that is one trace say the same"
                )
        if _columns(look.schema) != columns:
            raise TraceError(
                f"{two} its columns; the files of a folder that is one trace have the same"
            )
    kept = msgspec.structs.asdict(first.metadata)
    for field in FREE:
        if any(getattr(look.metadata, field) != kept[field] for look in looks):
            kept[field] = {}
    return type(first.metadata)(**kept)


def _columns(schema: Any) -> dict[str, Any]:
    """Columns by name; of those that the schema does not know, their types."""
    return {name: None if name in TYPES else schema.field(name).type for name in schema.names}


BY = ("node", "time")
MOST_FILES = 4096  # all are open at once
PENDING_ROWS = 1 << 21  # that wait in all files together to be written
SPLIT_ROWS = 1 << 20


class Split(NamedTuple):
    """The result of a split."""

    files: list[tuple[str, int]]  # their names, and how many rows each has
    rows: int


def split(trace: Trace, folder: Path, by: str, files: int, watch: Watch | None = None) -> Split:
    """Write the rows of ``trace`` to at most ``files`` files in the new or empty ``folder``.

    ``by`` node each file has some nodes, all of their rows; by time each has the rows of a time.
    Errors: ``TraceError`` at the first row that the schema does not allow, or, by time, that goes
    back in it; ``OutputError`` if the folder is not empty or cannot be written.
    """
    if by not in BY:
        raise TraceError(f"--by: no {by!r}{did_you_mean(by, BY)}")
    if not 1 <= files <= MOST_FILES:
        raise TraceError(f"--files must be from 1 to {MOST_FILES}, got {files}")
    if str(folder) == "-":
        raise OutputError("-: standard output takes no folder of files; name a new folder")
    with whole_folder(folder) as out:
        if os.path.lexists(folder) and list(folder.iterdir()):
            raise OutputError(
                f"{printable(str(folder))}: is not empty; name a new folder for the files"
            )
        passes = 2 if by == "node" else 1
        count = _Count(watch, passes * trace.all_rows)
        if by == "node":
            owners, files = _owners_by_node(trace, files, count)
        else:
            files = min(files, trace.all_rows)
            owners = _OwnersByTime(trace.name, trace.all_rows, files)
        return _write(trace, out, owners, files, count)


class _Count:
    """Rows done over all passes."""

    def __init__(self, watch: Watch | None, total: int) -> None:
        self._watch, self._total, self._done = watch, total, 0

    def add(self, rows: int) -> None:
        self._done += rows
        if self._watch is not None:
            self._watch(self._done, self._total)


def _owners_by_node(trace: Trace, files: int, count: _Count) -> tuple[Owners, int]:
    """The file of each row: nodes in ascending order, files of about as many rows."""
    rows_of: dict[int, int] = {}
    for batch in trace.batches_of_rows():
        nodes, counts = np.unique(batch.node, return_counts=True)
        for node, rows in zip(nodes.tolist(), counts.tolist(), strict=True):
            rows_of[node] = rows_of.get(node, 0) + rows
        count.add(len(batch.node))
    nodes = np.array(sorted(rows_of), np.int64)
    rows = np.array([rows_of[node] for node in nodes.tolist()], np.int64)
    middles = np.cumsum(rows) - (rows + 1) // 2
    _, owners = np.unique(middles * files // trace.all_rows, return_inverse=True)

    def owner(requests: Requests, _: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = owners[np.searchsorted(nodes, requests.node)]
        return found

    return owner, int(owners.max()) + 1


class _OwnersByTime:
    """The file of each row: rows in order of time, as many in each file."""

    def __init__(self, name: str, rows: int, files: int) -> None:
        self._name, self._rows, self._files = name, rows, files
        self._last: int | None = None

    def __call__(self, requests: Requests, begin: int) -> NDArray[np.int64]:
        times = requests.time_ns
        before = times[0] if self._last is None else self._last
        back = np.flatnonzero(times < np.concatenate([[before], times[:-1]]))
        if back.size:
            raise TraceError(
                f"{self._name}: its rows are not in the order of time over all nodes (at "
                f"{int(times[back[0]])} ns); split it by node"
            )
        self._last = int(times[-1])
        return np.arange(begin, begin + len(times)) * self._files // self._rows


def _write(trace: Trace, out: OutputFolder, owners: Owners, files: int, count: _Count) -> Split:
    """Write each row of ``trace`` to the file that ``owners`` says."""
    width = len(str(files - 1))
    group = max(PENDING_ROWS // files, 1)
    checker, schema, begin = Checker(trace.name), None, 0
    writers: dict[int, TraceWriter] = {}
    with contextlib.ExitStack() as stack:
        for requests, batch in trace.record_batches(SPLIT_ROWS):
            columns = {name: batch.column(name) for name in batch.schema.names}
            whole = batch_of(columns, checker, schema)
            schema = schema or whole.schema
            for owner, places in _places(owners(requests, begin)):
                if owner not in writers:
                    name = f"part-{owner:0{width}}{ENDING}"
                    made = TraceWriter(name, trace.metadata, folder=out, group_rows=group)
                    writers[owner] = stack.enter_context(made)
                rows = type(requests)._make(column[places] for column in requests)
                writers[owner].append(rows, whole.take(places))
            begin += len(requests.node)
            count.add(len(requests.node))
    made_files = [(str(writers[owner].path), writers[owner].rows) for owner in sorted(writers)]
    return Split(made_files, begin)


def _places(owners: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
    """Each owner with the indices of its rows, ascending."""
    order = np.argsort(owners, kind="stable")
    found, begins = np.unique(owners[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, begins[1:]), strict=True)


EVERYTHING = Span(-(2**63), 2**63 - 1)


class Order(enum.Enum):
    """How the rows of several files are merged."""

    IN_TURN = "in turn"
    SIDE_BY_SIDE = "side by side"
    NODE_BY_NODE = "node by node"


class FileGroup(NamedTuple):
    """A group of files whose nodes are in no other file."""

    members: tuple[Member, ...]  # in the order in which they are read, or come in a tie
    order: Order
    nodes: Span
    listed: tuple[int, ...] = ()  # every node, if rows come node by node

    @property
    def rows(self) -> int:
        """The rows of all its files."""
        return sum(member.rows for member in self.members)


class Scan(NamedTuple):
    """Nodes and times in the rows of a file."""

    nodes: frozenset[int]
    times: Span
    is_in_time: bool  # over all its nodes


def stretches(members: Sequence[Member]) -> list[FileGroup]:
    """Group the ``members``, given by name; rows are read only if footers do not suffice.

    Errors: ``TraceError`` at the first row of those that the schema does not allow.
    """
    found = []
    for together in _overlapping(members):
        if len(together) == 1 or _follow_in_time(together):
            found.append(_sequential_group(together))
        else:
            found += _groups_by_rows(together)
    place = {member.path: number for number, member in enumerate(members)}
    return sorted(found, key=lambda each: min(place[member.path] for member in each.members))


def _sequential_group(members: Sequence[Member]) -> FileGroup:
    ordered = tuple(sorted(members, key=_by_time))
    return FileGroup(ordered, Order.IN_TURN, _over(members))


def _by_time(member: Member) -> Span:
    return member.times or EVERYTHING  # sorting is stable: then by name


def _over(members: Iterable[Member]) -> Span:
    spans = [member.nodes or EVERYTHING for member in members]
    return Span(min(span.low for span in spans), max(span.high for span in spans))


def _overlapping(members: Sequence[Member]) -> list[list[Member]]:
    """Files grouped so that the node ranges of different groups do not overlap."""
    groups: list[tuple[int, list[Member]]] = []
    for member in sorted(members, key=lambda each: (each.nodes or EVERYTHING).low):
        span = member.nodes or EVERYTHING
        if groups and span.low <= groups[-1][0]:
            high, group = groups.pop()
            groups.append((max(high, span.high), [*group, member]))
        else:
            groups.append((span.high, [member]))
    place = {member.path: number for number, member in enumerate(members)}
    return [sorted(group, key=lambda each: place[each.path]) for _, group in groups]


def _follow_in_time(members: Sequence[Member]) -> bool:
    """Whether each file ends before the next begins, or at the same time with names in order."""
    if any(member.times is None for member in members):
        return False
    place = {member.path: number for number, member in enumerate(members)}
    ordered = sorted(members, key=_by_time)
    for before, after in itertools.pairwise(ordered):
        end, begin = (before.times or EVERYTHING).high, (after.times or EVERYTHING).low
        if end > begin or (end == begin and place[before.path] > place[after.path]):
            return False
    return True


def _groups_by_rows(members: Sequence[Member]) -> list[FileGroup]:
    """Groups of files with overlapping node ranges, by reading their rows."""
    scans = {member.path: scan(member) for member in members}
    exact = [
        member._replace(nodes=_span(scans[member.path].nodes), times=scans[member.path].times)
        for member in members
    ]
    found = []
    for together in _sharing_nodes(exact, scans):
        if len(together) == 1 or _follow_in_time(together):
            found.append(_sequential_group(together))
            continue
        nodes = sorted(set().union(*(scans[member.path].nodes for member in together)))
        in_time = all(scans[member.path].is_in_time for member in together)
        order = Order.SIDE_BY_SIDE if in_time else Order.NODE_BY_NODE
        listed = () if in_time else tuple(nodes)
        found.append(FileGroup(tuple(together), order, _span(nodes), listed))
    return found


def _span(values: Iterable[int]) -> Span:
    listed = list(values)
    return Span(min(listed), max(listed))


def _sharing_nodes(members: Sequence[Member], scans: dict[str, Scan]) -> list[list[Member]]:
    """Files grouped so that different groups have no node in common."""
    groups: list[tuple[set[int], list[int]]] = []
    for place, member in enumerate(members):
        nodes, places = set(scans[member.path].nodes), [place]
        apart = []
        for others, theirs in groups:
            if nodes & others:
                nodes, places = nodes | others, places + theirs
            else:
                apart.append((others, theirs))
        groups = [*apart, (nodes, places)]
    return [[members[place] for place in sorted(places)] for _, places in groups]


def scan(member: Member) -> Scan:
    """Read node and time of every row; errors: ``TraceError``."""
    nodes: set[int] = set()
    low, high, last, in_time = 2**63 - 1, -(2**63), -(2**63), True
    for batch in open_member(member).batches_of_rows():
        nodes.update(np.unique(batch.node).tolist())
        times = batch.time_ns
        low, high = min(low, int(times.min())), max(high, int(times.max()))
        in_time = in_time and int(times[0]) >= last and bool(np.all(times[1:] >= times[:-1]))
        last = int(times[-1])
    return Scan(frozenset(nodes), Span(low, high), in_time)


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
        read: Read = lambda *of: ((rows, None) for rows in Trace.batches(*of))  # noqa: E731
        return (rows for rows, _ in _rows_of(self, read, max_rows))

    def batches_of_rows(self, max_rows: int = BATCH_ROWS) -> Iterator[RowsAndRegistrations]:
        """The requests and registrations of its nodes, in order for each node."""
        read: Read = lambda *of: ((rows, None) for rows in Trace.batches_of_rows(*of))  # noqa: E731
        return (rows for rows, _ in _rows_of(self, read, max_rows))


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
            yield from _rows_of(Share(stretch), Trace.record_batches, max_rows)

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
            if span is None or not len(column):
                continue
            if int(column.min()) < span.low or int(column.max()) > span.high:
                raise TraceError(
                    f"{member.name}: damaged: its footer says that {what} is from {span.low} to "
                    f"{span.high}, and a row has another; record or copy it again"
                )
        yield rows


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
