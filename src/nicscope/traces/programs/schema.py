"""Schema of a program trace: operations of processes and the dependencies between them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.errors import TraceError
from nicscope.kernel.decorators import kernel
from nicscope.traces.schema import DEFAULT_PAGE_SIZE, METADATA_KEY, MOST_METADATA, check_page_size

if TYPE_CHECKING:
    from numpy.typing import NDArray


FORMAT = "nicscope program trace"
PROGRAM_VERSION = 1
ENDING = ".program.parquet"
NOBODY = -1  # the peer of what has none, and of a RECEIVE that takes any process's message
MOST_NS = 1 << 53  # of a process's computing, 104 days: still exact as picoseconds in 64 bits


class Operation(enum.IntEnum):
    """What a process does; the code that stands for it in columns."""

    COMPUTE = 0
    FETCH = 1
    DEPOSIT = 2
    SEND = 3
    RECEIVE = 4
    LOCK = 5
    UNLOCK = 6
    BARRIER = 7


OPERATION_NAMES: tuple[str, ...] = tuple(operation.name.lower() for operation in Operation)
OPERATION_CODES: dict[str, int] = {name: code for code, name in enumerate(OPERATION_NAMES)}

# Arrow's names of the column types, in the order of the columns.
PROGRAM_COLUMNS: dict[str, str] = {
    "process": "uint32",
    "operation": "string",
    "peer": "int32",
    "address": "uint64",
    "length": "uint32",
    "name": "int64",
    "duration_ns": "uint64",
}
LIST_COLUMNS = ("after", "after_start")  # lists of uint32, or null
# Lists of structs of a process and the place of a row of it, or null.
OTHERS_COLUMNS = ("after_others", "after_start_others")
PLACE = ("process", "row")


class Waits(NamedTuple):
    """The rows that each row waits for: ``places[first[row] : first[row + 1]]``.

    Rows are counted through all processes, places within the row's process.
    """

    first: NDArray[np.int64]  # one more than there are rows
    places: NDArray[np.uint32]  # each less than its row's own


class Others(NamedTuple):
    """Which rows of other processes each row waits for: ``rows[first[row] : first[row + 1]]``.

    All are counted through all processes.
    """

    first: NDArray[np.int64]  # one more than there are rows
    rows: NDArray[np.int64]


class ProgramMetadata(msgspec.Struct, kw_only=True):
    """Where a program trace comes from; JSON under the key ``nicscope`` of a Parquet file."""

    format: str = FORMAT
    version: int = PROGRAM_VERSION
    nodes_of_processes: list[int]  # the node of each process, rising from 0 without a gap
    page_size: int = DEFAULT_PAGE_SIZE  # bytes
    base: int = 0  # address of the first byte of the memory that rows name
    memory_bytes: int = 0  # how much there is from there on
    program: str = ""
    size: str = ""
    seed: int = 0
    left_out: list[str] = msgspec.field(default_factory=list)  # what the record does not hold
    assumed: dict[str, Any] = msgspec.field(default_factory=dict)  # what nothing said
    origin: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def processes(self) -> int:
        """The number of processes."""
        return len(self.nodes_of_processes)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.nodes_of_processes[-1] + 1

    def to_json(self) -> bytes:
        """All of it as one JSON object."""
        return msgspec.json.encode(self)

    def check(self, source: str) -> None:
        """Return if it is valid; errors: ``TraceError`` naming ``source`` and what is not."""
        where = f"{source}: its metadata"
        if self.version > PROGRAM_VERSION:
            raise TraceError(
                f"{source}: version {self.version} of program traces, but this nicscope reads up "
                f"to {PROGRAM_VERSION}; use a newer nicscope"
            )
        check_page_size(self.page_size, f"{source}: page_size in its metadata")
        nodes = self.nodes_of_processes
        if not nodes:
            raise TraceError(f"{where}: nodes_of_processes names no process")
        steps = {after - before for before, after in zip([0, *nodes], nodes, strict=False)}
        if nodes[0] != 0 or not steps <= {0, 1}:
            raise TraceError(
                f"{where}: nodes_of_processes must rise from 0 without a gap, such as [0, 0, 1, 1]"
            )
        for name in ("base", "memory_bytes", "seed"):
            if not 0 <= getattr(self, name) < 1 << 64:
                raise TraceError(f"{where}: {name} must be from 0 to 2^64 - 1")
        if self.base + self.memory_bytes > 1 << 64:
            raise TraceError(f"{where}: memory_bytes from base on reach past 2^64")

    @classmethod
    def from_json(cls, text: bytes | None, source: str) -> ProgramMetadata:
        """The metadata that ``text`` spells.  Errors: ``TraceError`` naming ``source``."""
        if text is None or len(text) > MOST_METADATA:
            raise TraceError(
                f"{source}: its metadata {METADATA_KEY.decode()!r} is "
                f"{'missing' if text is None else 'too long'}; record or convert it again"
            )
        try:
            metadata = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(
                f"{source}: its metadata {METADATA_KEY.decode()!r} is damaged: {error}"
            ) from error
        if metadata.format != FORMAT:
            raise TraceError(f"{source}: its metadata says format {metadata.format!r}")
        metadata.check(source)
        return metadata


class ProgramTrace(NamedTuple):
    """Columns through all processes; those of process p are rows ``first[p]`` to ``first[p + 1]``.

    Within a process rows are in the order in which it asked.
    """

    metadata: ProgramMetadata
    first: NDArray[np.int64]  # one more than there are processes
    operation: NDArray[np.uint8]  # codes of Operation
    peer: NDArray[np.int32]  # a node (FETCH, DEPOSIT), a process (SEND, RECEIVE), or NOBODY
    address: NDArray[np.uint64]  # of the local buffer
    length: NDArray[np.uint32]  # bytes
    name: NDArray[np.int64]  # of a lock or barrier; the tag of a message
    duration_ns: NDArray[np.uint64]  # of the CPU
    after: Waits | None  # that have to have ended; None: each row waits for the one before it
    after_start: Waits | None  # that have to have begun; None: there are none
    after_others: Others | None = None  # other processes' that have to have ended
    after_start_others: Others | None = None  # and begun

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.operation)

    def process_of_rows(self) -> NDArray[np.uint32]:
        """The process of each row."""
        return np.repeat(np.arange(len(self.first) - 1, dtype=np.uint32), np.diff(self.first))

    def rows_of(self, process: int) -> slice:
        """The range of a process's rows."""
        return slice(int(self.first[process]), int(self.first[process + 1]))


