"""The names of the specification: what calls return, and the words of descriptors and VIs.

Source: Virtual Interface Architecture Specification 1.0 (Compaq, Intel, Microsoft, 1997) and the
header of its provider library, VIPL.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from nicscope.interfaces.via.descriptor import Descriptor


class Status(IntFlag):
    """The status word of a descriptor."""

    VIP_STATUS_DONE = 0x1
    VIP_STATUS_FORMAT_ERROR = 0x2
    VIP_STATUS_PROTECTION_ERROR = 0x4
    VIP_STATUS_LENGTH_ERROR = 0x8
    VIP_STATUS_PARTIAL_ERROR = 0x10
    VIP_STATUS_DESC_FLUSHED_ERROR = 0x20
    VIP_STATUS_TRANSPORT_ERROR = 0x40
    VIP_STATUS_RDMA_PROT_ERROR = 0x80
    VIP_STATUS_REMOTE_DESC_ERROR = 0x100
    VIP_STATUS_OP_RECEIVE = 0x10000
    VIP_STATUS_OP_RDMA_WRITE = 0x20000
    VIP_STATUS_OP_REMOTE_RDMA_WRITE = 0x30000
    VIP_STATUS_OP_RDMA_READ = 0x40000
    VIP_STATUS_IMMEDIATE = 0x80000


STATUS_ERROR_MASK = 0x1FE
STATUS_OP_MASK = 0x70000


class Control(IntFlag):
    """The control word of a descriptor; its two lowest bits are the operation."""

    VIP_CONTROL_OP_SENDRECV = 0x0
    VIP_CONTROL_OP_RDMAWRITE = 0x1
    VIP_CONTROL_OP_RDMAREAD = 0x2
    VIP_CONTROL_IMMEDIATE = 0x4
    VIP_CONTROL_QFENCE = 0x8


CONTROL_OP_MASK = 0x3
CONTROL_RESERVED = 0xFFF0


class Reliability(IntEnum):
    """What a VI promises of its messages."""

    VIP_SERVICE_UNRELIABLE = 1
    VIP_SERVICE_RELIABLE_DELIVERY = 2
    VIP_SERVICE_RELIABLE_RECEPTION = 4


class State(IntEnum):
    """Of a VI."""

    VIP_STATE_IDLE = 0
    VIP_STATE_CONNECTED = 1
    VIP_STATE_CONNECT_PENDING = 2
    VIP_STATE_ERROR = 3


class Error(IntEnum):
    """What the library reports besides descriptors, as they happen."""

    VIP_ERROR_POST_DESC = 0
    VIP_ERROR_CONN_LOST = 1
    VIP_ERROR_RECVQ_EMPTY = 2
    VIP_ERROR_VI_OVERRUN = 3
    VIP_ERROR_RDMAW_PROT = 4
    VIP_ERROR_RDMAW_DATA = 5
    VIP_ERROR_RDMAW_ABORT = 6
    VIP_ERROR_RDMAR_PROT = 7
    VIP_ERROR_COMP_PROT = 8
    VIP_ERROR_RDMA_TRANSPORT = 9
    VIP_ERROR_CATASTROPHIC = 10


class SystemInfo(IntEnum):
    """What ``query_system_management_info`` may be asked."""

    VIP_SMI_AUTODISCOVERY = 1


class Return(IntEnum):
    """What a call of the library returns; all but the first two are raised as ``VipError``."""

    VIP_SUCCESS = 0
    VIP_NOT_DONE = 1
    VIP_INVALID_PARAMETER = 2
    VIP_ERROR_RESOURCE = 3
    VIP_TIMEOUT = 4
    VIP_REJECT = 5
    VIP_INVALID_RELIABILITY_LEVEL = 6
    VIP_INVALID_MTU = 7
    VIP_INVALID_QOS = 8
    VIP_INVALID_PTAG = 9
    VIP_INVALID_RDMAREAD = 10
    VIP_DESCRIPTOR_ERROR = 11
    VIP_INVALID_STATE = 12
    VIP_ERROR_NAMESERVICE = 13
    VIP_NO_MATCH = 14
    VIP_NOT_REACHABLE = 15
    VIP_ERROR_NOT_SUPPORTED = 16


class VipError(SimulationError):
    """A call that did not succeed; ``code`` is what the C library would have returned.

    Of work that ended with an error ``descriptor`` says which: it is taken off its queue.
    """

    def __init__(self, code: Return, why: str, descriptor: Descriptor | None = None) -> None:
        super().__init__(f"{code.name}: {why}")
        self.code = code
        self.descriptor = descriptor
