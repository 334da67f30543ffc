"""Ends of connections, which find each other by name within the node.

An end with a channel goes on at once and its events wait there.  One without a channel has nobody
to tell, so what would wait for another end raises an error where nothing can come.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs import librdmacm_enums as cm
from nicscope.interfaces.verbs.addr import AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import error
from nicscope.interfaces.verbs.cm_events import (
    ANYWHERE,
    AddrInfo,
    CMEvent,
    CMEventChannel,
    ConnParam,
    JoinMCAttrEx,
    UDParam,
    local_names,
)
from nicscope.interfaces.verbs.cm_messages import Messages
from nicscope.interfaces.verbs.cq import CQ
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.pd import PD
from nicscope.interfaces.verbs.pyverbs_error import PyverbsUserError
from nicscope.interfaces.verbs.qp import ECE, QP, QPAttr, QPInitAttr
from nicscope.interfaces.verbs.qp_states import required_masks
from nicscope.interfaces.verbs.world import here

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.world import World

__all__ = [
    "CMID",
    "AddrInfo",
    "CMEvent",
    "CMEventChannel",
    "ConnParam",
    "JoinMCAttrEx",
    "UDParam",
]

FIRST_PORT = 49152  # of those that are given to who asks for none
PSN = (1 << 24) - 1
TIMEOUT, RNR_TIMER = 14, 12
STATE = int(e.IBV_QP_STATE)


class CMID(Messages):
    """An end of a connection, or a place that listens for them."""

    ORDER = ("qps", "mrs", "pds")

    def __init__(
        self,
        creator: AddrInfo | CMEventChannel | CMEvent | None = None,
        qp_init_attr: QPInitAttr | None = None,
        pd: PD | None = None,
        port_space: int = cm.RDMA_PS_TCP,
        listen_id: CMID | None = None,
    ) -> None:
        if int(port_space) != cm.RDMA_PS_TCP:
            raise error("Failed to create CM ID", errno.EOPNOTSUPP)
        self.world: World = here()
        self.context = Context(name=self.world.name)
        self._given = pd
        self.pd = PD(self.context) if pd is None else pd
        self._init = qp_init_attr
        self.channel: CMEventChannel | None = None
        self.requests: deque[tuple[CMID, ConnParam]] = deque()
        self.peer: CMID | None = None
        self._asked = ConnParam()
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
        """Become the end that a request has come to."""
        found = event.listen_id if listener is None else listener
        if event.event_type != cm.RDMA_CM_EVENT_CONNECT_REQUEST or found is None:
            raise PyverbsUserError("An end is made of a request to connect")
        self.channel, self.peer, self._asked = found.channel, event.id, event.conn_param

    @property
    def event_channel(self) -> CMEventChannel | None:
        """Where its events wait."""
        return self.channel

    def bind_addr(self, lai: AddrInfo) -> None:
        """Have a name at which it can be found."""
        name, port = lai.src if any(lai.src) else lai.dst
        if name not in {*local_names(self.world), *ANYWHERE}:
            raise error("Failed to bind address", errno.EADDRNOTAVAIL)
        if not port:
            taken = {place[1] for place in self.world.listeners}
            port = next(one for one in range(FIRST_PORT, 1 << 16) if one not in taken)
        self.place = (name, port)

    @property
    def src_port(self) -> int:
        """The service at which it can be found."""
        return 0 if self.place is None else self.place[1]

    def listen(self, backlog: int = 0) -> None:
        """Be found; ``backlog`` is no limit."""
        if self.place is None:
            raise error("Failed to listen", errno.EINVAL)
        if self.world.listeners.get(self.place, self) is not self or int(backlog) < 0:
            raise error("Failed to listen", errno.EADDRINUSE)
        self.world.listeners[self.place] = self

    def resolve_addr(self, ai: AddrInfo, timeout_ms: int = 2000) -> None:  # noqa: ARG002
        """Say who is to be connected to."""
        self._target = ai.dst
        self._tell(cm.RDMA_CM_EVENT_ADDR_RESOLVED)

    def resolve_route(self, timeout_ms: int = 2000) -> None:  # noqa: ARG002
        """Find the way, which there is."""
        if self._target is None:
            raise error("Failed to resolve route", errno.EINVAL)
        self._tell(cm.RDMA_CM_EVENT_ROUTE_RESOLVED)

    def _tell(self, kind: int, param: ConnParam | None = None, status: int = 0) -> None:
        if self.channel is not None:
            self.channel.tell(kind, self, None, param or ConnParam(), status)

    def create_qp(self, qp_init: QPInitAttr) -> None:
        """Make its queue pair, and queues of completions where none are given."""
        for name in ("send_cq", "recv_cq"):
            if getattr(qp_init, name) is None:
                room = qp_init.max_send_wr if name == "send_cq" else qp_init.max_recv_wr
                setattr(qp_init, name, CQ(self.pd.ctx, max(room, 1)))
        qp_init.qp_type = e.IBV_QPT_RC
        made = QP(self.pd, qp_init)
        made.modify(*self._step(e.IBV_QPS_RESET, e.IBV_QPS_INIT, QPAttr()))
        self.qp = made
        self._adopt(made, "qps")

    def _step(self, now: int, then: int, attr: QPAttr) -> tuple[QPAttr, int]:
        attr.qp_state = then
        attr.qp_access_flags = (
            e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        )
        return attr, required_masks(e.IBV_QPT_RC, now, then) | STATE

    def init_qp_attr(self, qp_state: int) -> tuple[QPAttr, int]:
        """What a pair of the program's own is to be told at the step to ``qp_state``."""
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
        gid = self._who_asked("get QP attributes").context.query_gid(1, 0)
        attr.ah_attr = AHAttr(is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0))
        attr.dest_qp_num = param.qp_num
        attr.rq_psn, attr.sq_psn = param.qp_num & PSN, self._number & PSN
        attr.max_rd_atomic = attr.max_dest_rd_atomic = max(param.depth, 1)
        attr.retry_cnt, attr.rnr_retry = min(param.retry, 7), min(param.rnr_retry, 7)
        attr.timeout, attr.min_rnr_timer = TIMEOUT, RNR_TIMER

    @property
    def _number(self) -> int:
        """Of its pair: its own, or the program's."""
        return self._own if self.qp is None else self.qp.qp_num

    _own = 0

    def connect(self, param: ConnParam | None = None) -> None:
        """Ask whoever listens; errors: ``PyverbsRDMAError`` if nobody does, or can answer."""
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
        if self.channel is None and found.world is self.world:
            raise error("Failed to connect: nobody can answer while this waits", errno.EAGAIN)
        found.requests.append((self, wanted))
        if found.channel is not None:
            kind = cm.RDMA_CM_EVENT_CONNECT_REQUEST
            found.channel.tell(kind, self, found, wanted, 0)
        if self.channel is None:
            self.world.wait(f"an answer of {name}, service {port}", lambda: self._is_answered)
            if self.peer is None:
                raise error("Failed to connect", errno.ECONNREFUSED)
            self._come_up()

    def _listener(self, name: str, port: int) -> CMID | None:
        """Who listens there: on this node sooner than on others that are called the same."""
        for world in sorted(self.world.neighbours, key=lambda each: each is not self.world):
            if name in local_names(world):
                for (_, at), end in world.listeners.items():
                    if at == port:
                        return end
        return None

    def heed(self, kind: int) -> None:
        """Do what an event of another node asks of this one, as its program learns of it."""
        if self.peer is not None and self.peer.world is not self.world:
            if kind == cm.RDMA_CM_EVENT_ESTABLISHED and not self._is_up:
                self._come_up()
        elif kind == cm.RDMA_CM_EVENT_DISCONNECTED:
            self._go_down()

    _is_answered = _is_up = _is_left = False

    def _come_up(self) -> None:
        """Connect its own pair, and let the end that has answered know."""
        self._connect_pair()
        self._is_up = True
        peer = self._who_asked("connect")
        peer._is_up = True
        peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED)

    def _go_down(self) -> None:
        if self._is_left and self.qp is not None and not self.qp._closed:
            self.qp.modify(QPAttr(e.IBV_QPS_ERR), STATE)
        self._is_left = False

    def _with_number(self, param: ConnParam | None) -> ConnParam:
        wanted = ConnParam() if param is None else param
        if self.qp is not None:
            wanted.qp_num = self.qp.qp_num
        self._own = wanted.qp_num
        return wanted

    def get_request(self) -> CMID:
        """The end that the next request has come to; errors: if none can ever come."""
        if not self.world.wait(
            f"a request at service {self.src_port}", lambda: bool(self.requests)
        ):
            raise error("Failed to get request: none can come", errno.EAGAIN)
        peer, asked = self.requests.popleft()
        made = CMID(pd=self._given)
        made.channel, made.peer, made._asked = self.channel, peer, asked
        if self._init is not None:
            made.create_qp(self._init)
        return made

    def accept(self, param: ConnParam | None = None) -> None:
        """Be connected with who has asked."""
        peer = self._who_asked("accept")
        answer = self._with_number(param)
        peer.peer, peer._asked = self, answer
        self._connect_pair()
        if peer.world is not self.world:
            self._answer(peer, answer)
            return
        peer._connect_pair()
        if peer.qp is None:
            peer._tell(cm.RDMA_CM_EVENT_CONNECT_RESPONSE, answer)
            return
        peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED, answer)
        self._tell(cm.RDMA_CM_EVENT_ESTABLISHED)

    def _answer(self, peer: CMID, answer: ConnParam) -> None:
        """Let an end of another node know; without a channel, wait until it is ready."""
        peer._is_answered = True
        ready = peer.qp is None
        kind = cm.RDMA_CM_EVENT_CONNECT_RESPONSE if ready else cm.RDMA_CM_EVENT_ESTABLISHED
        peer._tell(kind, answer)
        if self.channel is None:
            self.world.wait("the end that it accepted to be ready", lambda: self._is_up)

    def _who_asked(self, what: str) -> CMID:
        if self.peer is None:
            raise error(f"Failed to {what}", errno.EINVAL)
        return self.peer

    def _connect_pair(self) -> None:
        if self.qp is not None:
            self.qp.modify(*self.init_qp_attr(e.IBV_QPS_RTR))
            self.qp.modify(*self.init_qp_attr(e.IBV_QPS_RTS))

    def establish(self) -> None:
        """Say that a pair of the program's own is ready."""
        peer = self._who_asked("establish")
        self._is_up = peer._is_up = True
        peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED)

    def reject(self, private_data: Any = None) -> None:
        """Not be connected."""
        answer = ConnParam()
        if private_data is not None:
            answer.set_private_data(private_data)
        peer = self._who_asked("reject")
        peer._is_answered = True
        peer._tell(cm.RDMA_CM_EVENT_REJECTED, answer, errno.ECONNREFUSED)
        self.peer = None

    def disconnect(self) -> None:
        """Be connected no longer: both pairs are in ERR."""
        if self._is_left:  # the other end has done so already
            self._go_down()
            return
        peer = self._who_asked("disconnect")
        for end in (self, peer):
            end._is_left = True
            if end.world is self.world:
                end._go_down()
            end.peer = None
            end._tell(cm.RDMA_CM_EVENT_DISCONNECTED)

    def query_qp(self, attr_mask: int) -> tuple[QPAttr, QPInitAttr]:
        """What its pair is."""
        return self._pair().query(attr_mask)

    def set_option(self, level: int, optname: int, optval: Any, optlen: int) -> None:  # noqa: ARG002
        """Errors: EOPNOTSUPP, as there are no options."""
        raise error("Failed to set option", errno.EOPNOTSUPP)

    def join_multicast(self, *_: Any, **__: Any) -> None:
        """Errors: EOPNOTSUPP, as there are no groups."""
        raise error("Failed to join a multicast group", errno.EOPNOTSUPP)

    def leave_multicast(self, *_: Any, **__: Any) -> None:
        """Errors: EOPNOTSUPP, as there are no groups."""
        raise error("Failed to leave a multicast group", errno.EOPNOTSUPP)

    def set_local_ece(self, ece: ECE) -> None:
        """Errors: EOPNOTSUPP unless it asks for nothing."""
        if ece.vendor_id or ece.options:
            raise error("Failed to set local ECE", errno.EOPNOTSUPP)

    def get_remote_ece(self) -> ECE:
        """Nothing is asked for by any end."""
        return ECE()

    def resolve_addrinfo(self, *_: Any, **__: Any) -> None:
        """Errors: EOPNOTSUPP, as addresses are resolved at once."""
        raise error("Failed to resolve address information", errno.EOPNOTSUPP)

    def query_addrinfo(self) -> AddrInfo:
        """Errors: EOPNOTSUPP, as nothing has been resolved so."""
        raise error("Failed to query address information", errno.EOPNOTSUPP)

    def _release(self) -> None:
        if self.world.listeners.get(self.place) is self:  # type: ignore[arg-type]
            del self.world.listeners[self.place]  # type: ignore[arg-type]
        if self._given is None:
            self.context.close()
