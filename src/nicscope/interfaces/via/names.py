"""The specification's names: return codes, and the bits of descriptors' and VIs' words.

Source: Virtual Interface Architecture Specification 1.0 (Compaq, Intel, Microsoft, 1997) and the
header of its provider library, VIPL.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

from nicscope.errors import SimulationError, WaitTimeoutError

if TYPE_CHECKING:
    from nicscope.interfaces.via.descriptor import Descriptor


class _Word(IntEnum):
    """An enumeration member that prints as the specification spells it."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else int.__format__(self, spec)


class _Bits(IntFlag):
    """A bit mask that prints as the specification spells it."""

    def __str__(self) -> str:
        return " | ".join(self._names()) or "0"

    def _names(self) -> list[str]:
        return _spelt(int(self), type(self), 0)

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else int.__format__(self, spec)


def _spelt(word: int, kind: type[_Bits], field: int) -> list[str]:
    """The names of the bits of ``word``; those of ``field`` are one number, of one name."""
    named = {int(each): name for name, each in kind.__members__.items()}
    bits = [1 << place for place in range(word.bit_length()) if word >> place & 1]
    parts = [bit for bit in bits if not bit & field]
    if word & field in named or word & field:
        parts.append(word & field)
    return [named.get(part, hex(part)) for part in sorted(parts)]


class Status(_Bits):
    """The status word of a descriptor."""

    def _names(self) -> list[str]:
        return _spelt(int(self), Status, STATUS_OP_MASK)

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


class Control(_Bits):
    """The control word of a descriptor; its two lowest bits are the operation."""

    def _names(self) -> list[str]:
        return _spelt(int(self), Control, CONTROL_OP_MASK)

    VIP_CONTROL_OP_SENDRECV = 0x0
    VIP_CONTROL_OP_RDMAWRITE = 0x1
    VIP_CONTROL_OP_RDMAREAD = 0x2
    VIP_CONTROL_IMMEDIATE = 0x4
    VIP_CONTROL_QFENCE = 0x8


CONTROL_OP_MASK = 0x3
CONTROL_RESERVED = 0xFFF0


class Reliability(_Word):
    """A VI's reliability level."""

    VIP_SERVICE_UNRELIABLE = 1
    VIP_SERVICE_RELIABLE_DELIVERY = 2
    VIP_SERVICE_RELIABLE_RECEPTION = 4


class State(_Word):
    """The state of a VI."""

    VIP_STATE_IDLE = 0
    VIP_STATE_CONNECTED = 1
    VIP_STATE_CONNECT_PENDING = 2
    VIP_STATE_ERROR = 3


class Error(_Word):
    """Asynchronous errors that the library reports."""

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


class SystemInfo(_Word):
    """What ``query_system_management_info`` may be asked."""

    VIP_SMI_AUTODISCOVERY = 1


class Return(_Word):
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


class VipTimeoutError(VipError, WaitTimeoutError):
    """``VIP_TIMEOUT``: what a call waited for has not come in time."""
