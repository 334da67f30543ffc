"""Queue pair attributes: which values are valid, and which each state transition needs."""

from __future__ import annotations

import errno
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import PORT, AHAttr, route_errno
from nicscope.interfaces.verbs.base import Fields, Number, PyverbsObject
from nicscope.interfaces.verbs.device_attr import KEYS, MTU_CODES
from nicscope.interfaces.verbs.texts import (
    mig_state_to_str,
    mtu_to_str,
    qp_state_to_str,
    qp_type_to_str,
)
from nicscope.interfaces.verbs_device.calls import QpState

if TYPE_CHECKING:
    from collections.abc import Callable

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


class QPCap(Fields, PyverbsObject):
    """Queue depths of a queue pair, and SGEs and inline bytes of one work request."""

    SHOWN = ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data")
    max_send_wr, max_recv_wr, max_send_sge = Number(), Number(), Number()
    max_recv_sge, max_inline_data = Number(), Number()

    def __init__(
        self,
        max_send_wr: int = 1,
        max_recv_wr: int = 10,
        max_send_sge: int = 1,
        max_recv_sge: int = 1,
        max_inline_data: int = 0,
    ) -> None:
        self.max_send_wr, self.max_recv_wr = max_send_wr, max_recv_wr
        self.max_send_sge, self.max_recv_sge = max_send_sge, max_recv_sge
        self.max_inline_data = max_inline_data

    def copied(self) -> QPCap:
        """A copy of the capacities."""
        return QPCap(*(getattr(self, name) for name in self.SHOWN))


