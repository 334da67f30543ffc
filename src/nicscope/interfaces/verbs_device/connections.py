"""Queue pairs: creation, state transitions, connecting by number, destruction."""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.ports.connections import (
    attach_port,
    mute_stream,
    new_half_connection,
    open_datagrams,
    stream_at,
)
from nicscope.drivers.simulate.ports.reports import discard_completions
from nicscope.errors import SimulationError
from nicscope.interfaces.verbs_device import codes
from nicscope.interfaces.verbs_device.base import ANY_QUEUE, SPACE
from nicscope.interfaces.verbs_device.calls import Caps, Event, Qp, QpState, Refused
from nicscope.interfaces.verbs_device.posting import SharedReceiveQueues
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import (
    BROKEN,
    IDLE,
    NAMED_QUEUE,
    NOBODY,
    RECEPTION,
    UNRELIABLE,
    WORK_QUEUE,
)

if TYPE_CHECKING:
    from nicscope.interfaces.verbs_device.calls import Caps, Piece, Receive, Send


NO_STREAM = 0


class Pair:
    """A queue pair."""

    __slots__ = (
        "attributes",
        "caps",
        "dgid",
        "domain",
        "heard",
        "inline_at",
        "inline_key",
        "inlined",
        "kind",
        "number",
        "peer",
        "peer_node",
        "port",
        "receives",
        "recv_cq",
        "send_cq",
        "sends",
        "sig_all",
        "srq",
        "state",
        "stream",
        "waiting_receives",
        "waiting_sends",
        "xrcd",
    )

    def __init__(
        self,
        number: int,
        kind: int,
        port: int,
        domain: int,
        cqs: tuple[int, int],
        caps: Caps,
        sig_all: bool,
    ) -> None:
        self.number, self.kind, self.port, self.domain = number, kind, port, domain
        self.send_cq, self.recv_cq = cqs
        self.caps, self.sig_all = caps, sig_all
        self.srq = self.xrcd = 0
        self.state = codes.RESET
        self.attributes = QpState(codes.RESET)
        self.stream = NO_STREAM
        self.dgid = bytes(16)  # where the last datagram went
        self.peer: int | None = None  # the other end's number
        self.peer_node = 0
        self.heard = 0  # of the port's troubles
        self.inline_at = self.inline_key = 0
        self.inlined = 0  # requests that were given by value
        # Posted and not known to have ended: number, what the program calls it, what it is.
        self.sends: deque[tuple[int, int, int]] = deque()
        self.receives: deque[tuple[int, int, tuple[Piece, ...]]] = deque()
        self.waiting_sends: deque[tuple[int, Send]] = deque()
        self.waiting_receives: deque[tuple[int, Receive]] = deque()

    @property
    def queues(self) -> set[int]:
        """The pair's completion queues."""
        return {self.send_cq, self.recv_cq} - {0}

    def remove_receive(self, cookie: int) -> tuple[int, tuple[Piece, ...]]:
        """Remove a receive from the queue: its ``wr_id`` and buffers."""
        for place, (number, wr_id, pieces) in enumerate(self.receives):
            if number == cookie:
                del self.receives[place]
                return wr_id, pieces
        raise LookupError(cookie)

    def forget(self) -> None:
        """Discard all posted work requests."""
        for queue in (self.sends, self.receives, self.waiting_sends, self.waiting_receives):
            queue.clear()

    def has_outstanding(self, ports: Any, node: int) -> bool:
        """Whether a posted descriptor has not completed yet."""
        record = ports.table[node, self.port]
        return bool(record["posted"] + record["refused"] > record["reported"])


FIRST_NUMBER = 0x11
LAST_NUMBER = 0xFFFFFF
LEVELS = {
    codes.RC: RECEPTION,
    codes.UC: UNRELIABLE,
    codes.UD: UNRELIABLE,
    codes.XRC_SEND: RECEPTION,
    codes.XRC_RECV: RECEPTION,
}
NOBODYS_TAG = -1
NOWHERE = -1  # a node that is none
MOST_RETRIES = 7  # that three bits can say (InfiniBand Architecture, 11.2.5)
MTU = 4096  # bytes of a packet
LONGEST = 1 << 30  # bytes of a message


