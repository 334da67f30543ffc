"""Both ends of a measurement, as a program of verbs has them: one node sends to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.errors import SimulationError
from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AHAttr, GlobalRoute
from nicscope.interfaces.verbs.cq import CQ, cqe_status_to_str
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.mr import MR
from nicscope.interfaces.verbs.pd import PD
from nicscope.interfaces.verbs.qp import QP, QPAttr, QPCap, QPInitAttr
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR

if TYPE_CHECKING:
    from nicscope.interfaces.verbs.world import World
    from nicscope.studies.verbs_measures.question import Question

OPCODES = {
    "send": e.IBV_WR_SEND,
    "write": e.IBV_WR_RDMA_WRITE,
    "read": e.IBV_WR_RDMA_READ,
    "atomic": e.IBV_WR_ATOMIC_FETCH_AND_ADD,
}
RIGHTS = {
    "send": e.IBV_ACCESS_LOCAL_WRITE,
    "write": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE,
    "read": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ,
    "atomic": e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_ATOMIC,
}
PAGE = 4096
MTU = 4096
AT_ONCE = 16  # reads and atomics of a pair that its peer answers at once
AGAIN = 2  # receives posted for each message that may be outstanding
PATIENCE = 100_000  # empty polls, each up to 1 ms of virtual time, before nothing more is expected


class End:
    """A protection domain, a registered buffer, two completion queues and some queue pairs."""

    def __init__(self, world: World, question: Question, size: int) -> None:
        self.size, self.operation = size, question.operation
        self.room = -(-size // PAGE) * PAGE  # of a pair: no page is two pairs'
        self.context = Context(name=world.name)
        self.pd = PD(self.context)
        self.rights = RIGHTS[question.operation]
        self.mr = MR(self.pd, self.room * question.pairs, self.rights)
        depth = min(question.depth, question.iterations)
        receives = AGAIN * depth if question.operation == "send" else 1
        self.sent = CQ(self.context, depth * question.pairs + 1)
        self.come = CQ(self.context, receives * question.pairs + 1)
        flags = e.IBV_SEND_SIGNALED
        inline = size if question.goes_inline(size) else 0
        if inline:
            flags |= e.IBV_SEND_INLINE
        cap = QPCap(depth, receives, 1, 1, inline)
        self.pairs = [
            QP(self.pd, QPInitAttr(e.IBV_QPT_RC, None, self.sent, self.come, None, cap, 0))
            for _ in range(question.pairs)
        ]
        self.by_number = {qp.qp_num: number for number, qp in enumerate(self.pairs)}
        pieces = [
            SGE(self.mr.buf + number * self.room, size, self.mr.lkey)
            for number in range(question.pairs)
        ]
        opcode = OPCODES[self.operation]
        self.sends = [SendWR(0, opcode, 1, 0, [piece], flags) for piece in pieces]
        self.receives = [RecvWR(0, 1, [piece]) for piece in pieces]
        self.receives_posted = receives

    def connect(self, peer: End) -> None:
        """Have each queue pair lead to the peer's of the same place, and know its memory."""
        for number, qp in enumerate(self.pairs):
            attr = QPAttr(port_num=1, path_mtu=e.IBV_MTU_4096)
            route = GlobalRoute(dgid=peer.context.query_gid(1, 0), sgid_index=0)
            attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
            attr.dest_qp_num = peer.pairs[number].qp_num
            attr.qp_access_flags = self.rights
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
            attr.max_rd_atomic = attr.max_dest_rd_atomic = AT_ONCE
            qp.to_rts(attr)
            target = peer.mr.rkey, peer.mr.buf + number * peer.room
            if self.operation == "atomic":
                self.sends[number].set_wr_atomic(*target, 1)
            elif self.operation != "send":
                self.sends[number].set_wr_rdma(*target)
            if self.operation == "send":
                for _ in range(self.receives_posted):
                    qp.post_recv(self.receives[number])

    def post(self, number: int = 0) -> None:
        """Ask for the next operation of that pair."""
        self.pairs[number].post_send(self.sends[number])

    def receive(self, number: int = 0) -> None:
        """Have a buffer of that pair wait for one message more."""
        self.pairs[number].post_recv(self.receives[number])

    def ended(self, queue: CQ, most: int = 1) -> list[int]:
        """The pairs of which something has completed, one entry each; waits for the first."""
        for _ in range(PATIENCE):
            count, found = queue.poll(most)
            if count:
                return [self._good(completion) for completion in found]
        raise SimulationError("nothing completes any more: what was posted is lost")

    def polled(self, queue: CQ, most: int) -> list[int]:
        """The same of one poll, which may find nothing."""
        return [self._good(completion) for completion in queue.poll(most)[1]]

    def _good(self, completion: Any) -> int:
        if completion.status:
            raise SimulationError(
                f"an operation {self.operation!r} of {self.size:,} bytes ended with "
                f"{cqe_status_to_str(completion.status)!r}"
            )
        return self.by_number[completion.qp_num]

    def close(self) -> None:
        """Give everything back."""
        self.context.close()


def both_ends(world: World, question: Question, size: int) -> tuple[End, End]:
    """Two ends that are connected with each other."""
    left, right = End(world, question, size), End(world, question, size)
    left.connect(right)
    right.connect(left)
    return left, right