class OfCap:
    """A descriptor for a field of the ``cap`` member."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, holder: Any, kind: type | None = None) -> int:
        if holder is None:
            return self  # type: ignore[return-value]
        found: int = getattr(holder.cap, self._name)
        return found

    def __set__(self, holder: Any, value: Any) -> None:
        setattr(holder.cap, self._name, value)


class QPInitAttr(Fields, PyverbsObject):
    """Creation attributes of a queue pair."""

    SHOWN: ClassVar[tuple[str, ...]] = ("qp_type", "sq_sig_all", *QPCap.SHOWN)
    qp_type, sq_sig_all = Number(), Number()
    max_send_wr, max_recv_wr, max_send_sge = OfCap(), OfCap(), OfCap()
    max_recv_sge, max_inline_data = OfCap(), OfCap()

    def __init__(
        self,
        qp_type: int = e.IBV_QPT_UD,
        qp_context: Any = None,
        scq: Any = None,
        rcq: Any = None,
        srq: Any = None,
        cap: QPCap | None = None,
        sq_sig_all: int = 1,
    ) -> None:
        self.qp_type, self.sq_sig_all, self.qp_context = qp_type, sq_sig_all, qp_context
        self.send_cq, self.recv_cq, self.srq = scq, rcq, srq
        self.cap = QPCap() if cap is None else cap.copied()

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        return [("qp type", qp_type_to_str(self.qp_type)), *super().shown()[1:]]


class QPInitAttrEx(QPInitAttr):
    """Extended creation attributes of a queue pair."""

    SHOWN = (
        *QPInitAttr.SHOWN,
        *("comp_mask", "create_flags", "max_tso_header", "source_qpn", "send_ops_flags"),
    )
    comp_mask, create_flags, max_tso_header = Number(), Number(), Number()
    source_qpn, send_ops_flags = Number(), Number()

    def __init__(
        self,
        qp_type: int = e.IBV_QPT_UD,
        qp_context: Any = None,
        scq: Any = None,
        rcq: Any = None,
        srq: Any = None,
        cap: QPCap | None = None,
        sq_sig_all: int = 0,
        comp_mask: int = 0,
        pd: Any = None,
        xrcd: Any = None,
        create_flags: int = 0,
        max_tso_header: int = 0,
        source_qpn: int = 0,
        hash_conf: Any = None,
        ind_table: Any = None,
        send_ops_flags: int = 0,
    ) -> None:
        super().__init__(qp_type, qp_context, scq, rcq, srq, cap, sq_sig_all)
        self.comp_mask, self.create_flags = comp_mask, create_flags
        self.max_tso_header, self.source_qpn = max_tso_header, source_qpn
        self.send_ops_flags = send_ops_flags
        self.pd, self.xrcd = pd, xrcd
        self.hash_conf, self.ind_table = hash_conf, ind_table


NUMBERS = (
    *("qp_state", "cur_qp_state", "path_mtu", "path_mig_state", "qkey", "rq_psn", "sq_psn"),
    *("dest_qp_num", "qp_access_flags", "pkey_index", "alt_pkey_index"),
    *("en_sqd_async_notify", "sq_draining", "max_rd_atomic", "max_dest_rd_atomic"),
    *("min_rnr_timer", "port_num", "timeout", "retry_cnt", "rnr_retry", "alt_port_num"),
    *("alt_timeout", "rate_limit"),
)


class QPAttr(Fields, PyverbsObject):
    """A queue pair's state and attributes."""

    SHOWN = NUMBERS
    qp_state, cur_qp_state, path_mtu, path_mig_state = Number(), Number(), Number(), Number()
    qkey, rq_psn, sq_psn, dest_qp_num = Number(), Number(), Number(), Number()
    qp_access_flags, pkey_index, alt_pkey_index = Number(), Number(), Number()
    en_sqd_async_notify, sq_draining, max_rd_atomic = Number(), Number(), Number()
    max_dest_rd_atomic, min_rnr_timer, port_num, timeout = Number(), Number(), Number(), Number()
    retry_cnt, rnr_retry, alt_port_num, alt_timeout = Number(), Number(), Number(), Number()
    rate_limit = Number()

    def __init__(
        self,
        qp_state: int = e.IBV_QPS_INIT,
        cur_qp_state: int = e.IBV_QPS_RESET,
        port_num: int = 1,
        path_mtu: int = e.IBV_MTU_1024,
    ) -> None:
        for name in NUMBERS:
            setattr(self, name, 0)
        self.qp_state, self.cur_qp_state = qp_state, cur_qp_state
        self.port_num, self.path_mtu = port_num, path_mtu
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
        made = QPAttr()
        for name in NUMBERS:
            setattr(made, name, getattr(self, name))
        made.cap, made.ah_attr = self.cap.copied(), self._way
        made.alt_ah_attr = self._alternative
        return made

    def shown(self) -> list[tuple[str, Any]]:
        """Names and values, as they are printed."""
        said = {
            "qp_state": qp_state_to_str,
            "cur_qp_state": qp_state_to_str,
            "path_mtu": mtu_to_str,
            "path_mig_state": mig_state_to_str,
        }
        return [
            (name.replace("_", " "), said.get(name, lambda value: value)(getattr(self, name)))
            for name in NUMBERS
        ]


class QPRateLimitAttr(Fields, PyverbsObject):
    """Rate limits of a queue pair, which this device does not support."""

    SHOWN = ("rate_limit", "max_burst_sz", "typical_pkt_sz")
    rate_limit, max_burst_sz, typical_pkt_sz = Number(), Number(), Number()

    def __init__(self, rate_limit: int = 0, max_burst_sz: int = 0, typical_pkt_sz: int = 0) -> None:
        self.rate_limit, self.max_burst_sz = rate_limit, max_burst_sz
        self.typical_pkt_sz = typical_pkt_sz


class ECE(Fields, PyverbsObject):
    """Enhanced connection establishment options, which are all zero here."""

    SHOWN = ("vendor_id", "options", "comp_mask")
    vendor_id, options, comp_mask = Number(), Number(), Number()

    def __init__(self, vendor_id: int = 0, options: int = 0, comp_mask: int = 0) -> None:
        self.vendor_id, self.options, self.comp_mask = vendor_id, options, comp_mask


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
