"""Answer every message of 64 bytes that a client on another node sends, as a program for any card.

Run it with its client: ``nicscope verbs run --node 0 examples/verbs_server.py
--node 1 "examples/verbs_client.py 10.0.0.1"``.  The two tell each other by TCP where their queue
pairs are.
"""

import json
import socket

from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.libibverbs_enums import ibv_access_flags, ibv_qp_type, ibv_wc_status
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT = 18515
SIZE = 64


class End:
    """A protection domain, a buffer, a completion queue and a queue pair."""

    def __init__(self):
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd = PD(self.context)
        self.mr = MR(self.pd, SIZE, ibv_access_flags.IBV_ACCESS_LOCAL_WRITE)
        self.cq = CQ(self.context, 16)
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        init = QPInitAttr(qp_type=ibv_qp_type.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)
        self.qp = QP(self.pd, init)

    def connect(self, link):
        """Tell the other end who this is by a socket, hear who it is, and be connected."""
        link.write(json.dumps([self.qp.qp_num, str(self.context.query_gid(1, 1))]) + "\n")
        link.flush()
        number, gid = json.loads(link.readline())
        route = GlobalRoute(dgid=GID(gid), sgid_index=1)
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
        attr.dest_qp_num = number
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
    listener = socket.socket()
    listener.bind(("0.0.0.0", PORT))
    listener.listen()
    accepted, _ = listener.accept()
    link = accepted.makefile("rw")
    rounds = int(link.readline())
    end = End()
    end.connect(link)
    end.receive()
    link.write("ready\n")
    link.flush()
    for number in range(rounds):
        end.wait()  # for the question
        end.send("pong")
        end.wait()  # until the answer has arrived
        if number + 1 < rounds:
            end.receive()
    print(f"the server has answered {rounds} times")


if __name__ == "__main__":
    main()
