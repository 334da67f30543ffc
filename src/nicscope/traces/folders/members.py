"""The files of a folder that is a trace: their footers, splitting, and reading order."""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq

from nicscope.errors import OutputError, TraceError, did_you_mean, printable
from nicscope.inputs import STDIN
from nicscope.outputs import whole_folder
from nicscope.traces.columns import TYPES, Checker
from nicscope.traces.files import footer_digest, open_bytes
from nicscope.traces.reader import trace_of
from nicscope.traces.writer import TraceWriter, batch_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import TraceMetadata


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


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nicscope.outputs import OutputFolder
    from nicscope.traces.files import Watch
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

    Owners = Callable[[Requests, int], NDArray[np.int64]]

BY = ("node", "time")
MOST_FILES = 4096  # all are open at once
PENDING_ROWS = 1 << 21  # that wait in all files together to be written
BATCH_ROWS = 1 << 20


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
        for requests, batch in trace.record_batches(BATCH_ROWS):
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