def is_program(schema: Any) -> bool:
    """Whether an Arrow ``schema`` is that of a program trace and not of a request trace."""
    return "operation" in schema.names and "op" not in schema.names


class Lists(NamedTuple):
    """Dependency lists of some rows as written, null where they are the default."""

    is_null: NDArray[np.bool_]
    counts: NDArray[np.int64]  # 0 where null
    places: NDArray[np.uint32]


class WaitsOfRows:
    """Collects dependency lists of rows in order; stores nothing while all are the default."""

    def __init__(self, name: str) -> None:
        """``name`` of the column: null in ``after`` is the row before, in ``after_start`` none."""
        self._name = name
        self._usual = 0  # rows that are as usual, before the first that are not
        self._counts: list[NDArray[np.uint32]] = []
        self._values: list[NDArray[np.uint32]] = []

    def add(self, places: NDArray[np.int64], lists: Lists | None) -> None:
        """Add the lists of rows at ``places`` of their processes; None: all null."""
        counts, values = usual_counts, usual_values = self._as_usual(places)
        if lists is not None:
            counts = np.where(lists.is_null, usual_counts, lists.counts)
            values = (np.repeat(places, counts) - 1).astype(np.uint32)
            values[~np.repeat(lists.is_null, counts)] = lists.places
        is_usual = np.array_equal(counts, usual_counts) and np.array_equal(values, usual_values)
        if is_usual and not self._counts:
            self._usual += len(places)
        else:
            self._counts.append(counts.astype(np.uint32))
            self._values.append(values)

    def _as_usual(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        if self._name == "after_start":
            return np.zeros(len(places), np.int64), np.empty(0, np.uint32)
        return (places > 0).astype(np.int64), (places[places > 0] - 1).astype(np.uint32)

    def waits(self, first: NDArray[np.int64]) -> Waits | None:
        """Of all rows, of processes that begin at ``first``; None if every one is as usual."""
        if not self._counts:
            return None
        counts, values = self._as_usual(places_of_rows(first, 0, self._usual))
        sums = np.zeros(self._usual + sum(map(len, self._counts)) + 1, np.int64)
        np.cumsum(np.concatenate([counts, *self._counts]), out=sums[1:])
        return Waits(sums, np.concatenate([values, *self._values]))


class OtherLists(NamedTuple):
    """Lists of other processes' rows, of some rows."""

    counts: NDArray[np.int64]
    processes: NDArray[np.uint32]
    places: NDArray[np.uint32]


class OthersOfRows:
    """Collects lists of other processes' rows in order; stores nothing while there are none."""

    def __init__(self) -> None:
        self._rows = 0
        self._held: list[tuple[int, OtherLists]] = []  # with the number of their first row

    def add(self, rows: int, lists: OtherLists | None) -> None:
        """Take in those of so many rows; None: they have none."""
        if lists is not None:
            self._held.append((self._rows, lists))
        self._rows += rows

    def outside(self, first: NDArray[np.int64]) -> int | None:
        """The first row that refers to a row that does not exist."""
        sizes = np.append(np.diff(first), 0)  # none of a process that there is not
        for begin, (counts, processes, places) in self._held:
            known = np.minimum(processes, len(first) - 1)
            wrong = np.flatnonzero(places >= sizes[known])
            if len(wrong):
                return begin + int(np.searchsorted(np.cumsum(counts), int(wrong[0]), "right"))
        return None

    def others(self, first: NDArray[np.int64]) -> Others | None:
        """Of all rows, of processes that begin at ``first``; None if there are none."""
        if not any(len(lists.places) for _, lists in self._held):
            return None
        sums = np.zeros(self._rows + 1, np.int64)
        for begin, lists in self._held:
            sums[begin + 1 : begin + 1 + len(lists.counts)] = lists.counts
        np.cumsum(sums, out=sums)
        named = [first[lists.processes] + lists.places for _, lists in self._held]
        return Others(sums, np.concatenate(named))


def places_of_rows(first: NDArray[np.int64], begin: int, end: int) -> NDArray[np.int64]:
    """Where rows ``begin`` to ``end`` are in their processes, which begin at ``first``."""
    rows = np.arange(begin, end)
    places: NDArray[np.int64] = rows - first[np.searchsorted(first, rows, "right") - 1]
    return places


class Times(NamedTuple):
    """Nanoseconds from the beginning, of each row."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    is_reached: NDArray[np.bool_]  # not where rows wait for each other, or for what nobody sends

    @property
    def longest_ns(self) -> int:
        """The length of the critical path, a lower bound for any network."""
        return int(self.end[self.is_reached].max(initial=0))


def times_without_network(trace: ProgramTrace) -> Times:
    """Times in which only computing takes time; messages and locks are instantaneous."""
    begins, ends = _events(trace)
    edges = [
        np.stack([begins, ends]),
        _of_waits(trace, begins, ends),
        *_of_others(trace.after_others, ends, begins),
        *_of_others(trace.after_start_others, begins, begins),
    ]
    messages, missing = _of_messages(trace, ends)
    edges.append(messages)
    if trace.after_start is not None:
        edges.append(_within(trace, trace.after_start, begins, begins))
    meetings, met = _of_barriers(trace, begins, ends)
    edges.append(meetings)
    source, target = np.concatenate(edges, axis=1)
    order = np.argsort(source, kind="stable")
    many = 2 * trace.rows + met
    first = np.zeros(many + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=many), out=first[1:])
    takes = np.zeros(many, np.int64)
    takes[ends] = trace.duration_ns.astype(np.int64)
    waiting = np.bincount(target, minlength=many)
    waiting[ends[missing]] += 1  # for what nobody sends
    time = np.zeros(many, np.int64)
    _longest(first, target[order], waiting, takes, time, np.empty(many, np.int64))
    reached = waiting[ends] == 0
    return Times(time[begins], time[ends], reached)


def _events(trace: ProgramTrace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows = np.arange(trace.rows)
    return 2 * rows, 2 * rows + 1


def _of_waits(
    trace: ProgramTrace, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    if trace.after is not None:
        return _within(trace, trace.after, ends, begins)
    is_first = np.zeros(trace.rows, np.bool_)
    is_first[trace.first[:-1][np.diff(trace.first) > 0]] = True
    later = np.flatnonzero(~is_first)
    return np.stack([ends[later - 1], begins[later]])


def _within(
    trace: ProgramTrace,
    waits: Waits,
    of: NDArray[np.int64],
    to: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Edges between events ``of`` the rows waited for and events ``to`` of the rows that wait."""
    rows = np.repeat(np.arange(trace.rows), np.diff(waits.first))
    begins = trace.first[np.searchsorted(trace.first, rows, "right") - 1]
    return np.stack([of[begins + waits.places], to[rows]])


def _of_others(
    others: Others | None, of: NDArray[np.int64], to: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    if others is None:
        return []
    rows = np.repeat(np.arange(len(others.first) - 1), np.diff(others.first))
    return [np.stack([of[others.rows], to[rows]])]


def _of_messages(
    trace: ProgramTrace, ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges from each SEND to the RECEIVE that matches it, in order, and unmatched RECEIVEs.

    Those of any source or tag are left alone.
    """
    process = trace.process_of_rows().astype(np.int64)
    sends = np.flatnonzero(trace.operation == Operation.SEND)
    takes = np.flatnonzero(
        (trace.operation == Operation.RECEIVE) & (trace.peer >= 0) & (trace.name >= 0)
    )
    sent = np.stack([process[sends], trace.peer[sends].astype(np.int64), trace.name[sends]])
    taken = np.stack([trace.peer[takes].astype(np.int64), process[takes], trace.name[takes]])
    keys = np.concatenate([sent, taken], axis=1)
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.reshape(-1)
    one = _numbered(group[: len(sends)])
    other = _numbered(group[len(sends) :])
    _, mine, theirs = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    edges = np.stack([ends[sends[mine]], ends[takes[theirs]]])
    return edges, takes[~np.isin(other, one)]


def _numbered(group: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each that has its group and its place in it."""
    order = np.argsort(group, kind="stable")
    begins = np.searchsorted(group[order], group[order])
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - begins
    return np.asarray(group * (1 << 32) + place)


def _of_barriers(
    trace: ProgramTrace, begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Edges from arrivals at a barrier to its release and on; the number of releases."""
    rows = np.flatnonzero(trace.operation == Operation.BARRIER)
    process = trace.process_of_rows()[rows].astype(np.int64)
    _, group = np.unique(np.stack([trace.name[rows], process]), axis=1, return_inverse=True)
    often = _numbered(group.reshape(-1)) & ((1 << 32) - 1)
    kinds, meeting = np.unique(np.stack([trace.name[rows], often]), axis=1, return_inverse=True)
    at = 2 * trace.rows + meeting.reshape(-1)
    return np.stack(
        [np.concatenate([begins[rows], at]), np.concatenate([at, ends[rows]])]
    ), kinds.shape[1]


@kernel
def _longest(first, targets, waiting, takes, time, ready):
    """Add to ``time`` the latest of each event; each takes its time at its end.

    ``waiting`` says how many each waits for, and is left with those that never come; ``ready`` is
    room for as many events.
    """
    count = 0
    for event in range(waiting.size):
        if waiting[event] == 0:
            ready[count] = event
            count += 1
    done = 0
    while done < count:
        event = ready[done]
        done += 1
        time[event] += takes[event]
        for edge in range(first[event], first[event + 1]):
            target = targets[edge]
            time[target] = max(time[target], time[event])
            waiting[target] -= 1
            if waiting[target] == 0:
                ready[count] = target
                count += 1
