"""What an end of a connection sends and receives: whole regions, posted in one call each."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.base import PyverbsCM, error
from nicscope.interfaces.verbs.cm_events import UDP_QKEY
from nicscope.interfaces.verbs.mr import MR
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.addr import AH
    from nicscope.interfaces.verbs.cq import WC
    from nicscope.interfaces.verbs.pd import PD
    from nicscope.interfaces.verbs.qp import QP

WAITS = 10_000  # empty polls, of a millisecond at most each, before a completion cannot come


class Messages(PyverbsCM):
    """An end, as far as messages go."""

    qp: QP | None = None
    pd: PD

    def _pair(self) -> QP:
        if self.qp is None:
            raise error("The CM ID has no queue pair", errno.EINVAL)
        return self.qp

    def _region(self, size: int, access: int) -> MR:
        owner: Any = self  # of the domain
        return MR(owner, int(size), access | e.IBV_ACCESS_LOCAL_WRITE)

    def reg_msgs(self, size: int) -> MR:
        """A region for messages."""
        return self._region(size, 0)

    def reg_read(self, size: int = 0) -> MR:
        """A region that the other end may read."""
        return self._region(size, e.IBV_ACCESS_REMOTE_READ)

    def reg_write(self, size: int) -> MR:
        """A region that the other end may write."""
        return self._region(size, e.IBV_ACCESS_REMOTE_WRITE)

    def post_recv(self, mr: MR, length: int | None = None) -> None:
        """Have a region wait for a message."""
        piece = SGE(mr.buf, int(length or mr.length), mr.lkey)
        self._pair().post_recv(RecvWR(num_sge=1, sg=[piece]))

    def _post(self, opcode: int, mr: MR, length: int, flags: int, remote: Any = None) -> None:
        piece = SGE(mr.buf, int(length), mr.lkey)
        wr = SendWR(opcode=opcode, num_sge=1, sg=[piece], send_flags=flags)
        if remote is not None:
            wr.set_wr_rdma(*remote)
        self._pair().post_send(wr)

    def post_send(
        self, mr: MR, flags: int = e.IBV_SEND_SIGNALED, length: int | None = None
    ) -> None:
        """Send a region's bytes."""
        self._post(e.IBV_WR_SEND, mr, length or mr.length, flags)

    def post_read(self, mr: MR, length: int, remote_addr: int, rkey: int, flags: int = 0) -> None:
        """Read remote bytes into a region."""
        self._post(e.IBV_WR_RDMA_READ, mr, length, flags, (rkey, remote_addr))

    def post_write(self, mr: MR, length: int, remote_addr: int, rkey: int, flags: int = 0) -> None:
        """Write a region's bytes to remote memory."""
        self._post(e.IBV_WR_RDMA_WRITE, mr, length, flags, (rkey, remote_addr))

    def post_ud_send(
        self,
        mr: MR,
        ah: AH,
        rqpn: int = 0,
        flags: int = e.IBV_SEND_SIGNALED,
        length: int | None = None,
    ) -> None:
        """Send a region's bytes as a datagram."""
        piece = SGE(mr.buf, int(length or mr.length), mr.lkey)
        wr = SendWR(num_sge=1, sg=[piece], send_flags=flags)
        wr.set_wr_ud(ah, int(rqpn), UDP_QKEY)
        self._pair().post_send(wr)

    def _completion(self, queue: Any) -> WC | None:
        for _ in range(WAITS):
            count, found = queue.poll()
            if count:
                return found[0]  # type: ignore[no-any-return]
        raise error("Failed to get a completion: none can come", errno.EAGAIN)

    def get_send_comp(self) -> WC | None:
        """The next completion of what was sent."""
        return self._completion(self._pair().scq)

    def get_recv_comp(self) -> WC | None:
        """The next completion of what was received."""
        return self._completion(self._pair().rcq)
