"""Queue pairs whose requests are built step by step."""

from __future__ import annotations

import errno
import struct
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsObject, error
from nicscope.interfaces.verbs.fields import Number
from nicscope.interfaces.verbs.mem_alloc import as_bytes, read
from nicscope.interfaces.verbs.pyverbs_error import PyverbsUserError
from nicscope.interfaces.verbs.qp_making import FAILED
from nicscope.interfaces.verbs.qp_requests import INLINED, NOT_YET
from nicscope.interfaces.verbs.queue_pair import QP
from nicscope.interfaces.verbs.wr import LONG, WORD, bind_of
from nicscope.interfaces.verbs_device.calls import Flush, Refused, Send, UdTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.verbs.addr import AH
    from nicscope.interfaces.verbs.device import Context
    from nicscope.interfaces.verbs.mw import MW, MWBindInfo
    from nicscope.interfaces.verbs.qp_attr import QPAttr
    from nicscope.interfaces.verbs.qp_init import QPInitAttrEx
    from nicscope.interfaces.verbs.wr import SGE

EIGHT = 8


def in_network_order(word: int) -> int:
    """A word of the host as the network's order has it, and the other way round."""
    return int(struct.unpack("<I", struct.pack(">I", int(word) & WORD))[0])


class DataBuffer(PyverbsObject):
    """A buffer whose bytes go inline."""

    def __init__(self, addr: int, length: int) -> None:
        self.addr, self.length = int(addr), int(length)


class QPEx(QP):
    """A queue pair that is told what to send by a call for each part of it."""

    wr_id, wr_flags = Number(), Number()

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
        """Begin requests, which are posted together."""
        if self._built is not None:
            raise PyverbsUserError("wr_start() without wr_complete() or wr_abort() before it")
        self._built, self._wrong = [], 0

    def wr_complete(self) -> None:
        """Post them all, or none."""
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
        """Forget what was begun."""
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
        request = Send(self.wr_id & LONG, int(opcode), (), self.wr_flags, **parts)
        self._requests().append(request)

    def _set(self, **parts: Any) -> None:
        built = self._requests()
        if not built:
            self._wrong = errno.EINVAL
            return
        built[-1] = built[-1]._replace(**parts)

    def wr_send(self) -> None:
        """Send."""
        self._begin(e.IBV_WR_SEND)

    def wr_send_imm(self, imm_data: int) -> None:
        """Send with a word of the host."""
        self._begin(e.IBV_WR_SEND_WITH_IMM, imm=in_network_order(imm_data))

    def wr_send_inv(self, invalidate_rkey: int) -> None:
        """Send, and have a key of the receiver's end."""
        self._begin(e.IBV_WR_SEND_WITH_INV, imm=int(invalidate_rkey) & WORD)

    def wr_rdma_write(self, rkey: int, remote_addr: int) -> None:
        """Write remote memory."""
        self._begin(e.IBV_WR_RDMA_WRITE, **_remote(rkey, remote_addr))

    def wr_rdma_write_imm(self, rkey: int, remote_addr: int, imm_data: int) -> None:
        """Write remote memory, and send a word of the host."""
        word = in_network_order(imm_data)
        self._begin(e.IBV_WR_RDMA_WRITE_WITH_IMM, imm=word, **_remote(rkey, remote_addr))

    def wr_rdma_read(self, rkey: int, remote_addr: int) -> None:
        """Read remote memory."""
        self._begin(e.IBV_WR_RDMA_READ, **_remote(rkey, remote_addr))

    def wr_atomic_cmp_swp(self, rkey: int, remote_addr: int, compare: int, swap: int) -> None:
        """Put ``swap`` where ``compare`` is."""
        words = {"compare_add": int(compare) & LONG, "swap": int(swap) & LONG}
        self._begin(e.IBV_WR_ATOMIC_CMP_AND_SWP, **words, **_remote(rkey, remote_addr))

    def wr_atomic_fetch_add(self, rkey: int, remote_addr: int, add: int) -> None:
        """Add to a remote word."""
        where = _remote(rkey, remote_addr)
        self._begin(e.IBV_WR_ATOMIC_FETCH_AND_ADD, compare_add=int(add) & LONG, **where)

    def wr_atomic_write(self, rkey: int, remote_addr: int, atomic_wr: Any) -> None:
        """Write eight bytes at once."""
        data = as_bytes(atomic_wr, EIGHT)
        self._begin(e.IBV_WR_ATOMIC_WRITE, inline=data, **_remote(rkey, remote_addr))

    def wr_flush(
        self, rkey: int, remote_addr: int, length: int, placement: int, level: int
    ) -> None:
        """Have what was written before be seen, or last."""
        what = Flush(int(placement), int(level), int(length) & LONG)
        self._begin(e.IBV_WR_FLUSH, flush=what, **_remote(rkey, remote_addr))

    def wr_bind_mw(self, mw: MW, rkey: int, bind_info: MWBindInfo) -> None:
        """Open a window of type 2 under a key of the caller's choice."""
        self._begin(e.IBV_WR_BIND_MW, bind=bind_of(mw, bind_info, int(rkey)))
        if mw.type != e.IBV_MW_TYPE_2:
            self._wrong = errno.EINVAL

    def wr_local_inv(self, invalidate_rkey: int) -> None:
        """Close a window of type 2."""
        self._begin(e.IBV_WR_LOCAL_INV, imm=int(invalidate_rkey) & WORD)

    def wr_set_sge(self, sge: SGE) -> None:
        """Say which memory it is about."""
        self._set(pieces=(sge.piece(),))

    def wr_set_sge_list(self, num_sge: int, sg_list: Sequence[SGE]) -> None:
        """Say which pieces of memory it is about."""
        self._set(pieces=tuple(each.piece() for each in [*sg_list][: int(num_sge)]))

    def wr_set_inline_data(self, addr: int, length: int) -> None:
        """Take bytes now."""
        self._take(read(int(addr), int(length)))

    def wr_set_inline_data_list(self, num_buf: int, buf_list: Sequence[DataBuffer]) -> None:
        """Take the bytes of several buffers now."""
        self._take(b"".join(read(each.addr, each.length) for each in [*buf_list][: int(num_buf)]))

    def _take(self, data: bytes) -> None:
        self._set(inline=data)
        if self._requests() and self._requests()[-1].opcode not in INLINED:
            self._wrong = errno.EINVAL

    def wr_set_ud_addr(self, ah: AH, remote_qpn: int, remote_rkey: int) -> None:
        """Say which pair of datagrams gets it."""
        self._set(ud=UdTarget(ah.sgid_index, ah.dgid, int(remote_qpn), int(remote_rkey) & WORD))

    def wr_set_xrc_srqn(self, remote_srqn: int) -> None:
        """Say which shared queue is to receive it."""
        self._set(srqn=int(remote_srqn))


def _remote(rkey: int, address: int) -> dict[str, int]:
    return {"remote_address": int(address) & LONG, "rkey": int(rkey) & WORD}
