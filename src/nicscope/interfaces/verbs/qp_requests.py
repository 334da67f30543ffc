"""What may be posted to a queue pair, and what the device gets of it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.mem_alloc import read
from nicscope.interfaces.verbs.qp_making import TRANSPORT

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.wr import SendWR
    from nicscope.interfaces.verbs_device.calls import Send

NOT_YET = (e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR)
INLINE = int(e.IBV_SEND_INLINE)
UNBUILT = int(e.IBV_SEND_IP_CSUM)
FLAGS = int(sum(e.ibv_send_flags))
REST = ~(FLAGS & ~UNBUILT)
BIND, UD, XRC = int(e.IBV_WR_BIND_MW), int(e.IBV_QPT_UD), int(e.IBV_QPT_XRC_SEND)
INLINED = frozenset(
    int(op)
    for op in (
        *(e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_SEND_WITH_INV),
        *(e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM),
    )
)
BY_STEPS_ONLY = (e.IBV_WR_FLUSH, e.IBV_WR_ATOMIC_WRITE)


def wrong_send(qp: Any, wr: SendWR) -> int:
    """The system's number of what is wrong with a request, or 0."""
    if not qp._sends or len(wr.pieces) > qp._caps.send_sge:
        return errno.EINVAL
    opcode, flags = wr.opcode, wr.send_flags
    if opcode not in qp._offered or flags & REST:
        return _wrong_kind(qp, opcode, flags)
    if flags & INLINE:
        length = sum(piece.length for piece in wr.pieces)
        if opcode not in INLINED or length > qp._caps.inline:
            return errno.EINVAL
    if (qp._type == UD and wr.ud is None) or (opcode == BIND and wrong_window(qp, wr.window)):
        return errno.EINVAL
    return 0


def offered(qp: Any) -> frozenset[int]:
    """The operations that a pair of that transport can be asked for at once, on its device."""
    found: frozenset[int] = TRANSPORT[qp._type] & qp.ctx.world.facts.opcodes
    return found.difference(BY_STEPS_ONLY)


def _wrong_kind(qp: Any, opcode: int, flags: int) -> int:
    """What is wrong with an operation or a flag: nobody has it, or this device."""
    known = opcode in TRANSPORT[qp._type] and opcode not in BY_STEPS_ONLY and not flags & ~FLAGS
    return errno.EOPNOTSUPP if known else errno.EINVAL


def wrong_window(qp: Any, window: Any) -> bool:
    """Whether a request to open a window names one that a pair cannot open so."""
    return window is None or window[0].type != e.IBV_MW_TYPE_2 or qp.pd is None


def ready_to_send(wr: SendWR) -> Send:
    """What the device is asked for: inline bytes are taken now."""
    request = wr.request()
    if not wr.send_flags & INLINE:
        return request
    data = b"".join(read(piece.address, piece.length) for piece in wr.pieces)
    return request._replace(inline=data, pieces=())
