"""Posting of work requests and receives, also through shared receive queues."""

from __future__ import annotations

import errno
import heapq
import struct
from collections import deque
from gc import disable, enable, isenabled
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.drivers.simulate.ports.posting import GATHER
from nicscope.drivers.simulate.ports.reports import GIVEN_BITS, KIND_BITS
from nicscope.drivers.simulate.records import CHAIN, POST, PROVIDE
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.base import ANY_QUEUE, OWN_PORT, SPACE, uninterrupted
from nicscope.interfaces.verbs_device.calls import Event, Piece, Posted, Refused, Srq
from nicscope.interfaces.verbs_device.queues import FIRST_COOKIE, CompletionQueues
from nicscope.nic.ports.layout import (
    BIND,
    BROKEN,
    COMPARE_SWAP,
    FENCED,
    FETCH,
    FETCH_ADD,
    IDLE,
    IMMEDIATE,
    INVALIDATES,
    MAY_FLUSH,
    MAY_PERSIST,
    SEND,
    SOLICITED,
    UNBIND,
    UNSIGNALLED,
    WORK_QUEUE,
    WRITE,
)
from nicscope.nic.ports.regions import LENGTH_BITS, WHOLE

if TYPE_CHECKING:
    from nicscope.interfaces.verbs_device.calls import Flush, Receive, Send, UdTarget
    from nicscope.interfaces.verbs_device.connections import Pair


PRIVILEGED = 1 << 31  # of a key: the pair's own is meant
NOBODYS = 1 << 30  # a port that no NIC has
MOST_INLINE = 512  # bytes; assumed, of the order of what cards take
_WORDS = struct.Struct("=3Q")
_SEGMENT = struct.Struct("=Q2q")
_pack_segment, _SEGMENT_BYTES = _SEGMENT.pack_into, _SEGMENT.size
_MASK = (1 << 64) - 1
OPERATIONS = {
    codes.WR_WRITE: (WRITE, 0),
    codes.WR_WRITE_IMM: (WRITE, IMMEDIATE),
    codes.WR_SEND: (SEND, 0),
    codes.WR_SEND_IMM: (SEND, IMMEDIATE),
    codes.WR_READ: (FETCH, 0),
    codes.WR_LOCAL_INV: (UNBIND, 0),
    codes.WR_BIND: (BIND, 0),
    codes.WR_SEND_INV: (SEND, INVALIDATES),
    codes.WR_ATOMIC_WRITE: (WRITE, 0),
    codes.WR_CMP_SWP: (COMPARE_SWAP, 0),
    codes.WR_FETCH_ADD: (FETCH_ADD, 0),
    codes.WR_FLUSH: (FETCH, 0),
}


WITHOUT_RECEIVES = codes.XRC_SEND, codes.XRC_RECV


