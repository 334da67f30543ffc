"""A file goes to another host in pieces over a network that loses packets (miNI's remote writes).

python examples/file_transfer.py

The receiver registers room for the file under a name; the sender opens it and writes piece after
piece to where it belongs, several under way at a time.  The NICs send again what is lost, so what
arrives is the file to the last byte; how long that takes is what loss costs.
"""

from __future__ import annotations

import zlib
from typing import Any

from nicscope.interfaces import Faults
from nicscope.interfaces.mini import Cluster

FILE = bytes((i * i + i // 256) % 251 for i in range(100_000))
PIECE = 4096
UNDER_WAY = 4  # pieces
LONGEST_US = 100_000.0  # that the receiver waits for the file


async def sender(endpoint: Any) -> float:
    """Write the file; MB/s from the first post to the last acknowledgement."""
    content = endpoint.allocate(len(FILE))
    await content.write(FILE)
    there = await endpoint.open(await endpoint.find("file"))
    begins = range(0, len(FILE), PIECE)
    began = endpoint.now_us
    for number, at in enumerate(begins):
        if number >= UNDER_WAY:
            assert (await endpoint.done()).ok
        length, last = min(PIECE, len(FILE) - at), at == begins[-1]
        await endpoint.write(there, content, length, offset=at, at=at, notify=last)
    for _ in range(min(UNDER_WAY, len(begins))):
        assert (await endpoint.done()).ok
    return len(FILE) / (endpoint.now_us - began)


async def receiver(endpoint: Any) -> int:
    """Register room, and wait for the last piece; the CRC of what came."""
    room = endpoint.allocate(len(FILE))
    await endpoint.register(room, name="file")
    await endpoint.stored(timeout_us=LONGEST_US)  # then a WaitTimeoutError
    return zlib.crc32(await room.read())


def main() -> None:
    """Print a line for each share of packets that the network loses."""
    for loss in (0.0, 0.05, 0.2):
        cluster = Cluster("mini", faults=Faults(loss=loss, seed=1))
        cluster.start(0, sender)
        cluster.start(1, receiver)
        rate, checksum = cluster.run()
        assert checksum == zlib.crc32(FILE)
        again = cluster.report().total.sent.again
        print(f"{loss:4.0%} lost: {rate:6.2f} MB/s, {again:3} packets sent again, every byte there")


if __name__ == "__main__":
    main()
