"""Follows a program and all its children from one traced call to the next, and makes rows of calls.

Rows are added as calls end and written in the order in which calls were issued.  A receive may
block for hours while a million sends come and go, so rows are kept in a nameless file beside the
result, as runs sorted by issue, and are merged at the end: memory stays bounded and nothing is left
behind, however this process ends.  Segments are the pieces of user buffers through which a call
moves bytes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import stat
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from nicscope.outputs import scratch_file
from nicscope.traces.recording import ptrace
from nicscope.traces.recording.connections import Connections, Descriptors, Observed
from nicscope.traces.recording.ptrace import (
    CALLS,
    CODES,
    MOST_PIECES,
    PIECE,
    Call,
    Machine,
    Shape,
    remote_bytes,
)
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from nicscope.traces.recording.rows import Run


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


PACKED = struct.Struct("<qqQiiIIiBB")  # a row, as ``rows.ROW`` names its parts
_PACK = PACKED.pack
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


class IssueOrder:
    """Rows sorted by issue, spilled to a temporary file; a context that removes it at its end.

    Errors: ``OutputError`` if the folder of ``path`` cannot be written to, or is full.
    """

    def __init__(self, path: Path, run_rows: int = RUN_ROWS, block_rows: int = BLOCK_ROWS) -> None:
        self._path = path
        self._run_bytes = run_rows * PACKED.size
        self._block_rows = block_rows
        self._latest = bytearray()
        self._runs: list[Run] = []
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
        """All rows as arrays of ``rows.ROW``, in the order of issue."""
        from nicscope.traces.recording.rows import merged

        self._end_run()
        yield from merged(self._rows_of, self._runs, self._block_rows)

    def _end_run(self) -> None:
        if not self._latest:
            return
        from nicscope.traces.recording.rows import sorted_run

        start = self._runs[-1].stop if self._runs else 0
        written, run = sorted_run(self._latest, start)
        self._open_file.seek(start * PACKED.size)
        self._open_file.write(written)
        self._open_file.flush()
        self._runs.append(run)
        self._latest = bytearray()

    def _rows_of(self, start: int, stop: int) -> bytes:
        self._open_file.seek(start * PACKED.size)
        return self._open_file.read((stop - start) * PACKED.size)

    @property
    def _open_file(self) -> BinaryIO:
        assert self._file is not None, "rows are kept inside the with block"
        return self._file


_PAUSES = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
# What a call returns to the kernel alone, which then makes it again (linux/errno.h).
_RESTARTS = frozenset({-512, -513, -514, -516})
_LISTED = frozenset({Shape.VECTOR, Shape.MESSAGE, Shape.MESSAGES})  # in the program's memory
_NO_BUFFERS = frozenset({Shape.COPY, Shape.RING})
NO_CONNECTION = -1  # of a call whose socket could not be looked at
_SEND, _RECV = int(Op.SEND), int(Op.RECV)


class _Pending(NamedTuple):
    """A call between its entry stop and its exit stop."""

    issue: int
    time_ns: int
    call: Call
    connection: int
    arguments: Sequence[int]
    messages: list[list[Segment]] | None  # of a send


class Tracer:
    """Makes rows of the calls of traced threads, from stop to stop.

    ``go_on`` is how a thread runs on that makes no call of interest: ``ptrace.CONTINUE`` where a
    filter stops it at the next one, else ``ptrace.TO_NEXT_STOP``.
    """

    def __init__(
        self, machine: Machine, rows: IssueOrder, observed: Observed, go_on: int = ptrace.CONTINUE
    ) -> None:
        self._audit_arch = machine.audit_arch
        self._calls = {number: CALLS[CODES[name]] for name, number in machine.numbers.items()}
        self._rows = rows
        self._go_on = go_on
        self._heeding = True  # what they do, and not only how they end
        self.observed = observed
        self.connections = Connections()
        self._descriptors = Descriptors()
        self.statuses: dict[int, int] = {}  # of processes that have ended, as shells say it
        self._process_of: dict[int, int] = {}  # by thread
        self._pending: dict[int, _Pending] = {}  # by thread
        self._dealt_with: int | None = None  # thread whose stop it is that is being looked at
        self._issued = 0
        self._start_ns = time.monotonic_ns()

    @property
    def processes(self) -> frozenset[int]:
        """The traced processes that are alive."""
        return frozenset(self._process_of.copy().values())

    @property
    def has_ended(self) -> bool:
        """Whether no traced process is left."""
        return not self._process_of

    def meet(self, tid: int) -> None:
        """Add a thread that is traced from now on."""
        process = _process_of(tid)
        self._process_of[tid] = process
        self.observed.threads += 1
        self.observed.processes += process == tid

    def close(self) -> None:
        """Close all descriptors about threads; those that still run are traced no more."""
        self._descriptors.close()

    def let_go(self, heeding: bool) -> None:
        """Stop each thread once more and detach it.

        Unless ``heeding``, calls that end at that stop have no row any more.
        """
        self._go_on = ptrace.DETACH
        self._heeding = heeding
        for tid in list(self._process_of):
            # What failed half-way through has left a thread stopped: nothing more comes of that.
            if tid == self._dealt_with and ptrace.resume(tid, ptrace.DETACH):
                del self._process_of[tid]
                self._descriptors.forget(tid)
            else:
                ptrace.interrupt(tid)

    def take(self, tid: int, status: int) -> None:
        """Handle a stop or the end of a traced thread, as ``waitpid`` reports it."""
        if status not in ptrace.AT_CALL and not os.WIFSTOPPED(status):
            self._forget(tid, status)
            return
        self._dealt_with = tid
        if tid not in self._process_of:
            self.meet(tid)
        if status in ptrace.AT_CALL:
            request, number = self._take_call(tid), 0
        else:
            request, number = self._take_event(tid, status >> 8)
        if ptrace.resume(tid, request, number) and request == ptrace.DETACH:
            del self._process_of[tid]
            self._descriptors.forget(tid)
            self.observed.unfinished += self._pending.pop(tid, None) is not None
        self._dealt_with = None

    def _take_call(self, tid: int) -> int:
        """Handle a stop at a call's entry or exit; how to continue the thread."""
        found = ptrace.call_at_stop(tid)
        if isinstance(found, tuple):
            if self._go_on != ptrace.DETACH:
                return self._before_call(tid, found)
        elif (pending := self._pending.pop(tid, None)) is not None:
            self._after_call(tid, pending, found)
        return self._go_on

    def _take_event(self, tid: int, reason: int) -> tuple[int, int]:
        """How to continue a thread after an event stop, and the signal to deliver."""
        number = reason & 0xFF
        if ptrace.is_group_stop(reason):
            stays = number in _PAUSES and self._go_on != ptrace.DETACH
            return ptrace.LISTEN if stays else self._go_on, 0
        if reason == ptrace.AFTER_EXEC:
            self._begin_program(tid)
            return self._go_on, 0
        if reason in ptrace.AFTER_CLONE:
            started = ptrace.event_message(tid)
            if started is not None and started not in self._process_of:
                self.meet(started)  # it will stop by itself
            return self._go_on, 0
        return self._go_on, number

    def _forget(self, tid: int, status: int) -> None:
        process = self._process_of.pop(tid, None)
        self._descriptors.forget(tid)
        self.observed.unfinished += self._pending.pop(tid, None) is not None
        if process == tid:
            code = os.waitstatus_to_exitcode(status)
            self.statuses[tid] = code if code >= 0 else 128 - code

    def _begin_program(self, tid: int) -> None:
        """Handle exec: the calling thread is the only one left and gets the process's number."""
        self.observed.programs += 1
        former = ptrace.event_message(tid)
        for gone in {tid, former}:
            self._descriptors.forget(gone or 0)
            self.observed.unfinished += self._pending.pop(gone or 0, None) is not None
        if former is not None and former != tid:
            self._process_of.pop(former, None)

    def _before_call(self, tid: int, entry: ptrace.CallEntry) -> int:
        """Handle a call's entry; how to continue the thread."""
        audit_arch, number, arguments = entry
        if audit_arch != self._audit_arch:
            self.observed.foreign_calls += 1
            return self._go_on
        call = self._calls.get(number)
        if call is None:
            return self._go_on
        connection = self._connection_of(tid, call, arguments)
        if connection is None:
            return self._go_on
        time_ns = time.monotonic_ns() - self._start_ns
        # Whoever receives may free what lists a send's buffers before its call ends; a
        # receive's are looked up when it is known how many of them matter.
        messages = None
        if not call.receives and call.shape in _LISTED:
            messages = offered(tid, call, arguments)
        self._pending[tid] = _Pending(self._issued, time_ns, call, connection, arguments, messages)
        self._issued += 1
        return ptrace.TO_NEXT_STOP

    def _connection_of(self, tid: int, call: Call, arguments: Sequence[int]) -> int | None:
        """The number of the socket that a call uses; None if it uses none."""
        if call.shape is Shape.RING:
            return NO_CONNECTION
        try:
            for argument in call.descriptors or (0,):
                descriptor = arguments[argument] & 0xFFFF_FFFF
                found = self._descriptors.status(tid, descriptor)
                if stat.S_ISSOCK(found.st_mode):
                    process = self._process_of[tid]
                    return self.connections.number_of(found.st_ino, process, descriptor)
        except PermissionError:
            if call.descriptors:
                self.observed.hidden += 1
                return None
            return NO_CONNECTION
        except OSError:  # no such descriptor: the call will fail
            return None if call.descriptors else NO_CONNECTION
        if not call.descriptors:
            return NO_CONNECTION
        self.observed.not_sockets += 1
        return None

    def _after_call(self, tid: int, pending: _Pending, result: int | None) -> None:
        observed = self.observed
        call = pending.call
        if not self._heeding:
            return
        if result is None:
            observed.unfinished += 1
        elif result > 0 and call.shape not in _NO_BUFFERS:
            self._add_rows(tid, pending, result)
        elif result in _RESTARTS:
            # To be let go, a thread is called out of what it waits in; it goes back, unseen.
            if self._go_on == ptrace.DETACH:
                observed.unfinished += 1
            else:
                observed.interrupted += 1
        elif result < 0:
            observed.fail(-result)
        elif call.shape is Shape.RING:
            observed.ring_calls[call.name] += 1
        elif result == 0:
            observed.empty += 1
        else:
            observed.copies[call.name] += 1
            observed.copied_bytes += result

    def _add_rows(self, tid: int, pending: _Pending, result: int) -> None:
        issue, time_ns, call, connection, arguments, messages = pending
        observed = self.observed
        if messages is None and (call.receives or call.shape is Shape.BUFFER):
            if call.shape is Shape.MESSAGES:
                arguments = [*arguments[:2], result]
            messages = offered(tid, call, arguments)
        through = None if messages is None else moved(tid, call, arguments, messages, result)
        if through is None:
            observed.hidden += 1
            return
        if not through:
            observed.empty += 1
            return
        byte_count = sum([segment.length for segment in through])
        if call.receives:
            observed.bytes_received += byte_count
        else:
            observed.bytes_sent += byte_count
        observed.moved[call.name] += 1
        observed.rows += len(through)
        op = _RECV if call.receives else _SEND
        process = self._process_of[tid]
        self._rows.add(
            Origin(issue, time_ns, process, tid, connection, op, CODES[call.name]), through
        )


def _process_of(tid: int) -> int:
    """Number of the process that a thread belongs to."""
    try:
        with Path(f"/proc/{tid}/status").open() as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("Tgid:"))
    except OSError:  # killed, or /proc is not there: it can only be taken for a process
        return tid
