"""What a queue pair is made of: its domain, its queues, and the operations that it may do."""

from __future__ import annotations

import errno
from typing import Any, NamedTuple

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import error
from nicscope.interfaces.verbs.pyverbs_error import PyverbsUserError
from nicscope.interfaces.verbs.qp_init import QPInitAttr, QPInitAttrEx

FAILED = "Failed to create QP"
KNOWN = sum(e.ibv_qp_init_attr_mask)
NOT_BUILT = (
    e.IBV_QP_INIT_ATTR_MAX_TSO_HEADER | e.IBV_QP_INIT_ATTR_IND_TABLE | e.IBV_QP_INIT_ATTR_RX_HASH
)
OPERATIONS = {  # opcode of a request: the bit that declares it
    e.IBV_WR_RDMA_WRITE: e.IBV_QP_EX_WITH_RDMA_WRITE,
    e.IBV_WR_RDMA_WRITE_WITH_IMM: e.IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    e.IBV_WR_SEND: e.IBV_QP_EX_WITH_SEND,
    e.IBV_WR_SEND_WITH_IMM: e.IBV_QP_EX_WITH_SEND_WITH_IMM,
    e.IBV_WR_RDMA_READ: e.IBV_QP_EX_WITH_RDMA_READ,
    e.IBV_WR_ATOMIC_CMP_AND_SWP: e.IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
    e.IBV_WR_ATOMIC_FETCH_AND_ADD: e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
    e.IBV_WR_LOCAL_INV: e.IBV_QP_EX_WITH_LOCAL_INV,
    e.IBV_WR_BIND_MW: e.IBV_QP_EX_WITH_BIND_MW,
    e.IBV_WR_SEND_WITH_INV: e.IBV_QP_EX_WITH_SEND_WITH_INV,
    e.IBV_WR_FLUSH: e.IBV_QP_EX_WITH_FLUSH,
    e.IBV_WR_ATOMIC_WRITE: e.IBV_QP_EX_WITH_ATOMIC_WRITE,
    e.IBV_WR_TSO: e.IBV_QP_EX_WITH_TSO,
}
_SENDS = {e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM}
_OF_UC = {
    *_SENDS,
    *(e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM, e.IBV_WR_SEND_WITH_INV),
    *(e.IBV_WR_BIND_MW, e.IBV_WR_LOCAL_INV),
}
TRANSPORT = {  # what each transport can do
    e.IBV_QPT_UD: frozenset(_SENDS),
    e.IBV_QPT_UC: frozenset(_OF_UC),
    e.IBV_QPT_RC: frozenset(OPERATIONS) - {e.IBV_WR_TSO},
    e.IBV_QPT_XRC_SEND: frozenset(OPERATIONS) - {e.IBV_WR_TSO},
    e.IBV_QPT_XRC_RECV: frozenset(),
}


class Plan(NamedTuple):
    """What a pair is made of; ``operations`` is None where none had to be declared."""

    context: Any
    pd: Any
    domain: Any
    kind: int
    scq: Any
    rcq: Any
    srq: Any
    xrcd: Any
    operations: frozenset[int] | None
    holders: list[Any]


def plan_of(creator: Any, attr: QPInitAttr) -> Plan:
    """What a pair is made of; errors: EINVAL, EOPNOTSUPP."""
    if not isinstance(attr, QPInitAttr):
        raise PyverbsUserError("QP needs a QPInitAttr, or a Context and a QPInitAttrEx")
    extended = isinstance(attr, QPInitAttrEx)
    domain, xrcd = _domains(creator, attr)
    context = domain.ctx if domain is not None else creator.context
    facts = context.world.facts
    if attr.qp_type not in facts.qp_types:
        raise error(FAILED, errno.EOPNOTSUPP)
    _check_caps(facts, attr)
    _check_queues(context, attr, domain, xrcd)
    receives = attr.qp_type == e.IBV_QPT_XRC_RECV
    sends = attr.qp_type == e.IBV_QPT_XRC_SEND
    scq = None if receives else attr.send_cq
    rcq = None if receives or sends else attr.recv_cq
    srq = None if receives or sends else attr.srq
    holders = [each for each in (domain, xrcd, scq, rcq, srq) if each is not None]
    if extended:
        holders.append(context)
    pd = None if domain is None else domain.pd
    declared = _declared(facts, attr)
    return Plan(context, pd, domain, attr.qp_type, scq, rcq, srq, xrcd, declared, holders)


def _domains(creator: Any, attr: QPInitAttr) -> tuple[Any, Any]:
    """The domain of protection and that of XRC, one of which there is."""
    if not isinstance(attr, QPInitAttrEx):
        return creator, None
    if attr.comp_mask & ~int(KNOWN):
        raise error(FAILED, errno.EINVAL)
    if attr.comp_mask & int(NOT_BUILT):
        raise error(FAILED, errno.EOPNOTSUPP)
    if attr.comp_mask & e.IBV_QP_INIT_ATTR_CREATE_FLAGS and attr.create_flags:
        raise error(FAILED, errno.EOPNOTSUPP)
    domain = attr.pd if attr.comp_mask & e.IBV_QP_INIT_ATTR_PD else None
    xrcd = attr.xrcd if attr.comp_mask & e.IBV_QP_INIT_ATTR_XRCD else None
    of_xrc = attr.qp_type == e.IBV_QPT_XRC_RECV
    if (xrcd if of_xrc else domain) is None:
        raise error(FAILED, errno.EINVAL)
    return (None, xrcd) if of_xrc else (domain, None)


def _check_caps(facts: Any, attr: QPInitAttr) -> None:
    cap = attr.cap
    most = {
        "max_send_wr": facts.max_qp_wr,
        "max_recv_wr": facts.max_qp_wr,
        "max_send_sge": facts.max_sge,
        "max_recv_sge": facts.max_sge,
        "max_inline_data": facts.max_inline,
    }
    if any(not 0 <= getattr(cap, name) <= limit for name, limit in most.items()):
        raise error(FAILED, errno.EINVAL)


def _check_queues(context: Any, attr: QPInitAttr, domain: Any, xrcd: Any) -> None:
    if attr.qp_type == e.IBV_QPT_XRC_RECV:
        wrong = xrcd.ctx is not context
    else:
        queues = [attr.send_cq]
        if attr.qp_type != e.IBV_QPT_XRC_SEND:
            queues.append(attr.recv_cq)
        wrong = any(each is None or each._closed or each.context is not context for each in queues)
        wrong = wrong or domain._closed
        wrong = wrong or (attr.srq is not None and attr.srq.ctx is not context)
    if wrong:
        raise error(FAILED, errno.EINVAL)


def _declared(facts: Any, attr: QPInitAttr) -> frozenset[int] | None:
    """The operations that were declared; errors: EOPNOTSUPP for one that the device has not."""
    if not isinstance(attr, QPInitAttrEx):
        return None
    if not attr.comp_mask & e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS:
        return None
    known = sum(OPERATIONS.values())
    found = frozenset(op for op, bit in OPERATIONS.items() if attr.send_ops_flags & bit)
    if attr.send_ops_flags & ~int(known):
        raise error(FAILED, errno.EINVAL)
    if not found <= (facts.opcodes & TRANSPORT[attr.qp_type]):
        raise error(FAILED, errno.EOPNOTSUPP)
    return found
