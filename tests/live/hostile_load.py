"""Processes of the test of a hostile load: ``hostile_load.py ROLE SOCKET [SEED CALLS WORDS]``.

``hostile`` makes forged calls of every kind and writes random words into its rings.  ``victim``
has memory that nobody may write, beside a queue pair, and says at the end whether it has changed.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from live_clients import MASKS, Client, Ring

from nicscope.interfaces.verbs_device.fabric import addresses
from nicscope.live import layout

RC, RINGS, AREA = 2, 20, 1 << 14
PAGE, CANARY = 4096, 0xA5
LOCAL_WRITE = 1


def victim(path: str) -> None:
    client = Client(path)
    client.hello()
    memory = mmap.mmap(-1, 3 * PAGE)  # the middle page is registered
    memory.write(bytes([CANARY]) * (3 * PAGE))
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _, pd, *_ = client.ask("ALLOC_PD")
    _, cq, *_ = client.ask("CREATE_CQ", 64, 0, 1)
    client.ask("CREATE_QP", pd, RC, cq, cq, 0, 8, 8, 2, 2, 64, 1, 0, 1)
    error, *_ = client.ask("REG_MR", pd, address + PAGE, PAGE, address + PAGE, LOCAL_WRITE)
    print(error, hex(address), flush=True)
    sys.stdin.readline()
    print("same" if memory[:] == bytes([CANARY]) * (3 * PAGE) else "changed", flush=True)


def begun(path: str) -> tuple[Client, int, int]:
    """A client that has queue pairs and memory of its own."""
    client = Client(path)
    client.hello()
    _, pd, *_ = client.ask("ALLOC_PD")
    _, cq, *_ = client.ask("CREATE_CQ", 64, 0, 1)
    for number in range(6):
        client.ask("CREATE_QP", pd, RC + number % 3, cq, cq, 0, 8, 8, 2, 2, 64, 1, 0, number + 1)
    return client, pd, cq


def hostile(path: str, seed: str, calls: str, words: str) -> None:
    drawn = random.Random(int(seed))
    buffer = ctypes.create_string_buffer(2 * PAGE)
    address = ctypes.addressof(buffer)
    small = (0, 1, 2, 3, 4, 7, 0x11, 0x12, 64, 2**31, 2**32 - 1, 2**63, 2**64 - 1, address)
    client, pd, cq = begun(path)
    client.ask("REG_MR", pd, address, 2 * PAGE, address, 15)
    batches = int(words) // (AREA // 8 + RINGS)
    base = layout.CONSTANTS["DATA_AT"]
    ring_bytes = layout.DTYPES["ring"].itemsize
    made = 0
    for call in range(int(calls)):
        if call * batches // int(calls) != (call + 1) * batches // int(calls):
            for ring in range(1, RINGS + 1):
                at = layout.CONSTANTS["RINGS_AT"] + ring * ring_bytes
                tail = drawn.choice((drawn.randrange(64), drawn.randrange(2**64)))
                client.segment[at : at + 8] = tail.to_bytes(8, "little")
            client.segment[base : base + AREA] = drawn.randbytes(AREA)
            client.ring()
            made += AREA // 8 + RINGS
        name = drawn.choice(layout.OPERATIONS[1:])
        forged = [drawn.choice((*small, drawn.randrange(2**64))) for _ in range(14)]
        if name in ("CREATE_CQ", "CREATE_SRQ", "CREATE_QP"):
            forged = [pd, *(drawn.choice((0, 1, 2, 3, cq, 16)) for _ in range(13))]
        assert client.ask(name, *forged)[0] <= 200, name
        if call % 5000 == 4999:  # it leaves with whatever it has, and comes again
            client.close()
            client, pd, cq = begun(path)
    client.close()
    print(int(calls) + made, flush=True)


class Side:
    """A process with memory of three pages, of which the middle one is registered."""

    def __init__(self, path: str, outside: int, inside: int) -> None:
        self.client = Client(path)
        self.node = self.client.hello()["node"]
        _, self.pd, *_ = self.client.ask("ALLOC_PD")
        _, self.cq, _, *ring = self.client.ask("CREATE_CQ", 64, 0, 1)
        self.ended = Ring(self.client, *ring[:4])
        self.memory = mmap.mmap(-1, 3 * PAGE)
        self.memory[:] = bytes([outside]) * PAGE + bytes([inside]) * PAGE + bytes([outside]) * PAGE
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + PAGE
        answer = self.client.ask("REG_MR", self.pd, self.address, PAGE, self.address, 15)
        self.lkey, self.rkey = answer[2:4]
        # And another, of the same page and the next, that nobody else may use.
        answer = self.client.ask("REG_MR", self.pd, self.address, 2 * PAGE, self.address, 0)
        self.own_lkey, self.own_rkey = answer[2:4]

    def pair(self) -> int:
        """A new queue pair; its ring of requests is ``sends``."""
        words = self.pd, RC, self.cq, self.cq, 0, 16, 16, 2, 2, 64, 0, 0, 1
        error, number, *told = self.client.ask("CREATE_QP", *words)
        assert error == 0
        self.sends, self.receives = Ring(self.client, *told[5:9]), Ring(self.client, *told[9:13])
        return number

    def connect(self, mine: int, to: int, node: int) -> None:
        """Connect a queue pair with another's on a node."""
        gid = addresses(node)[1]
        high, low = (int.from_bytes(part, "little") for part in (gid[:8], gid[8:]))
        told = {
            "port_num": 1, "qp_access_flags": 15, "path_mtu": 5, "dest_qp_num": to, "timeout": 1,
            "min_rnr_timer": 1, "max_rd_atomic": 4, "max_dest_rd_atomic": 4, "dgid_high": high,
            "dgid_low": low, "sgid_index": 1, "is_global": 1,
        }  # fmt: skip
        for state, bits in enumerate(MASKS, 1):
            words = [{**told, "qp_state": state}.get(name, 0) for name in layout.ATTRIBUTES]
            mask = sum(1 << bit for bit in bits)
            assert self.client.ask("MODIFY_QP", mine, mask, *words)[0] == 0


