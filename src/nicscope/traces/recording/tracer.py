"""Following a program and all its children from one traced call to the next."""

from __future__ import annotations

import errno
import os
import signal
import stat
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.traces.recording import ptrace
from nicscope.traces.recording.calls import CALLS, CODES, FOREIGN, Call, Machine, Shape
from nicscope.traces.recording.connections import Connections
from nicscope.traces.recording.rows import IssueOrder, Origin, Segment, moved, offered
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAUSES = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
# What a call returns to the kernel alone, which then makes it again (linux/errno.h).
_RESTARTS = frozenset({-512, -513, -514, -516})
NO_CONNECTION = -1  # of a call whose socket could not be looked at
_SEND, _RECV = int(Op.SEND), int(Op.RECV)


class _Pending(NamedTuple):
    """A call between its two stops."""

    issue: int
    time_ns: int
    call: Call
    connection: int
    arguments: Sequence[int]
    messages: list[list[Segment]] | None  # of a send


class Tracer:
    """Traces ``root``, already stopped by its filter and not waited for, to the end."""

    def __init__(self, root: int, machine: Machine, rows: IssueOrder, observed: Observed) -> None:
        self._root = root
        self._calls = {number: CALLS[CODES[name]] for name, number in machine.numbers.items()}
        self._rows = rows
        self._observed = observed
        self.connections = Connections()
        self._process_of: dict[int, int] = {}  # by thread
        self._pending: dict[int, _Pending] = {}  # by thread
        self._issued = 0
        self._start_ns = time.monotonic_ns()
        self._status = 0
        self._meet(root)

    @property
    def processes(self) -> frozenset[int]:
        """The processes that are alive."""
        return frozenset(self._process_of.copy().values())

    def run(self) -> int:
        """Trace until the last process has ended; the exit status of the first, as shells say it.

        Should tracing fail, the program is killed: its calls would fail without a tracer.
        """
        try:
            while self._take_stop():
                pass
        except BaseException:
            self._kill_all()
            raise
        return self._status

    def _take_stop(self) -> bool:
        """Deal with one stop; whether there may be more."""
        try:
            tid, status = ptrace.wait_for_stop()
        except ChildProcessError:
            return False
        if not os.WIFSTOPPED(status):
            self._forget(tid, status)
            return True
        if tid not in self._process_of:
            self._meet(tid)
        reason = status >> 8
        if reason == ptrace.AT_CALL:
            ptrace.resume(tid, self._before_call(tid))
        elif reason == ptrace.AFTER_CALL:
            self._after_call(tid)
            ptrace.resume(tid, ptrace.CONTINUE)
        else:
            self._pass_stop(tid, reason)
        return True

    def _pass_stop(self, tid: int, reason: int) -> None:
        number = reason & 0xFF
        if ptrace.is_pause(reason):
            ptrace.resume(tid, ptrace.LISTEN if number in _PAUSES else ptrace.CONTINUE)
        elif reason == ptrace.AFTER_EXEC:
            self._begin_program(tid)
            ptrace.resume(tid, ptrace.CONTINUE)
        elif reason in ptrace.AFTER_CLONE:
            ptrace.resume(tid, ptrace.CONTINUE)  # what it started will stop by itself
        else:
            ptrace.resume(tid, ptrace.CONTINUE, number)

    def _meet(self, tid: int) -> None:
        process = _process_of(tid)
        self._process_of[tid] = process
        self._observed.threads += 1
        self._observed.processes += process == tid

    def _forget(self, tid: int, status: int) -> None:
        self._process_of.pop(tid, None)
        self._observed.unfinished += self._pending.pop(tid, None) is not None
        if tid == self._root:
            code = os.waitstatus_to_exitcode(status)
            self._status = code if code >= 0 else 128 - code

    def _begin_program(self, tid: int) -> None:
        """The thread that called exec is alone now and bears the process's number."""
        self._observed.programs += 1
        former = ptrace.event_message(tid)
        for gone in {tid, former}:
            self._observed.unfinished += self._pending.pop(gone or 0, None) is not None
        if former is not None and former != tid:
            self._process_of.pop(former, None)

    def _before_call(self, tid: int) -> int:
        """Take note of a call about to be made; how to let the thread go on."""
        entry = ptrace.call_entry(tid)
        if entry is None:
            return ptrace.CONTINUE
        number, arguments, remark = entry
        if remark == FOREIGN:
            self._observed.foreign_calls += 1
            return ptrace.CONTINUE
        call = self._calls[number]
        connection = self._connection_of(tid, call, arguments)
        if connection is None:
            return ptrace.CONTINUE
        time_ns = time.monotonic_ns() - self._start_ns
        # Whoever receives may free what lists a send's buffers before its call ends; a
        # receive's are looked up when it is known how many of them matter.
        messages = None
        if not call.receives and call.shape not in (Shape.COPY, Shape.RING):
            messages = offered(tid, call, arguments)
        self._pending[tid] = _Pending(self._issued, time_ns, call, connection, arguments, messages)
        self._issued += 1
        return ptrace.TO_NEXT_STOP

    def _connection_of(self, tid: int, call: Call, arguments: Sequence[int]) -> int | None:
        """The number of the socket that a call is about; None if it is about none."""
        if call.shape is Shape.RING:
            return NO_CONNECTION
        # Not remembered: another process may close the descriptor and open a file in its place.
        try:
            for argument in call.descriptors or (0,):
                descriptor = arguments[argument] & 0xFFFF_FFFF
                found = os.stat(f"/proc/{tid}/fd/{descriptor}")  # noqa: PTH116
                if stat.S_ISSOCK(found.st_mode):
                    process = self._process_of[tid]
                    return self.connections.number_of(found.st_ino, process, descriptor)
        except PermissionError:
            if call.descriptors:
                self._observed.hidden += 1
                return None
            return NO_CONNECTION
        except OSError:  # no such descriptor: the call will fail
            return None if call.descriptors else NO_CONNECTION
        if not call.descriptors:
            return NO_CONNECTION
        self._observed.not_sockets += 1
        return None

    def _after_call(self, tid: int) -> None:
        pending = self._pending.pop(tid, None)
        if pending is None:
            return
        result = ptrace.call_result(tid)
        observed = self._observed
        if result is None:
            observed.unfinished += 1
        elif result in _RESTARTS:
            observed.interrupted += 1
        elif result < 0:
            observed.fail(-result)
        elif pending.call.shape is Shape.RING:
            observed.ring_calls[pending.call.name] += 1
        elif result == 0:
            observed.empty += 1
        elif pending.call.shape is Shape.COPY:
            observed.copies[pending.call.name] += 1
            observed.copied_bytes += result
        else:
            self._add_rows(tid, pending, result)

    def _add_rows(self, tid: int, pending: _Pending, result: int) -> None:
        issue, time_ns, call, connection, arguments, messages = pending
        observed = self._observed
        if call.receives:
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
        byte_count = sum(segment.length for segment in through)
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

    def _kill_all(self) -> None:
        for process in self.processes | {self._root}:
            _kill(process)
        while True:
            try:
                tid, status = ptrace.wait_for_stop()
            except ChildProcessError:
                return
            if os.WIFSTOPPED(status):  # started just now
                _kill(tid)


