"""Work requests, and posting a chain of them: those before the first that fails stay posted."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import TAG, PyverbsValue, error, inc_rkey
from nicscope.interfaces.verbs.mem_alloc import read
from nicscope.interfaces.verbs.pyverbs_error import PyverbsUserError
from nicscope.interfaces.verbs_device.calls import Bind, Piece, Receive, Refused, Send, UdTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.interfaces.verbs.addr import AH
    from nicscope.interfaces.verbs.mr import MW, MWBindInfo
    from nicscope.interfaces.verbs.pyverbs_error import PyverbsRDMAError


def not_posted(failed: str, refused: Refused, wr: Any, bad: Any) -> PyverbsRDMAError:
    """The error for ``wr``, which was refused, and which ``bad``, if there is one, now equals."""
    if bad is not None:
        bad.take(wr)
    return error(failed, refused.errno)


LONG = (1 << 64) - 1
WORD = (1 << 32) - 1
INLINE, SIGNALED = int(e.IBV_SEND_INLINE), int(e.IBV_SEND_SIGNALED)
SEND = int(e.IBV_WR_SEND)
WITHOUT_PIECES = (e.IBV_WR_BIND_MW, e.IBV_WR_LOCAL_INV, e.IBV_WR_SEND_WITH_INV)


class SGE(PyverbsValue, msgspec.Struct, eq=False, gc=False):
    """A scatter/gather element: address, length and lkey."""

    addr: int
    length: int
    lkey: int

    def piece(self) -> Piece:
        """The element's values as they are now."""
        return Piece(int(self.addr), int(self.length), int(self.lkey))

    def read(self, length: int, offset: int) -> bytes:
        """Bytes of the element's memory."""
        return read(self.addr, length, offset)

    def __str__(self) -> str:
        return f"SGE: addr {self.addr:#x}, length {self.length}, lkey {self.lkey:#x}"


def pieces_of(sg: Any, num_sge: int) -> tuple[Piece, ...]:
    """The values of a scatter/gather list as they are now."""
    if num_sge == 1 and sg:  # nearly always
        one = sg[0]
        address, length, lkey = one.addr, one.length, one.lkey
        if not (type(address) is type(length) is type(lkey) is int):
            address, length, lkey = int(address), int(length), int(lkey)
        return (Piece(address, length, lkey),)
    listed = () if sg is None else sg
    wanted = int(num_sge)
    if wanted > len(listed):
        raise PyverbsUserError(f"{wanted} SGEs of a list of {len(listed)}")
    return tuple([each.piece() for each in listed[:wanted]])


class Pieces(PyverbsValue):
    """A work request with its scatter/gather list."""

    pieces: tuple[Piece, ...]

    @property
    def num_sge(self) -> int:
        """The number of scatter/gather elements."""
        return len(self.pieces)

    @num_sge.setter
    def num_sge(self, val: int) -> None:
        if not 0 <= int(val) <= len(self.pieces):
            raise PyverbsUserError(f"{int(val)} SGEs of a request that was made with fewer")
        self.pieces = self.pieces[: int(val)]


class RecvWR(Pieces):
    """A receive work request."""

    def __init__(
        self, wr_id: int = 0, num_sge: int = 0, sg: Any = None, next_wr: RecvWR | None = None
    ) -> None:
        self.wr_id, self.next_wr = int(wr_id), next_wr
        self.pieces = pieces_of(sg, num_sge)

    def request(self) -> Receive:
        """The device's receive request."""
        return Receive(self.wr_id & LONG, self.pieces)

    def take(self, other: RecvWR) -> None:
        """Copy the fields of ``other``."""
        self.wr_id, self.pieces, self.next_wr = other.wr_id, other.pieces, other.next_wr

    def __str__(self) -> str:
        return f"RecvWR: wr_id {self.wr_id}, {self.num_sge} SGEs"