class Posting(CompletionQueues):
    """Calls that post work to the NIC."""

    operations = OPERATIONS

    def _begin_posting(self) -> None:
        number = self._sim_process.number
        # Where the pieces of what is posted, and its words, are put down: of the first operation of
        # a chain, of the second, ...
        pieces = self._ports.gathers[number], *self._ports.gathered[number]
        self._gathers = [memoryview(each.view(np.uint8)) for each in pieces[:CHAIN]]
        sim_process = self._sim_process
        self._words = [
            sim_process.control_bytes,
            *(memoryview(each) for each in sim_process.inlined),
        ]
        self._given = self._ports.table["given"][self._node].data
        self._ring = int(self._ports.rules[0]["ring"])
        self._cookies = 0  # numbers of what was posted, which nothing on this device shares
        self.posted: dict[int, Posted] = {}  # for a log that is kept, by cookie
        self._to_keep = self._fabric.keeps  # of these
        self._receive_ring = min(self._ring, self._ports.work.receives.shape[2])

    def post_send(self, number: int, send: Send) -> None:
        """Post a work request to the NIC.  Errors: EINVAL, ENOMEM for a full queue."""
        pair = self._pairs.get(number)
        if pair is None or pair.state < codes.RTS or pair.kind == codes.XRC_RECV:
            raise Refused(errno.EINVAL)
        opcode, inline, caps, sends = send.opcode, send.inline, pair.caps, pair.sends
        if opcode not in self.operations:
            raise Refused(errno.EOPNOTSUPP)
        if pair.kind == codes.UD and send.ud is None:
            raise Refused(errno.EINVAL)
        if len(send.pieces) > caps.send_sge:
            raise Refused(errno.EINVAL)
        if inline is not None and len(inline) > max(
            caps.inline, 8 * (opcode == codes.WR_ATOMIC_WRITE)
        ):
            raise Refused(errno.EINVAL)
        if len(sends) >= caps.send_wr:
            raise Refused(errno.ENOMEM)
        collects = isenabled()
        disable()  # as ``uninterrupted``
        try:
            self._cookies = cookie = self._cookies + 1
            sends.append((cookie, send.wr_id, codes.OF_REQUEST[opcode]))
            if self._to_keep:
                self._to_keep -= 1
                self.posted[cookie] = Posted(pair.number, opcode, send.wr_id)
            # What is not known to have ended is no more than there are places: nearly always.
            has_place = len(sends) <= self._ring or self._has_place(pair)
            is_held = pair.state == codes.SQD and self._is_held(pair)
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
        if not flags & codes.SIGNALED and not pair.sig_all:
            options |= UNSIGNALLED
        if flags & codes.SOLICITED:
            options |= SOLICITED
        if flags & codes.FENCE:
            options |= FENCED
        if send.bind is not None:
            bind = send.bind
            name, word = bind.new_rkey, codes.rights_of(bind.access)
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
        if send.ud is not None and pair.kind == codes.UD:
            name, at, swap = self._route(pair, send.ud)
        _WORDS.pack_into(self._words[self._before], 0, word & _MASK, 0, swap & _MASK)
        given = self._given[pair.port] << GIVEN_BITS
        own = given | operation | options << KIND_BITS | GATHER
        self._put(POST, pair.port, count, name, at, cookie, own)

    def _route(self, pair: Pair, to: UdTarget) -> tuple[int, int, int]:
        """The port, stream and qkey that a datagram uses."""
        node = self._fabric.node_at(to.dgid, self._node)
        other = None if node is None else self._fabric.devices[node].pair_of(to.qpn)
        port = NOBODYS if other is None or other.kind != codes.UD else other.port
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
        if pair is None or pair.state == codes.RESET or pair.srq or pair.kind in WITHOUT_RECEIVES:
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
        if pair.state != codes.SQD:
            return False
        return int(self._ports.table[self._node, pair.port]["state"]) != BROKEN

    @uninterrupted
    def _post_waiting(self, pair: Pair) -> None:
        while pair.waiting_sends and not self._is_held(pair) and self._has_place(pair):
            self._hand_over(pair, *pair.waiting_sends.popleft())
        while pair.waiting_receives and self._has_receive_place(pair.port):
            self._provide(pair.port, *pair.waiting_receives.popleft())


def _flush_word(flush: Flush) -> int:
    """A flush's placement and level, as the NIC encodes them."""
    word = MAY_FLUSH if flush.type & codes.FOR_ALL else 0
    if flush.type & codes.FOR_GOOD:
        word |= MAY_PERSIST
    if flush.level == codes.OF_REGION:
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


class SharedReceiveQueues(Posting):
    """Shared receive queues and XRC domains."""

    def _begin_sharing(self) -> None:
        self._shared: dict[int, SharedQueue] = {}  # by handle, which is the port
        # By cookie: whose, what the program calls it, and where it is.
        self._drawn: dict[int, tuple[SharedQueue, int, tuple[Piece, ...]]] = {}
        self._next_shared_cookie = FIRST_COOKIE
        self._xrcds: set[int] = set()
        self._unused_ports = list(range(OWN_PORT + 1, self._ports.table.shape[1]))
        self._xrcds_made = 0

    def make_srq(self, pd: int, wr: int, sge: int, xrcd: int = 0, cq: int = 0) -> Srq:
        """Create a shared receive queue.  Errors: EINVAL, ENOMEM."""
        if pd not in self._domains or (xrcd and xrcd not in self._xrcds):
            raise Refused(errno.EINVAL)
        self._system_call()
        port = self._take_port()
        record = self._ports.table[self._node, port]
        record["given"] += record["takes"] == WORK_QUEUE
        for name, value in (
            ("open", 1),
            ("space", SPACE),
            ("takes", WORK_QUEUE),
            ("state", IDLE),
            ("channel", -1),
            ("send_queue", -1),
            ("receive_queue", self._queue(cq).place if cq else -1),
            ("notices", ANY_QUEUE + 1),
            ("domain", pd),
            ("by_verbs", 1),
            ("shared", 1),
            ("shares", 0),
            ("group", xrcd),
            ("limit", 0),
        ):
            record[name] = value
        if cq:
            self._queues[cq].users += 1
        self._shared[port] = SharedQueue(port, pd, wr, sge, xrcd, cq, set(), deque())
        for pair in self._pairs.values():
            if pair.kind == codes.XRC_RECV and pair.xrcd == xrcd:
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

    def srq_limit(self, handle: int, limit: int) -> None:
        """Arm an event for when fewer receives than ``limit`` are left; 0: disarm it."""
        queue = self._shared_queue(handle)
        self._system_call()
        record = self._ports.table[self._node, queue.port]
        left = int(record["receives_posted"] - record["receives_taken"]) + len(queue.waiting)
        if 0 < left < limit:
            self._events.append(Event(codes.EVENT_SRQ_LIMIT, handle))
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
        if queue.cq:
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
