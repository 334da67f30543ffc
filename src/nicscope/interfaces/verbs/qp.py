"""Queue pairs: attributes, creation, state transitions, posting, and requests built by calls."""

from __future__ import annotations

import errno
import struct
from copy import copy
from dataclasses import InitVar  # noqa: TC003 - dataclasses look for it
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AH, PORT, AHAttr, OfMember, route_errno
from nicscope.interfaces.verbs.base import (
    Attributes,
    PyverbsCM,
    PyverbsObject,
    PyverbsUserError,
    as_bytes,
    error,
    inc_rkey,
    printed,
    read,
    refusal,
)
from nicscope.interfaces.verbs.device import KEYS, MTU_CODES, Context
from nicscope.interfaces.verbs.enumerations import (
    mig_state_to_str,
    mtu_to_str,
    qp_state_to_str,
    qp_type_to_str,
)
from nicscope.interfaces.verbs.mr import MW, PD, QP_MEMORY, MWBind, MWBindInfo, QueueMemory
from nicscope.interfaces.verbs.wr import (
    INLINE,
    LONG,
    SGE,
    WORD,
    RecvWR,
    SendWR,
    bind_of,
    not_posted,
    post_receives,
    remote,
)
from nicscope.interfaces.verbs_device.calls import Caps, Flush, QpState, Refused, Send, UdTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


STATUS = Path("/proc/self/status")
NET_RAW = 13  # the bit of CAP_NET_RAW


def may_use_raw() -> bool:
    """Whether the process may use raw packets and keys; without Linux's files it may not."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return False
    told = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(told, 16) >> NET_RAW & 1)


class QPCap(Attributes):
    """Queue depths of a queue pair, and SGEs and inline bytes of one work request."""

    max_send_wr: int = 1
    max_recv_wr: int = 10
    max_send_sge: int = 1
    max_recv_sge: int = 1
    max_inline_data: int = 0


class QPInitAttr(Attributes):
    """Creation attributes of a queue pair."""

    SHOWN: ClassVar[tuple[str, ...]] = ("qp_type", "sq_sig_all", *QPCap.SHOWN)
    SAID: ClassVar = {"qp_type": qp_type_to_str}
    max_send_wr, max_recv_wr, max_send_sge = OfMember("cap"), OfMember("cap"), OfMember("cap")
    max_recv_sge, max_inline_data = OfMember("cap"), OfMember("cap")
    qp_type: int = e.IBV_QPT_UD
    qp_context: Any = None
    scq: InitVar[Any] = None
    rcq: InitVar[Any] = None
    srq: Any = None
    cap: QPCap = None  # type: ignore[assignment]  # a copy; of the defaults unless given
    sq_sig_all: int = 1

    def __post_init__(self, scq: Any, rcq: Any) -> None:
        self.send_cq, self.recv_cq = scq, rcq
        self.cap = QPCap() if self.cap is None else copy(self.cap)


class QPInitAttrEx(QPInitAttr):
    """Extended creation attributes of a queue pair."""

    SHOWN = (
        *QPInitAttr.SHOWN,
        *("comp_mask", "create_flags", "max_tso_header", "source_qpn", "send_ops_flags"),
    )
    sq_sig_all: int = 0
    comp_mask: int = 0
    pd: Any = None
    xrcd: Any = None
    create_flags: int = 0
    max_tso_header: int = 0
    source_qpn: int = 0
    hash_conf: Any = None
    ind_table: Any = None
    send_ops_flags: int = 0


class QPAttr(Attributes):
    """A queue pair's state and attributes."""

    SHOWN = (
        *("qp_state", "cur_qp_state", "path_mtu", "path_mig_state", "qkey", "rq_psn", "sq_psn"),
        *("dest_qp_num", "qp_access_flags", "pkey_index", "alt_pkey_index"),
        *("en_sqd_async_notify", "sq_draining", "max_rd_atomic", "max_dest_rd_atomic"),
        *("min_rnr_timer", "port_num", "timeout", "retry_cnt", "rnr_retry", "alt_port_num"),
        *("alt_timeout", "rate_limit"),
    )
    SAID: ClassVar = {
        "qp_state": qp_state_to_str,
        "cur_qp_state": qp_state_to_str,
        "path_mtu": mtu_to_str,
        "path_mig_state": mig_state_to_str,
    }
    qp_state: int = e.IBV_QPS_INIT
    cur_qp_state: int = e.IBV_QPS_RESET
    port_num: int = PORT
    path_mtu: int = e.IBV_MTU_1024
    path_mig_state: int = 0
    qkey: int = 0
    rq_psn: int = 0
    sq_psn: int = 0
    dest_qp_num: int = 0
    qp_access_flags: int = 0
    pkey_index: int = 0
    alt_pkey_index: int = 0
    en_sqd_async_notify: int = 0
    sq_draining: int = 0
    max_rd_atomic: int = 0
    max_dest_rd_atomic: int = 0
    min_rnr_timer: int = 0
    timeout: int = 0
    retry_cnt: int = 0
    rnr_retry: int = 0
    alt_port_num: int = 0
    alt_timeout: int = 0
    rate_limit: int = 0

    def __post_init__(self) -> None:
        self.cap = QPCap(0, 0, 0, 0, 0)
        self._way, self._alternative = AHAttr(), AHAttr()

    @property
    def ah_attr(self) -> AHAttr:
        """The primary path."""
        return self._way.copied()

    @ah_attr.setter
    def ah_attr(self, val: AHAttr) -> None:
        self._way = val.copied()

    @property
    def alt_ah_attr(self) -> AHAttr:
        """The alternate path."""
        return self._alternative.copied()

    @alt_ah_attr.setter
    def alt_ah_attr(self, val: AHAttr) -> None:
        self._alternative = val.copied()

    def copied(self) -> QPAttr:
        """A copy of the attributes."""
        made = copy(self)
        made.cap, made.ah_attr = copy(self.cap), self._way
        made.alt_ah_attr = self._alternative
        return made


