"""How ends of connections ask, answer and part.

An end with a channel goes on at once and its events wait there.  One without a channel has nobody
to tell, so it waits for the other end, and raises an error where nothing can come.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs import librdmacm_enums as cm
from nicscope.interfaces.verbs.base import error
from nicscope.interfaces.verbs.cm_events import ConnParam, local_names
from nicscope.interfaces.verbs.cm_messages import Messages
from nicscope.interfaces.verbs.qp import QPAttr

if TYPE_CHECKING:
    from collections import deque

    from nicscope.interfaces.verbs.cm_events import CMEventChannel
    from nicscope.interfaces.verbs.cmid import CMID
    from nicscope.interfaces.verbs.world import World

STATE = int(e.IBV_QP_STATE)
KINDS = {int(cm.RDMA_PS_TCP): e.IBV_QPT_RC, int(cm.RDMA_PS_UDP): e.IBV_QPT_UD}


class Joining(Messages, ABC):
    """An end, as far as it is connected with another."""

    world: World
    port_space: int
    channel: CMEventChannel | None
    requests: deque[tuple[CMID, ConnParam]]
    peer: CMID | None
    _asked: ConnParam
    _target: tuple[str, int] | None
    _is_answered = _is_up = _is_left = False

    @property
    def is_datagrams(self) -> bool:
        """Whether it only learns where to send."""
        return self.port_space == int(cm.RDMA_PS_UDP)

    def _tell(self, kind: int, param: ConnParam | None = None, status: int = 0) -> None:
        if self.channel is not None:
            about: Any = self
            self.channel.tell(kind, about, None, param or ConnParam(), status)

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
        if self.channel is None and self.world.turn is None:
            raise error("Failed to connect: nobody can answer while this waits", errno.EAGAIN)
        asking: Any = self
        found.requests.append((asking, wanted))
        if found.channel is not None:
            found.channel.tell(cm.RDMA_CM_EVENT_CONNECT_REQUEST, asking, found, wanted, 0)
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
                    if at == port and end.port_space == self.port_space:
                        return end
        return None

    def heed(self, kind: int) -> None:
        """Do what an event asks of this end, as its program learns of it."""
        if kind == cm.RDMA_CM_EVENT_DISCONNECTED:
            self._go_down()
        elif kind == cm.RDMA_CM_EVENT_ESTABLISHED and self.peer is not None and not self._is_up:
            self._come_up()

    def _come_up(self) -> None:
        """Connect its own pair, and let the end that has answered know."""
        self._connect_pair()
        peer = self._who_asked("connect")
        self._is_up = peer._is_up = True
        if not self.is_datagrams:
            peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED)

    def _go_down(self) -> None:
        if self.qp is not None and not self.qp._closed:
            self.qp.modify(QPAttr(e.IBV_QPS_ERR), STATE)

    def _with_number(self, param: ConnParam | None) -> ConnParam:
        wanted = ConnParam() if param is None else param
        if self.qp is not None:
            wanted.qp_num = self.qp.qp_num
        return wanted

    def accept(self, param: ConnParam | None = None) -> None:
        """Be connected with who has asked."""
        peer = self._who_asked("accept")
        answer = self._with_number(param)
        own: Any = self
        peer.peer, peer._asked = own, answer
        self._connect_pair()
        peer._is_answered = True
        if peer.qp is None and not self.is_datagrams:
            peer._tell(cm.RDMA_CM_EVENT_CONNECT_RESPONSE, answer)
        else:
            peer._tell(cm.RDMA_CM_EVENT_ESTABLISHED, answer)
            if self.world.turn is None:  # the same program has both ends
                peer._come_up()
        if self.channel is None and not self.is_datagrams:
            self.world.wait("the end that it accepted to be ready", lambda: self._is_up)

    def _who_asked(self, what: str) -> CMID:
        if self.peer is None:
            raise error(f"Failed to {what}", errno.EINVAL)
        return self.peer

    def _connect_pair(self) -> None:
        if self.qp is not None and not self.is_datagrams:
            self.qp.modify(*self.init_qp_attr(e.IBV_QPS_RTR))
            self.qp.modify(*self.init_qp_attr(e.IBV_QPS_RTS))

    @abstractmethod
    def init_qp_attr(self, qp_state: int) -> tuple[QPAttr, int]:
        """What a pair is to be told at the step to ``qp_state``."""

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
            self._is_left = False
            self._go_down()
            return
        peer = self._who_asked("disconnect")
        peer._is_left = True
        for end in (self, peer):
            if end is self or self.world.turn is None:  # else it does so when it learns of it
                end._go_down()
            end.peer = None
            end._tell(cm.RDMA_CM_EVENT_DISCONNECTED)
