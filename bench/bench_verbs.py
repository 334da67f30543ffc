"""Messages per second through the surface of verbs: a ping-pong of 64 bytes, and opening contexts.

    python bench/bench_verbs.py [--profile]

The program is what people write: a receive, a send, and polls for both completions, each message
with requests of its own.  Rates are per CPU second of one core, the median of a few rounds after
one that compiles and warms up.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import sys
import time

import compiled  # noqa: F401 - rates are those of compiled code

from nicscope.interfaces.verbs import libibverbs_enums as e
from nicscope.interfaces.verbs.addr import AHAttr, GlobalRoute
from nicscope.interfaces.verbs.base import World, use
from nicscope.interfaces.verbs.cq import CQ
from nicscope.interfaces.verbs.device import Context
from nicscope.interfaces.verbs.mr import MR, PD
from nicscope.interfaces.verbs.qp import QP, QPAttr, QPCap, QPInitAttr
from nicscope.interfaces.verbs.wr import SGE, RecvWR, SendWR
from nicscope.interfaces.verbs_device.device import Device

ROUNDS = 3
MESSAGES = 10_000
SIZE = 64
LEAST = 40_000  # messages per second
MOST_MS = 5  # to open a context
CONTEXTS = 50


class End:
    """What one end takes."""

    def __init__(self, name: str) -> None:
        self.context = Context(name=name)
        self.pd = PD(self.context)
        self.mr = MR(self.pd, SIZE, e.IBV_ACCESS_LOCAL_WRITE)
        self.cq = CQ(self.context, 16)
        cap = QPCap(max_send_wr=4, max_recv_wr=4)
        self.qp = QP(self.pd, QPInitAttr(e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap))

    def connect(self, peer: End) -> None:
        """Lead to ``peer``."""
        route = GlobalRoute(dgid=peer.context.query_gid(1, 0), sgid_index=0)
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(is_global=1, gr=route, port_num=1)
        attr.dest_qp_num = peer.qp.qp_num
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        self.qp.to_rts(attr)

    def receive(self) -> None:
        """Have a buffer wait."""
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf, SIZE, self.mr.lkey)]))

    def send(self) -> None:
        """Send the buffer."""
        self.qp.post_send(SendWR(num_sge=1, sg=[SGE(self.mr.buf, SIZE, self.mr.lkey)]))

    def wait(self) -> None:
        """Poll until something has completed."""
        while not self.cq.poll()[0]:
            pass


def ping_pong(left: End, right: End, count: int) -> None:
    """So many messages, each way in turn."""
    for _ in range(count // 2):
        for here, there in ((left, right), (right, left)):
            there.receive()
            here.send()
            here.wait()
            there.wait()


def opening_ms(name: str) -> float:
    """Milliseconds of the processor to open a context and ask it what it is."""
    start = time.process_time()
    for _ in range(CONTEXTS):
        with Context(name=name) as context:
            context.query_device()
    return (time.process_time() - start) / CONTEXTS * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description="measure programs of verbs")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--profile", action="store_true", help="where the time goes")
    arguments = parser.parse_args()
    world = World(Device("vmmc-interrupt"))
    use(world)
    left, right = End(world.name), End(world.name)
    left.connect(right)
    right.connect(left)
    ping_pong(left, right, 100)
    rates = []
    for _ in range(arguments.rounds):
        start = time.process_time()
        ping_pong(left, right, arguments.messages)
        rates.append(arguments.messages / (time.process_time() - start))
    rate, opening = statistics.median(rates), opening_ms(world.name)
    met = "met" if rate >= LEAST else "short"
    print(f"RC ping-pong of {SIZE} bytes: {rate / 1e3:.1f} k/s (least {LEAST / 1e3:.0f}): {met}")
    met = "met" if opening <= MOST_MS else "short"
    print(f"opening a context: {opening:.3f} ms (most {MOST_MS}): {met}")
    if arguments.profile:
        profile = cProfile.Profile()
        profile.runcall(ping_pong, left, right, arguments.messages)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    left.context.close()
    right.context.close()
    sys.exit(0)


if __name__ == "__main__":
    main()
