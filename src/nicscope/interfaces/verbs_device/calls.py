"""The records and codes that the verbs library and the device exchange.

Codes and flags are the verbs' own numbers, addresses are those of the program's simulated memory.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

import msgspec

from nicscope.errors import SimulationError
from nicscope.nic.ports import layout


class Refused(SimulationError):  # noqa: N818 - it is an answer, as errno is
    """A call that the device does not carry out; ``errno`` is what the C library would return."""

    def __init__(self, code: int, why: str = "") -> None:
        super().__init__(f"{errno.errorcode.get(code, code)}: {why or os.strerror(code)}")
        self.errno = code


class Facts(NamedTuple):
    """The device's capabilities and limits."""

    mtu_bytes: int  # bytes of a packet, the largest path MTU that runs
    max_msg_bytes: int
    max_qp_wr: int
    max_sge: int
    max_inline: int
    max_cqe: int
    max_srq_wr: int
    max_rd_atomic: int
    dm_bytes: int  # device memory; 0: none
    qp_types: frozenset[int]
    opcodes: frozenset[int]  # of work requests
    srq: bool
    on_demand: bool
    huge: bool
    windows: bool
    resize_cq: bool
    max_qp: int = 1 << 20
    max_cq: int = 1 << 20
    max_mr: int = 1 << 20  # windows among them


class Caps(NamedTuple):
    """Capacities of a queue pair."""

    send_wr: int
    recv_wr: int
    send_sge: int
    recv_sge: int
    inline: int


# What each message needs is a Struct, which takes a third of a tuple's time to make.


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A scatter/gather element."""

    address: int
    length: int
    lkey: int


class UdTarget(NamedTuple):
    """The destination of a datagram."""

    sgid_index: int
    dgid: bytes  # 16
    qpn: int
    qkey: int


class Bind(NamedTuple):
    """What a memory window is bound to."""

    window: int  # handle
    mr: int  # handle
    address: int
    length: int
    access: int
    new_rkey: int


class Flush(NamedTuple):
    """Which earlier writes a flush makes visible or persistent."""

    type: int
    level: int
    length: int


class Send(msgspec.Struct, frozen=True):
    """A work request of a send queue."""

    wr_id: int
    opcode: int
    pieces: tuple[Piece, ...] = ()
    flags: int = 0
    imm: int = 0  # the network-order word as an int, or the key to invalidate
    inline: bytes | None = None
    remote_address: int = 0
    rkey: int = 0
    compare_add: int = 0
    swap: int = 0
    ud: UdTarget | None = None
    srqn: int = 0
    bind: Bind | None = None
    flush: Flush | None = None


class Posted(NamedTuple):
    """A send work request as it appears in a log of the device."""

    qp_num: int
    opcode: int
    wr_id: int


class Receive(msgspec.Struct, frozen=True):
    """A work request of a receive queue."""

    wr_id: int
    pieces: tuple[Piece, ...] = ()


class Completion(msgspec.Struct, eq=False, gc=False):
    """An entry of a completion queue, of which the last is the device's own."""

    wr_id: int = 0
    status: int = 0
    opcode: int = 0
    vendor_err: int = 0
    byte_len: int = 0
    qp_num: int = 0
    src_qp: int = 0
    imm_data: int = 0  # or the key that was invalidated
    wc_flags: int = 0
    pkey_index: int = 0
    slid: int = 0
    sl: int = 0
    dlid_path_bits: int = 0
    time_ns: int = 0


class QpState(NamedTuple):
    """All attributes of a queue pair."""

    state: int
    access: int = 0
    dest_qpn: int = 0
    dgid: bytes = bytes(16)
    sgid_index: int = 0
    path_mtu_bytes: int = 1024
    rq_psn: int = 0
    sq_psn: int = 0
    timeout: int = 0
    retry: int = 0
    rnr_retry: int = 0
    min_rnr_timer: int = 0
    rd_atomic: int = 0
    dest_rd_atomic: int = 0
    qkey: int = 0
    pkey_index: int = 0
    tells_drained: bool = False  # in SQD it is an event that nothing more is under way


class Qp(NamedTuple):
    """A created queue pair."""

    number: int
    caps: Caps


class Cq(NamedTuple):
    """A created completion queue."""

    handle: int
    entries: int


class Srq(NamedTuple):
    """A created shared receive queue."""

    handle: int
    number: int
    wr: int
    sge: int


class Region(NamedTuple):
    """A registered memory region."""

    handle: int
    lkey: int
    rkey: int


class Window(NamedTuple):
    """A memory window."""

    handle: int
    rkey: int


class Event(NamedTuple):
    """An asynchronous event: its type, and the number or handle of its object."""

    type: int
    element: int


class Bill(NamedTuple):
    """The costs of a run so far."""

    messages: int
    bytes: int
    virtual_ns: int
    lookups: int
    misses: int
    pins: int
    unpins: int


# Access flags.
LOCAL_WRITE = 1
REMOTE_WRITE = 2
REMOTE_READ = 4
REMOTE_ATOMIC = 8
MW_BIND = 16
ON_DEMAND = 64
FLUSH_GLOBAL = 256
FLUSH_PERSISTENT = 512