class QueuePairs(SharedReceiveQueues):
    """Creates, modifies, connects and destroys queue pairs."""

    kinds = LEVELS
    most_datagram = MTU

    def _begin_pairs(self) -> None:
        self._next_number = FIRST_NUMBER
        # For a log that is kept: which pair has had a port since when (ps).
        self.held: dict[int, list[tuple[int, int]]] = {}
        self._forget_completions = bound(discard_completions, self._machine)

    def make_qp(
        self,
        pd: int,
        kind: int,
        send_cq: int,
        recv_cq: int,
        srq: int,
        caps: Caps,
        sig_all: bool,
        xrcd: int = 0,
    ) -> Qp:
        """Create a queue pair in RESET.  Errors: EINVAL, EOPNOTSUPP for a type, ENOMEM."""
        if kind not in self.kinds:
            raise Refused(errno.EOPNOTSUPP)
        needed = {send_cq, recv_cq}
        if kind == codes.XRC_RECV:
            pd, needed = pd or self._domain_of(xrcd), set()
        elif kind == codes.XRC_SEND:
            needed = {send_cq}
        if needed - self._queues.keys() or (pd not in self._domains and kind != codes.XRC_RECV):
            raise Refused(errno.EINVAL)
        if srq and srq not in self._shared:
            raise Refused(errno.EINVAL)
        self._system_call()
        port = self._take_port()
        number, self._next_number = self._next_number, self._next_number % LAST_NUMBER + 1
        real = caps._replace(send_wr=max(caps.send_wr, 1))
        pair = Pair(number, kind, port, pd, (send_cq, recv_cq), real, sig_all)
        pair.srq, pair.xrcd = srq, xrcd
        self._open(pair)
        self._pairs[number] = self._by_port[port] = pair
        for queue in pair.queues:
            self._queues[queue].users += 1
        return Qp(number, real)

    def _open(self, pair: Pair) -> None:
        record = self._ports.table[self._node, pair.port]
        record["given"] += record["takes"] == WORK_QUEUE
        pair.heard = int(record["async_errors"])
        for name, value in (
            ("open", 1),
            ("space", SPACE),
            ("takes", WORK_QUEUE),
            ("state", IDLE),
            ("channel", -1),
            ("send_queue", pair.send_cq or NOBODY),
            ("receive_queue", pair.recv_cq or NOBODY),
            ("notices", ANY_QUEUE + 1),
            ("level", self.kinds[pair.kind]),
            ("domain", pair.domain),
            ("rights", 0),
            ("longest", LONGEST),
            ("by_verbs", 1),
            ("rnr_delay", 0),
            ("shared", 0),
            ("shares", NAMED_QUEUE if pair.kind == codes.XRC_RECV else pair.srq),
            ("group", pair.xrcd),
            ("limit", 0),
            ("datagrams", 0),
            ("stopped", 0),
        ):
            record[name] = value
        if self._fabric.keeps:
            self.held.setdefault(pair.port, []).append((self._sim_process.now, pair.number))
        self._fabric.book.note(self._node, pair.port, SPACE, f"queue pair {pair.number:#x}")  # type: ignore[union-attr]

    def free_qp(self, number: int) -> None:
        """Destroy a queue pair; errors: EINVAL if there is none of that number."""
        pair = self._pair(number)
        self._system_call()
        self._reset_pair(pair)
        self._ports.table[self._node, pair.port]["open"] = 0
        del self._pairs[number], self._by_port[pair.port]
        self._give_port(pair.port)
        for queue in pair.queues:
            self._queues[queue].users -= 1
        if pair.inline_at:
            self.deregister(pair.inline_key >> 8)

    def modify_qp(self, number: int, attrs: QpState) -> None:
        """Move a queue pair to a state, which it may enter, with these attributes."""
        pair = self._pair(number)
        self._system_call()
        before, pair.attributes = pair.state, attrs
        record = self._ports.table[self._node, pair.port]
        record["rights"] = codes.rights_of(attrs.access)
        if attrs.state == codes.RESET:
            self._reset_pair(pair)
        elif attrs.state == codes.ERR:
            self._break_connection(pair, BROKEN)
            self._post_waiting(pair)
            if pair.srq and before != codes.ERR:
                self._events.append(Event(codes.EVENT_LAST_WQE, pair.number))
        elif pair.kind == codes.UD:
            if attrs.state == codes.RTR and before == codes.INIT:
                open_datagrams(self._ports, self._node, pair.port, attrs.qkey, self.most_datagram)
            record["qkey"] = attrs.qkey
        elif attrs.state == codes.RTR and before == codes.INIT:
            self._join(pair)
        elif attrs.state == codes.RTS and before == codes.RTR:
            self._begin_sending(pair)
        if attrs.state >= codes.RTR:
            record["rnr_delay"] = codes.RNR_PS[attrs.min_rnr_timer]
        if attrs.state in (codes.RESET, codes.RTS):
            record["stopped"] = 0
        self._draining.pop(number, None)
        if attrs.state == codes.SQD and before != codes.SQD and attrs.tells_drained:
            self._draining[number] = pair
        if attrs.state == before == codes.SQD and pair.stream != NO_STREAM:
            self._set_retry_limits(pair)
        pair.state = attrs.state
        if before == codes.SQD:
            self._post_waiting(pair)
        self._calling.look()

    def qp_state(self, number: int) -> int:
        """The queue pair's state, which an error may have changed."""
        pair = self._pair(number)
        self._flush_posted()
        if pair.state >= codes.RTR and int(self._state_record(pair)["state"]) == BROKEN:
            pair.state = codes.ERR
        elif pair.state == codes.RTS and int(self._state_record(pair)["stopped"]) == 1:
            pair.state = codes.SQE
        return pair.state

    def pair_of(self, number: int) -> Pair | None:
        """The queue pair of that number, if there is one."""
        return self._pairs.get(number)

    def _join(self, pair: Pair) -> None:
        """Connect a pair with its peer, or reserve the peer's stream until it connects.

        A packet counts if its number is what its receiver expects, so the numbers at which both
        ends begin must be each other's.
        """
        attrs, dest = pair.attributes, pair.attributes.dest_qpn
        level, awaited = self.kinds[pair.kind], self._fabric.awaited
        node = self._fabric.node_at(attrs.dgid, self._node)
        other = None if node is None else self._fabric.devices[node].pair_of(dest)
        peer = self._node if node is None else node
        one, two = (self._node, pair.number), (NOWHERE if node is None else node, dest)
        here = awaited.pop((one, two), NO_STREAM)
        if here == NO_STREAM:
            here, there = self._new_streams(peer, level)
            if one == two:
                stream_at(self._ports, self._node, here)["there"] = here  # it is both ends
            else:
                awaited[two, one] = there
        elif other is not None:
            self._ports.channels[peer, other.port]["tag"] = pair.port
        pair.stream, pair.peer, pair.peer_node = here, dest, two[0]
        tag = NOBODYS_TAG if other is None else other.port
        unit = attrs.path_mtu_bytes
        attach_port(self._ports, (self._node, pair.port), here, (peer, tag), level, unit)
        stream = stream_at(self._ports, self._node, here)
        stream["dead"] = 0
        stream["confirmed"] = stream["wanted"] = stream["first"] = attrs.rq_psn
        stream["begins"] = 1

    def _new_streams(self, peer: int, level: int) -> tuple[int, int]:
        """Allocate a connection's two streams, or reuse a destroyed pair's.  Errors: ENOMEM."""
        retired = self._fabric.retired
        try:
            here, there = new_half_connection(self._ports, self._node, peer, level)
        except SimulationError as error:
            quiet_at = retired.quiet_at(self._node, peer)
            if quiet_at is not None and quiet_at > self._sim_process.now:
                self._spend(quiet_at - self._sim_process.now)
            again = retired.again(self._node, peer, self._sim_process.now)
            if again is None:
                raise Refused(errno.ENOMEM, str(error)) from None
            here, there = again
            mute_stream(self._ports, peer, there, level)
        retired.begin((self._node, here), (peer, there))
        return here, there

    def _begin_sending(self, pair: Pair) -> None:
        attrs = pair.attributes
        stream: Any = stream_at(self._ports, self._node, pair.stream)
        for name in ("oldest", "turn", "fresh", "numbered"):
            stream[name] = attrs.sq_psn
        self._set_retry_limits(pair)

    def _set_retry_limits(self, pair: Pair) -> None:
        attrs = pair.attributes
        stream: Any = stream_at(self._ports, self._node, pair.stream)
        stream["time_out"] = codes.time_out_ps(attrs.timeout)
        # One that only answers has no number of its own: who asks it counts, and asks again.
        stream["tries"] = 1 + (MOST_RETRIES if pair.kind == codes.XRC_RECV else attrs.retry)
        stream["max_rnr_retries"] = -1 if attrs.rnr_retry == codes.NO_END else attrs.rnr_retry

    def _reset_pair(self, pair: Pair) -> None:
        """Reset a pair: discard its posted work, its completions and its peer."""
        self._break_connection(pair, IDLE)
        record = self._state_record(pair)
        record["given"] += 1
        record["datagrams"] = 0
        record["reaped"] = record["reported"]
        record["read"] = record["reserved"] = record["received"]
        for queue in {*pair.queues, *(each.cq for each in self._shared.values() if each.cq)}:
            self._forget_completions(self._node, pair.port, queue)
        pair.forget()
        self._backlog.discard(pair)
        self._draining.pop(pair.number, None)
        for queue in pair.queues:
            held = self._queues[queue].held
            kept = [each for each in held if each.qp_num != pair.number]
            held.clear()
            held.extend(kept)
        pair.state = codes.RESET

    def _await_acknowledgement(self, pair: Pair) -> None:
        """Wait until a due acknowledgement of the pair has been sent, before it is destroyed."""
        others = self._fabric.turns is not None
        if pair.stream != NO_STREAM and (others or pair.peer_node != self._node):
            stream: Any = stream_at(self._ports, self._node, pair.stream)
            if int(stream["ack_due"]):
                self._spend(int(self._ports.rules[0]["ack_delay"]))

    def _break_connection(self, pair: Pair, state: int) -> None:
        self._await_acknowledgement(pair)
        left, is_last = pair.stream, False
        if pair.peer is not None:
            one, two = (pair.peer_node, pair.peer), (self._node, pair.number)
            is_last = self._fabric.awaited.pop((one, two), None) is not None or one == two
        pair.stream, pair.peer = NO_STREAM, None
        self._leave(self._node, pair.port, state)
        if left != NO_STREAM:
            self._fabric.retired.leave((self._node, left), is_last, self._sim_process.now)

    def _domain_of(self, xrcd: int) -> int:
        """The protection domain for data received for an XRC domain, or none yet."""
        return next((each.domain for each in self._shared.values() if each.xrcd == xrcd), 0)

    def _state_record(self, pair: Pair) -> Any:
        return self._ports.table[self._node, pair.port]
