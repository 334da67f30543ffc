"""A server of many clients whose receives all come from one shared queue.

Run it with ``nicscope verbs run examples/verbs/srq_server.py [CLIENTS] [REQUESTS]``.
"""

from ends import End, argument
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR

SIZE = 128
BUFFERS = 8  # for all clients together


class Server:
    """A queue pair for each client, one queue of receives, and a count for each."""

    def __init__(self, clients):
        first = End(SIZE)
        self.srq = SRQ(first.pd, SrqInitAttr(SrqAttr(max_wr=BUFFERS)))
        self.ends = [End(SIZE, shared=self.srq, other=first) for _ in range(clients)]
        self.pool = End(BUFFERS * SIZE, other=first).mr
        self.by_number = {end.qp.qp_num: end for end in self.ends}
        self.counts = dict.fromkeys(self.by_number, 0)
        for number in range(BUFFERS):
            self.provide(number)

    def provide(self, number):
        """Have that buffer wait for whoever sends next."""
        piece = SGE(self.pool.buf + number * SIZE, SIZE, self.pool.lkey)
        self.srq.post_recv(RecvWR(wr_id=number, num_sge=1, sg=[piece]))

    def serve(self):
        """Answer one request with its words in capitals."""
        came = self.ends[0].wait()
        end = self.by_number[came.qp_num]
        self.counts[came.qp_num] += 1
        answer = self.pool.read(came.byte_len, came.wr_id * SIZE).upper()
        self.provide(came.wr_id)
        end.mr.write(answer, len(answer))
        end.send(len(answer))
        end.wait()


def main():
    clients, requests = argument(1, 3), argument(2, 4)
    server = Server(clients)
    callers = [End(SIZE) for _ in range(clients)]
    for caller, end in zip(callers, server.ends, strict=True):
        caller.connect(end)
        end.connect(caller)
    answers = []
    for number in range(requests):
        for place, caller in enumerate(callers):
            question = f"client {place} asks {number}"
            caller.receive(SIZE)
            caller.mr.write(question, len(question))
            caller.send(len(question))
            caller.wait()
            server.serve()
            came = caller.wait()
            answers.append(caller.mr.read(came.byte_len, 0).decode())
            assert answers[-1] == question.upper()
    print(
        f"{len(answers)} answers, {sorted(server.counts.values())} by client, last: {answers[-1]}"
    )


if __name__ == "__main__":
    main()
