"""Completion queues: polled, armed, resized; where virtual time moves for a program that polls."""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.drivers.simulate.ports import reporting as column
from nicscope.drivers.simulate.ports.connections import leave_connection
from nicscope.drivers.simulate.ports.reporting import AT_ONCE, COLUMNS, Collecting, collect
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.base import ANY_QUEUE, PS_PER_NS, SPACE, uninterrupted
from nicscope.interfaces.verbs_device.calls import Completion, Cq, Event, Refused
from nicscope.interfaces.verbs_device.fabric import HEADER, address_like, header
from nicscope.interfaces.verbs_device.regions import Protection
from nicscope.kernel.entering import bound
from nicscope.nic.ports.layout import SENT
from nicscope.nic.ports.work_queues import (
    FETCH_REFUSED,
    QUEUE_FULL,
    REQUEST_INVALID,
    TROUBLE,
    TROUBLES,
    WRITE_REFUSED,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from nicscope.interfaces.verbs_device.calls import Piece
    from nicscope.interfaces.verbs_device.connecting import Pair

NEVER_ARMED, FOR_ANY, FOR_URGENT = range(3)
EMPTY_POLL_PS = 1_000_000_000  # the longest that one empty poll moves virtual time
LONGEST_BLOCK_PS = 60 * 10**12  # after which nothing that a program could want comes any more


class Queue(msgspec.Struct):
    """A completion queue."""

    place: int  # which of the NIC's
    entries: int
    users: int = 0
    armed: int = NEVER_ARMED
    since: int = 0  # entries that had been written when it was
    is_dead: bool = False  # it was full when a completion came
    held: deque[Completion] = msgspec.field(default_factory=deque)  # off the NIC, and not polled


class Completing(Protection):
    """What a program learns of its work."""

    def _begin_queues(self) -> None:
        queues = self._ports.work.queues
        self._unused_queues = list(range(queues.shape[1] - 1, ANY_QUEUE, -1))
        self._pairs: dict[int, Pair] = {}  # by number
        self._by_port: dict[int, Pair] = {}
        self._leave = bound(leave_connection, self._machine)
        self._queues: dict[int, Queue] = {}  # by handle, which is the place
        self._rows_out = np.zeros((AT_ONCE, COLUMNS), np.int64)
        self._collect = bound(collect, Collecting(self._machine, self._rows_out))
        self._events: list[Event] = []
        self._backlog: set[Pair] = set()  # of which work waits for a place on the NIC
        self._draining: dict[int, Pair] = {}  # by number: it is to be an event that they are empty

    def make_cq(self, entries: int) -> Cq:
        """A completion queue.  Errors: EINVAL, ENOMEM."""
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
        self._queues[place] = Queue(place, entries)
        return Cq(place, entries)

    def resize_cq(self, handle: int, entries: int) -> int:
        """Another number of entries, when what is under way for it has ended.  Errors: EINVAL."""
        queue = self._queue(handle)
        if not 1 <= entries <= self._ports.work.entries.shape[2]:
            raise Refused(errno.EINVAL)
        self._system_call()
        for _ in range(8):
            if not self._has_outstanding(handle) or not self._wait_for(EMPTY_POLL_PS):
                break
        record = self._queue_record(handle)
        if int(record["written"]) - int(record["read"]) + len(queue.held) > entries:
            raise Refused(errno.EINVAL)
        record["entries"] = queue.entries = entries
        return entries

    def free_cq(self, handle: int) -> None:
        """Errors: EINVAL; EBUSY while queue pairs use it."""
        if self._queue(handle).users:
            raise Refused(errno.EBUSY)
        self._system_call()
        self._queue_record(handle)["open"] = 0
        del self._queues[handle]
        self._unused_queues.append(handle)

    @uninterrupted
    def poll(self, cq: int, most: int) -> list[Completion]:
        """Completions, oldest first; an empty queue has virtual time go on to the next event."""
        held, shown, read_to = self._queue(cq).held, self._shown, self._read_to
        if shown[cq] == read_to[cq] and not held:
            if not self._rests():
                self._wait_for(EMPTY_POLL_PS)
        else:
            self._put(self._polling)  # the processor is busy that long before what comes next
        if self._backlog:
            self._relieve()
        found = [held.popleft() for _ in range(min(most, len(held)))] if held else []
        if shown[cq] != read_to[cq]:
            found += self._taken(cq, most - len(found))
        return found

    def _taken(self, cq: int, most: int) -> list[Completion]:
        """Completions that the NIC has written, off its queue."""
        found: list[Completion] = []
        while len(found) < most:
            many = self._collect(self._node, cq, min(most - len(found), AT_ONCE))
            found.extend([self._completion(row) for row in self._rows_out[:many].tolist()])
            if many < AT_ONCE:
                break
        return found

    def _relieve(self) -> None:
        """Work waits for a place on the NIC: what has ended there is kept here and makes room."""
        for pair in sorted(self._backlog, key=lambda each: each.number):
            for cq in sorted(pair.queues):
                self._queues[cq].held.extend(self._taken(cq, self._queues[cq].entries))
            if not pair.waiting_sends and not pair.waiting_receives:
                self._backlog.discard(pair)

    def _completion(self, row: list[int]) -> Completion:
        pair = self._by_port[row[column.PORT]]
        status = codes.STATUSES.get(row[column.STATUS], codes.GENERAL_ERR)
        length, now = row[column.LENGTH], self._driven.now // PS_PER_NS
        if row[column.SIDE] == SENT:
            wr_id, opcode = pair.take_send(row[column.COOKIE])
            if pair.waiting_sends or pair.waiting_receives:
                self._feed(pair)
            return Completion(wr_id, status, opcode, length, pair.number, 0, 0, 0, 0, now)
        wr_id, pieces = self._take_receive(pair, row[column.COOKIE])
        beside, flags, word, source = row[column.BESIDE], 0, 0, pair.peer or 0
        if beside:
            flags = codes.WITH_IMM if beside & 1 else codes.WITH_INV if beside & 2 else 0
            word = row[column.NAMED] if flags else 0
        if pair.kind == codes.UD and status == codes.SUCCESS:
            flags |= codes.WITH_GRH
            source = self._note_source(row, pieces)
        opcode = codes.WC_RECV_IMM if row[column.OPERATION] == codes.PORT_WRITE else codes.WC_RECV
        number = pair.number
        return Completion(wr_id, status, opcode, length, number, source, word, flags, 0, now)

    def _note_source(self, row: list[int], pieces: tuple[Piece, ...]) -> int:
        """Write down before a datagram whence it came; the number of the pair that sent it."""
        node = row[column.NODE]
        sender = self._fabric.devices[node].pair_at(row[column.OFFSET])
        if sender is None:
            return 0
        source = to = sender.dgid  # which a node has sent itself, whatever it is called
        if node != self._node:
            source, to = (address_like(to, each) for each in (node, self._node))
        left = header(source, to, row[column.LENGTH] - HEADER)
        for address, length, key in pieces:
            self._memory.write(self._node, SPACE, address + self._shift_of(key), left[:length])
            left = left[length:]
            if not left:
                break
        return sender.number

    def pair_at(self, port: int) -> Pair | None:
        """The queue pair that has a port of the NIC's."""
        return self._by_port.get(port)

    def _take_receive(self, pair: Pair, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        found = pair.take_receive(cookie)
        if pair.waiting_sends or pair.waiting_receives:
            self._feed(pair)
        return found

    def arm(self, cq: int, solicited_only: bool) -> None:
        """Have the next completion, or the next that is urgent, be an event."""
        queue = self._queue(cq)
        queue.armed = FOR_URGENT if solicited_only else FOR_ANY
        self._settle()
        queue.since = int(self._queue_record(cq)["written"])

    def next_cq_event(self, cqs: Collection[int]) -> int | None:
        """The queue of which an event comes next, waited for; None if none ever will."""
        latest = self._driven.now + LONGEST_BLOCK_PS
        while True:
            for cq in sorted(cqs):
                if self._has_event(self._queue(cq)):
                    self._queues[cq].armed = NEVER_ARMED
                    return cq
            if all(self._queues[cq].armed == NEVER_ARMED for cq in cqs):
                return None
            if not self._rests() and not self._wait_for(latest - self._driven.now):
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
        """What happened beside completions to one of these, waited for; None if nothing will."""
        latest = self._driven.now + LONGEST_BLOCK_PS
        self._settle()
        while True:
            self._hear()
            for event in self._events:
                of = _CONCERNS.get(event.type, 0)
                if event.element in (qps, cqs, srqs)[of]:
                    self._events.remove(event)
                    return event
            if not self._rests() and not self._wait_for(latest - self._driven.now):
                return None

    def _hear(self) -> None:
        """Have troubles of ports be events, and that what was under way has ended."""
        for number, draining in [*self._draining.items()]:
            if not draining.has_unended(self._ports, self._node):
                del self._draining[number]
                if self.qp_state(number) == codes.SQD:
                    self._events.append(Event(codes.EVENT_SQ_DRAINED, number))
        written = self._written[ANY_QUEUE]
        if written == self._heard:
            return
        sides, owners = self._sides, self._owners
        heard, self._heard = self._heard, written
        for number in range(max(heard, written - len(sides)), written):
            if sides[number % len(sides)] == TROUBLE:
                port = owners[number % len(sides)]
                pair = self._by_port.get(port)
                if pair is not None:
                    self._hear_of(pair)
                elif int(self._ports.table[self._node, port]["shared"]):
                    self._events.append(Event(codes.EVENT_SRQ_LIMIT, port))

    _heard = 0

    def _hear_of(self, pair: Pair) -> None:
        record = self._ports.table[self._node, pair.port]
        troubles = self._ports.work.troubles[self._node, pair.port]
        told = int(record["troubles"])
        for number in range(max(pair.heard, told - TROUBLES), told):
            code = int(troubles[number % TROUBLES])
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

    def _has_outstanding(self, cq: int) -> bool:
        return any(
            pair.state == codes.RTS
            and pair.send_cq == cq
            and pair.has_unended(self._ports, self._node)
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
