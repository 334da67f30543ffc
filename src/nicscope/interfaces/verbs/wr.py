"""Work requests, and shared receive queues with the XRC domains that reach them."""

from __future__ import annotations

import errno
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import (
    TAG,
    Attributes,
    PyverbsCM,
    PyverbsObject,
    PyverbsRDMAError,
    PyverbsUserError,
    PyverbsValue,
    error,
    inc_rkey,
    read,
    refusal,
)
from nicscope.interfaces.verbs.mr import MW, PD, SRQ_MEMORY, MWBindInfo, QueueMemory
from nicscope.interfaces.verbs_device.calls import Bind, Piece, Receive, Refused, Send, UdTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.interfaces.verbs.addr import AH
    from nicscope.interfaces.verbs.device import Context


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


NEEDED = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD
OF_XRC = NEEDED | e.IBV_SRQ_INIT_ATTR_XRCD | e.IBV_SRQ_INIT_ATTR_CQ
KNOWN = sum(e.ibv_srq_init_attr_mask)
MASKS = e.IBV_SRQ_MAX_WR | e.IBV_SRQ_LIMIT


class SrqAttr(Attributes):
    """Depth of a shared receive queue, and the limit below which an event is raised."""

    max_wr: int = 100
    max_sge: int = 1
    srq_limit: int = 0


class SrqInitAttr(SrqAttr):
    """Creation attributes of a shared receive queue."""

    def __init__(self, attr: SrqAttr | None = None) -> None:
        given = SrqAttr() if attr is None else attr
        super().__init__(given.max_wr, given.max_sge, given.srq_limit)

    @property
    def attr(self) -> SrqAttr:
        """The queue's depth."""
        return SrqAttr(self.max_wr, self.max_sge, self.srq_limit)


class SrqInitAttrEx(SrqInitAttr):
    """Extended creation attributes of a shared receive queue, of any type."""

    SHOWN = SrqInitAttr.SHOWN
    comp_mask: int = 0
    srq_type: int = e.IBV_SRQT_BASIC
    max_num_tags: int = 0
    max_ops: int = 0
    pd: Any = None
    xrcd: Any = None
    cq: Any = None

    def __init__(self, max_wr: int = 100, max_sge: int = 1, srq_limit: int = 0) -> None:
        super().__init__(SrqAttr(max_wr, max_sge, srq_limit))


class OpsWr(PyverbsObject):
    """A tag matching operation, which is not supported."""


