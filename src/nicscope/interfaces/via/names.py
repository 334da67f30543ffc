"""The names of the specification: return codes, and those that the NIC knows as well.

Source: Virtual Interface Architecture Specification 1.0 (Compaq, Intel, Microsoft, 1997) and the
header of its provider library, VIPL.
"""

from __future__ import annotations

from enum import IntEnum

from nicscope.errors import SimulationError
from nicscope.nic.vimsg.codes import (
    CONTROL_OP_MASK,
    CONTROL_RESERVED,
    STATUS_ERROR_MASK,
    STATUS_OP_MASK,
    Control,
    Error,
    Reliability,
    State,
    Status,
)

__all__ = [
    "CONTROL_OP_MASK",
    "CONTROL_RESERVED",
    "STATUS_ERROR_MASK",
    "STATUS_OP_MASK",
    "Control",
    "Error",
    "Reliability",
    "Return",
    "State",
    "Status",
    "VipError",
]


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
    """A call that did not succeed; ``code`` is what the C library would have returned."""

    def __init__(self, code: Return, why: str) -> None:
        super().__init__(f"{code.name}: {why}")
        self.code = code
