"""Connections' events, their channels, and what ends tell each other as they connect."""

from __future__ import annotations

import errno
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import librdmacm_enums as cm
from nicscope.interfaces.verbs.base import PyverbsCM, PyverbsObject, PyverbsValue, error
from nicscope.interfaces.verbs.fields import Fields, Number
from nicscope.interfaces.verbs.texts import of_enum
from nicscope.interfaces.verbs.world import here

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.cmid import CMID
    from nicscope.interfaces.verbs.world import World

ANYWHERE = ("", "0.0.0.0", "::")
FIRST_PORT = 49152  # of those that are given to who asks for none
UDP_QKEY = 0x01234567  # of all datagrams of connections (Linux, include/rdma/rdma_cm.h)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def cm_event_to_str(event_type: int) -> str:
    """The name of an event."""
    return of_enum(cm.rdma_cm_event_type, event_type, "", f"Unknown event type ({event_type})")


def local_names(world: World) -> set[str]:
    """How a node is called."""
    made = {socket.inet_ntop(socket.AF_INET6, gid.raw) for gid in world.gids()}
    return {*LOOPBACK, *made, *(name.removeprefix("::ffff:") for name in made)}


class ConnParam(Fields, PyverbsObject):
    """What a connection is asked for."""

    SHOWN = ("resources", "depth", "flow_control", "retry", "rnr_retry", "srq", "qp_num")
    resources, depth, flow_control, retry = Number(), Number(), Number(), Number()
    rnr_retry, srq, qp_num, data_len = Number(), Number(), Number(), Number()

    def __init__(
        self,
        resources: int = 1,
        depth: int = 1,
        flow_control: int = 0,
        retry: int = 5,
        rnr_retry: int = 5,
        srq: int = 0,
        qp_num: int = 0,
        data_len: int = 0,
    ) -> None:
        self.resources, self.depth, self.flow_control = resources, depth, flow_control
        self.retry, self.rnr_retry, self.srq = retry, rnr_retry, srq
        self.qp_num, self.data_len = qp_num, data_len
        self.private_data = b""

    def set_private_data(self, private_data: Any) -> None:
        """Bytes for the other end, as many as there was to be room for, if that was said."""
        self.private_data = bytes(private_data)[: self.data_len or None]
        self.data_len = len(self.private_data)

    @property
    def qpn(self) -> int:
        """The number of the pair that is to be connected."""
        return self.qp_num

    @qpn.setter
    def qpn(self, value: int) -> None:
        self.qp_num = value


class UDParam(PyverbsObject):
    """Where a peer's datagrams go, as an event tells it."""

    def __init__(self, cm_event: CMEvent) -> None:
        other = cm_event.id.peer or cm_event.id  # who has answered, or asked
        if not other.is_datagrams:
            raise error("Failed to get UD parameters", errno.EINVAL)
        self.qp_num, self.qkey, self.ah_attr = cm_event.conn_param.qp_num, UDP_QKEY, other.address


class JoinMCAttrEx(PyverbsObject):
    """A group of receivers, of which there are none."""

    def __init__(self, addr: Any = None, comp_mask: int = 0, join_flags: int = 0) -> None:
        self.addr, self.comp_mask, self.join_flags = addr, int(comp_mask), int(join_flags)


class AddrInfo(PyverbsValue):
    """An address by name and service, at either end."""

    def __init__(
        self,
        src: str | None = None,
        dst: str | None = None,
        src_service: str | None = None,
        dst_service: str | None = None,
        port_space: int = 0,
        flags: int = 0,
    ) -> None:
        self.port_space, self.flags = int(port_space) or int(cm.RDMA_PS_TCP), int(flags)
        self.src, self.dst = _place(src, src_service), _place(dst, dst_service)
        if self.port_space not in (cm.RDMA_PS_TCP, cm.RDMA_PS_UDP):
            raise error("Failed to get Address Info", errno.EOPNOTSUPP)
        known = set().union(ANYWHERE, *map(local_names, here().neighbours))
        for name, _ in (self.src, self.dst):
            if name not in known:
                raise error("Failed to get Address Info", errno.ENODEV)


def _place(name: str | None, service: str | None) -> tuple[str, int]:
    try:
        return str(name or ""), int(service or 0)
    except ValueError:
        raise error("Failed to get Address Info", errno.ENOENT) from None


class CMEventChannel(PyverbsCM):
    """Where connections report what has happened."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Any, Any, ConnParam, int]] = deque()
        self._opened()

    def tell(self, kind: int, about: CMID, listener: Any, param: ConnParam, status: int) -> None:
        """Have an event wait for whoever asks."""
        self.waiting.append((int(kind), about, listener, param, status))


class CMEvent(PyverbsCM):
    """The next event of a channel; errors: ``PyverbsRDMAError`` if none can ever come."""

    def __init__(self, channel: CMEventChannel) -> None:
        if not here().wait("an event of a CMEventChannel", lambda: bool(channel.waiting)):
            raise error("Failed to get CM event: none can come", errno.EAGAIN)
        self.event_type, self.id, self.listen_id, self._param, self.status = (
            channel.waiting.popleft()
        )
        self.id.heed(self.event_type)
        self._opened()

    @property
    def private_data(self) -> bytes:
        """What the other end has sent along."""
        return self._param.private_data

    def event_str(self) -> str:
        """Its name."""
        return cm_event_to_str(self.event_type)

    @property
    def conn_param(self) -> ConnParam:
        """What the other end has asked for."""
        return self._param

    def ack_cm_event(self) -> None:
        """It has been seen."""

    def __str__(self) -> str:
        return f"CM event: {cm_event_to_str(self.event_type)}, status {self.status}"
