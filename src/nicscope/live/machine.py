"""The process that holds the machine: programs attach by its socket, and share their rings with it.

Nobody but the user whose process this is can attach.  A program asks for objects by the socket and
posts and polls through rings in a segment of memory that it alone shares with the machine; what it
writes there is checked here.  See docs/live.md.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import stat
import struct
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec

from nicscope.clock import NEVER
from nicscope.drivers.simulate.records import KINDS, TIMER
from nicscope.errors import SimulationError
from nicscope.interfaces.verbs.qp import heard, transition_errno
from nicscope.interfaces.verbs_device import calls
from nicscope.interfaces.verbs_device.calls import Caps, QpState, Refused
from nicscope.interfaces.verbs_device.fabric import addresses, guid
from nicscope.live import layout
from nicscope.live.connections import EVENT_BYTES, Connections
from nicscope.live.device import MOST_CQE, LiveDevice, LiveFabric
from nicscope.live.message_path import (
    IDLE,
    IS_RECEIVE,
    IS_SEND,
    IS_SHARED,
    NODES,
    TROUBLED,
)
from nicscope.live.rings import Ring, Segment
from nicscope.live.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

_WORDS = layout.CONSTANTS["WORDS"]
_MESSAGE = struct.Struct(f"{_WORDS}Q")
_CREDENTIALS = struct.Struct("3i")
_WORD_MASK = (1 << 64) - 1
_PIECE_BYTES = layout.DTYPES["piece"].itemsize
_SEND_BYTES, _RECEIVE_BYTES = (layout.DTYPES[each].itemsize for each in ("send", "receive"))
_COMPLETION_BYTES = layout.DTYPES["completion"].itemsize
_EVENT = struct.Struct("QII")
_MOST_WAITING = 1 << 20  # bytes of a pipe, unless root has made it larger
OF_DEVICE = 1  # what a channel is for: asynchronous events; 2 is a connection manager's
SPIN_NS = 100_000  # for which the machine looks for work before it sleeps
PS_PER_NS = 1000
PS_PER_S = 10**12
LONGEST_SLEEP_S = 0.05  # until it is asked again whether all is over
MTUS = {code: 128 << code for code in range(1, 6)}
MASK_STATE, MASK_CURRENT = 1, 2
REREG_TRANSLATION, REREG_PD, REREG_ACCESS = 1, 2, 4
MASK_SQD_NOTIFY = 4


class Completions(msgspec.Struct, eq=False):
    """A completion queue of a program."""

    ring: Ring
    cookie: int
    channel: int  # 0: none
    entries: int


class Made(msgspec.Struct, eq=False):
    """What a program has of a queue pair or a shared queue."""

    cookie: int
    kind: int
    port: int
    send: Ring | None = None
    receive: Ring | None = None
    groups: set[tuple[int, int]] = msgspec.field(default_factory=set)

    @property
    def rings(self) -> list[Ring]:
        """Its rings of work requests."""
        return [each for each in (self.receive, self.send) if each is not None]


def _life_of(connection: socket.socket) -> int | None:
    """A descriptor that says when the process of a connection ends, or None.

    Its socket may be open still, in a child that was made without the C library.
    """
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    try:
        return os.pidfd_open(_CREDENTIALS.unpack(told)[0])
    except OSError:
        return None


class Client:
    """One attached process."""

    def __init__(self, machine: Machine, connection: socket.socket) -> None:
        self.machine = machine
        self.connection = connection
        self.device: LiveDevice | None = None
        self.segment: Segment | None = None
        self.pid = 0
        # Of each its own: who reads another's, or has it block, would keep the machine asleep.
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.life = _life_of(connection)
        self.channels: dict[int, int] = {}  # write ends, by handle
        self.is_async: set[int] = set()
        self.next_channel = 1
        self.cqs: dict[int, Completions] = {}
        self.made: dict[int, Made] = {}  # pairs by number
        self.shared: dict[int, Made] = {}
        # XRC domains that a file names (its device and number): handle, and how often opened.
        self.domains: dict[tuple[int, ...], tuple[int, int]] = {}

    # Questions.

    def answer(self, message: bytes, given: list[int]) -> tuple[list[int], list[int]]:
        """The words of the answer to a question, and descriptors that go with it."""
        operation, *words = _MESSAGE.unpack(message)
        names = layout.OPERATIONS
        try:
            if operation >= len(names):
                raise Refused(errno.EOPNOTSUPP)
            name = names[operation]
            if (self.device is None) != (name == "HELLO"):
                raise Refused(errno.EINVAL)
            if name == "HELLO":
                return [0, *self._hello(*words[:2])], self._given()
            if name == "CREATE_CHANNEL":
                return [0, self._open_channel(words[0], given)], []
            found = getattr(self, f"_{name.lower()}")(*words)
            self.report_events()
            return [0, *found], []
        except Refused as refused:
            return [refused.errno], []
        except SimulationError:  # there is no room for it in the machine
            return [errno.ENOMEM], []
        except OSError as error:  # nor in this process, of descriptors above all
            return [error.errno or errno.EIO], []
        finally:
            for descriptor in given:
                os.close(descriptor)

    def _hello(self, fingerprint: int, pid: int) -> list[int]:
        if fingerprint != layout.FINGERPRINT:
            raise Refused(errno.EPROTO)
        told = self.connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid = _CREDENTIALS.unpack(told)[0] or pid
        segment = Segment()
        try:
            device = self.machine.take_device()
            device.own(self.pid)
            try:
                self.machine.serving.attach(device.node, segment.fd, self.pid)
            except OSError:
                device.own(0)
                self.machine._unused.append(device)
                raise
        except (Refused, OSError):
            segment.end()
            raise
        self.segment, self.device = segment, device
        segment.header["node"] = device._node
        facts, node = device.facts, device._node
        gids = [
            int.from_bytes(part, "little") for gid in addresses(node) for part in (gid[:8], gid[8:])
        ]
        network = int.from_bytes(guid(node).to_bytes(8, "big"), "little")
        return [
            *(node, network, *gids, facts.max_qp_wr, facts.max_sge, MOST_CQE),
            *(facts.max_srq_wr, facts.max_rd_atomic, facts.max_qp, facts.max_cq, facts.max_mr),
            *(facts.mtu_bytes, facts.max_msg_bytes, facts.max_inline, os.getpid()),
        ]

    def _given(self) -> list[int]:
        assert self.segment is not None
        return [self.segment.fd, self.bell]

    def _open_channel(self, is_async: int, given: list[int]) -> int:
        if not given:
            raise Refused(errno.EINVAL)
        handle, self.next_channel = self.next_channel, self.next_channel + 1
        # Opened anew: that the program has its own end block does not have this one block.
        if not stat.S_ISFIFO(os.fstat(given[0]).st_mode):
            raise Refused(errno.EINVAL)
        end = os.open(f"/proc/self/fd/{given[0]}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.channels[handle] = end
        if is_async == OF_DEVICE:
            self.is_async.add(handle)
        return handle

    def _destroy_channel(self, handle: int, *_: int) -> list[int]:
        if handle not in self.channels:
            raise Refused(errno.EINVAL)
        if any(each.channel == handle for each in self.cqs.values()):
            raise Refused(errno.EBUSY)
        os.close(self.channels.pop(handle))
        self.is_async.discard(handle)
        return []

    def _alloc_pd(self, *_: int) -> list[int]:
        return [self.device.open_pd()]  # type: ignore[union-attr]

    def _dealloc_pd(self, handle: int, *_: int) -> list[int]:
        device: Any = self.device
        if any(pair.domain == handle for pair in device._pairs.values()):
            raise Refused(errno.EBUSY)
        device.close_pd(handle)
        return []

    def _reg_mr(
        self, pd: int, address: int, length: int, iova: int, access: int, *_: int
    ) -> list[int]:
        device: Any = self.device
        made = device.register_process(pd, address, length, iova, access)
        self._note_region(made.handle, made.lkey)
        return [made.handle, made.lkey, made.rkey]

    def _note_region(self, handle: int, key: int) -> None:
        shift, real = self.device.shifts_of(handle)  # type: ignore[union-attr]
        self.machine.serving.note_region(self.node, handle, key, shift, real)

    def _dereg_mr(self, handle: int, *_: int) -> list[int]:
        self.device.deregister_process(handle)  # type: ignore[union-attr]
        self.machine.serving.note_region(self.node, handle, 0, 0, 0)
        return []

    def _rereg_mr(
        self, handle: int, flags: int, pd: int, address: int, length: int, access: int, *_: int
    ) -> list[int]:
        device: Any = self.device
        device.reregister_process(
            handle,
            pd if flags & REREG_PD else None,
            (address, length) if flags & REREG_TRANSLATION else None,
            access if flags & REREG_ACCESS else None,
        )
        self._note_region(handle, device.key_of(handle))
        return []

    def _create_cq(self, entries: int, channel: int, cookie: int, *_: int) -> list[int]:
        device, segment = self._both()
        if channel and (channel not in self.channels or channel in self.is_async):
            raise Refused(errno.EINVAL)
        made = device.make_cq(entries)
        try:
            ring = segment.open(_COMPLETION_BYTES, made.entries)
        except Refused:
            device.free_cq(made.handle)
            raise
        self.cqs[made.handle] = Completions(ring, cookie, channel, made.entries)
        self.machine.serving.open_ring(device.node, ring)
        if channel:
            self.machine.serving.announce(device.node, ring, self.channels[channel], cookie)
        self._list_rings()
        return [made.handle, made.entries, *self._told(ring)]

    def _destroy_cq(self, handle: int, *_: int) -> list[int]:
        device: Any = self.device
        if handle not in self.cqs:
            raise Refused(errno.EINVAL)
        device.free_cq(handle)
        gone = self.cqs.pop(handle)
        self._close_rings([gone.ring])
        self._drop_events([gone.channel, *self.is_async], gone.cookie)
        return []

    def _resize_cq(self, handle: int, entries: int, *_: int) -> list[int]:
        device, segment = self._both()
        queue = self.cqs.get(handle)
        if queue is None:
            raise Refused(errno.EINVAL)
        ring = queue.ring
        words = segment.rings[ring.number]
        if int(words["tail"]) - int(words["head"]) > entries:
            raise Refused(errno.EINVAL)
        now = ring if entries <= ring.slots else segment.grown(ring, entries)
        try:
            queue.entries = device.resize_cq(handle, entries)
        except Refused:
            if now is not ring:
                segment.give_room(now)
            raise
        if now is not ring:
            queue.ring = now
            self.machine.serving.move_ring(device.node, now)
            segment.give_room(ring)
        return [entries, *self._told(now)]

    def _told(self, ring: Ring | None) -> list[int]:
        return [ring.number, ring.at, ring.stride, ring.slots] if ring else [0, 0, 0, 0]

    def _both(self) -> tuple[Any, Segment]:
        assert self.device is not None
        assert self.segment is not None
        return self.device, self.segment

    def _create_qp(self, *words: int) -> list[int]:
        device, segment = self._both()
        pd, kind, send_cq, recv_cq, srq, *caps, sig_all, xrcd, cookie = words[:13]
        facts, wanted = device.facts, Caps(*caps)
        limits = facts.max_qp_wr, facts.max_qp_wr, facts.max_sge, facts.max_sge, facts.max_inline
        if any(one > limit for one, limit in zip(wanted, limits, strict=True)):
            raise Refused(errno.EINVAL)
        sends = kind != calls.XRC_RECV
        receives = kind not in (calls.XRC_SEND, calls.XRC_RECV) and not srq
        asked = wanted._replace(recv_wr=wanted.recv_wr if receives else 0)
        made = device.make_qp(pd, kind, send_cq, recv_cq, srq, asked, bool(sig_all), xrcd)
        caps_made = made.caps._replace(
            send_sge=max(made.caps.send_sge, 1), recv_sge=max(made.caps.recv_sge, 1)
        )
        pair = device._pairs[made.number]
        mine = Made(cookie, kind, pair.port)
        sge, inline = caps_made.send_sge, caps_made.inline
        serving = self.machine.serving
        try:
            if sends:
                size = _SEND_BYTES + max(sge * _PIECE_BYTES, inline, 8)
                mine.send = segment.open(size, caps_made.send_wr)
                serving.open_ring(device.node, mine.send, sge, inline)
            if receives and caps_made.recv_wr:
                size = _RECEIVE_BYTES + caps_made.recv_sge * _PIECE_BYTES
                mine.receive = segment.open(size, caps_made.recv_wr)
                serving.open_ring(device.node, mine.receive, caps_made.recv_sge)
        except Refused:
            device.free_qp(made.number)
            self._close_rings(mine.rings)
            raise
        pair.caps = caps_made
        self.made[made.number] = mine
        serving.note_pair(device, pair)
        self._list_rings()
        told = [self._told(each) for each in (mine.send, mine.receive)]
        return [made.number, *caps_made, *told[0], *told[1]]

    def _list_rings(self) -> None:
        work = [
            (ring.number, made.port, kind)
            for made in self.made.values()
            for ring, kind in ((made.receive, IS_RECEIVE), (made.send, IS_SEND))
            if ring is not None
        ]
        shared = [
            (ring.number, one.port, IS_SHARED) for one in self.shared.values() for ring in one.rings
        ]
        queues = [(handle, each.ring.number) for handle, each in self.cqs.items()]
        self.machine.serving.list_rings(self.node, [*shared, *work], queues)

    def _close_rings(self, rings: Sequence[Ring]) -> None:
        _, segment = self._both()
        self._list_rings()
        for ring in rings:
            self.machine.serving.close_ring(self.node, ring)
            segment.close(ring)

    def _modify_qp(self, number: int, mask: int, *words: int) -> list[int]:
        device: Any = self.device
        if number not in self.made:
            raise Refused(errno.EINVAL)
        told = dict(zip(layout.ATTRIBUTES, words, strict=False))
        mask = heard(self.made[number].kind, mask)
        now = device.qp_state(number)
        then = told["qp_state"] if mask & MASK_STATE else now
        if mask & MASK_CURRENT and told["cur_qp_state"] != now:
            raise Refused(errno.EINVAL)
        wrong = transition_errno(self.made[number].kind, now, then, mask & ~MASK_STATE)
        wrong = wrong or self._attribute_errno(told, mask)
        if wrong:
            raise Refused(wrong)
        device.modify_qp(number, self._state_of(number, told, mask, then))
        pair, mine = device._pairs[number], self.made[number]
        if then == calls.RESET:
            self.machine.serving.reset_port(device.node, pair.port, mine.rings)
        self.machine.serving.note_pair(device, pair)
        return [then]

    def _attribute_errno(self, told: dict[str, int], mask: int) -> int:
        device: Any = self.device
        facts = device.facts
        most = {
            4: ("pkey_index", 0), 9: ("timeout", 31), 10: ("retry_cnt", 7), 11: ("rnr_retry", 7),
            15: ("min_rnr_timer", 31), 13: ("max_rd_atomic", facts.max_rd_atomic),
            17: ("max_dest_rd_atomic", facts.max_rd_atomic), 20: ("dest_qp_num", (1 << 24) - 1),
        }  # fmt: skip
        if mask & (1 << 14 | 1 << 18 | 1 << 25):
            return errno.EOPNOTSUPP
        if any(mask & 1 << bit and told[name] > limit for bit, (name, limit) in most.items()):
            return errno.EINVAL
        if mask & 1 << 5 and told["port_num"] != 1:
            return errno.EINVAL
        if mask & 1 << 8 and told["path_mtu"] not in MTUS:
            return errno.EINVAL
        if mask & 1 << 7 and (not told["is_global"] or told["sgid_index"] > 1):
            return errno.EINVAL
        if mask & 1 << 6 and told["qkey"] & 1 << 31 and os.geteuid() != 0:
            return errno.EPERM
        return 0

    def _state_of(self, number: int, told: dict[str, int], mask: int, then: int) -> QpState:
        device: Any = self.device
        if then == calls.RESET:
            return QpState(calls.RESET)
        named = {
            3: ("access", "qp_access_flags"), 20: ("dest_qpn", "dest_qp_num"),
            9: ("timeout", "timeout"), 10: ("retry", "retry_cnt"), 11: ("rnr_retry", "rnr_retry"),
            15: ("min_rnr_timer", "min_rnr_timer"), 13: ("rd_atomic", "max_rd_atomic"),
            17: ("dest_rd_atomic", "max_dest_rd_atomic"), 6: ("qkey", "qkey"),
            4: ("pkey_index", "pkey_index"),
        }  # fmt: skip
        new: dict[str, Any] = {
            own: told[name] for bit, (own, name) in named.items() if mask & 1 << bit
        }
        if mask & 1 << 12:
            new["rq_psn"] = told["rq_psn"] & 0xFFFFFF
        if mask & 1 << 16:
            new["sq_psn"] = told["sq_psn"] & 0xFFFFFF
        if mask & 1 << 8:
            new["path_mtu_bytes"] = MTUS[told["path_mtu"]]
        if mask & 1 << 7:
            halves = told["dgid_high"], told["dgid_low"]
            new["dgid"] = b"".join(half.to_bytes(8, "little") for half in halves)
            new["sgid_index"] = told["sgid_index"]
        new["tells_drained"] = bool(mask & MASK_SQD_NOTIFY and told["en_sqd_async_notify"])
        return QpState(**(device._pairs[number].attributes._asdict() | new | {"state": then}))

    def _query_qp(self, number: int, *_: int) -> list[int]:
        if number not in self.made:
            raise Refused(errno.EINVAL)
        return [self.device.qp_state(number)]  # type: ignore[union-attr]

    def _destroy_qp(self, number: int, *_: int) -> list[int]:
        device: Any = self.device
        if number not in self.made:
            raise Refused(errno.EINVAL)
        self._leave_groups(number)
        device.free_qp(number)
        gone = self.made.pop(number)
        self.machine.serving.forget_pair(device.node, gone.port)
        self._close_rings(gone.rings)
        self._drop_events(self.is_async, gone.cookie)
        return []

    def _create_srq(
        self, pd: int, wr: int, sge: int, xrcd: int, cq: int, cookie: int, *_: int
    ) -> list[int]:
        device, segment = self._both()
        facts = device.facts
        if not 0 < wr <= facts.max_srq_wr or sge > facts.max_sge or (cq and cq not in self.cqs):
            raise Refused(errno.EINVAL)
        made = device.make_srq(pd, wr, max(sge, 1), xrcd, cq)
        try:
            ring = segment.open(_RECEIVE_BYTES + made.sge * _PIECE_BYTES, made.wr)
        except Refused:
            device.free_srq(made.handle)
            raise
        self.machine.serving.open_ring(device.node, ring, made.sge)
        self.shared[made.handle] = Made(cookie, 0, made.handle, None, ring)
        self._list_rings()
        return [made.handle, made.number, made.wr, made.sge, *self._told(ring)]

    def _modify_srq(self, handle: int, mask: int, _wr: int, limit: int, *_: int) -> list[int]:
        device: Any = self.device
        if handle not in self.shared:
            raise Refused(errno.EINVAL)
        if mask & 1:
            raise Refused(errno.EOPNOTSUPP)
        if mask & 2:
            device.srq_limit(handle, limit)
        return []

    def _query_srq(self, handle: int, *_: int) -> list[int]:
        if handle not in self.shared:
            raise Refused(errno.EINVAL)
        return [self.device.srq_read_limit(handle)]  # type: ignore[union-attr]

    def _destroy_srq(self, handle: int, *_: int) -> list[int]:
        device: Any = self.device
        if handle not in self.shared:
            raise Refused(errno.EINVAL)
        device.free_srq(handle)
        gone = self.shared.pop(handle)
        self.machine.serving.forget_pair(device.node, gone.port)
        self._close_rings(gone.rings)
        self._drop_events(self.is_async, gone.cookie)
        return []

    def _open_xrcd(self, has_file: int, *words: int) -> list[int]:
        file = words[:2]
        if has_file and file in self.domains:
            handle, users = self.domains[file]
        else:
            handle, users = self.device.make_xrcd(), 0  # type: ignore[union-attr]
        if has_file:
            self.domains[file] = handle, users + 1
        return [handle]

    def _close_xrcd(self, handle: int, *_: int) -> list[int]:
        for file, (domain, users) in [*self.domains.items()]:
            if domain == handle and users > 1:
                self.domains[file] = domain, users - 1
                return []
            if domain == handle:
                del self.domains[file]
        self.device.free_xrcd(handle)  # type: ignore[union-attr]
        return []

    def _attach_mcast(self, number: int, high: int, low: int, *_: int) -> list[int]:
        return self._join(number, (high, low), True)

    def _detach_mcast(self, number: int, high: int, low: int, *_: int) -> list[int]:
        return self._join(number, (high, low), False)

    def _join(self, number: int, group: tuple[int, int], joins: bool) -> list[int]:
        mine = self.made.get(number)
        if mine is None or mine.kind != calls.UD:
            raise Refused(errno.EINVAL)
        wrong = self.machine.serving.join(self.node, number, group, joins)
        if wrong:
            raise Refused(wrong)
        (mine.groups.add if joins else mine.groups.discard)(group)
        return []

    def _leave_groups(self, number: int) -> None:
        for group in [*self.made[number].groups]:
            self._join(number, group, False)

    # Connections.

    @property
    def node(self) -> int:
        """The node of its NIC."""
        return -1 if self.device is None else self.device.node

    def write_event(self, channel: int, event: bytes) -> None:
        """Write an event to a channel, if that is there still."""
        if channel in self.channels:
            self._write(channel, event)

    def _cm_create(self, channel: int, cookie: int, space: int, *_: int) -> list[int]:
        if channel not in self.channels:
            raise Refused(errno.EINVAL)
        return [self.machine.connections.create(self, channel, cookie, space)]

    def _cm_own(self, handle: int, cookie: int, *_: int) -> list[int]:
        self.machine.connections.end(self, handle).cookie = cookie
        return []

    def _cm_move(self, handle: int, channel: int, *_: int) -> list[int]:
        if channel not in self.channels:
            raise Refused(errno.EINVAL)
        end = self.machine.connections.end(self, handle)
        before, end.channel = end.channel, channel
        for event in self._drop_events([before], end.cookie, EVENT_BYTES):
            self._write(channel, event)
        return []

    def _cm_bind(self, handle: int, port: int, shares: int, *_: int) -> list[int]:
        ends = self.machine.connections
        return [ends.bind(ends.end(self, handle), port, shares)]

    def _cm_listen(self, handle: int, *_: int) -> list[int]:
        ends = self.machine.connections
        ends.listen(ends.end(self, handle))
        return []

    def _cm_connect(self, handle: int, address: int, port: int, *told: int) -> list[int]:
        ends = self.machine.connections
        ends.connect(ends.end(self, handle), address, port, told)
        return []

    def _cm_accept(self, handle: int, _a: int, _p: int, *told: int) -> list[int]:
        ends = self.machine.connections
        ends.accept(ends.end(self, handle), told)
        return []

    def _cm_reject(self, handle: int, _a: int, _p: int, *told: int) -> list[int]:
        ends = self.machine.connections
        ends.reject(ends.end(self, handle), told)
        return []

    def _cm_establish(self, handle: int, *_: int) -> list[int]:
        ends = self.machine.connections
        ends.establish(ends.end(self, handle))
        return []

    def _cm_disconnect(self, handle: int, *_: int) -> list[int]:
        ends = self.machine.connections
        ends.disconnect(ends.end(self, handle))
        return []

    def _cm_destroy(self, handle: int, *_: int) -> list[int]:
        ends = self.machine.connections
        end = ends.end(self, handle)
        ends.destroy(end)
        for event in self._drop_events([end.channel], end.cookie, EVENT_BYTES):
            ends.refuse(self, event)
        return []

    # Events.

    def _drop_events(
        self, channels: Iterable[int], cookie: int, size: int = _EVENT.size
    ) -> list[bytes]:
        """Remove and return the waiting events of an object that is destroyed, as Linux does."""
        dropped = []
        for channel in channels:
            waiting = b""
            with contextlib.suppress(OSError, KeyError):  # nothing waits, or there is no channel
                place = f"/proc/self/fd/{self.channels[channel]}"
                reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    waiting = os.read(reader, _MOST_WAITING)
                finally:
                    os.close(reader)
            for at in range(0, len(waiting) - size + 1, size):
                event = waiting[at : at + size]
                if int.from_bytes(event[:8], "little") == cookie:
                    dropped.append(event)
                else:
                    self._write(channel, event)
        return dropped

    def note_drained(self) -> None:
        """Go on looking whether queue pairs have drained, if any still are to."""
        device: Any = self.device
        self.machine.serving.live.nodes[device.node]["drains"] = bool(device._draining)

    def report_events(self) -> None:
        """Tell the program of asynchronous errors."""
        if self.device is not None and self.segment is not None:
            for event in self.device.heard():
                self._tell(event)

    def _tell(self, event: Any) -> None:
        cookie = 0
        if event.type == calls.EVENT_CQ_ERR:
            queue = self.cqs.get(event.element)
            if queue is not None:
                cookie = queue.cookie
                self.segment.state[queue.ring.number] = 1  # type: ignore[union-attr]
        else:
            objects = self.shared if event.type == calls.EVENT_SRQ_LIMIT else self.made
            made = objects.get(event.element)
            cookie = made.cookie if made is not None else 0
        if cookie:
            for handle in self.is_async:
                self._write(handle, _EVENT.pack(cookie, event.type, 0))

    def _write(self, handle: int, event: bytes) -> None:
        try:
            os.write(self.channels[handle], event)
        except (BlockingIOError, BrokenPipeError):
            self.machine.unheard_by_machine += 1

    def leave(self) -> None:
        """The process has gone: give back what it has left."""
        self.connection.close()
        os.close(self.bell)
        if self.life is not None:
            os.close(self.life)
        self.machine.connections.leave(self)
        for end in self.channels.values():
            os.close(end)
        self.channels.clear()
        if self.device is not None and self.segment is not None:
            self.device.own(0)
            for number in self.made:
                self._leave_groups(number)
            self.machine.serving.detach(self.device.node)
            self.machine.give_device(self)
            self.segment.end()
            self.segment = None


class Machine:
    """The machine of all attached processes."""

    def __init__(self, fabric: LiveFabric, path: Path, pace: Any = None) -> None:
        """``path``: of its socket; ``pace``: the bytes of paced programs' clocks."""
        self.fabric = fabric
        self.simulation = fabric.begun()
        fabric.turns = None
        self.devices = [cast("LiveDevice", LiveDevice.on(fabric)) for _ in range(NODES)]
        self._unused = [*self.devices]
        self.clients: dict[int, Client] = {}  # by the descriptor of their socket
        self._lives: dict[int, Client] = {}  # by that which says when they end
        self.unheard_by_machine = 0
        self.connections = Connections()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.listener.setblocking(False)
        self._poll = select.epoll()
        self._poll.register(self.listener.fileno(), select.EPOLLIN)
        machine = self.simulation.machine
        self._tally = machine.tally
        self._timers = machine.agenda.times[: NODES * KINDS].reshape(NODES, KINDS)[:, TIMER]
        self.serving = Serving(fabric, self._poll.fileno(), pace)
        self._state: Any = self.serving.live.state
        # Clocks of paced programs go on with the first look, which finds that all wait.
        self._state["is_idle"], self._state["idle_since"] = pace is None, time.monotonic_ns()
        fabric.quiet = self.serving.let_packets_move
        self._processors = len(os.sched_getaffinity(0))

    @property
    def unheard(self) -> int:
        """Events for which a program's channel had no room."""
        return self.unheard_by_machine + self.serving.unheard

    def take_device(self) -> Any:
        """The NIC of the next process.  Errors: EAGAIN if so many are attached."""
        if not self._unused:
            raise Refused(errno.EAGAIN)
        return self._unused.pop(0)

    def give_device(self, client: Client) -> None:
        """Take the NIC of a process that has gone."""
        device: Any = client.device
        self.serving.begin_round()
        device.release_all()
        self._unused.append(device)

    def serve(self, is_over: Callable[[], bool]) -> None:
        """Serve programs until ``is_over`` says so, which is asked between two looks."""
        while not is_over():
            self.serving.link_directly()
            reasons = self.serving.serve(SPIN_NS)
            if reasons & TROUBLED or self.serving.live.nodes["drains"].any():
                self._mind()
            if reasons == IDLE:
                self._sleep()
            else:
                self._attend(0)

    def _mind(self) -> None:
        """Tell programs of errors, and of queue pairs that have drained."""
        for client in [*self.clients.values()]:
            if client.segment is not None:
                client.report_events()
                client.note_drained()

    def _allowed(self) -> int:
        """The virtual time up to which timers are due."""
        passed = time.monotonic_ns() - int(self._state[0]["idle_since"])
        return int(self._tally[0]["now"]) + passed * PS_PER_NS

    # Sockets.

    def _sleep(self) -> None:
        headers = [each.segment.header for each in self.clients.values() if each.segment]
        for header in headers:
            header["asleep"] = 1
        try:
            if self.serving.is_rung():
                return
            due, timeout = int(self._timers.min()), LONGEST_SLEEP_S
            if due < NEVER:
                timeout = min(timeout, max((due - self._allowed()) / PS_PER_S, 0))
            self._attend(timeout)
        finally:
            for header in headers:
                header["asleep"] = 0

    def _attend(self, timeout: float) -> None:
        for descriptor, _ in self._poll.poll(timeout):
            if descriptor == self.listener.fileno():
                self._accept()
            elif descriptor in self._lives:
                self._let_go(self._lives[descriptor])
            elif descriptor in self.clients:
                self._answer(self.clients[descriptor])

    def _accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except OSError:  # of descriptors there are no more: it waits
            return
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(told)
        if user != os.geteuid():
            connection.close()
            return
        connection.setblocking(False)
        try:
            client = Client(self, connection)
        except OSError:  # nor for its bell
            connection.close()
            return
        self.clients[connection.fileno()] = client
        self._poll.register(connection.fileno(), select.EPOLLIN)
        self._poll.register(client.bell, select.EPOLLIN | select.EPOLLET)  # it is never read
        if client.life is not None:
            self._lives[client.life] = client
            self._poll.register(client.life, select.EPOLLIN)

    def _let_go(self, client: Client) -> None:
        """The process has gone."""
        del self.clients[client.connection.fileno()]
        self._lives.pop(client.life or -1, None)
        for each in (client.connection.fileno(), client.bell, client.life):
            if each is not None:
                self._poll.unregister(each)  # which others may have open still
        client.leave()
        self._mind_processors()

    def _answer(self, client: Client) -> None:
        try:
            message, given, _, _ = socket.recv_fds(client.connection, _MESSAGE.size, 4)
        except BlockingIOError:
            return
        except OSError:
            message, given = b"", []
        if len(message) != _MESSAGE.size:
            for each in given:
                os.close(each)
            self._let_go(client)
            return
        self.serving.begin_round()
        words, descriptors = client.answer(message, given)
        if message[:8] == bytes(8):
            self._mind_processors()
        words += [0] * (_WORDS - len(words))
        try:
            packed = _MESSAGE.pack(*(word & _WORD_MASK for word in words))
            socket.send_fds(client.connection, [packed], descriptors)
        except OSError:
            return  # it has gone, which the next look finds

    def _mind_processors(self) -> None:
        """Tell programs whether there are fewer processors than who spins on them."""
        few = self._processors <= len(self.clients)
        for client in self.clients.values():
            if client.segment is not None:
                client.segment.header["yields"] = few

    def close(self) -> None:
        """Let go of all programs."""
        for client in [*self.clients.values()]:
            client.leave()
        self.clients.clear()
        self.listener.close()
        self._poll.close()
