"""A simulated RDMA device: queue pairs and their connections, limits, and counters."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.config.design import SCHEMES, Design, Pins
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.drivers.simulate.ports.connections import (
    attach_port,
    mute_stream,
    new_half_connection,
    open_datagrams,
    stream_at,
)
from nicscope.errors import SimulationError
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Bill, Caps, Event, Facts, Qp, QpState, Refused
from nicscope.interfaces.verbs_device.fabric import (
    ANY_QUEUE,
    DESIGN,
    NO_STREAM,
    SPACE,
    Fabric,
    Pair,
)
from nicscope.interfaces.verbs_device.queues import MOST_INLINE, WorkQueues
from nicscope.interfaces.verbs_device.regions import DM_BYTES
from nicscope.interfaces.work_queues import open_port
from nicscope.nic.ports import layout, traffic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.run_report import RunReport


FIRST_NUMBER = 0x11
LAST_NUMBER = 0xFFFFFF
LEVELS = {
    calls.RC: layout.RECEPTION,
    calls.UC: layout.UNRELIABLE,
    calls.UD: layout.UNRELIABLE,
    calls.XRC_SEND: layout.RECEPTION,
    calls.XRC_RECV: layout.RECEPTION,
}
NOBODYS_TAG = -1
NOWHERE = -1  # a node that is none
MOST_RETRIES = 7  # that three bits can say (InfiniBand Architecture, 11.2.5)
MTU = 4096  # bytes of a packet
LONGEST = 1 << 30  # bytes of a message


WORD = 4  # bytes in which port_xmit_data and port_rcv_data count
OF_PORT = "counters"  # folders of /sys/class/infiniband/DEVICE/ports/1
OF_NIC = "hw_counters"
FLUSHES = (layout.FLUSHED, layout.CLOSED)


Find = Callable[["Machine", int], int]  # for a node


class Counter(NamedTuple):
    """A hardware counter: its sysfs folder, how it is computed, and its meaning."""

    folder: str
    of: Find
    meaning: str


def _tally(place: int) -> Find:
    return lambda machine, n: int(machine.ports.tallies[n, place])


def _words(packets: int, payload: int) -> Find:
    def of(machine: Machine, n: int) -> int:
        own, header = machine.ports.tallies[n], machine.endpoints[n]["control_bytes"]
        return int(own[packets] * header + own[payload]) // WORD

    return of


def _ended(what: int) -> Find:
    return lambda machine, n: int(machine.ports.ended[n, what])


def _told(side: int, *statuses: int) -> Find:
    return lambda machine, n: int(machine.ports.told_by_side[n, side, [*statuses]].sum())


def _sent(*statuses: int) -> Find:
    return _told(layout.SENT, *statuses)


def _received(*statuses: int) -> Find:
    return _told(layout.RECEIVED, *statuses)


BAD = tuple(each for each in range(len(layout.STATUS_NAMES)) if each != layout.DONE)
COUNTERS = {
    "port_xmit_data": Counter(
        OF_PORT,
        _words(traffic.PACKETS_OUT, traffic.PAYLOAD_OUT),
        "4-byte words that left, headers too",
    ),
    "port_rcv_data": Counter(
        OF_PORT, _words(traffic.PACKETS_IN, traffic.PAYLOAD_IN), "4-byte words that came"
    ),
    "port_xmit_packets": Counter(
        OF_PORT, _tally(traffic.PACKETS_OUT), "packets that left, repeats and ACKs too"
    ),
    "port_rcv_packets": Counter(OF_PORT, _tally(traffic.PACKETS_IN), "packets that came"),
    "port_rcv_errors": Counter(OF_PORT, _ended(traffic.CORRUPTED), "packets that came damaged"),
    "rx_write_requests": Counter(OF_NIC, _tally(traffic.WRITES_IN), "writes carried out for peers"),
    "rx_read_requests": Counter(OF_NIC, _tally(traffic.READS_IN), "reads answered for peers"),
    "rx_atomic_requests": Counter(
        OF_NIC, _tally(traffic.ATOMICS_IN), "atomics carried out for peers"
    ),
    "out_of_buffer": Counter(
        OF_NIC, _ended(traffic.NO_BUFFER), "packets dropped: no receive posted"
    ),
    "out_of_sequence": Counter(OF_NIC, _ended(traffic.OUT_OF_TURN), "packets that came too early"),
    "duplicate_request": Counter(
        OF_NIC, _tally(traffic.HAD_BEFORE), "request packets that had come before"
    ),
    "rnr_nak_retry_err": Counter(
        OF_NIC, _tally(traffic.RESTS), "RNR NAKs that came, before the last"
    ),
    "local_ack_timeout_err": Counter(
        OF_NIC, _tally(traffic.TIME_OUTS), "timeouts that ran out, before the last"
    ),
    "rx_icrc_encapsulated": Counter(OF_NIC, _ended(traffic.CORRUPTED), "packets that came damaged"),
    "req_cqe_error": Counter(OF_NIC, _sent(*BAD), "requests that ended with an error"),
    "req_cqe_flush_error": Counter(OF_NIC, _sent(*FLUSHES), "requests that were flushed"),
    "req_remote_access_errors": Counter(
        OF_NIC, _sent(layout.REMOTE_PROTECTION), "requests for memory not permitted"
    ),
    "req_remote_invalid_request": Counter(
        OF_NIC, _sent(layout.REMOTE_INVALID), "requests that the peer found invalid"
    ),
    "req_rnr_retries_exceeded": Counter(
        OF_NIC, _sent(layout.NO_RECEIVE), "requests that used up rnr_retry"
    ),
    "req_transport_retries_exceeded": Counter(
        OF_NIC, _sent(layout.PEER_DEAD), "requests that used up retry_cnt"
    ),
    "resp_cqe_error": Counter(OF_NIC, _received(*BAD), "receives that ended with an error"),
    "resp_cqe_flush_error": Counter(OF_NIC, _received(*FLUSHES), "receives that were flushed"),
    "resp_local_length_error": Counter(
        OF_NIC, _received(layout.TOO_LONG), "receives shorter than their message"
    ),
    "resp_remote_access_errors": Counter(
        OF_NIC, _tally(traffic.ACCESS_REFUSED), "peers' requests for memory not permitted"
    ),
}


def counters_of(machine: Machine, node: int) -> dict[str, int]:
    """All counters of a node's device, by name."""
    return {name: counter.of(machine, node) for name, counter in COUNTERS.items()}