class SRQ(PyverbsCM):
    """A receive queue that several queue pairs share."""

    ORDER = ("qps",)

    def __init__(self, creator: PD | Context, attr: SrqInitAttr) -> None:
        failed = "Failed to create SRQ"
        self.xrcd = self.cq = None
        extended = isinstance(attr, SrqInitAttrEx)
        if isinstance(attr, SrqInitAttrEx):
            self._check(attr, failed)
            domain: Any = attr.pd
            if attr.srq_type == e.IBV_SRQT_XRC:
                self.xrcd, self.cq = attr.xrcd, attr.cq
        else:
            domain = creator.pd  # type: ignore[union-attr]
        self.pd, self.ctx = domain.pd, domain.ctx
        facts = self.ctx.world.facts
        if not facts.srq:
            raise error(failed, errno.EOPNOTSUPP)
        if not 0 < attr.max_wr <= facts.max_srq_wr or not 0 <= attr.max_sge <= facts.max_sge:
            raise error(failed, errno.EINVAL)
        self._memory = QueueMemory(domain, attr.max_wr, SRQ_MEMORY)
        with self._memory.made_with(failed):
            self.handle, self._number, self.max_wr, self.max_sge = self.ctx.world.device.make_srq(
                self.pd.handle,
                attr.max_wr,
                attr.max_sge,
                0 if self.xrcd is None else self.xrcd.handle,
                0 if self.cq is None else self.cq.handle,
            )
        self._opened()
        (self.ctx if extended else domain)._add_dependent(self, "srqs")
        for holder in (domain, self.xrcd, self.cq):
            if holder is not None:
                holder._add_dependent(self, "srqs")

    def _check(self, attr: SrqInitAttrEx, failed: str) -> None:
        if attr.comp_mask & ~int(KNOWN):
            raise error(failed, errno.EINVAL)
        if attr.srq_type == e.IBV_SRQT_TM:
            raise error(failed, errno.EOPNOTSUPP)
        xrc = attr.srq_type == e.IBV_SRQT_XRC
        wanted = OF_XRC if xrc else e.IBV_SRQ_INIT_ATTR_PD
        missing = attr.pd is None or (xrc and (attr.xrcd is None or attr.cq is None))
        unknown = attr.srq_type not in (e.IBV_SRQT_BASIC, e.IBV_SRQT_XRC)
        if attr.comp_mask & int(wanted) != int(wanted) or missing or unknown:
            raise error(failed, errno.EINVAL)

    def post_recv(self, recv_wr: RecvWR, bad_wr: RecvWR | None = None) -> None:
        """Post a receive, taken by the first message to any of its queue pairs."""
        post, failed = self.ctx.world.device.srq_post, "Failed to post receive to SRQ"
        post_receives(recv_wr, bad_wr, post, self.handle, failed)

    def modify(self, attr: SrqAttr, comp_mask: int) -> None:
        """Change its depth, or arm the limit event."""
        mask, failed = int(comp_mask), "Failed to modify SRQ"
        if mask & ~int(MASKS) or not mask:
            raise error(failed, errno.EINVAL)
        device, facts = self.ctx.world.device, self.ctx.world.facts
        resized = attr.max_wr if mask & e.IBV_SRQ_MAX_WR else self.max_wr
        if not 0 < resized <= facts.max_srq_wr:
            raise error(failed, errno.EINVAL)
        if mask & e.IBV_SRQ_LIMIT and not 0 <= attr.srq_limit <= resized:
            raise error(failed, errno.EINVAL)
        with refusal(failed):
            if mask & e.IBV_SRQ_MAX_WR:
                device.srq_resize(self.handle, resized)
                self.max_wr = resized
            if mask & e.IBV_SRQ_LIMIT:
                device.srq_limit(self.handle, attr.srq_limit)

    def query(self) -> SrqAttr:
        """Its depth, and the limit if it is armed."""
        with refusal("Failed to query SRQ"):
            limit = int(self.ctx.world.device.srq_read_limit(self.handle))
        return SrqAttr(self.max_wr, self.max_sge, limit)

    def get_srq_num(self) -> int:
        """The number by which XRC senders name it."""
        if self.xrcd is None:
            raise error("Failed to retrieve SRQ number", errno.EOPNOTSUPP)
        return int(self._number)

    def post_srq_ops(self, wr: OpsWr, bad_wr: OpsWr | None = None) -> None:  # noqa: ARG002
        """Errors: EOPNOTSUPP, as tag matching is not supported."""
        raise error("Failed to post SRQ operations", errno.EOPNOTSUPP)

    def _release(self) -> None:
        self.ctx.world.device.free_srq(self.handle)
        self._memory.free()


XRCD_MASKS = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS


class XRCDInitAttr(Attributes):
    """The file that identifies an XRC domain, and the flags to open it with."""

    comp_mask: int
    oflags: int
    fd: int


class XRCD(PyverbsCM):
    """An XRC domain."""

    ORDER = ("qps", "srqs")

    def __init__(self, context: Context, init_attr: XRCDInitAttr) -> None:
        failed = "Failed to allocate XRCD"
        world = context.world
        if e.IBV_QPT_XRC_SEND not in world.facts.qp_types:
            raise error(failed, errno.EOPNOTSUPP)
        if init_attr.comp_mask != XRCD_MASKS or init_attr.oflags & ~(os.O_CREAT | os.O_EXCL):
            raise error(failed, errno.EINVAL)
        self.ctx, self._file = context, self._place(init_attr.fd, failed)
        held = None if self._file is None else world.domains.get(self._file)
        if held is None and self._file is not None and not init_attr.oflags & os.O_CREAT:
            raise error(failed, errno.EAGAIN)
        if held is not None and init_attr.oflags & os.O_EXCL:
            raise error(failed, errno.EINVAL)
        if held is None:
            with refusal(failed):
                held = (int(world.device.make_xrcd()), 0)
        self.handle = held[0]
        if self._file is not None:
            world.domains[self._file] = (self.handle, held[1] + 1)
        self._opened()
        context._add_dependent(self, "xrcds")

    def _place(self, fd: int, failed: str) -> tuple[int, int] | None:
        """The device and inode of the file; None: a domain without a file."""
        if fd == -1:
            return None
        try:
            found = os.fstat(fd)
        except OSError as wrong:
            raise error(failed, wrong.errno or errno.EBADF) from None
        return found.st_dev, found.st_ino

    def _release(self) -> None:
        world = self.ctx.world
        if self._file is not None:
            handle, holders = world.domains[self._file]
            if holders > 1:
                world.domains[self._file] = (handle, holders - 1)
                return
            del world.domains[self._file]
        world.device.free_xrcd(self.handle)