def post_receives(wr: Any, bad: Any, post: Any, queue: int, failed: str) -> None:
    """Post ``wr`` and the receives chained to it to ``queue`` by the device's ``post``."""
    try:
        while wr is not None:
            post(queue, wr.request())
            wr = wr.next_wr
    except Refused as refused:
        raise not_posted(failed, refused, wr, bad) from None


class SendWR(Pieces):
    """A send work request."""

    def __init__(
        self,
        wr_id: int = 0,
        opcode: int = SEND,
        num_sge: int = 0,
        imm_data: int = 0,
        sg: Any = None,
        send_flags: int = SIGNALED,
        next_wr: SendWR | None = None,
    ) -> None:
        if (sg is None or not int(num_sge)) and int(opcode) not in WITHOUT_PIECES:
            raise PyverbsUserError("A SendWR needs at least one SGE")
        self.wr_id, self.opcode, self.imm_data = int(wr_id), int(opcode), int(imm_data)
        self.send_flags, self.next_wr = int(send_flags), next_wr
        self.pieces = pieces_of(sg, num_sge)

    # What most requests have not, so that they need not be given it.
    further: Mapping[str, Any] = MappingProxyType({})  # fields of the device's request
    window: tuple[MW, MWBindInfo] | None = None
    rkey = 0

    def set_wr_ud(self, ah: AH, rqpn: int, rqkey: int) -> None:
        """Set the datagram's destination: address handle, queue pair number and qkey."""
        target = UdTarget(ah.sgid_index, ah.dgid, int(rqpn), int(rqkey) & WORD)
        self.further = {**self.further, "ud": target}

    def set_wr_rdma(self, rkey: int, addr: int) -> None:
        """Set the remote address and rkey."""
        self.further = {**self.further, **remote(rkey, addr)}

    def set_wr_atomic(self, rkey: int, addr: int, compare_add: int, swap: int = 0) -> None:
        """Set the remote address and operands of an atomic operation."""
        self.set_wr_rdma(rkey, addr)
        words = {"compare_add": int(compare_add) & LONG, "swap": int(swap) & LONG}
        self.further = {**self.further, **words}

    def set_bind_wr(self, mw: MW, bind_info: MWBindInfo) -> None:
        """Set the window and range of a type 2 bind, whose key will be ``rkey``."""
        self.window = (mw, bind_info)
        self.rkey = inc_rkey(mw.rkey)

    def set_qp_type_xrc(self, remote_srqn: int) -> None:
        """Set the remote shared receive queue."""
        self.further = {**self.further, "srqn": int(remote_srqn)}

    def request(self) -> Send:
        """The device's work request, without inline bytes."""
        pieces, flags, further = self.pieces, self.send_flags, self.further
        wr_id, word = self.wr_id & LONG, self.imm_data & WORD
        if flags & INLINE:
            data = b"".join([read(piece.address, piece.length) for piece in pieces])
            pieces, further = (), {**further, "inline": data}
        if self.window is not None:
            further = {**further, "bind": bind_of(*self.window, self.rkey)}
        if further:
            return Send(wr_id, self.opcode, pieces, flags, word, **further)
        return Send(wr_id, self.opcode, pieces, flags, word)

    def take(self, other: SendWR) -> None:
        """Copy the fields of ``other``."""
        self.__dict__.clear()
        self.__dict__.update(other.__dict__)

    def __str__(self) -> str:
        return f"SendWR: wr_id {self.wr_id}, opcode {self.opcode}, {self.num_sge} SGEs"


def remote(rkey: int, address: int) -> dict[str, int]:
    """The fields of the device's request that say which remote memory it is about."""
    return {"remote_address": int(address) & LONG, "rkey": int(rkey) & WORD}


def bind_of(mw: MW, info: MWBindInfo, rkey: int) -> Bind:
    """The device's bind request: of ``rkey`` only the tag is the caller's."""
    key = (mw.rkey & WORD & ~TAG) | (rkey & TAG)
    return Bind(mw.handle, info.mr.handle, info.address, info.length, info.mw_access_flags, key)
