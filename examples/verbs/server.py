"""Answer every message of 64 bytes that a client on another node sends.

Run it with its client: ``nicscope verbs run --node 0 examples/verbs/server.py
--node 1 "examples/verbs/client.py 10.0.0.1"``.  The two tell each other by TCP where their queue
pairs are, as programs for cards do.
"""

import json
import socket

from ends import ALL, End
from pyverbs.addr import GID, AHAttr, GlobalRoute
from pyverbs.qp import QPAttr

PORT = 18515
SIZE = 64


def say(link, *what):
    """Tell the other end something."""
    link.write(json.dumps(what) + "\n")
    link.flush()


def hear(link):
    """What the other end tells next."""
    return json.loads(link.readline())


def connect(end, link):
    """Lead to the end of whoever is at the other end of the TCP connection."""
    say(link, end.qp.qp_num, str(end.context.query_gid(1, 1)))
    number, gid = hear(link)
    attr = QPAttr(port_num=1)
    route = GlobalRoute(dgid=GID(gid), sgid_index=1)
    attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
    attr.dest_qp_num, attr.qp_access_flags = number, ALL
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 8, 7, 7
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    end.qp.to_rts(attr)


def main():
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", PORT))
        listener.listen()
        accepted, _ = listener.accept()
    with accepted, accepted.makefile("rw") as link:
        [rounds] = hear(link)
        end = End(SIZE)
        connect(end, link)
        end.receive(SIZE)
        say(link, "ask")
        for _ in range(rounds):
            end.wait()  # for a question
            asked = end.mr.read(4, 0)
            end.receive(SIZE)
            end.mr.write(b"pong" if asked == b"ping" else b"what", 4)
            end.send(SIZE)
            end.wait()  # until the answer has arrived
        say(link, "all is answered")
    print(f"the server has answered {rounds} times")


if __name__ == "__main__":
    main()
