"""A lock in the memory of a server, which clients take and give back by atomic operations.

Whoever holds it adds to a number beside it by reading and writing, which only the lock makes safe;
turns are counted by adding.  Run it with
``nicscope verbs run examples/verbs/lock.py [CLIENTS] [TURNS]``.
"""

import random

from ends import End, argument
from pyverbs.libibverbs_enums import ibv_wr_opcode

LOCK, NUMBER, TICKETS = 0, 8, 16  # words of the server's memory
SWAP, ADD = ibv_wr_opcode.IBV_WR_ATOMIC_CMP_AND_SWP, ibv_wr_opcode.IBV_WR_ATOMIC_FETCH_AND_ADD


class Client:
    """One that takes turns, in steps: so that all clients' are between each other."""

    def __init__(self, end, server, name, turns):
        self.end, self.server, self.name, self.left = end, server, name, turns
        self.tries = 0
        self.steps = self.turns()

    def word(self, wr, at, *atomic):
        """Do that with a remote word; what the local one is then."""
        key, address = self.server.mr.rkey, self.server.mr.buf + at
        if atomic:
            wr.set_wr_atomic(key, address, *atomic)
        else:
            wr.set_wr_rdma(key, address)
        self.end.qp.post_send(wr)
        self.end.wait()
        return int.from_bytes(self.end.mr.read(8, 0), "little")

    def turns(self):
        """Take the lock, add one by hand, give the lock back; after each step others may go on."""
        while self.left:
            self.tries += 1
            if self.word(self.end.request(8, opcode=SWAP), LOCK, 0, self.name):
                yield
                continue
            yield
            read = self.end.request(8, opcode=ibv_wr_opcode.IBV_WR_RDMA_READ)
            number = self.word(read, NUMBER) + 1
            yield
            self.end.mr.write(number.to_bytes(8, "little"), 8)
            self.word(self.end.request(8, opcode=ibv_wr_opcode.IBV_WR_RDMA_WRITE), NUMBER)
            yield
            assert self.word(self.end.request(8, opcode=SWAP), LOCK, self.name, 0) == self.name
            self.word(self.end.request(8, opcode=ADD), TICKETS, 1)
            self.left -= 1
            yield


def main():
    count, turns = argument(1, 3), argument(2, 4)
    clients = []
    first = End(24)
    for number in range(count):
        end, server = End(8), End(24, other=first)
        server.mr = first.mr
        end.connect(server)
        server.connect(end)
        clients.append(Client(end, server, number + 1, turns))
    running = [*clients]
    while running:
        client = random.choice(running)
        if next(client.steps, "over") == "over":
            running.remove(client)
    held, number, tickets = (
        int.from_bytes(first.mr.read(8, at), "little") for at in (LOCK, NUMBER, TICKETS)
    )
    assert (held, number, tickets) == (0, count * turns, count * turns)
    tries = sum(client.tries for client in clients)
    print(f"{number} turns of {count} clients, {tries} tries; the lock is free")


if __name__ == "__main__":
    main()
