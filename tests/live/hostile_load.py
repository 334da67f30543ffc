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

from live_clients import Client

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


if __name__ == "__main__":
    {"victim": victim, "hostile": hostile}[sys.argv[1]](*sys.argv[2:])
