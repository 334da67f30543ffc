"""The connection manager: CM identifiers, their events, connecting and disconnecting."""

from __future__ import annotations

import errno
import socket
from collections import deque
from dataclasses import field
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs import librdmacm_enums as cm
from nicscope.interfaces.verbs.addr import PORT, AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import (
    Attributes,
    PyverbsCM,
    PyverbsObject,
    PyverbsUserError,
    PyverbsValue,
    error,
    here,
)
from nicscope.interfaces.verbs.cq import CQ
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.enumerations import naming
from nicscope.interfaces.verbs.mr import MR, PD
from nicscope.interfaces.verbs.qp import ECE, QP, QPAttr, QPInitAttr, required_masks
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.addr import AH
    from nicscope.interfaces.verbs.base import World
    from nicscope.interfaces.verbs.cq import WC


ANYWHERE = ("", "0.0.0.0", "::")
FIRST_PORT = 49152  # of those that are given to who asks for none
UDP_QKEY = 0x01234567  # of all datagrams of connections (Linux, include/rdma/rdma_cm.h)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


cm_event_to_str = naming("The name of an event.", cm.rdma_cm_event_type, "Unknown event type ({0})")


def local_names(world: World) -> set[str]:
    """How a node is called."""
    made = {socket.inet_ntop(socket.AF_INET6, gid.raw) for gid in world.gids()}
    return {*LOOPBACK, *made, *(name.removeprefix("::ffff:") for name in made)}


class ConnParam(Attributes):
    """Parameters of a connection request."""

    SHOWN = ("resources", "depth", "flow_control", "retry", "rnr_retry", "srq", "qp_num")
    resources: int = 1
    depth: int = 1
    flow_control: int = 0
    retry: int = 5
    rnr_retry: int = 5
    srq: int = 0
    qp_num: int = 0
    data_len: int = 0
    private_data: bytes = field(default=b"", init=False)

    def set_private_data(self, private_data: Any) -> None:
        """Set the private data for the peer, cut to ``data_len`` if that was given."""
        self.private_data = bytes(private_data)[: self.data_len or None]
        self.data_len = len(self.private_data)

    @property
    def qpn(self) -> int:
        """The number of the queue pair to connect."""
        return self.qp_num

    @qpn.setter
    def qpn(self, value: int) -> None:
        self.qp_num = value


class UDParam(PyverbsObject):
    """A datagram peer's address handle attributes, queue pair number and qkey, from an event."""

    def __init__(self, cm_event: CMEvent) -> None:
        other = cm_event.id.peer or cm_event.id  # who has answered, or asked
        if not other.is_datagrams:
            raise error("Failed to get UD parameters", errno.EINVAL)
        self.qp_num, self.qkey, self.ah_attr = cm_event.conn_param.qp_num, UDP_QKEY, other.address


class JoinMCAttrEx(PyverbsObject):
    """Attributes for joining a multicast group; the device supports none."""

    def __init__(self, addr: Any = None, comp_mask: int = 0, join_flags: int = 0) -> None:
        self.addr, self.comp_mask, self.join_flags = addr, int(comp_mask), int(join_flags)


class AddrInfo(PyverbsValue):
    """An address by name and service, at either end."""

    def __init__(self, *of: Any, **named: Any) -> None:
        """As ``get_addrinfo``."""
        self.get_addrinfo(*of, **named)

    def get_addrinfo(
        self,
        src: str | None = None,
        dst: str | None = None,
        src_service: str | None = None,
        dst_service: str | None = None,
        port_space: int = 0,
        flags: int = 0,
    ) -> AddrInfo:
        """Resolve names and services anew, into this object; errors: EOPNOTSUPP, ENODEV, ENOENT."""
        space = int(port_space) or int(cm.RDMA_PS_TCP)
        if space not in (cm.RDMA_PS_TCP, cm.RDMA_PS_UDP):
            raise error("Failed to get Address Info", errno.EOPNOTSUPP)
        ends = _place(src, src_service), _place(dst, dst_service)
        known = set().union(ANYWHERE, *map(local_names, here().neighbours))
        if any(name not in known for name, _ in ends):
            raise error("Failed to get Address Info", errno.ENODEV)
        self.port_space, self.flags = space, int(flags)
        self.src, self.dst = ends
        return self