def _kill(tid: int) -> None:
    try:
        os.kill(tid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _process_of(tid: int) -> int:
    """Number of the process that a thread belongs to."""
    try:
        with Path(f"/proc/{tid}/status").open() as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("Tgid:"))
    except OSError:  # killed, or /proc is not there: it can only be taken for a process
        return tid


@dataclass
class Observed:
    """Counts of one recording; the tracer adds to them as it goes."""

    rows: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    processes: int = 0
    threads: int = 0  # the first of each process among them
    programs: int = 0  # successful calls of exec
    moved: Counter[str] = field(default_factory=Counter)  # calls that gave rows, by name
    empty: int = 0  # calls that moved nothing, such as a read at the end of a stream
    failed: Counter[str] = field(default_factory=Counter)  # by name of the error
    interrupted: int = 0  # by a signal before anything moved; most are made again
    unfinished: int = 0  # the thread ended before the call did
    copies: Counter[str] = field(default_factory=Counter)  # sendfile and splice, by name
    copied_bytes: int = 0
    ring_calls: Counter[str] = field(default_factory=Counter)  # io_uring, by name
    foreign_calls: int = 0  # system calls of 32-bit code, of any kind
    hidden: int = 0  # calls whose descriptor or buffers this user may not look at
    not_sockets: int = 0  # reads and writes of files, pipes and terminals

    def fail(self, number: int) -> None:
        """Count a call that failed with errno ``number``."""
        self.failed[errno.errorcode.get(number, str(number))] += 1

    def as_json(self) -> dict[str, Any]:
        """All counts, by name."""
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in vars(self).items()
        }
