"""The records that the verbs library and the device exchange.

Codes and flags are the verbs' own numbers, addresses are those of the program's simulated memory.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

import msgspec

from nicscope.errors import SimulationError


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
