"""Completion queues: polling, arming, resizing; polling an empty queue advances virtual time."""

from __future__ import annotations

import errno
import struct
from collections import deque
from gc import disable, enable, isenabled
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.drivers.simulate.ports.connections import leave_connection
from nicscope.drivers.simulate.ports.reports import AT_ONCE, COLUMNS, Collecting, collect
from nicscope.drivers.simulate.records import COMPUTE
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.base import ANY_QUEUE, PS_PER_NS, SPACE
from nicscope.interfaces.verbs_device.calls import Completion, Cq, Event, Refused
from nicscope.interfaces.verbs_device.fabric import HEADER, address_like, header
from nicscope.interfaces.verbs_device.regions import Protection
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import DONE, SENT
from nicscope.nic.ports.work_queues import (
    ASYNC_ERROR,
    ASYNC_ERRORS,
    FETCH_REFUSED,
    QUEUE_FULL,
    REQUEST_INVALID,
    WRITE_REFUSED,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from nicscope.interfaces.verbs_device.calls import Piece
    from nicscope.interfaces.verbs_device.connections import Pair

NEVER_ARMED, FOR_ANY, FOR_URGENT = range(3)
EMPTY_POLL_PS = 1_000_000_000  # the longest that one empty poll moves virtual time
FIRST_COOKIE = 1 << 40  # of a shared queue's receives, beyond those of pairs' own
_ROW = struct.Struct(f"{COLUMNS}q")
_unpack_from, _ROW_BYTES = _ROW.unpack_from, _ROW.size
LONGEST_BLOCK_PS = 60 * 10**12  # after which nothing that a program could want comes any more


class Queue(msgspec.Struct):
    """A completion queue."""

    place: int  # which of the NIC's
    entries: int
    made: type[Completion]  # what its completions are handed out as
    users: int = 0
    armed: int = NEVER_ARMED
    since: int = 0  # entries that had been written when it was
    is_dead: bool = False  # it was full when a completion came
    held: deque[Completion] = msgspec.field(default_factory=deque)  # off the NIC, and not polled


class CompletionQueues(Protection):
    """Completion queues, completions and asynchronous events."""

    def _begin_queues(self) -> None:
        queues = self._ports.work.queues
        self._unused_queues = list(range(queues.shape[1] - 1, ANY_QUEUE, -1))
        self._pairs: dict[int, Pair] = {}  # by number
        self._by_port: dict[int, Pair] = {}
        self._leave = bound(leave_connection, self._machine)
        self._queues: dict[int, Queue] = {}  # by handle, which is the place
        rows: NDArray[Any] = np.zeros((AT_ONCE, COLUMNS), np.int64)
        self._rows_out = rows.reshape(-1).view(np.uint8).data
        self._collect = bound(collect, Collecting(self._machine, rows))
        self._events: list[Event] = []
        self._backlog: set[Pair] = set()  # of which work waits for a place on the NIC
        self._draining: dict[int, Pair] = {}  # by number: it is to be an event that they are empty

    def make_cq(self, entries: int, made: type[Completion] = Completion) -> Cq:
        """Create a completion queue.  Errors: EINVAL, ENOMEM."""
        if not 1 <= entries <= self._ports.work.entries.shape[2]:
            raise Refused(errno.EINVAL)
        if not self._unused_queues:
            raise Refused(errno.ENOMEM)
        self._system_call()
        place = self._unused_queues.pop()
        record = self._queue_record(place)
        record["open"], record["entries"] = 1, entries
        record["written"] = record["shown"] = record["read"] = 0
        record["notices"] = ANY_QUEUE + 1
        self._queues[place] = Queue(place, entries, made)
        return Cq(place, entries)

    def resize_cq(self, handle: int, entries: int) -> int:
        """Resize a completion queue, once the work in flight for it has ended.  Errors: EINVAL."""
        queue = self._queue(handle)
        if not 1 <= entries <= self._ports.work.entries.shape[2]:
            raise Refused(errno.EINVAL)
        self._system_call()
        for _ in range(8):
            if not self._has_work_in_flight(handle) or not self._wait_for(EMPTY_POLL_PS):
                break
        record = self._queue_record(handle)
        if int(record["written"]) - int(record["read"]) + len(queue.held) > entries:
            raise Refused(errno.EINVAL)
        record["entries"] = queue.entries = entries
        return entries

    def free_cq(self, handle: int) -> None:
        """Destroy a completion queue; errors: EINVAL; EBUSY while queue pairs use it."""
        if self._queue(handle).users:
            raise Refused(errno.EBUSY)
        self._system_call()
        self._queue_record(handle)["open"] = 0
        del self._queues[handle]
        self._unused_queues.append(handle)

    def poll(self, cq: int, most: int) -> list[Completion]:
        """Completions, oldest first; an empty queue advances virtual time to the next event."""
        queue = self._queues.get(cq)
        if queue is None:
            raise Refused(errno.EINVAL)
        held, shown, read_to = queue.held, self._shown, self._read_to
        collects = isenabled()
        disable()  # as ``uninterrupted``
        try:
            if held or shown[cq] != read_to[cq]:
                # The processor is busy that long before what comes next.
                self._put(COMPUTE, 0, 0, 0, self._poll_ps, 0, 0)
            elif self._rest is None or not self._rest(self._written[ANY_QUEUE]):
                self._go_on(EMPTY_POLL_PS)
            if self._backlog:
                self._drain_to_host()
            found = [held.popleft() for _ in range(min(most, len(held)))] if held else []
            if shown[cq] != read_to[cq]:
                self._take(queue, most, found)
            return found
        finally:
            if collects:
                enable()

    def _take(self, queue: Queue, most: int, found: list[Completion]) -> None:
        """Take completions off the NIC's queue, until ``most`` are found.

        What was posted makes room for more.
        """
        made, many = queue.made, AT_ONCE
        while many == AT_ONCE and len(found) < most:
            wanted = most - len(found)
            many = self._collect(self._node, queue.place, wanted if wanted < AT_ONCE else AT_ONCE)
            for begin in range(0, many * _ROW_BYTES, _ROW_BYTES):
                port, side, cookie, status, operation, length, named, beside, offset, node = (
                    _unpack_from(self._rows_out, begin)
                )
                pair, now = self._by_port[port], self._sim_process.now // PS_PER_NS
                word = flags = source = 0
                if cookie >= FIRST_COOKIE:
                    wr_id, pieces = self._take_shared(cookie)
                else:
                    if side == SENT:  # with all that was posted before it and not signalled
                        ended = 0
                        while ended != cookie:
                            ended, wr_id, opcode = pair.sends.popleft()
                    elif pair.receives[0][0] == cookie:  # nearly always
                        _, wr_id, pieces = pair.receives.popleft()
                    else:
                        wr_id, pieces = pair.remove_receive(cookie)
                    if pair.waiting_sends or pair.waiting_receives:
                        self._post_waiting(pair)
                if side != SENT:
                    opcode = codes.WC_RECV_IMM if operation == codes.PORT_WRITE else codes.WC_RECV
                    source = pair.peer or 0
                    if beside:
                        flags = (
                            codes.WITH_IMM if beside & 1 else codes.WITH_INV if beside & 2 else 0
                        )
                        word = named if flags else 0
                    if pair.kind == codes.UD and status == DONE:
                        flags |= codes.WITH_GRH
                        source = self._write_grh(node, offset, length, pieces)
                said, number = codes.STATUSES.get(status, codes.GENERAL_ERR), pair.number
                found.append(
                    made(
                        wr_id, said, opcode, 0, length, number, source, word, flags, 0, 0, 0, 0, now
                    )
                )

    def _drain_to_host(self) -> None:
        """Move completions off the NIC's queues while work requests wait for a free entry."""
        for pair in sorted(self._backlog, key=lambda each: each.number):
            for cq in sorted(pair.queues):
                found: list[Completion] = []
                queue = self._queues[cq]
                self._take(queue, queue.entries, found)
                queue.held.extend(found)
            if not pair.waiting_sends and not pair.waiting_receives:
                self._backlog.discard(pair)

    def _write_grh(self, node: int, port: int, length: int, pieces: tuple[Piece, ...]) -> int:
        """Write the GRH before a received datagram; the sending queue pair's number."""
        sender = self._fabric.devices[node].pair_at(port)
        if sender is None:
            return 0
        source = to = sender.dgid  # which a node has sent itself, whatever it is called
        if node != self._node:
            source, to = (address_like(to, each) for each in (node, self._node))
        left = header(source, to, length - HEADER)
        for piece in pieces:
            begin = piece.address + self._shifts.get(piece.lkey, 0)
            self._memory.write(self._node, SPACE, begin, left[: piece.length])
            left = left[piece.length :]
            if not left:
                break
        return sender.number

    def pair_at(self, port: int) -> Pair | None:
        """The queue pair that owns a port of the NIC."""
        return self._by_port.get(port)

    def arm(self, cq: int, solicited_only: bool) -> None:
        """Arm a queue: its next completion, or next solicited one, raises an event."""
        queue = self._queue(cq)
        queue.armed = FOR_URGENT if solicited_only else FOR_ANY
        self._flush_posted()
        queue.since = int(self._queue_record(cq)["written"])

    def next_cq_event(self, cqs: Collection[int]) -> int | None:
        """Wait for the next completion event: its queue, or None if there never is one."""
        latest = self._sim_process.now + LONGEST_BLOCK_PS
        while True:
            for cq in sorted(cqs):
                if self._has_event(self._queue(cq)):
                    self._queues[cq].armed = NEVER_ARMED
                    return cq
            if all(self._queues[cq].armed == NEVER_ARMED for cq in cqs):
                return None
            if not self._may_go_on(latest):
                return None

    def _has_event(self, queue: Queue) -> bool:
        written = int(self._queue_record(queue.place)["written"])
        if queue.armed == NEVER_ARMED or written == queue.since:
            return False
        if queue.armed == FOR_ANY:
            return True
        entries = self._ports.work.entries[self._node, queue.place]
        fresh = range(queue.since, written)
        return any(int(entries[number % len(entries)]["urgent"]) for number in fresh)

    def next_async_event(
        self, qps: Collection[int], cqs: Collection[int], srqs: Collection[int]
    ) -> Event | None:
        """Wait for the next asynchronous event of these objects; None if there never is one."""
        latest = self._sim_process.now + LONGEST_BLOCK_PS
        self._flush_posted()
        while True:
            self._collect_errors()
            for event in self._events:
                of = _CONCERNS.get(event.type, 0)
                if event.element in (qps, cqs, srqs)[of]:
                    self._events.remove(event)
                    return event
            if not self._may_go_on(latest):
                return None

    def _may_go_on(self, latest: int) -> bool:
        """Yield to other programs of the process, or wait; False if nothing ends by ``latest``."""
        if self._rest is not None and self._rest(self._written[ANY_QUEUE]):
            return True
        return self._wait_for(latest - self._sim_process.now)

    def _collect_errors(self) -> None:
        """Convert errors of ports and finished drains into asynchronous events."""
        for number, draining in [*self._draining.items()] if self._draining else ():
            if not draining.has_outstanding(self._ports, self._node):
                del self._draining[number]
                if self.qp_state(number) == codes.SQD:
                    self._events.append(Event(codes.EVENT_SQ_DRAINED, number))
        heard, self._heard = self._heard, self._written[ANY_QUEUE]
        told, self._told = self._told, self._troubles[self._node]
        if told == self._told:
            return
        sides, owners, written = self._sides, self._owners, self._heard
        for number in range(max(heard, written - len(sides)), written):
            if sides[number % len(sides)] == ASYNC_ERROR:
                port = owners[number % len(sides)]
                pair = self._by_port.get(port)
                if pair is not None:
                    self._collect_errors_of(pair)
                elif int(self._ports.table[self._node, port]["shared"]):
                    self._events.append(Event(codes.EVENT_SRQ_LIMIT, port))

    def _collect_errors_of(self, pair: Pair) -> None:
        record = self._ports.table[self._node, pair.port]
        async_errors = self._ports.work.async_errors[self._node, pair.port]
        told = int(record["async_errors"])
        for number in range(max(pair.heard, told - ASYNC_ERRORS), told):
            code = int(async_errors[number % ASYNC_ERRORS])
            if code in (WRITE_REFUSED, FETCH_REFUSED):
                self._events.append(Event(codes.EVENT_QP_ACCESS_ERR, pair.number))
            elif code == REQUEST_INVALID:
                self._events.append(Event(codes.EVENT_QP_REQ_ERR, pair.number))
            elif code == QUEUE_FULL:
                for handle in pair.queues:
                    self._note_overrun(handle)
        pair.heard = told

    def _note_overrun(self, handle: int) -> None:
        queue, record = self._queues[handle], self._queue_record(handle)
        if not queue.is_dead and int(record["written"]) - int(record["read"]) >= queue.entries:
            queue.is_dead = True
            self._events.append(Event(codes.EVENT_CQ_ERR, handle))

    def _has_work_in_flight(self, cq: int) -> bool:
        return any(
            pair.state == codes.RTS
            and pair.send_cq == cq
            and pair.has_outstanding(self._ports, self._node)
            for pair in self._pairs.values()
        )

    def _pair(self, number: int) -> Pair:
        found = self._pairs.get(number)
        if found is None:
            raise Refused(errno.EINVAL)
        return found

    def _queue(self, handle: int) -> Queue:
        found = self._queues.get(handle)
        if found is None:
            raise Refused(errno.EINVAL)
        return found

    def _queue_record(self, place: int) -> Any:
        return self._ports.work.queues[self._node, place]


_CONCERNS = {codes.EVENT_CQ_ERR: 1, codes.EVENT_SRQ_LIMIT: 2}  # else a queue pair