class QPRateLimitAttr(Attributes):
    """Rate limits of a queue pair, which this device does not support."""

    rate_limit: int = 0
    max_burst_sz: int = 0
    typical_pkt_sz: int = 0


class ECE(Attributes):
    """Enhanced connection establishment options, which are all zero here."""

    vendor_id: int = 0
    options: int = 0
    comp_mask: int = 0


RESET, INIT, RTR, RTS = e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS
SQD, SQE, ERR = e.IBV_QPS_SQD, e.IBV_QPS_SQE, e.IBV_QPS_ERR
RC, UC, UD = e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD
XRC_SEND, XRC_RECV, RAW = e.IBV_QPT_XRC_SEND, e.IBV_QPT_XRC_RECV, e.IBV_QPT_RAW_PACKET
EVERY = (RC, UC, UD, XRC_SEND, XRC_RECV, RAW)
Masks = dict[int, tuple[int, int]]  # by transport: what is required, what is allowed beside it


def _mask(text: str) -> int:
    found = 0
    for name in text.split():
        found |= int(getattr(e, f"IBV_QP_{name}"))
    return found


_OPEN = "PKEY_INDEX PORT ACCESS_FLAGS"
_TO_INIT = {RC: _OPEN, UC: _OPEN, UD: "PKEY_INDEX PORT QKEY", XRC_SEND: _OPEN, XRC_RECV: _OPEN}
_WAY = "AV PATH_MTU DEST_QPN RQ_PSN"
_ANSWERING = f"{_WAY} MAX_DEST_RD_ATOMIC MIN_RNR_TIMER"
_TO_RTR = {RC: _ANSWERING, UC: _WAY, UD: "", XRC_SEND: _WAY, XRC_RECV: _ANSWERING}
_ASKING = "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC"
_TO_RTS = {RC: _ASKING, UC: "SQ_PSN", UD: "SQ_PSN", XRC_SEND: _ASKING, XRC_RECV: "TIMEOUT SQ_PSN"}
_CHANGING = "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"
_ALIVE = {
    RC: f"{_CHANGING} MIN_RNR_TIMER",
    UC: _CHANGING,
    UD: "CUR_STATE QKEY",
    XRC_SEND: _CHANGING,
    XRC_RECV: f"{_CHANGING} MIN_RNR_TIMER",
}
_DRAINED = "AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"
_ALL = f"PORT {_DRAINED} TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC"
_IN_SQD = {
    RC: f"{_ALL} MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
    UC: _DRAINED,
    UD: "PKEY_INDEX QKEY",
    XRC_SEND: _ALL,
    XRC_RECV: f"PORT {_DRAINED} TIMEOUT MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
}
_BESIDE = "ALT_PATH ACCESS_FLAGS PKEY_INDEX"