# Types and states of queue pairs.
RC, UC, UD, XRC_SEND, XRC_RECV = 2, 3, 4, 9, 10
RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)

# Work requests.
WR_WRITE, WR_WRITE_IMM, WR_SEND, WR_SEND_IMM, WR_READ = range(5)
WR_CMP_SWP, WR_FETCH_ADD, WR_LOCAL_INV, WR_BIND, WR_SEND_INV = range(5, 10)
WR_FLUSH, WR_ATOMIC_WRITE = 14, 15
FOR_ALL, FOR_GOOD = 1, 2  # types of a flush: global, persistent
OF_REGION = 1  # its level
FENCE, SIGNALED, SOLICITED, INLINE = 1, 2, 4, 8

# Completions.
SUCCESS, LOC_LEN_ERR, LOC_QP_OP_ERR = 0, 1, 2
LOC_PROT_ERR, WR_FLUSH_ERR, MW_BIND_ERR = 4, 5, 6
REM_INV_REQ_ERR, REM_ACCESS_ERR, REM_OP_ERR = 9, 10, 11
RETRY_EXC_ERR, RNR_RETRY_EXC_ERR, GENERAL_ERR = 12, 13, 21
WC_RECV, WC_RECV_IMM = 128, 129
PORT_WRITE = layout.WRITE
WITH_GRH, WITH_IMM, WITH_INV = 1, 2, 8
OF_REQUEST = {  # what a completion calls the request that it ends
    WR_WRITE: 1,
    WR_WRITE_IMM: 1,
    WR_SEND: 0,
    WR_SEND_IMM: 0,
    WR_READ: 2,
    WR_CMP_SWP: 3,
    WR_FETCH_ADD: 4,
    WR_LOCAL_INV: 6,
    WR_BIND: 5,
    WR_SEND_INV: 0,
    WR_FLUSH: 8,
    WR_ATOMIC_WRITE: 9,
}
NAMES = {  # as programs name requests, less what all of them begin with
    WR_WRITE: "RDMA_WRITE",
    WR_WRITE_IMM: "RDMA_WRITE_WITH_IMM",
    WR_SEND: "SEND",
    WR_SEND_IMM: "SEND_WITH_IMM",
    WR_READ: "RDMA_READ",
    WR_CMP_SWP: "ATOMIC_CMP_AND_SWP",
    WR_FETCH_ADD: "ATOMIC_FETCH_AND_ADD",
    WR_LOCAL_INV: "LOCAL_INV",
    WR_BIND: "BIND_MW",
    WR_SEND_INV: "SEND_WITH_INV",
    WR_FLUSH: "FLUSH",
    WR_ATOMIC_WRITE: "ATOMIC_WRITE",
}
STATUSES = {
    layout.DONE: SUCCESS,
    layout.BAD_DESCRIPTOR: LOC_QP_OP_ERR,
    layout.PROTECTION: LOC_PROT_ERR,
    layout.TOO_LONG: LOC_LEN_ERR,
    layout.FLUSHED: WR_FLUSH_ERR,
    layout.CLOSED: WR_FLUSH_ERR,
    layout.PEER_DEAD: RETRY_EXC_ERR,
    layout.NO_RECEIVE: RNR_RETRY_EXC_ERR,
    layout.REMOTE_PROTECTION: REM_ACCESS_ERR,
    layout.REMOTE_FAILED: REM_OP_ERR,
    layout.REMOTE_INVALID: REM_INV_REQ_ERR,
    layout.NOT_BOUND: MW_BIND_ERR,
}

# Events.
EVENT_CQ_ERR, EVENT_QP_FATAL, EVENT_QP_REQ_ERR, EVENT_QP_ACCESS_ERR = range(4)
EVENT_SQ_DRAINED = 5
EVENT_SRQ_LIMIT = 15
EVENT_LAST_WQE = 16

# How long a peer without a receive is to be left alone (us), by code (InfiniBand Architecture).
_RNR_US = (
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
    5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840,
    245_760, 327_680, 491_520,
)  # fmt: skip
PS_PER_US = 1_000_000
RNR_PS = tuple(us * PS_PER_US for us in _RNR_US)
FOR_EVER = 1 << 60  # ps
NO_END = 7  # of RNR retries


def time_out_ps(code: int) -> int:
    """The ACK timeout of a code: 4.096 us doubled so often."""
    return 4_096_000 << code if code else FOR_EVER


def rights_of(access: int) -> int:
    """The remote access rights of access flags, as the NIC encodes them."""
    found = 0
    if access & REMOTE_WRITE:
        found |= layout.MAY_WRITE
    if access & REMOTE_READ:
        found |= layout.MAY_FETCH
    if access & REMOTE_ATOMIC:
        found |= layout.MAY_ATOMIC
    if access & FLUSH_GLOBAL:
        found |= layout.MAY_FLUSH
    if access & FLUSH_PERSISTENT:
        found |= layout.MAY_PERSIST
    return found


def rights_of_region(access: int) -> int:
    """The rights of a memory region, with those that nobody has."""
    found = rights_of(access)
    if not access & LOCAL_WRITE:
        found |= layout.READ_ONLY
    if access & MW_BIND:
        found |= layout.BINDABLE
    return found