def _place(name: str | None, service: str | None) -> tuple[str, int]:
    try:
        return str(name or ""), int(service or 0)
    except ValueError:
        raise error("Failed to get Address Info", errno.ENOENT) from None


class CMEventChannel(PyverbsCM):
    """A queue of connection manager events."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Any, Any, ConnParam, int]] = deque()
        self._opened()

    def tell(self, kind: int, about: CMID, listener: Any, param: ConnParam, status: int) -> None:
        """Append an event to the channel."""
        self.waiting.append((int(kind), about, listener, param, status))


class CMEvent(PyverbsCM):
    """The next event of a channel; errors: ``PyverbsRDMAError`` if none can ever come."""

    def __init__(self, channel: CMEventChannel) -> None:
        if not here().wait("an event of a CMEventChannel", lambda: bool(channel.waiting)):
            raise error("Failed to get CM event: none can come", errno.EAGAIN)
        self.event_type, self.id, self.listen_id, self._param, self.status = (
            channel.waiting.popleft()
        )
        self.id.on_event(self.event_type)
        self._opened()

    @property
    def private_data(self) -> bytes:
        """The private data that the peer has sent."""
        return self._param.private_data

    def event_str(self) -> str:
        """Its name."""
        return cm_event_to_str(self.event_type)

    @property
    def conn_param(self) -> ConnParam:
        """The connection parameters that the peer has sent."""
        return self._param

    def ack_cm_event(self) -> None:
        """Acknowledge the event."""

    def __str__(self) -> str:
        return f"CM event: {cm_event_to_str(self.event_type)}, status {self.status}"


WAITS = 10_000  # empty polls, of a millisecond at most each, before a completion cannot come


STATE = int(e.IBV_QP_STATE)
KINDS = {int(cm.RDMA_PS_TCP): e.IBV_QPT_RC, int(cm.RDMA_PS_UDP): e.IBV_QPT_UD}


PSN = (1 << 24) - 1
STRIDE = 0x10001  # assumed: any that tells the numbers of two ends' packets apart
TIMEOUT, RNR_TIMER = 14, 12
LONGEST_TIMEOUT = 31  # the field has five bits
ROCE_V2_BY_IP = 1  # where the address of the port's IPv4 stands


class CMID(PyverbsCM):
    """A CM identifier: one end of a connection, or a listener."""

    ORDER = ("qps", "mrs", "pds")
    qp: QP | None = None
    _is_answered = _is_up = _is_left = False

    def __init__(
        self,
        creator: AddrInfo | CMEventChannel | CMEvent | None = None,
        qp_init_attr: QPInitAttr | None = None,
        pd: PD | None = None,
        port_space: int = cm.RDMA_PS_TCP,
        listen_id: CMID | None = None,
    ) -> None:
        if isinstance(creator, AddrInfo):
            port_space = creator.port_space
        elif isinstance(creator, CMEvent):
            port_space = creator.id.port_space
        if int(port_space) not in KINDS:
            raise error("Failed to create CM ID", errno.EOPNOTSUPP)
        self.port_space = int(port_space)
        self.world: World = here()
        self.context = Context(name=self.world.name)
        self._given = pd
        self.pd = PD(self.context) if pd is None else pd
        self._init = qp_init_attr
        self.channel: CMEventChannel | None = None
        self.requests: deque[tuple[CMID, ConnParam]] = deque()
        self.peer: CMID | None = None
        self._asked = ConnParam()
        self.world.ends += 1
        self._psn = self.world.ends * STRIDE & PSN
        self.place: tuple[str, int] | None = None
        self._target: tuple[str, int] | None = None
        self._opened()
        if isinstance(creator, CMEventChannel):
            self.channel = creator
        elif isinstance(creator, CMEvent):
            self._take(creator, listen_id)
        elif isinstance(creator, AddrInfo):
            if creator.flags & cm.RAI_PASSIVE:
                self.bind_addr(creator)
            else:
                self.resolve_addr(creator)
                if qp_init_attr is not None:
                    self.create_qp(qp_init_attr)

    def _take(self, event: CMEvent, listener: CMID | None) -> None:
        """Become the passive end of a connection request that has arrived."""
        found = event.listen_id if listener is None else listener
        if event.event_type != cm.RDMA_CM_EVENT_CONNECT_REQUEST or found is None:
            raise PyverbsUserError("An end is made of a request to connect")
        self.channel, self.peer, self._asked = found.channel, event.id, event.conn_param

    @property
    def event_channel(self) -> CMEventChannel | None:
        """The channel that receives its events."""
        return self.channel

    def bind_addr(self, lai: AddrInfo) -> None:
        """Bind to an address and service."""
        name, port = lai.src if any(lai.src) else lai.dst
        if name not in {*local_names(self.world), *ANYWHERE}:
            raise error("Failed to bind address", errno.EADDRNOTAVAIL)
        if not port:
            taken = {place[1] for place in self.world.listeners}
            port = next(one for one in range(FIRST_PORT, 1 << 16) if one not in taken)
        self.place = (name, port)

    @property
    def src_port(self) -> int:
        """The service number that it is bound to."""
        return 0 if self.place is None else self.place[1]

    def listen(self, backlog: int = 0) -> None:
        """Listen for connection requests; ``backlog`` is no limit."""
        if self.place is None:
            raise error("Failed to listen", errno.EINVAL)
        if self.world.listeners.get(self.place, self) is not self or int(backlog) < 0:
            raise error("Failed to listen", errno.EADDRINUSE)
        self.world.listeners[self.place] = self

    def resolve_addr(self, ai: AddrInfo, timeout_ms: int = 2000) -> None:  # noqa: ARG002
        """Set the address of the peer."""
        self._target = ai.dst
        self._tell(cm.RDMA_CM_EVENT_ADDR_RESOLVED)

    def resolve_route(self, timeout_ms: int = 2000) -> None:  # noqa: ARG002
        """Resolve the route, which always exists."""
        if self._target is None:
            raise error("Failed to resolve route", errno.EINVAL)
        self._tell(cm.RDMA_CM_EVENT_ROUTE_RESOLVED)

    def create_qp(self, qp_init: QPInitAttr) -> None:
        """Create its queue pair, and completion queues where none are given."""
        for name in ("send_cq", "recv_cq"):
            if getattr(qp_init, name) is None:
                room = qp_init.max_send_wr if name == "send_cq" else qp_init.max_recv_wr
                setattr(qp_init, name, CQ(self.pd.ctx, max(room, 1)))
        qp_init.qp_type = KINDS[self.port_space]
        if self.is_datagrams:
            attr = QPAttr()
            attr.qkey = UDP_QKEY
            made = QP(self.pd, qp_init, attr)
        else:
            made = QP(self.pd, qp_init)
            made.modify(*self._step(e.IBV_QPS_RESET, e.IBV_QPS_INIT, QPAttr()))
        self.qp = made
        self._add_dependent(made, "qps")

    def _step(self, now: int, then: int, attr: QPAttr) -> tuple[QPAttr, int]:
        attr.qp_state = then
        attr.qp_access_flags = (
            e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        )
        attr.qkey = UDP_QKEY
        return attr, required_masks(KINDS[self.port_space], now, then) | STATE

    def init_qp_attr(self, qp_state: int) -> tuple[QPAttr, int]:
        """Attributes and mask for the program's own queue pair's step to ``qp_state``."""
        before = {e.IBV_QPS_INIT: e.IBV_QPS_RESET, e.IBV_QPS_RTR: e.IBV_QPS_INIT}
        now = before.get(int(qp_state), e.IBV_QPS_RTR)
        attr = QPAttr()
        if qp_state != e.IBV_QPS_INIT:
            if self.peer is None:
                raise error("Failed to get QP attributes", errno.EINVAL)
            self._fill(attr)
        return self._step(now, int(qp_state), attr)

    def _fill(self, attr: QPAttr) -> None:
        param = self._asked
        peer = self._required_peer("get QP attributes")
        attr.ah_attr = peer.address
        attr.dest_qp_num = param.qp_num
        attr.rq_psn, attr.sq_psn = peer._psn, self._psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = max(param.depth, 1)
        attr.retry_cnt, attr.rnr_retry = min(param.retry, 7), min(param.rnr_retry, 7)
        attr.timeout, attr.min_rnr_timer = self._timeout, RNR_TIMER

    _timeout = TIMEOUT

    @property
    def address(self) -> AHAttr:
        """The route to the peer."""
        gid = self.context.query_gid(PORT, ROCE_V2_BY_IP)
        gr = GlobalRoute(dgid=gid, sgid_index=ROCE_V2_BY_IP)
        return AHAttr(is_global=1, gr=gr, port_num=PORT)

    @property
    def qpn(self) -> int | None:
        """The number of its pair, if it has one."""
        return None if self.qp is None else self.qp.qp_num

    @property
    def dev_name(self) -> str:
        """The name of its device."""
        return self.context.name

    @property
    def port_num(self) -> int:
        """The port of its device."""
        return PORT

    def get_request(self) -> CMID:
        """The identifier of the next connection request; errors: if none can ever arrive."""
        if not self.world.wait(
            f"a request at service {self.src_port}", lambda: bool(self.requests)
        ):
            raise error("Failed to get request: none can come", errno.EAGAIN)
        peer, asked = self.requests.popleft()
        made = CMID(pd=self._given, port_space=self.port_space)
        made.channel, made.peer, made._asked = self.channel, peer, asked
        if self._init is not None:
            made.create_qp(self._init)
        return made

    def query_qp(self, attr_mask: int) -> tuple[QPAttr, QPInitAttr]:
        """The attributes of its queue pair."""
        return self._pair().query(attr_mask)

    def set_option(self, level: int, optname: int, optval: Any, optlen: int) -> None:  # noqa: ARG002
        """Set the ACK timeout of its queue pair, the only option that there is."""
        if optname != cm.RDMA_OPTION_ID_ACK_TIMEOUT:
            raise PyverbsUserError("Only RDMA_OPTION_ID_ACK_TIMEOUT can be set")
        if level != cm.RDMA_OPTION_ID or not 0 <= int(optval) <= LONGEST_TIMEOUT:
            raise error("Failed to set option", errno.EINVAL)
        self._timeout = int(optval)

    def join_multicast(self, *_: Any, **__: Any) -> None:
        """Errors: EOPNOTSUPP, as multicast is not supported."""
        raise error("Failed to join a multicast group", errno.EOPNOTSUPP)

    def leave_multicast(self, *_: Any, **__: Any) -> None:
        """Errors: EOPNOTSUPP, as multicast is not supported."""
        raise error("Failed to leave a multicast group", errno.EOPNOTSUPP)

    def set_local_ece(self, ece: ECE) -> None:
        """Errors: EOPNOTSUPP unless the options are all zero."""
        if ece.vendor_id or ece.options:
            raise error("Failed to set local ECE", errno.EOPNOTSUPP)

    def get_remote_ece(self) -> ECE:
        """The peer's ECE options, which are all zero."""
        return ECE()

    def resolve_addrinfo(self, *_: Any, **__: Any) -> None:
        """Errors: EOPNOTSUPP, as addresses are resolved at once."""
        raise error("Failed to resolve address information", errno.EOPNOTSUPP)

    def query_addrinfo(self) -> AddrInfo:
        """Errors: EOPNOTSUPP, as nothing has been resolved so."""
        raise error("Failed to query address information", errno.EOPNOTSUPP)

    def _release(self) -> None:
        if self.place is not None and self.world.listeners.get(self.place) is self:
            del self.world.listeners[self.place]
        if self._given is None:
            self.context.close()

    # Connecting.

    @property
    def is_datagrams(self) -> bool:
        """Whether the identifier is of the datagram port space, which resolves only an address."""
        return self.port_space == int(cm.RDMA_PS_UDP)

    def _tell(self, kind: int, param: ConnParam | None = None, status: int = 0) -> None:
        if self.channel is not None:
            self.channel.tell(kind, self, None, param or ConnParam(), status)

    def connect(self, param: ConnParam | None = None) -> None:
        """Request a connection from the listener; errors: ``PyverbsRDMAError`` without one."""
        wanted = self._with_number(param)
        name, port = self._target or ("", 0)
        what = f"somebody to listen at {name}, service {port}"
        self.world.wait(what, lambda: self._listener(name, port) is not None, may_fail=True)
        found = self._listener(name, port)
        if found is None:
            self._tell(cm.RDMA_CM_EVENT_REJECTED, status=errno.ECONNREFUSED)
            if self.channel is None:
                raise error("Failed to connect", errno.ECONNREFUSED)
            return
        if self.channel is None and self.world.turn is None:
            raise error("Failed to connect: nobody can answer while this waits", errno.EAGAIN)
        found.requests.append((self, wanted))
        if found.channel is not None:
            found.channel.tell(cm.RDMA_CM_EVENT_CONNECT_REQUEST, self, found, wanted, 0)
        if self.channel is None:
            self.world.wait(f"an answer of {name}, service {port}", lambda: self._is_answered)
            if self.peer is None:
                raise error("Failed to connect", errno.ECONNREFUSED)
            self._on_established()

    def _listener(self, name: str, port: int) -> CMID | None:
        """The listener at a name and port, one on this node before those on other nodes."""
        for world in sorted(self.world.neighbours, key=lambda each: each is not self.world):
            if name in local_names(world):
                for (_, at), end in world.listeners.items():
                    if at == port and end.port_space == self.port_space:
                        found: CMID = end
                        return found
        return None

    def on_event(self, kind: int) -> None:
        """Apply an event to this identifier when its program takes it from the channel."""
        if kind == cm.RDMA_CM_EVENT_DISCONNECTED:
            self._on_disconnected()
        elif kind == cm.RDMA_CM_EVENT_ESTABLISHED and self.peer is not None and not self._is_up:
            self._on_established()

    def _on_established(self) -> None:
        """Connect the own queue pair and report ESTABLISHED to the peer that accepted."""
        self._connect_pair()
        peer = self._required_peer("connect")
        self._is_up = peer._is_up = True
        if not self.is_datagrams:
            peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED)

    def _on_disconnected(self) -> None:
        if self.qp is not None and not self.qp._closed:
            self.qp.modify(QPAttr(e.IBV_QPS_ERR), STATE)

    def _with_number(self, param: ConnParam | None) -> ConnParam:
        wanted = ConnParam() if param is None else param
        if self.qp is not None:
            wanted.qp_num = self.qp.qp_num
        return wanted

    def accept(self, param: ConnParam | None = None) -> None:
        """Accept the connection request."""
        peer = self._required_peer("accept")
        answer = self._with_number(param)
        peer.peer, peer._asked = self, answer
        self._connect_pair()
        peer._is_answered = True
        if peer.qp is None and not self.is_datagrams:
            peer._tell(cm.RDMA_CM_EVENT_CONNECT_RESPONSE, answer)
        else:
            peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED, answer)
            if self.world.turn is None:  # the same program has both ends
                peer._on_established()
        if self.channel is None and not self.is_datagrams:
            self.world.wait("the end that it accepted to be ready", lambda: self._is_up)

    def _required_peer(self, what: str) -> CMID:
        if self.peer is None:
            raise error(f"Failed to {what}", errno.EINVAL)
        return self.peer

    def _connect_pair(self) -> None:
        if self.qp is not None and not self.is_datagrams:
            self.qp.modify(*self.init_qp_attr(e.IBV_QPS_RTR))
            self.qp.modify(*self.init_qp_attr(e.IBV_QPS_RTS))

    def establish(self) -> None:
        """Report that the program's own queue pair is connected."""
        peer = self._required_peer("establish")
        self._is_up = peer._is_up = True
        peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED)

    def reject(self, private_data: Any = None) -> None:
        """Reject the connection request."""
        answer = ConnParam()
        if private_data is not None:
            answer.set_private_data(private_data)
        peer = self._required_peer("reject")
        peer._is_answered = True
        peer._tell(cm.RDMA_CM_EVENT_REJECTED, answer, errno.ECONNREFUSED)
        self.peer = None

    def disconnect(self) -> None:
        """Disconnect: both queue pairs go to ERR."""
        if self._is_left:  # the other end has done so already
            self._is_left = False
            self._on_disconnected()
            return
        peer = self._required_peer("disconnect")
        peer._is_left = True
        for end in (self, peer):
            if end is self or self.world.turn is None:  # else it does so when it learns of it
                end._on_disconnected()
            end.peer = None
            end._tell(cm.RDMA_CM_EVENT_DISCONNECTED)

    # Messages.

    def _pair(self) -> QP:
        if self.qp is None:
            raise error("The CM ID has no queue pair", errno.EINVAL)
        return self.qp

    def _region(self, size: int, access: int) -> MR:
        return MR(self, int(size), access | e.IBV_ACCESS_LOCAL_WRITE)

    def reg_msgs(self, size: int) -> MR:
        """Register a buffer for sends and receives."""
        return self._region(size, 0)

    def reg_read(self, size: int = 0) -> MR:
        """Register a buffer that the peer may read."""
        return self._region(size, e.IBV_ACCESS_REMOTE_READ)

    def reg_write(self, size: int) -> MR:
        """Register a buffer that the peer may write."""
        return self._region(size, e.IBV_ACCESS_REMOTE_WRITE)

    def post_recv(self, mr: MR, length: int | None = None) -> None:
        """Post a receive into a memory region."""
        piece = SGE(mr.buf, int(length or mr.length), mr.lkey)
        self._pair().post_recv(RecvWR(num_sge=1, sg=[piece]))

    def _post(self, opcode: int, mr: MR, length: int, flags: int, remote: Any = None) -> None:
        piece = SGE(mr.buf, int(length), mr.lkey)
        wr = SendWR(opcode=opcode, num_sge=1, sg=[piece], send_flags=flags)
        if remote is not None:
            wr.set_wr_rdma(*remote)
        self._pair().post_send(wr)

    def post_send(
        self, mr: MR, flags: int = e.IBV_SEND_SIGNALED, length: int | None = None
    ) -> None:
        """Post a send of a region's bytes."""
        self._post(e.IBV_WR_SEND, mr, length or mr.length, flags)

    def post_read(self, mr: MR, length: int, remote_addr: int, rkey: int, flags: int = 0) -> None:
        """Post an RDMA read into a region."""
        self._post(e.IBV_WR_RDMA_READ, mr, length, flags, (rkey, remote_addr))

    def post_write(self, mr: MR, length: int, remote_addr: int, rkey: int, flags: int = 0) -> None:
        """Post an RDMA write of a region's bytes."""
        self._post(e.IBV_WR_RDMA_WRITE, mr, length, flags, (rkey, remote_addr))

    def post_ud_send(
        self,
        mr: MR,
        ah: AH,
        rqpn: int = 0,
        flags: int = e.IBV_SEND_SIGNALED,
        length: int | None = None,
    ) -> None:
        """Post a datagram send of a region's bytes."""
        piece = SGE(mr.buf, int(length or mr.length), mr.lkey)
        wr = SendWR(num_sge=1, sg=[piece], send_flags=flags)
        wr.set_wr_ud(ah, int(rqpn), UDP_QKEY)
        self._pair().post_send(wr)

    def _completion(self, queue: Any) -> WC | None:
        for _ in range(WAITS):
            count, found = queue.poll()
            if count:
                return found[0]  # type: ignore[no-any-return]
        raise error("Failed to get a completion: none can come", errno.EAGAIN)

    def get_send_comp(self) -> WC | None:
        """The next send completion."""
        return self._completion(self._pair().scq)

    def get_recv_comp(self) -> WC | None:
        """The next receive completion."""
        return self._completion(self._pair().rcq)
