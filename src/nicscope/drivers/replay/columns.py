"""From a trace's columns to requests of one NIC after the other, partitioned by node or process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.hashing import place_of
from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.entry import Pace, bound
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray


class RequestColumns(Protocol):
    """What a batch of requests must offer: columns of equal length, already checked."""

    @property
    def node(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def pid(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def receive(self) -> NDArray[np.uint8]: ...  # noqa: D102
    @property
    def address(self) -> NDArray[np.uint64]: ...  # noqa: D102
    @property
    def length(self) -> NDArray[np.uint32]: ...  # noqa: D102


class RegionColumns(RequestColumns, Protocol):
    """A batch that says what is registered, too; the rows of ``kind`` 0 are requests."""

    @property
    def time_ns(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def kind(self) -> NDArray[np.uint8]: ...  # noqa: D102 - 1: registers, 2: gives back
    @property
    def region_bytes(self) -> NDArray[np.uint64]: ...  # noqa: D102 - of requests too
    @property
    def page_size(self) -> NDArray[np.int64]: ...  # noqa: D102 - of a region; 0: not said
    @property
    def rights(self) -> NDArray[np.uint8]: ...  # noqa: D102 - given, or needed by a request


class RegionRows(NamedTuple):
    """Such rows; all of shape (rows,)."""

    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    address: NDArray[np.uint64]
    region_bytes: NDArray[np.uint64]
    page_size: NDArray[np.int64]
    rights: NDArray[np.uint8]


class OnlyRequests(NamedTuple):
    """Requests and nothing beside, 21 bytes each."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    receive: NDArray[np.uint8]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]


def requests_among(rows: RegionColumns) -> OnlyRequests:
    """The requests among ``rows``, in their order."""
    chosen = rows.kind == 0
    return OnlyRequests._make(getattr(rows, name)[chosen] for name in OnlyRequests._fields)


class Stream(NamedTuple):
    """Requests of one NIC after the other as kernels want them; all of shape (requests,)."""

    process: NDArray[np.int32]  # ordinal on the node
    first: NDArray[np.int64]  # page number of the first page
    pages: NDArray[np.int32]
    receive: NDArray[np.uint8]
    length: NDArray[np.uint32]  # bytes; of no request where nobody asks


def new_stream(rows: int, *, lengths: bool = True) -> Stream:
    """Room for ``rows`` requests; without ``lengths`` nothing is kept of how long they are."""
    return Stream(
        np.empty(rows, np.int32),
        np.empty(rows, np.int64),
        np.empty(rows, np.int32),
        np.empty(rows, np.uint8),
        np.empty(rows if lengths else 0, np.uint32),
    )


PROCESS = np.dtype(
    [
        ("key", "i8"),  # node << 32 | pid
        ("node", "i4"),  # its place among the nodes
        ("ordinal", "i4"),  # among the processes of its node
    ],
    align=True,
)
FREE = 0


class Directory(NamedTuple):
    """Processes and nodes in their order of appearance."""

    # Shape (2**k,): an open-addressing table of places among the processes plus 1, or ``FREE``.
    slots: NDArray[np.int32]
    members: NDArray[Any]  # PROCESS, shape (processes + room,)
    counts: NDArray[np.int64]  # shape (2,): nodes, processes
    nodes: NDArray[np.int64]  # shape (nodes + room,): their numbers in order of appearance
    processes: NDArray[np.int64]  # shape (nodes + room,): processes of each node


