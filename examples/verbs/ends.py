"""An end of a connection, as all examples here use it: a context with all that an end takes."""

import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.libibverbs_enums import ibv_access_flags as access
from pyverbs.libibverbs_enums import ibv_qp_type
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ALL = (
    access.IBV_ACCESS_LOCAL_WRITE
    | access.IBV_ACCESS_REMOTE_WRITE
    | access.IBV_ACCESS_REMOTE_READ
    | access.IBV_ACCESS_REMOTE_ATOMIC
)
DEPTH = 64


def argument(place, default):
    """The number at that place of the command line."""
    return int(sys.argv[place]) if len(sys.argv) > place else default


class End:
    """A protection domain, a buffer, a completion queue and a queue pair."""

    def __init__(self, size, rights=ALL, shared=None, other=None):
        """``other``: an end whose context, domain and queue this one shares."""
        if other is None:
            self.context = Context(name=get_device_list()[0].name.decode())
            self.pd = PD(self.context)
            self.cq = CQ(self.context, 4 * DEPTH)
        else:
            self.context, self.pd, self.cq = other.context, other.pd, other.cq
        self.mr = MR(self.pd, size, rights)
        cap = QPCap(max_send_wr=DEPTH, max_recv_wr=DEPTH)
        init = QPInitAttr(
            qp_type=ibv_qp_type.IBV_QPT_RC, scq=self.cq, rcq=self.cq, srq=shared, cap=cap
        )
        self.qp = QP(self.pd, init)

    def connect(self, peer):
        """Lead to ``peer``."""
        route = GlobalRoute(dgid=peer.context.query_gid(1, 0), sgid_index=0)
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
        attr.dest_qp_num = peer.qp.qp_num
        attr.qp_access_flags = ALL
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 8, 7, 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        self.qp.to_rts(attr)

    def piece(self, length, offset=0):
        """A stretch of the buffer."""
        return [SGE(self.mr.buf + offset, length, self.mr.lkey)]

    def receive(self, length, offset=0, number=0):
        """Have a stretch of the buffer wait for a message."""
        self.qp.post_recv(RecvWR(wr_id=number, num_sge=1, sg=self.piece(length, offset)))

    def request(self, length, offset=0, **what):
        """A work request about a stretch of the buffer."""
        return SendWR(num_sge=1, sg=self.piece(length, offset), **what)

    def send(self, length, offset=0, **what):
        """Send a stretch of the buffer."""
        self.qp.post_send(self.request(length, offset, **what))

    def wait(self):
        """The next completion; whatever is no success ends the program."""
        while True:
            count, [*completions] = self.cq.poll()
            if count:
                if completions[0].status:
                    sys.exit(f"status {completions[0].status}")
                return completions[0]


def joined(*sizes):
    """Two ends that lead to each other."""
    left, right = (End(size) for size in sizes)
    left.connect(right)
    right.connect(left)
    return left, right
