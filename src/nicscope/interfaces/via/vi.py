"""What programs hold of VIs and completion queues: names of what kernel agent and NIC keep.

A program can read them.  What they stand for a call finds in its process's table
(``interfaces.ownership``), and never in themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.arguments import shown
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.names import Reliability, Return, State, VipError

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint, Ring


class Attributes(msgspec.Struct, frozen=True):
    """Of a VI (``VIP_VI_ATTRIBUTES``)."""

    tag: int
    reliability: Reliability
    max_transfer: int
    rdma_write: bool
    rdma_read: bool
    qos: int = 0  # a class of service, which both ends of a connection agree upon


MOST_QOS = 255


def check_attributes(attributes: Attributes, most: int) -> None:
    """Errors: the ``VIP_INVALID_...`` of the one that is wrong; ``most``: bytes of a message."""
    level, longest = attributes.reliability, attributes.max_transfer
    if isinstance(level, bool) or level not in list(Reliability):
        raise VipError(Return.VIP_INVALID_RELIABILITY_LEVEL, f"no level {shown(level)}")
    if type(longest) is not int or not 1 <= longest <= most:
        raise VipError(
            Return.VIP_INVALID_MTU, f"max_transfer must be from 1 to {most}, got {shown(longest)}"
        )
    if type(attributes.qos) is not int or not 0 <= attributes.qos <= MOST_QOS:
        raise VipError(
            Return.VIP_INVALID_QOS, f"qos must be from 0 to {MOST_QOS}, got {shown(attributes.qos)}"
        )
    if attributes.rdma_read and level == Reliability.VIP_SERVICE_UNRELIABLE:
        raise VipError(Return.VIP_INVALID_RDMAREAD, "an unreliable VI has no RDMA read")


def check_suit(one: Attributes, other: Attributes) -> None:
    """Errors: the ``VIP_INVALID_...`` of the first in which two ends of a connection differ."""
    if one.reliability != other.reliability:
        raise VipError(
            Return.VIP_INVALID_RELIABILITY_LEVEL,
            f"one side has {one.reliability.name}, the other {other.reliability.name}",
        )
    if one.max_transfer != other.max_transfer:
        raise VipError(
            Return.VIP_INVALID_MTU,
            f"one side transfers {one.max_transfer} bytes, the other {other.max_transfer}",
        )
    if one.qos != other.qos:
        raise VipError(Return.VIP_INVALID_QOS, f"one side has qos {one.qos}, the other {other.qos}")


class Vi(Owned):
    """One end of a connection: a send queue and a receive queue."""

    what = "a VI"
    origin = "create_vi()"

    def __init__(self, shown: Endpoint) -> None:
        """``shown``: what is read here."""
        self._shown = shown

    def __repr__(self) -> str:
        return f"<Vi {self.number} of {self._of}, {self.state}>"

    @property
    def node(self) -> int:
        """Whose NIC it is on."""
        return self._shown.node

    @property
    def number(self) -> int:
        """Its own among the node's VIs and completion queues."""
        return self._shown.number

    @property
    def place(self) -> int:
        """Where on the NIC it is; below 0 once it is destroyed."""
        return self._shown.place

    @property
    def attributes(self) -> Attributes:
        """What it was created with, or given since."""
        return self._shown.attributes

    @property
    def state(self) -> State:
        """As the NIC has it."""
        return self._shown.state

    @property
    def connected(self) -> bool:
        """Whether there is another end."""
        return self._shown.connected

    @property
    def peer(self) -> Vi | None:
        """The other end, while there is one."""
        other = self._shown.peer
        return None if other is None else other.handle


class CompletionQueue(Owned):
    """A ring in registered memory where the NIC notes which work queue has a completion."""

    what = "a completion queue"
    origin = "create_cq()"

    def __init__(self, shown: Ring) -> None:
        """``shown``: what is read here."""
        self._shown = shown

    def __repr__(self) -> str:
        return f"<CompletionQueue {self.number} of {self._of}, {self.entries} entries>"

    @property
    def number(self) -> int:
        """Its own among the node's VIs and completion queues."""
        return self._shown.number

    @property
    def entries(self) -> int:
        """Completions that it has room for."""
        return self._shown.entries
