"""A host reads another's pages over Trapeze: each comes straight to where it belongs.

python examples/trapeze_page_server.py

The client maps a buffer of its own under a tag, and asks for a page by number.  The server's answer
carries that tag, so the client's NIC puts the page straight into the buffer: nothing is copied, and
no buffer of the receive ring is used.
"""

from __future__ import annotations

import struct
from typing import Any

from nicscope import Cluster

PAGE = 4096
PAGES = 4
ASKED = (2, 0, 3)
QUESTION = struct.Struct("<II")  # which page, and under which tag it is to come
CLIENT, SERVER = 0, 1
TAG = 5


def content_of(number: int) -> bytes:
    """What the server has in that page."""
    return bytes([ord("a") + number]) * PAGE


async def client(endpoint: Any) -> list[tuple[int, float]]:
    """Each page that was asked for, and the us until it was there."""
    room = endpoint.allocate(PAGE)
    endpoint.map_payload(TAG, room)
    found = []
    for number in ASKED:
        began = endpoint.now_us
        endpoint.reserve(QUESTION.size)[:] = QUESTION.pack(number, TAG)
        await endpoint.send(SERVER)
        answer = await endpoint.receive(timeout_us=1000)
        took = endpoint.now_us - began
        assert answer.tag == TAG
        assert room.bytes.tobytes() == content_of(number)
        endpoint.release(answer)
        found.append((number, took))
    return found


async def server(endpoint: Any) -> None:
    """Answer whatever page is asked for, for as long as anybody asks."""
    pages = [endpoint.allocate(PAGE) for _ in range(PAGES)]
    for number, page in enumerate(pages):
        await page.write(content_of(number))
    while True:
        question = await endpoint.receive()
        number, tag = QUESTION.unpack(question.scan(QUESTION.size))
        endpoint.release(question)
        await endpoint.send(question.sender, pages[number], tag)


def main() -> None:
    """Print what each page took, over cut-through delivery and over store-and-forward."""
    for delivery in ("adaptive", "store-and-forward"):
        cluster = Cluster("trapeze", delivery=delivery, max_payload=PAGE)
        cluster.start(CLIENT, client)
        cluster.start(SERVER, server, daemon=True)  # the run does not wait for it
        found, _ = cluster.run()
        print(f"{delivery:18}", *(f"page {number}: {took:.1f} us" for number, took in found))


if __name__ == "__main__":
    main()
