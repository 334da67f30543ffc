"""Two queue pairs of one node send each other 64 bytes, as a program for any RDMA card would.

Run it with ``nicscope verbs run examples/verbs_pingpong.py [ROUNDS]``, or on a card with Python.
"""

import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.libibverbs_enums import ibv_access_flags, ibv_qp_type, ibv_wc_status
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SIZE = 64


class End:
    """A protection domain, a buffer, a completion queue and a queue pair."""

    def __init__(self, name):
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.mr = MR(self.pd, SIZE, ibv_access_flags.IBV_ACCESS_LOCAL_WRITE)
        self.cq = CQ(self.context, 16)
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        init = QPInitAttr(qp_type=ibv_qp_type.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)
        self.qp = QP(self.pd, init)

    def connect(self, peer):
        route = GlobalRoute(dgid=peer.context.query_gid(1, 0), sgid_index=0)
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
        attr.dest_qp_num = peer.qp.qp_num
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        self.qp.to_rts(attr)

    def piece(self):
        return [SGE(self.mr.buf, SIZE, self.mr.lkey)]

    def receive(self):
        self.qp.post_recv(RecvWR(num_sge=1, sg=self.piece()))

    def send(self, text):
        self.mr.write(text, SIZE)
        self.qp.post_send(SendWR(num_sge=1, sg=self.piece()))

    def wait(self):
        count, completions = 0, []
        while not count:
            count, completions = self.cq.poll()
        assert completions[0].status == ibv_wc_status.IBV_WC_SUCCESS, completions[0]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    name = get_device_list()[0].name.decode()
    left, right = End(name), End(name)
    left.connect(right)
    right.connect(left)
    for _ in range(rounds):
        for sender, receiver, text in ((left, right, "ping"), (right, left, "pong")):
            receiver.receive()
            sender.send(text)
            sender.wait()
            receiver.wait()
    print(f"{rounds} rounds, the last answer was", left.mr.read(4, 0).decode())


if __name__ == "__main__":
    main()
