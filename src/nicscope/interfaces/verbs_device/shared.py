"""Shared queues of receives, and the domains within which extended connections name them."""

from __future__ import annotations

import errno
import heapq
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.base import ANY_QUEUE, OWN_PORT, SPACE, uninterrupted
from nicscope.interfaces.verbs_device.calls import Event, Refused, Srq
from nicscope.interfaces.verbs_device.posting import Posting
from nicscope.nic.ports.layout import IDLE, ONE

if TYPE_CHECKING:
    from nicscope.interfaces.verbs_device.calls import Piece, Receive
    from nicscope.interfaces.verbs_device.pair import Pair

FIRST_COOKIE = 1 << 40  # beyond those of pairs' own receives


class SharedQueue(msgspec.Struct):
    """A queue of receives that several pairs draw from."""

    port: int
    domain: int
    room: int
    sges: int
    xrcd: int
    cq: int
    posted: set[int]  # cookies
    waiting: deque[tuple[int, Receive]]


class Sharing(Posting):
    """Shared queues."""

    def _begin_sharing(self) -> None:
        self._shared: dict[int, SharedQueue] = {}  # by handle, which is the port
        # By cookie: whose, what the program calls it, and where it is.
        self._drawn: dict[int, tuple[SharedQueue, int, tuple[Piece, ...]]] = {}
        self._next_shared_cookie = FIRST_COOKIE
        self._xrcds: set[int] = set()
        self._unused_ports = list(range(OWN_PORT + 1, self._ports.table.shape[1]))
        self._xrcds_made = 0

    def make_srq(self, pd: int, wr: int, sge: int, xrcd: int = 0, cq: int = 0) -> Srq:
        """A shared queue of receives.  Errors: EINVAL, ENOMEM."""
        if pd not in self._domains or (xrcd and xrcd not in self._xrcds):
            raise Refused(errno.EINVAL)
        self._system_call()
        port = self._take_port()
        record = self._ports.table[self._node, port]
        record["given"] += record["takes"] == ONE
        for name, value in (
            ("open", 1),
            ("space", SPACE),
            ("takes", ONE),
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
        """Hand a receive to the NIC.  Errors: EINVAL, ENOMEM for a full queue."""
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
        self._feed_shared(queue)

    @uninterrupted
    def _feed_shared(self, queue: SharedQueue) -> None:
        while queue.waiting and self._has_receive_place(queue.port):
            cookie, receive = queue.waiting.popleft()
            self._provide(queue.port, cookie, receive)

    def _take_receive(self, pair: Pair, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        if cookie < FIRST_COOKIE:
            return super()._take_receive(pair, cookie)
        queue, wr_id, pieces = self._drawn.pop(cookie)
        queue.posted.discard(cookie)
        self._feed_shared(queue)
        return wr_id, pieces

    def srq_limit(self, handle: int, limit: int) -> None:
        """Have it be an event that fewer receives than these are left; 0: not any more."""
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
        """Room for so many receives.  Errors: EINVAL if more are posted."""
        queue = self._shared_queue(handle)
        if wr < len(queue.posted):
            raise Refused(errno.EINVAL)
        self._system_call()
        queue.room = wr

    def free_srq(self, handle: int) -> None:
        """Errors: EINVAL; EBUSY while queue pairs use it."""
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
        """A domain of extended connections."""
        self._system_call()
        self._xrcds_made += 1
        self._xrcds.add(self._xrcds_made)
        return self._xrcds_made

    def free_xrcd(self, handle: int) -> None:
        """Errors: EINVAL; EBUSY while something is in it."""
        if handle not in self._xrcds:
            raise Refused(errno.EINVAL)
        users = {each.xrcd for each in self._shared.values()}
        if handle in users | {each.xrcd for each in self._pairs.values()}:
            raise Refused(errno.EBUSY)
        self._system_call()
        self._xrcds.remove(handle)

    def _take_port(self) -> int:
        """A port of the NIC's that is nobody's.  Errors: ENOMEM."""
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