def _of(required: dict[int, str], allowed: dict[int, str]) -> Masks:
    return {kind: (_mask(required.get(kind, "")), _mask(allowed.get(kind, ""))) for kind in EVERY}


@cache
def table() -> dict[tuple[int, int], Masks]:
    """Required and optional attributes of each state transition, by old and new state."""
    connected = dict.fromkeys((RC, UC, XRC_SEND, XRC_RECV), _BESIDE)
    raw = {RAW: "PORT"}
    steps: dict[tuple[int, int], Masks] = {
        (RESET, INIT): _of({**_TO_INIT, **raw}, {}),
        (INIT, INIT): _of({}, {**_TO_INIT, **raw}),
        (INIT, RTR): _of(_TO_RTR, {**connected, UD: "PKEY_INDEX QKEY"}),
        (RTR, RTS): _of(_TO_RTS, {**_ALIVE, RAW: "RATE_LIMIT"}),
        (RTS, RTS): _of({}, {**_ALIVE, RAW: "RATE_LIMIT"}),
        (RTS, SQD): _of({}, dict.fromkeys(EVERY, "EN_SQD_ASYNC_NOTIFY")),
        (SQD, RTS): _of({}, _ALIVE),
        (SQD, SQD): _of({}, _IN_SQD),
        (SQE, RTS): _of({}, {UD: "CUR_STATE QKEY", UC: "CUR_STATE ACCESS_FLAGS"}),
    }
    anywhere = _of({}, {})
    for state in (RESET, INIT, RTR, RTS, SQD, SQE, ERR):
        steps[state, RESET] = steps[state, ERR] = anywhere
    return steps


# What Linux leaves out of a change of an XRC queue pair (``modify_qp_mask`` of uverbs_cmd.c).
_UNHEARD = {
    XRC_SEND: _mask("MAX_DEST_RD_ATOMIC MIN_RNR_TIMER"),
    XRC_RECV: _mask("MAX_QP_RD_ATOMIC RETRY_CNT RNR_RETRY"),
}


def heard(kind: int, mask: int) -> int:
    """What the kernel hears of a change: an XRC queue pair may be told what it has no use for."""
    return mask & ~_UNHEARD.get(kind, 0)


def transition_errno(kind: int, now: int, then: int, mask: int) -> int:
    """The errno for an invalid state transition, or 0.

    ``mask``: what is said beside the new state.
    """
    found = table().get((now, then))
    if found is None:
        return errno.EINVAL
    required, allowed = found[kind]
    if mask & required != required or mask & ~(required | allowed):
        return errno.EINVAL
    return 0


def required_masks(kind: int, now: int, then: int) -> int:
    """The attributes that a state transition requires."""
    return table()[now, then][kind][0]


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


def attributes_errno(context: Any, attr: QPAttr, mask: int) -> int:
    """The errno of the first attribute value that the device does not support, or 0."""
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
        e.IBV_QP_AV: lambda: route_errno(context, attr.ah_attr),
        e.IBV_QP_QKEY: lambda: errno.EPERM if attr.qkey & PRIVILEGED and not may_use_raw() else 0,
    }
    found = (check() for bit, check in checks.items() if mask & bit)
    return next((wrong for wrong in found if wrong), 0)


def merged(held: QPAttr, attr: QPAttr, mask: int) -> QPAttr:
    """The attributes ``held``, with those that ``mask`` names taken from ``attr``."""
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
    """The attributes as the device takes them; ``mask``: which of them are set now."""
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


