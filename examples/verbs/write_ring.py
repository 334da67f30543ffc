"""A ring that its producer writes by RDMA, and whose consumer says by RDMA how far it has read.

Neither end posts a receive.  Run it with
``nicscope verbs run examples/verbs/write_ring.py [MESSAGES] [SLOTS]``.
"""

import hashlib

from ends import argument, joined
from pyverbs.libibverbs_enums import ibv_wr_opcode

SLOT = 256  # bytes: a message, and behind it its number, so that it is there when that is


class Producer:
    """Writes into slots of the consumer, as long as it knows of free ones."""

    def __init__(self, end, peer, slots):
        self.end, self.peer, self.slots, self.written = end, peer, slots, 0

    def read_by_peer(self):
        """What the consumer has written into the last word of our memory."""
        return int.from_bytes(self.end.mr.read(8, self.slots * SLOT), "little")

    def put(self, content):
        """Write a message; False if no slot is free."""
        if self.written - self.read_by_peer() == self.slots:
            return False
        at = self.written % self.slots * SLOT
        self.written += 1
        slot = content.ljust(SLOT - 8, b"\0") + self.written.to_bytes(8, "little")
        self.end.mr.write(slot, SLOT, at)
        write(self.end, self.peer, SLOT, at)
        return True


class Consumer:
    """Reads slots of its own memory, and tells every few how far it is."""

    def __init__(self, end, peer, slots):
        self.end, self.peer, self.slots, self.taken = end, peer, slots, 0

    def take(self):
        """The next message; None if it is not there."""
        at = self.taken % self.slots * SLOT
        if int.from_bytes(self.end.mr.read(8, at + SLOT - 8), "little") != self.taken + 1:
            return None
        content = self.end.mr.read(SLOT - 8, at).rstrip(b"\0")
        self.taken += 1
        if self.taken % (self.slots // 2) == 0:
            end = self.slots * SLOT
            self.end.mr.write(self.taken.to_bytes(8, "little"), 8, end)
            write(self.end, self.peer, 8, end)
        return content


def write(end, peer, length, at):
    """Write what is there into the same place of the peer's memory, and wait until it is."""
    wr = end.request(length, at, opcode=ibv_wr_opcode.IBV_WR_RDMA_WRITE)
    wr.set_wr_rdma(peer.mr.rkey, peer.mr.buf + at)
    end.qp.post_send(wr)
    end.wait()


def main():
    messages, slots = argument(1, 20), argument(2, 4)
    room = slots * SLOT + 8
    left, right = joined(room, room)
    producer, consumer = Producer(left, right, slots), Consumer(right, left, slots)
    contents = [f"message {number}".encode() * (number % 9 + 1) for number in range(messages)]
    waiting, taken = [*contents], []
    while len(taken) < messages:
        while waiting and producer.put(waiting[0]):
            waiting.pop(0)
        while (content := consumer.take()) is not None:
            taken.append(content)
    assert taken == contents
    print(
        f"{messages} messages through {slots} slots:", hashlib.sha256(b"".join(taken)).hexdigest()
    )


if __name__ == "__main__":
    main()
