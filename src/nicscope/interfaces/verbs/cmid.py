"""Ends of connections, which find each other by name: what they are, and what they are told."""

from __future__ import annotations

import errno
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs import librdmacm_enums as cm
from nicscope.interfaces.verbs.addr import PORT, AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import error
from nicscope.interfaces.verbs.cm_events import (
    ANYWHERE,
    FIRST_PORT,
    UDP_QKEY,
    AddrInfo,
    CMEvent,
    CMEventChannel,
    ConnParam,
    JoinMCAttrEx,
    UDParam,
    local_names,
)
from nicscope.interfaces.verbs.cm_joining import KINDS, STATE, Joining
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

PSN = (1 << 24) - 1
STRIDE = 0x10001  # assumed: any that tells the numbers of two ends' packets apart
TIMEOUT, RNR_TIMER = 14, 12
LONGEST_TIMEOUT = 31  # the field has five bits
ROCE_V2_BY_IP = 1  # where the address of the port's IPv4 stands


class CMID(Joining):
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

    def create_qp(self, qp_init: QPInitAttr) -> None:
        """Make its queue pair, and queues of completions where none are given."""
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
        self._adopt(made, "qps")

    def _step(self, now: int, then: int, attr: QPAttr) -> tuple[QPAttr, int]:
        attr.qp_state = then
        attr.qp_access_flags = (
            e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
        )
        attr.qkey = UDP_QKEY
        return attr, required_masks(KINDS[self.port_space], now, then) | STATE

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
        peer = self._who_asked("get QP attributes")
        attr.ah_attr = peer.address
        attr.dest_qp_num = param.qp_num
        attr.rq_psn, attr.sq_psn = peer._psn, self._psn
        attr.max_rd_atomic = attr.max_dest_rd_atomic = max(param.depth, 1)
        attr.retry_cnt, attr.rnr_retry = min(param.retry, 7), min(param.rnr_retry, 7)
        attr.timeout, attr.min_rnr_timer = self._timeout, RNR_TIMER

    _timeout = TIMEOUT

    @property
    def address(self) -> AHAttr:
        """The way to it."""
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
        """The end that the next request has come to; errors: if none can ever come."""
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
        """What its pair is."""
        return self._pair().query(attr_mask)

    def set_option(self, level: int, optname: int, optval: Any, optlen: int) -> None:  # noqa: ARG002
        """How long its pair waits for an acknowledgement; there is no other option."""
        if optname != cm.RDMA_OPTION_ID_ACK_TIMEOUT:
            raise PyverbsUserError("Only RDMA_OPTION_ID_ACK_TIMEOUT can be set")
        if level != cm.RDMA_OPTION_ID or not 0 <= int(optval) <= LONGEST_TIMEOUT:
            raise error("Failed to set option", errno.EINVAL)
        self._timeout = int(optval)

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