def new_directory(room: int = 256) -> Directory:
    """Nobody yet, with room for ``room`` (a power of two) nodes and processes."""
    return Directory(
        np.zeros(4 * room, np.int32),
        records(room, PROCESS),
        np.zeros(2, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )


def grown_directory(old: Directory) -> Directory:
    """The same nodes and processes with four times the room."""
    bigger = new_directory(len(old.slots))
    for array, grown in zip(old[1:], bigger[1:], strict=True):
        grown[: len(array)] = array
    for place in range(int(old.counts[1])):
        bigger.slots[_slot_of(bigger, int(old.members["key"][place]))] = place + 1
    return bigger


@step
def _slot_of(directory, key):
    slots = directory.slots
    mask = slots.size - 1
    at = np.int64(place_of(key, 0, slots.size))
    while slots[at] != FREE and directory.members[slots[at] - 1].key != key:
        at = (at + 1) & mask
    return at


@step
def _place_of(directory, key):
    """The index of process ``key`` = node << 32 | pid, assigned now if it is new."""
    at = _slot_of(directory, key)
    if directory.slots[at] == FREE:
        where = 0
        while where < directory.counts[0] and directory.nodes[where] != key >> 32:
            where += 1
        if where == directory.counts[0]:
            directory.nodes[where] = key >> 32
            directory.counts[0] += 1
        member = directory.members[directory.counts[1]]
        member.key = key
        member.node = where
        member.ordinal = directory.processes[where]
        directory.processes[where] += 1
        directory.counts[1] += 1
        directory.slots[at] = directory.counts[1]
    return np.int64(directory.slots[at]) - 1


class Rows(NamedTuple):
    """A batch's columns, each of shape (rows,)."""

    node: NDArray[np.int32]
    pid: NDArray[np.int32]
    address: NDArray[np.uint64]
    length: NDArray[np.uint32]
    receive: NDArray[np.uint8]


class Intake(NamedTuple):
    """State of the kernels that partition a piece of a batch."""

    directory: Directory
    rows: Rows
    owner: NDArray[np.int32]  # shape (rows of a piece,): each row's place among the processes
    ends: NDArray[np.int64]  # shape (nodes + room,): where each share of the stream ends
    stream: Stream


@kernel
def enter_processes(intake, begin, done, count):
    """Records the processes of ``count`` rows from ``begin``, of which ``done`` are recorded.

    Returns how many are noted now: fewer where the directory ran out of room.
    """
    directory = intake.directory
    last = np.int64(-1)
    place = np.int64(0)
    for row in range(done, count):
        key = np.int64(intake.rows.node[begin + row]) << 32
        key |= np.int64(intake.rows.pid[begin + row])
        if key != last:
            if directory.counts[1] == directory.nodes.size:
                return np.int64(row)
            place = _place_of(directory, key)
            last = key
        intake.owner[row] = place
    return np.int64(count)


@kernel
def partition_rows(intake, begin, count, page_bits, by_process):
    """Fill the stream with the piece, node by node or, if ``by_process`` is 1, process by process.

    In order within each, of which ``ends`` gets the end.  Returns how many there are.
    """
    directory, ends = intake.directory, intake.ends
    shares = np.int64(directory.counts[by_process])
    for share in range(shares):
        ends[share] = 0
    if shares == 1:
        _settle_all(intake, begin, count, page_bits)
        ends[0] = count
        return shares
    for row in range(count):
        ends[_share_of(intake, row, by_process)] += 1
    end = np.int64(0)
    for share in range(shares):
        begun = end
        end += ends[share]
        ends[share] = begun
    for row in range(count):
        share = _share_of(intake, row, by_process)
        _settle(intake, begin, row, page_bits, ends[share])
        ends[share] += 1
    return shares


@step
def _share_of(intake, row, by_process):
    owner = intake.owner[row]
    return np.int64(owner if by_process else intake.directory.members[owner].node)


@step
def _settle_all(intake, begin, count, page_bits):
    """As ``_settle`` for all rows in their order, column by column.

    All are of the only node, or of the only process: ordinals are places among all processes.
    """
    columns, out = intake.rows, intake.stream
    for row in range(count):
        out.process[row] = intake.owner[row]
    for row in range(count):
        first, pages = _pages_of(columns, begin + row, page_bits)
        out.first[row] = first
        out.pages[row] = pages
    for row in range(count):
        out.receive[row] = columns.receive[begin + row]
    for row in range(out.length.size and count):
        out.length[row] = columns.length[begin + row]


@step
def _settle(intake, begin, row, page_bits, to):
    columns, out = intake.rows, intake.stream
    out.process[to] = intake.directory.members[intake.owner[row]].ordinal
    out.first[to], out.pages[to] = _pages_of(columns, begin + row, page_bits)
    out.receive[to] = columns.receive[begin + row]
    if out.length.size > 0:
        out.length[to] = columns.length[begin + row]


@step
def _pages_of(columns, row, page_bits):
    shift = np.uint64(page_bits)
    address = columns.address[row]
    first = address >> shift
    last = (address + (np.uint64(columns.length[row]) - np.uint64(1))) >> shift
    return np.int64(first), np.int32(last - first + np.uint64(1))


# How much a call of a kernel does at most, but for a single request that is longer: as many rows,
# and as many of their pages, as stay in the processor's cache between passes.
ROWS = 1 << 15
_INTERPRETED_ROWS = 1 << 12  # until kernels are compiled, which is heeded between two pieces
UNITS = 1 << 16

_pace = Pace()


def pieces(rows: int) -> Iterator[range]:
    """Splits ``rows`` rows into pieces, small ones while kernels are interpreted."""
    begin = 0
    while begin < rows:
        piece = range(begin, min(rows, begin + _pace.next(ROWS, _INTERPRETED_ROWS)))
        yield piece
        begin = piece.stop


class Share(NamedTuple):
    """Rows of the stream that belong to one node or, if parted so, to one process."""

    place: int  # among the nodes, or among the processes, in order of appearance
    begin: int
    end: int


class TracePartitioner:
    """Partitions a trace piece by piece into the rows of each node."""

    def __init__(self, by_process: bool = False) -> None:
        """Shares are those of the nodes, or of each process if ``by_process``."""
        self.directory: Directory = new_directory()
        self._by_process = int(by_process)
        self._owner = np.empty(ROWS, np.int32)
        self._batch: RequestColumns | None = None
        self._piece = range(0)
        self._entering: Callable[..., int] | None = None
        self._parting: dict[int, tuple[Callable[..., int], NDArray[np.int64], Stream]] = {}

    def owners(self, batch: RequestColumns, piece: range) -> NDArray[np.int32]:
        """Places among the processes of the rows ``piece`` of ``batch``, at most ``ROWS`` of them.

        Overwritten by the next call.
        """
        if piece.start == 0 or batch is not self._batch:
            self._batch = batch
            self._forget()
        self._piece, count, done = piece, len(piece), 0
        while (done := self._enter(piece.start, done, count)) < count:
            self.directory = grown_directory(self.directory)
            self._forget()
        return self._owner[:count]

    def shares(self, page_bits: int, stream: Stream) -> list[Share]:
        """Fill ``stream`` with the piece whose ``owners`` were found last; which rows are whose.

        Pages have 2**page_bits bytes.
        """
        assert self._batch is not None
        if id(stream) not in self._parting:
            ends = np.zeros(len(self.directory.nodes), np.int64)
            part = bound(partition_rows, self._intake(ends, stream))
            self._parting[id(stream)] = part, ends, stream
        part, ends, _ = self._parting[id(stream)]
        begin, count = self._piece.start, len(self._piece)
        found = ends[: part(begin, count, page_bits, self._by_process)].tolist()
        each = enumerate(zip([0, *found[:-1]], found, strict=True))
        return [Share(place, start, end) for place, (start, end) in each if end > start]

    def _enter(self, begin: int, done: int, count: int) -> int:
        if self._entering is None:
            intake = self._intake(np.zeros(0, np.int64), new_stream(0))
            self._entering = bound(enter_processes, intake)
        return self._entering(begin, done, count)

    def _intake(self, ends: NDArray[np.int64], stream: Stream) -> Intake:
        batch = self._batch
        assert batch is not None
        rows = Rows(batch.node, batch.pid, batch.address, batch.length, batch.receive)
        return Intake(self.directory, rows, self._owner, ends, stream)

    def _forget(self) -> None:
        """Drops bound kernels of another batch, or of a directory that has grown."""
        self._entering = None
        self._parting.clear()