FAILED = "Failed to create QP"
KNOWN = sum(e.ibv_qp_init_attr_mask)
NOT_BUILT_INIT = (
    e.IBV_QP_INIT_ATTR_MAX_TSO_HEADER | e.IBV_QP_INIT_ATTR_IND_TABLE | e.IBV_QP_INIT_ATTR_RX_HASH
)
OPERATIONS = {  # opcode of a request: the bit that declares it
    getattr(e, f"IBV_WR_{name}"): getattr(e, f"IBV_QP_EX_WITH_{name}")
    for name in (
        *("RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM", "SEND_WITH_INV"),
        *("RDMA_READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "ATOMIC_WRITE"),
        *("LOCAL_INV", "BIND_MW", "FLUSH", "TSO"),
    )
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


def _domains(creator: Any, attr: QPInitAttr) -> tuple[Any, Any]:
    """The protection domain and the XRC domain; a queue pair has one of the two."""
    if not isinstance(attr, QPInitAttrEx):
        return creator, None
    if attr.comp_mask & ~int(KNOWN):
        raise error(FAILED, errno.EINVAL)
    if attr.comp_mask & int(NOT_BUILT_INIT):
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
    """The operations declared in ``send_ops_flags``; errors: EOPNOTSUPP for an unsupported one."""
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


NOT_YET = (e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR)
UNBUILT = int(e.IBV_SEND_IP_CSUM)
FLAGS = int(sum(e.ibv_send_flags))
REST = ~(FLAGS & ~UNBUILT)
BIND, DATAGRAMS = int(e.IBV_WR_BIND_MW), int(e.IBV_QPT_UD)  # plain numbers: quick to compare
INLINED = frozenset(
    int(op)
    for op in (
        *(e.IBV_WR_SEND, e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_SEND_WITH_INV),
        *(e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_WRITE_WITH_IMM),
    )
)
BY_STEPS_ONLY = (e.IBV_WR_FLUSH, e.IBV_WR_ATOMIC_WRITE)


def send_errno(qp: Any, wr: SendWR) -> int:
    """The errno for an invalid work request, or 0."""
    if not qp._sends or len(wr.pieces) > qp._caps.send_sge:
        return errno.EINVAL
    opcode, flags = wr.opcode, wr.send_flags
    if opcode not in qp._offered or flags & REST:
        return _kind_errno(qp, opcode, flags)
    if flags & INLINE:
        length = sum(piece.length for piece in wr.pieces)
        if opcode not in INLINED or length > qp._caps.inline:
            return errno.EINVAL
    is_lost = qp._type == DATAGRAMS and "ud" not in wr.further
    if is_lost or (opcode == BIND and is_unbindable(qp, wr.window)):
        return errno.EINVAL
    return 0


def offered(qp: Any) -> frozenset[int]:
    """The operations that ``post_send`` takes for the pair's transport on its device."""
    found: frozenset[int] = TRANSPORT[qp._type] & qp.ctx.world.facts.opcodes
    return found.difference(BY_STEPS_ONLY)


def _kind_errno(qp: Any, opcode: int, flags: int) -> int:
    """The errno for an invalid or unsupported opcode or flag, or 0."""
    known = opcode in TRANSPORT[qp._type] and opcode not in BY_STEPS_ONLY and not flags & ~FLAGS
    return errno.EOPNOTSUPP if known else errno.EINVAL


def is_unbindable(qp: Any, window: Any) -> bool:
    """Whether a bind request names a window that a queue pair cannot bind by ``post_send``."""
    return window is None or window[0].type != e.IBV_MW_TYPE_2 or qp.pd is None


TO_RTS = (e.IBV_QPT_UD, e.IBV_QPT_RAW_PACKET)  # those that go there when they are made
POSTING = (e.IBV_QPS_RTS, e.IBV_QPS_SQD, e.IBV_QPS_SQE, e.IBV_QPS_ERR)


class QP(PyverbsCM):
    """A queue pair."""

    def __init__(
        self, creator: PD | Context, init_attr: QPInitAttr, qp_attr: QPAttr | None = None
    ) -> None:
        if not isinstance(init_attr, QPInitAttr):
            raise PyverbsUserError("QP needs a QPInitAttr, or a Context and a QPInitAttrEx")
        domain, xrcd = _domains(creator, init_attr)
        owner: Any = creator
        self.ctx = owner.context if domain is None else domain.ctx
        facts = self.ctx.world.facts
        if init_attr.qp_type not in facts.qp_types:
            raise error(FAILED, errno.EOPNOTSUPP)
        _check_caps(facts, init_attr)
        _check_queues(self.ctx, init_attr, domain, xrcd)
        receives = init_attr.qp_type == e.IBV_QPT_XRC_RECV
        takes = not receives and init_attr.qp_type != e.IBV_QPT_XRC_SEND
        self.pd = None if domain is None else domain.pd
        self.scq = None if receives else init_attr.send_cq
        self.rcq = init_attr.recv_cq if takes else None
        self.srq = init_attr.srq if takes else None
        self._type = init_attr.qp_type
        self._operations = _declared(facts, init_attr)  # None where none are
        self._signals_all = bool(init_attr.sq_sig_all)
        self._make(domain, xrcd, init_attr.cap)
        holders = [domain, xrcd, self.scq, self.rcq, self.srq]
        if isinstance(init_attr, QPInitAttrEx):
            holders.append(self.ctx)
        for holder in holders:
            if holder is not None:
                holder._add_dependent(self, "qps")
        init_attr.cap = self._cap()
        if qp_attr is not None:
            try:
                (self.to_rts if self._type in TO_RTS else self.to_init)(qp_attr)
            except Exception:
                self.close()
                raise

    def _make(self, domain: Any, xrcd: Any, cap: QPCap) -> None:
        self._memory = QueueMemory(domain, cap.max_send_wr + cap.max_recv_wr, QP_MEMORY)
        self._device = self.ctx.world.device
        with self._memory.made_with("Failed to create QP"):
            self._number, self._caps = self._device.make_qp(
                0 if self.pd is None else self.pd.handle,
                self._type,
                0 if self.scq is None else self.scq.handle,
                0 if self.rcq is None else self.rcq.handle,
                0 if self.srq is None else self.srq.handle,
                Caps(*(getattr(cap, name) for name in QPCap.SHOWN)),
                self._signals_all,
                0 if xrcd is None else xrcd.handle,
            )
        self._held, self._sends = QPAttr(e.IBV_QPS_RESET, path_mtu=0), False
        self._offered = offered(self)
        self._opened()

    def _cap(self) -> QPCap:
        return QPCap(*self._caps)

    def __str__(self) -> str:
        state, kind = qp_state_to_str(self.qp_state), qp_type_to_str(self._type)
        return "QP\n" + printed({"type": kind, "number": self.qp_num, "state": state})

    @property
    def qp_type(self) -> int:
        """The queue pair's transport."""
        return self._type

    @property
    def qp_num(self) -> int:
        """The queue pair's number."""
        return int(self._number)

    @property
    def qp_state(self) -> int:
        """The queue pair's state, which an error may have changed."""
        try:
            return int(self._device.qp_state(self._number))
        except Refused as refused:
            raise error("Failed to query QP", refused.errno) from None

    def modify(self, qp_attr: QPAttr, mask: int) -> None:
        """Set the attributes that ``mask`` names; errors: EINVAL, and nothing is changed."""
        wanted, failed = heard(self._type, int(mask)), "Failed to modify QP"
        now = self.qp_state
        then = qp_attr.qp_state if wanted & e.IBV_QP_STATE else now
        if wanted & e.IBV_QP_CUR_STATE and qp_attr.cur_qp_state != now:
            raise error(f"{failed} state", errno.EINVAL)
        said = wanted & ~int(e.IBV_QP_STATE)
        wrong = transition_errno(self._type, now, then, said) or attributes_errno(
            self.ctx, qp_attr, wanted
        )
        if wrong:
            raise error(f"{failed} state", wrong)
        held = (
            QPAttr(e.IBV_QPS_RESET, path_mtu=0)
            if then == e.IBV_QPS_RESET
            else merged(self._held, qp_attr, wanted)
        )
        held.qp_state = then
        with refusal(f"{failed} state"):
            self._device.modify_qp(self._number, state_of(held, wanted))
        self._held, self._sends = held, then not in NOT_YET

    def _step(self, qp_attr: QPAttr, now: int, then: int) -> None:
        qp_attr.qp_state = then
        self.modify(qp_attr, required_masks(self._type, now, then) | int(e.IBV_QP_STATE))

    def to_init(self, qp_attr: QPAttr) -> None:
        """Transition from RESET to INIT."""
        self._step(qp_attr, e.IBV_QPS_RESET, e.IBV_QPS_INIT)

    def to_rtr(self, qp_attr: QPAttr) -> None:
        """Transition to RTR, through INIT if need be."""
        if self.qp_state != e.IBV_QPS_INIT:
            self.to_init(qp_attr)
        self._step(qp_attr, e.IBV_QPS_INIT, e.IBV_QPS_RTR)

    def to_rts(self, qp_attr: QPAttr) -> None:
        """Transition to RTS, through RTR if need be."""
        if self.qp_state != e.IBV_QPS_RTR:
            self.to_rtr(qp_attr)
        self._step(qp_attr, e.IBV_QPS_RTR, e.IBV_QPS_RTS)

    def query(self, attr_mask: int) -> tuple[QPAttr, QPInitAttr]:  # noqa: ARG002 - all is told
        """The current attributes and the creation attributes."""
        found = self._held.copied()
        found.qp_state = found.cur_qp_state = self.qp_state
        found.cap = self._cap()
        made = QPInitAttr(
            self._type, None, self.scq, self.rcq, self.srq, self._cap(), int(self._signals_all)
        )
        return found, made

    def query_data_in_order(self, op: int, flags: int = 0) -> int:
        """The guarantees on the order in which bytes arrive: none."""
        if int(op) not in e.ibv_wr_opcode.__members__.values():
            raise error("Failed to query data in order", errno.EINVAL)
        if int(flags) & ~int(e.IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS):
            raise error("Failed to query data in order", errno.EINVAL)
        return 0

    def post_send(self, wr: SendWR, bad_wr: SendWR | None = None) -> None:
        """Post ``wr`` and the work requests chained to it."""
        post, number = self._device.post_send, self._number
        each: SendWR | None = wr
        try:
            while each is not None:
                wrong = send_errno(self, each)
                if wrong:
                    raise Refused(wrong)
                post(number, each.request())
                each = each.next_wr
        except Refused as refused:
            raise not_posted("Failed to post send", refused, each, bad_wr) from None

    def post_recv(self, wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Post receive buffers."""
        post_receives(wr, bad_wr, self._device.post_recv, self._number, "Failed to post recv")

    def bind_mw(self, mw: MW, mw_bind: MWBind) -> None:
        """Bind a window of type 1; its rkey changes at once."""
        failed = "Failed to bind MW"
        info = mw_bind.info
        if mw.type != e.IBV_MW_TYPE_1 or self._held.qp_state not in POSTING:
            raise error(failed, errno.EINVAL)
        if info.mr.pd.pd is not self.pd or mw.pd is not self.pd:
            raise error(failed, errno.EPERM)
        key = inc_rkey(mw.rkey)
        request = Send(
            mw_bind.wr_id, e.IBV_WR_BIND_MW, (), mw_bind.send_flags, bind=bind_of(mw, info, key)
        )
        with refusal(failed):
            self._device.post_send(self._number, request)
        mw.rkey = key

    def modify_rate_limit(self, rate_limit_attr: QPRateLimitAttr) -> None:
        """Errors: EOPNOTSUPP, as rate limits are not supported."""
        said = f"Failed to modify rate limit to {rate_limit_attr.rate_limit}"
        raise error(said, errno.EOPNOTSUPP)

    def set_ece(self, ece: ECE) -> None:
        """Errors: EOPNOTSUPP unless the options are all zero."""
        if ece.vendor_id or ece.options:
            raise error("Failed to set ECE", errno.EOPNOTSUPP)

    def query_ece(self) -> ECE:
        """The negotiated ECE options, which are all zero."""
        return ECE()

    def _release(self) -> None:
        self._device.free_qp(self._number)
        self._memory.free()


EIGHT = 8


def in_network_order(word: int) -> int:
    """A 32-bit word converted between host and network order."""
    return int(struct.unpack("<I", struct.pack(">I", int(word) & WORD))[0])


class DataBuffer(PyverbsObject):
    """A buffer for inline data."""

    def __init__(self, addr: int, length: int) -> None:
        self.addr, self.length = int(addr), int(length)


class QPEx(QP):
    """A queue pair whose work requests are built by one call for each part."""

    def __init__(
        self, creator: Context, init_attr: QPInitAttrEx, qp_attr: QPAttr | None = None
    ) -> None:
        super().__init__(creator, init_attr, qp_attr)
        if self._operations is None:
            self.close()
            raise error(FAILED, errno.EOPNOTSUPP)
        self.wr_id = self.wr_flags = 0
        self.ind_table = init_attr.ind_table  # programs look there for other queues to post to
        self._built: list[Send] | None = None
        self._wrong = 0

    def wr_start(self) -> None:
        """Begin a batch of work requests, which are posted together."""
        if self._built is not None:
            raise PyverbsUserError("wr_start() without wr_complete() or wr_abort() before it")
        self._built, self._wrong = [], 0

    def wr_complete(self) -> None:
        """Post all work requests of the batch, or none."""
        built, wrong = self._requests(), self._wrong
        self._built = None
        failed = "Failed to complete work requests"
        wrong = wrong or next(filter(None, map(self._fault, built)), 0)
        if wrong or self._held.qp_state in NOT_YET:
            raise error(failed, wrong or errno.EINVAL)
        for request in built:
            try:
                self._device.post_send(self._number, request)
            except Refused as refused:
                raise error(failed, refused.errno) from None

    def wr_abort(self) -> None:
        """Discard the batch."""
        self._requests()
        self._built = None

    def _requests(self) -> list[Send]:
        if self._built is None:
            raise PyverbsUserError("wr_start() has not been called")
        return self._built

    def _fault(self, request: Send) -> int:
        if request.opcode not in (self._operations or ()):
            return errno.EINVAL
        if len(request.pieces) > self._caps.send_sge:
            return errno.EINVAL
        inline = request.inline is not None and request.opcode in INLINED
        if inline and len(request.inline or b"") > self._caps.inline:
            return errno.EINVAL
        if self._type == e.IBV_QPT_UD and request.ud is None:
            return errno.EINVAL
        return 0

    def _begin(self, opcode: int, **parts: Any) -> None:
        request = Send(int(self.wr_id) & LONG, int(opcode), (), int(self.wr_flags), **parts)
        self._requests().append(request)

    def _set(self, **parts: Any) -> None:
        built = self._requests()
        if not built:
            self._wrong = errno.EINVAL
            return
        built[-1] = msgspec.structs.replace(built[-1], **parts)

    def wr_send(self) -> None:
        """Begin a send."""
        self._begin(e.IBV_WR_SEND)

    def wr_send_imm(self, imm_data: int) -> None:
        """Begin a send with immediate data."""
        self._begin(e.IBV_WR_SEND_WITH_IMM, imm=in_network_order(imm_data))

    def wr_send_inv(self, invalidate_rkey: int) -> None:
        """Begin a send that invalidates an rkey at the receiver."""
        self._begin(e.IBV_WR_SEND_WITH_INV, imm=int(invalidate_rkey) & WORD)

    def wr_rdma_write(self, rkey: int, remote_addr: int) -> None:
        """Begin an RDMA write."""
        self._begin(e.IBV_WR_RDMA_WRITE, **remote(rkey, remote_addr))

    def wr_rdma_write_imm(self, rkey: int, remote_addr: int, imm_data: int) -> None:
        """Begin an RDMA write with immediate data."""
        word = in_network_order(imm_data)
        self._begin(e.IBV_WR_RDMA_WRITE_WITH_IMM, imm=word, **remote(rkey, remote_addr))

    def wr_rdma_read(self, rkey: int, remote_addr: int) -> None:
        """Begin an RDMA read."""
        self._begin(e.IBV_WR_RDMA_READ, **remote(rkey, remote_addr))

    def wr_atomic_cmp_swp(self, rkey: int, remote_addr: int, compare: int, swap: int) -> None:
        """Begin a compare-and-swap."""
        words = {"compare_add": int(compare) & LONG, "swap": int(swap) & LONG}
        self._begin(e.IBV_WR_ATOMIC_CMP_AND_SWP, **words, **remote(rkey, remote_addr))

    def wr_atomic_fetch_add(self, rkey: int, remote_addr: int, add: int) -> None:
        """Begin a fetch-and-add."""
        where = remote(rkey, remote_addr)
        self._begin(e.IBV_WR_ATOMIC_FETCH_AND_ADD, compare_add=int(add) & LONG, **where)

    def wr_atomic_write(self, rkey: int, remote_addr: int, atomic_wr: Any) -> None:
        """Begin an atomic write of eight bytes."""
        data = as_bytes(atomic_wr, EIGHT)
        self._begin(e.IBV_WR_ATOMIC_WRITE, inline=data, **remote(rkey, remote_addr))

    def wr_flush(
        self, rkey: int, remote_addr: int, length: int, placement: int, level: int
    ) -> None:
        """Begin a flush: earlier writes become visible, or persistent."""
        what = Flush(int(placement), int(level), int(length) & LONG)
        self._begin(e.IBV_WR_FLUSH, flush=what, **remote(rkey, remote_addr))

    def wr_bind_mw(self, mw: MW, rkey: int, bind_info: MWBindInfo) -> None:
        """Begin a bind of a type 2 window under an rkey whose tag the caller chooses."""
        self._begin(e.IBV_WR_BIND_MW, bind=bind_of(mw, bind_info, int(rkey)))
        if mw.type != e.IBV_MW_TYPE_2:
            self._wrong = errno.EINVAL

    def wr_local_inv(self, invalidate_rkey: int) -> None:
        """Begin a local invalidate of a type 2 window."""
        self._begin(e.IBV_WR_LOCAL_INV, imm=int(invalidate_rkey) & WORD)

    def wr_set_sge(self, sge: SGE) -> None:
        """Set the work request's scatter/gather element."""
        self._set(pieces=(sge.piece(),))

    def wr_set_sge_list(self, num_sge: int, sg_list: Sequence[SGE]) -> None:
        """Set the work request's scatter/gather list."""
        self._set(pieces=tuple(each.piece() for each in [*sg_list][: int(num_sge)]))

    def wr_set_inline_data(self, addr: int, length: int) -> None:
        """Copy inline data into the work request."""
        self._take(read(int(addr), int(length)))

    def wr_set_inline_data_list(self, num_buf: int, buf_list: Sequence[DataBuffer]) -> None:
        """Copy the bytes of several buffers into the work request."""
        self._take(b"".join(read(each.addr, each.length) for each in [*buf_list][: int(num_buf)]))

    def _take(self, data: bytes) -> None:
        self._set(inline=data)
        if self._requests() and self._requests()[-1].opcode not in INLINED:
            self._wrong = errno.EINVAL

    def wr_set_ud_addr(self, ah: AH, remote_qpn: int, remote_rkey: int) -> None:
        """Set the datagram's destination: address handle, queue pair number and qkey."""
        self._set(ud=UdTarget(ah.sgid_index, ah.dgid, int(remote_qpn), int(remote_rkey) & WORD))

    def wr_set_xrc_srqn(self, remote_srqn: int) -> None:
        """Set the remote shared receive queue."""
        self._set(srqn=int(remote_srqn))
