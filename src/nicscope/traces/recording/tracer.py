"""Follows a program and all its children from one traced call to the next."""

from __future__ import annotations

import os
import signal
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nicscope.traces.recording import ptrace
from nicscope.traces.recording.calls import CALLS, CODES, Call, Machine, Shape
from nicscope.traces.recording.connections import Connections, Descriptors
from nicscope.traces.recording.rows import Origin, moved, offered
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.traces.recording.connections import Observed
    from nicscope.traces.recording.rows import IssueOrder, Segment

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