NOTHING = dict.fromkeys(COUNTERS, 0)


MOST_BYTES = 1 << 30
DEPTH = 1 << 14  # of a queue; what the NIC has no place for waits in the host's memory
READS = 16


class Device(WorkQueues):
    """One NIC in one node, as one process uses it: queue pairs, limits and counters."""

    kinds = LEVELS
    most_datagram = MTU

    def __init__(
        self,
        design: str | Path | Design = DESIGN,
        *,
        faults: Faults | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """``options`` are those of ``Fabric``; ``seed`` is that of ``faults`` that are none."""
        self._begin_on(Fabric(design, faults=faults or Faults(seed=seed), **options))

    @classmethod
    def on(cls, fabric: Fabric) -> Device:
        """A device on the next node of a fabric that has several."""
        made = cls.__new__(cls)
        made._begin_on(fabric)
        return made

    def _begin_on(self, fabric: Fabric) -> None:
        self._fabric, self._node = fabric, len(fabric.devices)
        fabric.devices.append(self)
        scheme = self._fabric.design.scheme
        self.on_demand = SCHEMES[scheme].pins is Pins.AT_MISS
        self._is_made = False

    def __getattr__(self, name: str) -> Any:
        """Creates the machine on first use."""
        if name.startswith("__") or self.__dict__.get("_is_made", True):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._is_made = True
        self._begin_machine()
        self._begin_protection()
        self._begin_queues()
        self._next_number = FIRST_NUMBER
        # For a log that is kept: which pair has had a port since when (ps).
        self.held: dict[int, list[tuple[int, int]]] = {}
        return getattr(self, name)

    @property
    def design_name(self) -> str:
        """The design's name."""
        return self._fabric.design.name

    @property
    def fabric(self) -> Fabric:
        """The node beneath: its design, its platform and its log of the run."""
        return self._fabric

    @property
    def now_ps(self) -> int:
        """Virtual time in picoseconds."""
        self._flush_posted()
        return self._sim_process.now

    def records(self) -> NDArray[Any]:
        """Log records of every engine, as far as they were kept (``keep_log``), by ``end``."""
        machine = self._machine
        return machine.log[: int(machine.tally[0]["log"])]

    @property
    def facts(self) -> Facts:
        """The device's capabilities and limits."""
        size = self._fabric.size
        return Facts(
            mtu_bytes=MTU,
            max_msg_bytes=MOST_BYTES,
            max_qp_wr=DEPTH,
            max_sge=size.segments,
            max_inline=MOST_INLINE,
            max_cqe=size.entries,
            max_srq_wr=DEPTH,
            max_rd_atomic=READS,
            dm_bytes=DM_BYTES,
            qp_types=frozenset(self.kinds),
            opcodes=frozenset(self.operations),
            srq=True,
            on_demand=self.on_demand,
            huge=True,
            windows=True,
            resize_cq=True,
            max_qp=self._fabric.pairs - 1,
            max_cq=size.queues - 1,
            max_mr=size.regions - 1,
        )

    def report(self) -> RunReport:
        """The costs of the run so far."""
        return self._fabric.report()

    def counters(self) -> dict[str, int]:
        """The counters so far, by Linux's names; zeros if the device was never used."""
        if not self._is_made:
            return dict(NOTHING)
        self._flush_posted()
        return counters_of(self._machine, self._node)

    def bill(self) -> Bill:
        """The costs so far in one record; all zero for a device that was never used."""
        if not self._is_made:
            return Bill(*[0] * len(Bill._fields))
        counts = self._fabric.counts(self._node)
        serving = self._ports.nodes[self._node]
        return Bill(
            messages=int(serving["messages_out"]),
            bytes=int(serving["bytes_out"]),
            virtual_ns=self.now_ns,
            lookups=counts.get("lookups") or 0,
            misses=counts.get("ni_misses") or 0,
            pins=counts.get("pins") or 0,
            unpins=counts.get("unpins") or 0,
        )

    # Queue pairs.

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
        if kind == calls.XRC_RECV:
            pd, needed = pd or self._domain_of(xrcd), set()
        elif kind == calls.XRC_SEND:
            needed = {send_cq}
        # A queue that its kind has no use for is as good as none, whatever its number is.
        send_cq, recv_cq = (each if each in needed else 0 for each in (send_cq, recv_cq))
        if needed - self._queues.keys() or (pd not in self._domains and kind != calls.XRC_RECV):
            raise Refused(errno.EINVAL)
        if srq and srq not in self._shared:
            raise Refused(errno.EINVAL)
        self._system_call()
        port = self._take_port()
        number, self._next_number = self._next_number, self._next_number % LAST_NUMBER + 1
        real = caps._replace(send_wr=max(caps.send_wr, 1))
        pair = Pair(number, kind, port, pd, send_cq, recv_cq, real, sig_all, srq, xrcd)
        self._open(pair)
        self._pairs[number] = self._by_port[port] = pair
        for queue in pair.queues:
            self._queues[queue].users += 1
        return Qp(number, real)

    def _open(self, pair: Pair) -> None:
        record = self._ports.table[self._node, pair.port]
        pair.heard = int(record["async_errors"])
        open_port(
            record,
            open=1,
            space=SPACE,
            send_queue=pair.send_cq or layout.NOBODY,
            receive_queue=pair.recv_cq or layout.NOBODY,
            notices=ANY_QUEUE + 1,
            level=self.kinds[pair.kind],
            domain=pair.domain,
            rights=0,
            longest=LONGEST,
            rules=layout.QUEUE_PAIR_RULES,
            rnr_delay=0,
            shared=0,
            shares=layout.NAMED_QUEUE if pair.kind == calls.XRC_RECV else pair.srq,
            group=pair.xrcd,
            limit=0,
            datagrams=0,
            stopped=0,
        )
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
        record["rights"] = calls.rights_of(attrs.access)
        if attrs.state == calls.RESET:
            self._reset_pair(pair)
        elif attrs.state == calls.ERR:
            self._break_connection(pair, layout.BROKEN)
            self._post_waiting(pair)
            if pair.srq and before != calls.ERR:
                self._events.append(Event(calls.EVENT_LAST_WQE, pair.number))
        elif pair.kind == calls.UD:
            if attrs.state == calls.RTR and before == calls.INIT:
                open_datagrams(self._ports, self._node, pair.port, attrs.qkey, self.most_datagram)
            record["qkey"] = attrs.qkey
        elif attrs.state == calls.RTR and before == calls.INIT:
            self._join(pair)
        elif attrs.state == calls.RTS and before == calls.RTR:
            self._begin_sending(pair)
        if attrs.state >= calls.RTR:
            record["rnr_delay"] = calls.RNR_PS[attrs.min_rnr_timer]
        if attrs.state in (calls.RESET, calls.RTS):
            record["stopped"] = 0
        self._draining.pop(number, None)
        if attrs.state == calls.SQD and before != calls.SQD and attrs.tells_drained:
            self._draining[number] = pair
        if attrs.state == before == calls.SQD and pair.stream != NO_STREAM:
            self._set_retry_limits(pair)
        pair.state = attrs.state
        if before == calls.SQD:
            self._post_waiting(pair)
        self._calling.look()

    def qp_state(self, number: int) -> int:
        """The queue pair's state, which an error may have changed."""
        pair = self._pair(number)
        self._flush_posted()
        if pair.state >= calls.RTR and int(self._state_record(pair)["state"]) == layout.BROKEN:
            pair.state = calls.ERR
        elif pair.state == calls.RTS and int(self._state_record(pair)["stopped"]) == 1:
            pair.state = calls.SQE
        return pair.state

    def _join(self, pair: Pair) -> None:
        """Connect a pair with its peer, or reserve the peer's stream until it connects.

        A packet counts if its number is what its receiver expects, so the numbers at which both
        ends begin must be each other's.
        """
        attrs, dest = pair.attributes, pair.attributes.dest_qpn
        level, awaited = self.kinds[pair.kind], self._fabric.awaited
        node = self._fabric.node_at(attrs.dgid, self._node)
        other = None if node is None else self._fabric.devices[node]._pairs.get(dest)
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
        pair.answers_from = -1
        if other is not None and (other.peer, other.peer_node) == (pair.number, self._node):
            self._number_answers(pair, other.attributes.rq_psn)
            if other.state == calls.RTR:
                owner = self._fabric.devices[two[0]]
                assert isinstance(owner, Device)
                owner._number_answers(other, attrs.rq_psn)

    def _number_answers(self, pair: Pair, first: int) -> None:
        """Begin a pair's packets with what its peer expects: it answers reads before it is RTS."""
        pair.answers_from = first
        self._number_packets(pair, first)

    def _number_packets(self, pair: Pair, first: int) -> None:
        stream: Any = stream_at(self._ports, self._node, pair.stream)
        for name in ("oldest", "turn", "fresh", "numbered"):
            stream[name] = first

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
        if pair.answers_from != pair.attributes.sq_psn:  # else some answers may have gone already
            self._number_packets(pair, pair.attributes.sq_psn)
        self._set_retry_limits(pair)

    def _set_retry_limits(self, pair: Pair) -> None:
        attrs = pair.attributes
        stream: Any = stream_at(self._ports, self._node, pair.stream)
        stream["time_out"] = calls.time_out_ps(attrs.timeout)
        # One that only answers has no number of its own: who asks it counts, and asks again.
        stream["tries"] = 1 + (MOST_RETRIES if pair.kind == calls.XRC_RECV else attrs.retry)
        stream["max_rnr_retries"] = -1 if attrs.rnr_retry == calls.NO_END else attrs.rnr_retry

    def _reset_pair(self, pair: Pair) -> None:
        """Reset a pair: discard its posted work, its completions and its peer."""
        self._break_connection(pair, layout.IDLE)
        record = self._state_record(pair)
        record["given"] += 1
        record["datagrams"] = 0
        record["reaped"] = record["reported"]
        record["read"] = record["reserved"] = record["received"]
        for queue in {*pair.queues, *(each.cq for each in self._shared.values() if each.cq)}:
            self._forget_completions(self._node, pair.port, queue)
        pair.forget()
        self._give_up_drawn(pair)
        self._backlog.discard(pair)
        self._draining.pop(pair.number, None)
        for queue in pair.queues:
            held = self._queues[queue].held
            kept = [each for each in held if each.qp_num != pair.number]
            held.clear()
            held.extend(kept)
        pair.state = calls.RESET

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