OUTSIDE, INSIDE, OWN = 0xA5, 0x5A, 0x11


def forged_requests(path: str, seed: int, count: int) -> dict[int, int]:
    """Post ``count`` requests with forged keys and places to a peer; how many ended how.

    Nothing outside of what the peer has registered for others changes, and no byte of it comes.
    """
    drawn = random.Random(seed)
    peer, forger = Side(path, OUTSIDE, INSIDE), Side(path, OWN, OWN)
    gone = mmap.mmap(-1, PAGE)  # which is registered, and then is no memory any more
    view = ctypes.c_char.from_buffer(gone)
    gone_address = ctypes.addressof(view)
    answer = forger.client.ask("REG_MR", forger.pd, gone_address, PAGE, gone_address, 15)
    gone_key = answer[2]
    del view
    gone.close()
    keys = [forger.lkey, forger.lkey, forger.lkey, forger.own_lkey, peer.lkey, peer.rkey]
    keys += [peer.own_lkey, 0, 2**32 - 1, gone_key]
    names = [peer.rkey, peer.rkey, peer.rkey, peer.own_rkey, forger.rkey, 0, 2**32 - 1]
    near = (0, 8, 100, PAGE - 8, PAGE - 1, PAGE, -8, -1, -PAGE, 2 * PAGE)
    lengths = (8, 8, 8, 100, PAGE, PAGE + 1, 2 * PAGE, 0, 2**31, 2**32 - 1)
    ended: dict[int, int] = {}
    posted = 0
    while posted < count:
        mine, its = forger.pair(), peer.pair()
        forger.connect(mine, its, peer.node)
        peer.connect(its, mine, forger.node)
        many = drawn.randrange(1, 6)
        for _ in range(many):
            place = drawn.choice((forger.address, forger.address, peer.address, gone_address))
            pieces = [
                (place + drawn.choice(near) & 2**64 - 1, drawn.choice(lengths), drawn.choice(keys))
                if drawn.random() < 0.5
                else (forger.address, 8, forger.lkey)
                for _ in range(drawn.randrange(1, 3))
            ]
            remote = peer.address + drawn.choice(near)
            forger.sends.put(
                "send", pieces, opcode=drawn.choice((0, 0, 1, 2, 4, 4, 5, 6, 8, 40, 2**32 - 1)),
                send_flags=2, remote=remote & 2**64 - 1, rkey=drawn.choice(names),
                compare=drawn.choice((0, 1, 2**64 - 1)), swap=0,
            )  # fmt: skip
        posted += many
        forger.client.ring()
        for _ in range(many):
            status = int(forger.ended.wait()["status"])
            ended[status] = ended.get(status, 0) + 1
        while int(peer.ended.words["tail"][0]) != peer.ended.next:
            peer.ended.wait()
        for side, number in ((forger, mine), (peer, its)):
            assert side.client.ask("DESTROY_QP", number)[0] == 0
        outside = peer.memory[:PAGE] + peer.memory[2 * PAGE :]
        assert outside == bytes([OUTSIDE]) * (2 * PAGE)
        assert OUTSIDE not in forger.memory[:]
        forger.memory[:] = bytes([OWN]) * (3 * PAGE)
        peer.memory[PAGE : 2 * PAGE] = bytes([INSIDE]) * PAGE
    for side in (forger, peer):
        side.client.close()
    return ended


if __name__ == "__main__":
    {"victim": victim, "hostile": hostile}[sys.argv[1]](*sys.argv[2:])
