"""What of a queue pair's attributes is set, and which values the device takes."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import PORT, wrong_route
from nicscope.interfaces.verbs.device_attr import KEYS, MTU_CODES
from nicscope.interfaces.verbs.privilege import may_use_raw
from nicscope.interfaces.verbs_device.calls import QpState

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.interfaces.verbs.qp_attr import QPAttr

BYTES = {code: size for size, code in MTU_CODES.items()}
PRIVILEGED = 1 << 31  # of a key of datagrams
PSN = (1 << 24) - 1
RETRIES, TIMERS = 7, 31
NOT_BUILT = e.IBV_QP_ALT_PATH | e.IBV_QP_PATH_MIG_STATE | e.IBV_QP_RATE_LIMIT

FIELDS: dict[int, tuple[str, ...]] = {  # by the bit that says that they are set
    e.IBV_QP_ACCESS_FLAGS: ("qp_access_flags",),
    e.IBV_QP_PKEY_INDEX: ("pkey_index",),
    e.IBV_QP_PORT: ("port_num",),
    e.IBV_QP_QKEY: ("qkey",),
    e.IBV_QP_AV: ("ah_attr",),
    e.IBV_QP_PATH_MTU: ("path_mtu",),
    e.IBV_QP_TIMEOUT: ("timeout",),
    e.IBV_QP_RETRY_CNT: ("retry_cnt",),
    e.IBV_QP_RNR_RETRY: ("rnr_retry",),
    e.IBV_QP_RQ_PSN: ("rq_psn",),
    e.IBV_QP_MAX_QP_RD_ATOMIC: ("max_rd_atomic",),
    e.IBV_QP_MIN_RNR_TIMER: ("min_rnr_timer",),
    e.IBV_QP_SQ_PSN: ("sq_psn",),
    e.IBV_QP_MAX_DEST_RD_ATOMIC: ("max_dest_rd_atomic",),
    e.IBV_QP_DEST_QPN: ("dest_qp_num",),
    e.IBV_QP_EN_SQD_ASYNC_NOTIFY: ("en_sqd_async_notify",),
}


def wrong_values(context: Any, attr: QPAttr, mask: int) -> int:
    """The system's number of the first value that the device does not take, or 0."""
    facts = context.world.facts
    if mask & NOT_BUILT:
        return errno.EOPNOTSUPP
    most = {
        e.IBV_QP_PKEY_INDEX: (attr.pkey_index, KEYS - 1),
        e.IBV_QP_TIMEOUT: (attr.timeout, TIMERS),
        e.IBV_QP_RETRY_CNT: (attr.retry_cnt, RETRIES),
        e.IBV_QP_RNR_RETRY: (attr.rnr_retry, RETRIES),
        e.IBV_QP_MIN_RNR_TIMER: (attr.min_rnr_timer, TIMERS),
        e.IBV_QP_MAX_QP_RD_ATOMIC: (attr.max_rd_atomic, facts.max_rd_atomic),
        e.IBV_QP_MAX_DEST_RD_ATOMIC: (attr.max_dest_rd_atomic, facts.max_rd_atomic),
        e.IBV_QP_PATH_MTU: (BYTES.get(attr.path_mtu, 1 << 31), facts.mtu_bytes),
        e.IBV_QP_DEST_QPN: (attr.dest_qp_num, PSN),
    }
    for bit, (value, limit) in most.items():
        if mask & bit and not 0 <= value <= limit:
            return errno.EINVAL
    checks: dict[int, Callable[[], int]] = {
        e.IBV_QP_PORT: lambda: errno.EINVAL if attr.port_num != PORT else 0,
        e.IBV_QP_AV: lambda: wrong_route(context, attr.ah_attr),
        e.IBV_QP_QKEY: lambda: errno.EPERM if attr.qkey & PRIVILEGED and not may_use_raw() else 0,
    }
    found = (check() for bit, check in checks.items() if mask & bit)
    return next((wrong for wrong in found if wrong), 0)


def merged(held: QPAttr, attr: QPAttr, mask: int) -> QPAttr:
    """What is held once what ``mask`` names is set."""
    made = held.copied()
    for bit, names in FIELDS.items():
        if mask & bit:
            for name in names:
                setattr(made, name, getattr(attr, name))
    if mask & e.IBV_QP_STATE:
        made.qp_state = attr.qp_state
    made.rq_psn &= PSN
    made.sq_psn &= PSN
    return made


def state_of(attr: QPAttr, mask: int) -> QpState:
    """What the device is told; ``mask``: what of it is set now."""
    way = attr.ah_attr
    return QpState(
        attr.qp_state,
        attr.qp_access_flags,
        attr.dest_qp_num,
        way.gr.dgid.raw,
        way.gr.sgid_index,
        BYTES.get(attr.path_mtu, 0),
        attr.rq_psn,
        attr.sq_psn,
        attr.timeout,
        attr.retry_cnt,
        attr.rnr_retry,
        attr.min_rnr_timer,
        attr.max_rd_atomic,
        attr.max_dest_rd_atomic,
        attr.qkey,
        attr.pkey_index,
        bool(mask & e.IBV_QP_EN_SQD_ASYNC_NOTIFY and attr.en_sqd_async_notify),
    )
