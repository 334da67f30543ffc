"""Work queues: completions and asynchronous events, posting, shared receive queues."""

from __future__ import annotations

import errno
import heapq
import struct
from collections import deque
from gc import disable, enable, isenabled
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nicscope.drivers.simulate.ports.connections import leave_connection
from nicscope.drivers.simulate.ports.posting import GATHER
from nicscope.drivers.simulate.ports.reports import (
    AT_ONCE,
    COLUMNS,
    GIVEN_BITS,
    KIND_BITS,
    Collecting,
    collect,
    discard_completions,
)
from nicscope.drivers.simulate.records import COMPUTE, POST, PROVIDE
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import (
    Completion,
    Cq,
    Event,
    Flush,
    Piece,
    Posted,
    Receive,
    Refused,
    Send,
    Srq,
    UdTarget,
)
from nicscope.interfaces.verbs_device.fabric import (
    ANY_QUEUE,
    HEADER,
    OWN_PORT,
    PS_PER_NS,
    SPACE,
    Pair,
    addresses,
    header,
    is_of_v4,
    uninterrupted,
)
from nicscope.interfaces.verbs_device.regions import Protection
from nicscope.interfaces.work_queues import (
    errors_since,
    open_completion_queue,
    open_port,
    posting_places,
)
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import (
    BIND,
    BROKEN,
    COMPARE_SWAP,
    DONE,
    FENCED,
    FETCH,
    FETCH_ADD,
    IDLE,
    IMMEDIATE,
    INVALIDATES,
    MAY_FLUSH,
    MAY_PERSIST,
    NOBODY,
    OF_V4,
    QUEUE_PAIR_RULES,
    RECEIVED,
    SEND,
    SENT,
    SOLICITED,
    UNBIND,
    UNSIGNALLED,
    WRITE,
)
from nicscope.nic.ports.receive_queue import IS_OF_V4
from nicscope.nic.ports.regions import LENGTH_BITS, WHOLE
from nicscope.nic.ports.work_queues import (
    ASYNC_ERROR,
    FETCH_REFUSED,
    QUEUE_FULL,
    REQUEST_INVALID,
    WRITE_REFUSED,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


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


_CONCERNS = {calls.EVENT_CQ_ERR: 1, calls.EVENT_SRQ_LIMIT: 2}  # else a queue pair


PRIVILEGED = 1 << 31  # of a key: the pair's own is meant
NOBODYS = 1 << 30  # a port that no NIC has
MOST_INLINE = 512  # bytes; assumed, of the order of what cards take
_WORDS = struct.Struct("=3Q")
_SEGMENT = struct.Struct("=Q2q")
_pack_segment, _SEGMENT_BYTES = _SEGMENT.pack_into, _SEGMENT.size
_MASK = (1 << 64) - 1
OPERATIONS = {
    calls.WR_WRITE: (WRITE, 0),
    calls.WR_WRITE_IMM: (WRITE, IMMEDIATE),
    calls.WR_SEND: (SEND, 0),
    calls.WR_SEND_IMM: (SEND, IMMEDIATE),
    calls.WR_READ: (FETCH, 0),
    calls.WR_LOCAL_INV: (UNBIND, 0),
    calls.WR_BIND: (BIND, 0),
    calls.WR_SEND_INV: (SEND, INVALIDATES),
    calls.WR_ATOMIC_WRITE: (WRITE, 0),
    calls.WR_CMP_SWP: (COMPARE_SWAP, 0),
    calls.WR_FETCH_ADD: (FETCH_ADD, 0),
    calls.WR_FLUSH: (FETCH, 0),
}


WITHOUT_RECEIVES = calls.XRC_SEND, calls.XRC_RECV


def _flush_word(flush: Flush) -> int:
    """A flush's placement and level, as the NIC encodes them."""
    word = MAY_FLUSH if flush.type & calls.FOR_ALL else 0
    if flush.type & calls.FOR_GOOD:
        word |= MAY_PERSIST
    if flush.level == calls.OF_REGION:
        return word | WHOLE
    return word | flush.length << LENGTH_BITS


class SharedQueue(msgspec.Struct):
    """A receive queue that several queue pairs draw from."""

    port: int
    domain: int
    room: int
    sges: int
    xrcd: int
    cq: int
    posted: set[int]  # cookies
    waiting: deque[tuple[int, Receive]]


class WorkQueues(Protection):
    """Completion queues and asynchronous events, posting, shared receive queues."""

    operations = OPERATIONS

    def _begin_queues(self) -> None:
        queues = self._ports.work.queues
        self._unused_queues = list(range(queues.shape[1] - 1, ANY_QUEUE, -1))
        self._pairs: dict[int, Pair] = {}  # by number
        self._by_port: dict[int, Pair] = {}
        self._leave = bound(leave_connection, self._machine)
        self._queues: dict[int, Queue] = {}  # by handle, which is the place
        rows: NDArray[Any] = np.zeros((AT_ONCE, COLUMNS), np.int64)
        self._rows_out = rows.reshape(-1).view(np.uint8).data
        self._forget_completions = bound(discard_completions, self._machine)
        self._collect = bound(collect, Collecting(self._machine, rows))
        self._events: list[Event] = []
        self._backlog: set[Pair] = set()  # of which work waits for a place on the NIC
        self._draining: dict[int, Pair] = {}  # by number: it is to be an event that they are empty
        self._gathers, self._words = posting_places(self._ports, self._sim_process)
        self._given = self._ports.table["given"][self._node].data
        self._ring = int(self._ports.rules[0]["ring"])
        self._cookies = 0  # numbers of what was posted, which nothing on this device shares
        self.posted: dict[int, Posted] = {}  # for a log that is kept, by cookie
        self._to_keep = self._fabric.keeps  # of these
        self._receive_ring = min(self._ring, self._ports.work.receives.shape[2])
        self._shared: dict[int, SharedQueue] = {}  # by handle, which is the port
        # By cookie: whose, what the program calls it, and where it is.
        self._drawn: dict[int, tuple[SharedQueue, int, tuple[Piece, ...]]] = {}
        self._next_shared_cookie = FIRST_COOKIE
        self._xrcds: set[int] = set()
        self._unused_ports = list(range(OWN_PORT + 1, self._ports.table.shape[1]))
        self._xrcds_made = 0

    def make_cq(self, entries: int, made: type[Completion] = Completion) -> Cq:
        """Create a completion queue.  Errors: EINVAL, ENOMEM."""
        if not 1 <= entries <= self._ports.work.entries.shape[2]:
            raise Refused(errno.EINVAL)
        if not self._unused_queues:
            raise Refused(errno.ENOMEM)
        self._system_call()
        place = self._unused_queues.pop()
        open_completion_queue(self._queue_record(place), entries, ANY_QUEUE)
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
        made, many, wanted = queue.made, 0, 0
        while many == wanted and len(found) < most:
            wanted = min(most - len(found), AT_ONCE)
            many = self._collect(self._node, queue.place, wanted)
            for begin in range(0, many * _ROW_BYTES, _ROW_BYTES):
                port, side, cookie, status, operation, length, named, beside, offset, node = (
                    _unpack_from(self._rows_out, begin)
                )
                pair, now = self._by_port[port], self._sim_process.now // PS_PER_NS
                word = flags = source = 0
                if cookie >= FIRST_COOKIE:
                    if cookie not in self._drawn:
                        continue  # its shared queue, of an XRC domain, has gone meanwhile
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
                    opcode = calls.WC_RECV_IMM if operation == calls.PORT_WRITE else calls.WC_RECV
                    source = pair.peer or 0
                    if beside:
                        flags = (
                            calls.WITH_IMM if beside & 1 else calls.WITH_INV if beside & 2 else 0
                        )
                        word = named if flags else 0
                    if pair.kind == calls.UD and status == DONE:
                        flags |= calls.WITH_GRH
                        is_v4 = beside & IS_OF_V4 != 0
                        source = self._write_grh(node, offset, length, pieces, is_v4)
                said, number = calls.STATUSES.get(status, calls.GENERAL_ERR), pair.number
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

    def _write_grh(
        self, node: int, port: int, length: int, pieces: tuple[Piece, ...], is_v4: bool
    ) -> int:
        """Write the GRH before a received datagram; the sending queue pair's number."""
        sender = self._fabric.devices[node]._by_port.get(port)
        if sender is None:
            return 0
        source = to = sender.dgid  # which a node has sent itself, whatever it is called
        if node != self._node or is_of_v4(to) != is_v4:
            source, to = (addresses(each)[is_v4] for each in (node, self._node))
        left = header(source, to, length - HEADER)
        for piece in pieces:
            begin = piece.address + self._shifts.get(piece.lkey, 0)
            self._memory.write(self._node, SPACE, begin, left[: piece.length])
            left = left[piece.length :]
            if not left:
                break
        return sender.number

    def arm(self, cq: int, solicited_only: bool) -> None:
        """Arm a queue: its next completion, or next solicited one, raises an event.

        One that is armed for any completion stays so.
        """
        queue = self._queue(cq)
        if solicited_only and queue.armed == FOR_ANY:
            return
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
                if self.qp_state(number) == calls.SQD:
                    self._events.append(Event(calls.EVENT_SQ_DRAINED, number))
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
                    self._events.append(Event(calls.EVENT_SRQ_LIMIT, port))

    def _collect_errors_of(self, pair: Pair) -> None:
        codes, pair.heard = errors_since(self._ports, self._node, pair.port, pair.heard)
        for code in codes:
            if code in (WRITE_REFUSED, FETCH_REFUSED):
                self._events.append(Event(calls.EVENT_QP_ACCESS_ERR, pair.number))
            elif code == REQUEST_INVALID:
                self._events.append(Event(calls.EVENT_QP_REQ_ERR, pair.number))
            elif code == QUEUE_FULL:
                for handle in pair.queues:
                    self._note_overrun(handle)

    def _note_overrun(self, handle: int) -> None:
        queue, record = self._queues[handle], self._queue_record(handle)
        if not queue.is_dead and int(record["written"]) - int(record["read"]) >= queue.entries:
            queue.is_dead = True
            self._events.append(Event(calls.EVENT_CQ_ERR, handle))

    def _has_work_in_flight(self, cq: int) -> bool:
        return any(
            pair.state == calls.RTS
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

    def post_send(self, number: int, send: Send) -> None:
        """Post a work request to the NIC.  Errors: EINVAL, ENOMEM for a full queue."""
        pair = self._pairs.get(number)
        if pair is None or pair.state < calls.RTS or pair.kind == calls.XRC_RECV:
            raise Refused(errno.EINVAL)
        opcode, inline, caps, sends = send.opcode, send.inline, pair.caps, pair.sends
        if opcode not in self.operations:
            raise Refused(errno.EOPNOTSUPP)
        if pair.kind == calls.UD and send.ud is None:
            raise Refused(errno.EINVAL)
        if len(send.pieces) > caps.send_sge:
            raise Refused(errno.EINVAL)
        if inline is not None and len(inline) > max(
            caps.inline, 8 * (opcode == calls.WR_ATOMIC_WRITE)
        ):
            raise Refused(errno.EINVAL)
        if len(sends) >= caps.send_wr:
            raise Refused(errno.ENOMEM)
        collects = isenabled()
        disable()  # as ``uninterrupted``
        try:
            self._cookies = cookie = self._cookies + 1
            sends.append((cookie, send.wr_id, calls.OF_REQUEST[opcode]))
            if self._to_keep:
                self._to_keep -= 1
                self.posted[cookie] = Posted(pair.number, opcode, send.wr_id)
            # What is not known to have ended is no more than there are places: nearly always.
            has_place = len(sends) <= self._ring or self._has_place(pair)
            is_held = pair.state == calls.SQD and self._is_held(pair)
            if pair.waiting_sends or is_held or not has_place:
                pair.waiting_sends.append((cookie, send))
                self._backlog.add(pair)
            else:
                self._hand_over(pair, cookie, send)
        finally:
            if collects:
                enable()

    def _has_place(self, pair: Pair) -> bool:
        if len(pair.sends) <= self._ring:
            return True
        record = self._ports.table[self._node, pair.port]
        taken = record["posted"] + record["refused"] - record["reaped"]
        return bool(taken + self._before < self._ring)

    def _hand_over(self, pair: Pair, cookie: int, send: Send) -> None:
        operation, options = self.operations[send.opcode]
        flags, pieces, name, word = send.flags, send.pieces, send.rkey, send.imm
        if not flags & calls.SIGNALED and not pair.sig_all:
            options |= UNSIGNALLED
        if flags & calls.SOLICITED:
            options |= SOLICITED
        if flags & calls.FENCE:
            options |= FENCED
        if send.bind is not None:
            bind = send.bind
            name, word = bind.new_rkey, calls.rights_of(bind.access)
            region = self._region(bind.mr)
            key = region.key if bind.length else 0
            count = self._write_segments((Piece(bind.address, bind.length, key),), shifted=False)
        elif send.flush is not None:
            count, word = 0, _flush_word(send.flush)
        elif operation == UNBIND:
            name, count = send.imm, 0
        elif send.inline is not None:
            count = self._write_segments((self._store_inline(pair, send.inline),), shifted=False)
        else:
            count = self._write_segments(pieces, shifted=True)
        if operation in (COMPARE_SWAP, FETCH_ADD):
            word = send.compare_add
        elif operation == FETCH and send.flush is None:
            word = 0
        at = send.remote_address & _MASK
        at -= (at >> 63) << 64
        swap = send.swap if operation in (COMPARE_SWAP, FETCH_ADD) else send.srqn
        if send.ud is not None and pair.kind == calls.UD:
            name, at, swap = self._route(pair, send.ud)
            options |= OF_V4 if is_of_v4(send.ud.dgid) else 0
        _WORDS.pack_into(self._words[self._before], 0, word & _MASK, 0, swap & _MASK)
        given = self._given[pair.port] << GIVEN_BITS
        own = given | operation | options << KIND_BITS | GATHER
        self._put(POST, pair.port, count, name, at, cookie, own)

    def _route(self, pair: Pair, to: UdTarget) -> tuple[int, int, int]:
        """The port, stream and qkey that a datagram uses."""
        node = self._fabric.node_at(to.dgid, self._node)
        other = None if node is None else self._fabric.devices[node]._pairs.get(to.qpn)
        port = NOBODYS if other is None or other.kind != calls.UD else other.port
        pair.dgid = to.dgid
        qkey = pair.attributes.qkey if to.qkey & PRIVILEGED else to.qkey
        way = self._fabric.ways.between(self._node, self._node if node is None else node)
        return port, way, qkey

    def _store_inline(self, pair: Pair, inline: bytes) -> Piece:
        """Copy inline data into registered memory, where it stays until its request has ended."""
        room = max(pair.caps.inline, 8)
        if not pair.inline_at:
            places = pair.caps.send_wr + 1
            pair.inline_at = self.map(places * room)
            made = self.register(pair.domain, pair.inline_at, places * room, pair.inline_at, 1)
            pair.inline_key = made.lkey
        at = pair.inline_at + pair.inlined % (pair.caps.send_wr + 1) * room
        pair.inlined += 1
        self.write(at, inline)
        return Piece(at, len(inline), pair.inline_key)

    def _write_segments(self, pieces: tuple[Piece, ...], shifted: bool) -> int:
        """Write a scatter/gather list where the driver reads it; its number of elements."""
        at, gathers = 0, self._gathers[self._before]
        for piece in pieces:
            key = piece.lkey
            begin = piece.address + self._shifts.get(key, 0) if shifted else piece.address
            _pack_segment(gathers, at, begin & _MASK, piece.length, key)
            at += _SEGMENT_BYTES
        return len(pieces)

    def post_recv(self, number: int, receive: Receive) -> None:
        """Post a receive to the NIC.  Errors: EINVAL, ENOMEM for a full queue."""
        pair = self._pairs.get(number)
        if pair is None or pair.state == calls.RESET or pair.srq or pair.kind in WITHOUT_RECEIVES:
            raise Refused(errno.EINVAL)
        pieces, receives = receive.pieces, pair.receives
        if len(pieces) > pair.caps.recv_sge:
            raise Refused(errno.EINVAL)
        if len(receives) >= pair.caps.recv_wr:
            raise Refused(errno.ENOMEM)
        collects = isenabled()
        disable()  # as ``uninterrupted``
        try:
            self._cookies = cookie = self._cookies + 1
            receives.append((cookie, receive.wr_id, pieces))
            has_place = len(receives) <= self._receive_ring or self._has_receive_place(pair.port)
            if pair.waiting_receives or not has_place:
                pair.waiting_receives.append((cookie, receive))
                self._backlog.add(pair)
            else:
                self._provide(pair.port, cookie, receive)
        finally:
            if collects:
                enable()

    def _has_receive_place(self, port: int) -> bool:
        record = self._ports.table[self._node, port]
        taken = record["receives_posted"] - record["read"]
        return bool(taken + self._before < self._receive_ring)

    def _provide(self, port: int, cookie: int, receive: Receive) -> None:
        count = self._write_segments(receive.pieces, shifted=True)
        self._put(PROVIDE, port, count, 0, 0, cookie, self._given[port] << GIVEN_BITS)

    def _is_held(self, pair: Pair) -> bool:
        """Whether requests are held back because the send queue drains (SQD) and has no error."""
        if pair.state != calls.SQD:
            return False
        return int(self._ports.table[self._node, pair.port]["state"]) != BROKEN

    @uninterrupted
    def _post_waiting(self, pair: Pair) -> None:
        while pair.waiting_sends and not self._is_held(pair) and self._has_place(pair):
            self._hand_over(pair, *pair.waiting_sends.popleft())
        while pair.waiting_receives and self._has_receive_place(pair.port):
            self._provide(pair.port, *pair.waiting_receives.popleft())

    def make_srq(self, pd: int, wr: int, sge: int, xrcd: int = 0, cq: int = 0) -> Srq:
        """Create a shared receive queue.  Errors: EINVAL, ENOMEM."""
        if pd not in self._domains or (xrcd and xrcd not in self._xrcds):
            raise Refused(errno.EINVAL)
        self._system_call()
        port = self._take_port()
        record = self._ports.table[self._node, port]
        open_port(
            record,
            open=1,
            space=SPACE,
            send_queue=NOBODY,
            receive_queue=self._queue(cq).place if cq else NOBODY,
            notices=ANY_QUEUE + 1,
            domain=pd,
            rules=QUEUE_PAIR_RULES,
            shared=1,
            shares=0,
            group=xrcd,
            limit=0,
        )
        if cq:
            self._queues[cq].users += 1
        self._shared[port] = SharedQueue(port, pd, wr, sge, xrcd, cq, set(), deque())
        for pair in self._pairs.values():
            if pair.kind == calls.XRC_RECV and pair.xrcd == xrcd:
                self._ports.table[self._node, pair.port]["domain"] = pd
        return Srq(port, port, wr, sge)

    def srq_post(self, handle: int, receive: Receive) -> None:
        """Post a receive to a shared receive queue.  Errors: EINVAL, ENOMEM for a full queue."""
        queue = self._shared_queue(handle)
        if len(receive.pieces) > queue.sges:
            raise Refused(errno.EINVAL)
        if len(queue.posted) >= queue.room:
            raise Refused(errno.ENOMEM)
        cookie = self._next_shared_cookie
        self._next_shared_cookie += 1
        queue.posted.add(cookie)
        self._drawn[cookie] = queue, receive.wr_id, receive.pieces
        queue.waiting.append((cookie, receive))
        self._post_waiting_shared(queue)

    @uninterrupted
    def _post_waiting_shared(self, queue: SharedQueue) -> None:
        while queue.waiting and self._has_receive_place(queue.port):
            cookie, receive = queue.waiting.popleft()
            self._provide(queue.port, cookie, receive)

    def _take_shared(self, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        queue, wr_id, pieces = self._drawn.pop(cookie)
        queue.posted.discard(cookie)
        self._post_waiting_shared(queue)
        return wr_id, pieces

    def _give_up_drawn(self, pair: Pair) -> None:
        """Receives that a pair has drawn from shared queues, and which ended unseen, make room."""
        if self._drawn:
            ended = self._ports.reports["cookie"][self._node, pair.port, RECEIVED]
            for cookie in self._drawn.keys() & set(ended.tolist()):
                self._take_shared(cookie)

    def srq_limit(self, handle: int, limit: int) -> None:
        """Arm an event for when fewer receives than ``limit`` are left; 0: disarm it."""
        queue = self._shared_queue(handle)
        self._system_call()
        record = self._ports.table[self._node, queue.port]
        left = int(record["receives_posted"] - record["receives_taken"]) + len(queue.waiting)
        if 0 < left < limit:
            self._events.append(Event(calls.EVENT_SRQ_LIMIT, handle))
            limit = 0
        record["limit"] = limit

    def srq_read_limit(self, handle: int) -> int:
        """The limit that is armed, or 0."""
        return int(self._ports.table[self._node, self._shared_queue(handle).port]["limit"])

    def srq_resize(self, handle: int, wr: int) -> None:
        """Change the depth of a shared receive queue.  Errors: EINVAL if more are posted."""
        queue = self._shared_queue(handle)
        if wr < len(queue.posted):
            raise Refused(errno.EINVAL)
        self._system_call()
        queue.room = wr

    def free_srq(self, handle: int) -> None:
        """Destroy a shared receive queue; errors: EINVAL; EBUSY while queue pairs use it."""
        queue = self._shared_queue(handle)
        if any(pair.srq == handle for pair in self._pairs.values()):
            raise Refused(errno.EBUSY)
        self._system_call()
        self._leave(self._node, queue.port, IDLE)
        record = self._ports.table[self._node, queue.port]
        record["read"] = record["reserved"] = record["received"]
        record["open"] = record["shared"] = record["group"] = record["limit"] = 0
        if queue.cq:  # what was posted ends there, and is nobody's any more
            self._forget_completions(self._node, queue.port, queue.cq)
            self._queues[queue.cq].users -= 1
        for cookie in queue.posted:
            del self._drawn[cookie]
        del self._shared[handle]
        self._give_port(queue.port)

    def make_xrcd(self) -> int:
        """Create an XRC domain."""
        self._system_call()
        self._xrcds_made += 1
        self._xrcds.add(self._xrcds_made)
        return self._xrcds_made

    def free_xrcd(self, handle: int) -> None:
        """Destroy an XRC domain; errors: EINVAL; EBUSY while an object is in it."""
        if handle not in self._xrcds:
            raise Refused(errno.EINVAL)
        users = {each.xrcd for each in self._shared.values()}
        if handle in users | {each.xrcd for each in self._pairs.values()}:
            raise Refused(errno.EBUSY)
        self._system_call()
        self._xrcds.remove(handle)

    def _take_port(self) -> int:
        """Allocate a free port of the NIC.  Errors: ENOMEM."""
        if not self._unused_ports:
            raise Refused(errno.ENOMEM)
        return heapq.heappop(self._unused_ports)

    def _give_port(self, port: int) -> None:
        heapq.heappush(self._unused_ports, port)

    def _shared_queue(self, handle: int) -> SharedQueue:
        found = self._shared.get(handle)
        if found is None:
            raise Refused(errno.EINVAL)
        return found
