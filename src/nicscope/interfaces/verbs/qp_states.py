"""Which state follows which, and what has to be said at each step: the kernel's table."""

from __future__ import annotations

import errno
from functools import cache

from nicscope.interfaces.verbs import libibverbs_enums as e

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
    """What each step takes, by the states that it leads from and to."""
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


def wrong_step(kind: int, now: int, then: int, mask: int) -> int:
    """The system's number of what is wrong with a step, or 0.

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
    """What has to be said at a step."""
    return table()[now, then][kind][0]
