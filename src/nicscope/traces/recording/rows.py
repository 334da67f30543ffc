"""Rows are added as calls end and written in the order in which calls were issued.

A receive may block for hours while a million sends come and go, so rows are kept in a nameless
file beside the result, as runs sorted by issue, and are merged at the end: memory stays bounded
and nothing is left behind, however this process ends.

Segments are the pieces of user buffers through which a call moves bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from nicscope.outputs import scratch_file
from nicscope.traces.recording.calls import Shape
from nicscope.traces.recording.ptrace import MOST_PIECES, PIECE, remote_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Any

    from numpy.typing import NDArray

    from nicscope.traces.recording.calls import Call

# struct msghdr and struct mmsghdr of 64-bit Linux: (iovec *, count), and the bytes moved.
_HEADER_SIZE = 56
_VECTOR_AT = 16
_MESSAGE_SIZE = 64
_MOVED = struct.Struct("=56xI4x")
LONGEST = 0xFFFF_FFFF  # of a trace's columns


class Segment(NamedTuple):
    """A buffer that a call offers to the kernel."""

    address: int
    posted: int  # bytes


class Moved(NamedTuple):
    """A buffer through which bytes were moved."""

    address: int
    posted: int  # bytes
    length: int  # bytes, at least 1


def offered(tid: int, call: Call, arguments: Sequence[int]) -> list[list[Segment]] | None:
    """The buffers of each message of a call (one, save for ``sendmmsg`` and ``recvmmsg``).

    None if the memory that lists them cannot be read.
    """
    _, address, count, *_ = arguments
    if call.shape is Shape.BUFFER:
        return [[Segment(address, count)]]
    if call.shape is Shape.VECTOR:
        return _vectors(tid, [(address, count)])
    if call.shape is Shape.MESSAGE:
        return _vectors_of_headers(tid, address, 1, _HEADER_SIZE)
    count = min(count & 0xFFFF_FFFF, MOST_PIECES)
    return _vectors_of_headers(tid, address, count, _MESSAGE_SIZE)


def moved(
    tid: int, call: Call, arguments: Sequence[int], messages: list[list[Segment]], result: int
) -> list[Moved] | None:
    """What moved through the buffers of a call that returned ``result``, at least 1.

    None if the memory that says so cannot be read.
    """
    if call.shape is not Shape.MESSAGES:
        return spread(messages[0], result)
    raw = remote_bytes(tid, [(arguments[1], result * _MESSAGE_SIZE)])
    if raw is None:
        return None
    lengths = [length for (length,) in _MOVED.iter_unpack(raw)]
    pairs = zip(messages, lengths, strict=False)  # not all messages were sent or have come
    return list(itertools.chain.from_iterable(spread(*pair) for pair in pairs))


def spread(segments: Iterable[Segment], byte_count: int) -> list[Moved]:
    """``byte_count`` bytes filled into ``segments`` in order; what does not fit is left out.

    A datagram longer than its buffers may report its full length (``MSG_TRUNC``).
    """
    through = []
    for address, posted in segments:
        if byte_count <= 0:
            break
        length = min(posted, byte_count)
        if length:
            through.append(Moved(address, min(posted, LONGEST), length))
        byte_count -= length
    return through


def _vectors_of_headers(
    tid: int, address: int, count: int, stride: int
) -> list[list[Segment]] | None:
    raw = remote_bytes(tid, [(address, count * stride)]) if count else b""
    if raw is None:
        return None
    starts = range(_VECTOR_AT, count * stride, stride)
    return _vectors(tid, [PIECE.unpack_from(raw, start) for start in starts])


def _vectors(tid: int, vectors: Sequence[tuple[int, int]]) -> list[list[Segment]] | None:
    """The segments of each (iovec *, count)."""
    if any(count > MOST_PIECES for _, count in vectors):
        return None  # the kernel refuses them too
    raw = remote_bytes(tid, [(start, count * PIECE.size) for start, count in vectors if count])
    if raw is None:
        return None
    segments = map(Segment._make, PIECE.iter_unpack(raw))
    return [list(itertools.islice(segments, count)) for _, count in vectors]


ROW = np.dtype(
    [
        ("issue", "<i8"),  # which call, counted as they were issued
        ("time_ns", "<i8"),
        ("address", "<u8"),
        ("pid", "<i4"),
        ("tid", "<i4"),
        ("length", "<u4"),
        ("posted", "<u4"),
        ("connection", "<i4"),
        ("op", "u1"),  # codes of Op
        ("call", "u1"),  # codes of CALLS
    ]
)
_PACK = struct.Struct("<qqQiiIIiBB").pack
RUN_ROWS = 1 << 17  # 6 MB
BLOCK_ROWS = 1 << 13  # of each run that is being merged


class Origin(NamedTuple):
    """The call that a row belongs to."""

    issue: int
    time_ns: int
    pid: int
    tid: int
    connection: int
    op: int
    call: int


class _Run(NamedTuple):
    first_issue: int
    start: int  # row of the file
    stop: int


class IssueOrder:
    """Rows sorted by issue, spilled to a temporary file; a context that removes it at its end.

    Errors: ``OutputError`` if the folder of ``path`` cannot be written to, or is full.
    """

    def __init__(self, path: Path, run_rows: int = RUN_ROWS, block_rows: int = BLOCK_ROWS) -> None:
        self._path = path
        self._run_bytes = run_rows * ROW.itemsize
        self._block_rows = block_rows
        self._latest = bytearray()
        self._runs: list[_Run] = []
        self._file: BinaryIO | None = None
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> IssueOrder:
        self._file = self._cleanup.enter_context(scratch_file(self._path))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cleanup.close()

    def add(self, origin: Origin, through: list[Moved]) -> None:
        """Add a row for each buffer through which a call moved bytes."""
        issue, time_ns, pid, tid, connection, op, call = origin
        for address, posted, length in through:
            self._latest += _PACK(
                issue, time_ns, address, pid, tid, length, posted, connection, op, call
            )
        if len(self._latest) >= self._run_bytes:
            self._end_run()

    def batches(self) -> Iterator[NDArray[Any]]:
        """All rows as arrays of ``ROW``, in the order of issue."""
        self._end_run()
        waiting = sorted(self._runs, reverse=True)  # the next one last
        open_runs: list[_Reader] = []
        while waiting or open_runs:
            # Rows up to the least last row of the blocks in memory have no unread predecessor.
            while waiting and (
                not open_runs or waiting[-1].first_issue <= min(run.last for run in open_runs)
            ):
                open_runs.append(_Reader(self._rows_of, waiting.pop(), self._block_rows))
            bound = min(run.last for run in open_runs)
            batch = np.concatenate([run.take(bound) for run in open_runs])
            yield batch[np.argsort(batch["issue"], kind="stable")]
            open_runs = [run for run in open_runs if run.has_rows()]

    def _end_run(self) -> None:
        if not self._latest:
            return
        rows = np.frombuffer(self._latest, ROW)
        rows = rows[np.argsort(rows["issue"], kind="stable")]
        start = self._runs[-1].stop if self._runs else 0
        self._open_file.seek(start * ROW.itemsize)
        self._open_file.write(rows.tobytes())
        self._open_file.flush()
        self._runs.append(_Run(int(rows["issue"][0]), start, start + rows.size))
        self._latest = bytearray()

    def _rows_of(self, start: int, stop: int) -> NDArray[Any]:
        self._open_file.seek(start * ROW.itemsize)
        return np.frombuffer(self._open_file.read((stop - start) * ROW.itemsize), ROW)

    @property
    def _open_file(self) -> BinaryIO:
        assert self._file is not None, "rows are kept inside the with block"
        return self._file


class _Reader:
    """A sorted run, read block by block.  All rows of one call lie in the same run."""

    def __init__(self, rows_of: Any, run: _Run, block_rows: int) -> None:
        self._rows_of = rows_of
        self._next, self._stop = run.start, run.stop
        self._block_rows = block_rows
        self._block = np.empty(0, ROW)
        self.has_rows()

    def has_rows(self) -> bool:
        """Whether any are left; reads the next block if the last one is used up."""
        if not self._block.size and self._next < self._stop:
            stop = min(self._next + self._block_rows, self._stop)
            self._block = self._rows_of(self._next, stop)
            self._next = stop
        return self._block.size > 0

    @property
    def last(self) -> int:
        """The issue number of the last row in memory."""
        return int(self._block["issue"][-1])

    def take(self, bound: int) -> NDArray[Any]:
        """Remove and return the rows issued up to ``bound``."""
        count = int(np.searchsorted(self._block["issue"], bound, side="right"))
        taken, self._block = self._block[:count], self._block[count:]
        return taken
