"""A VIA client writes straight into a server's registered memory, then says that it has.

python examples/via_rdma_write.py

The server registers a page for RDMA writes and tells the client, by an ordinary message, where it
is.  The client writes three pieces into it; the last one carries immediate data, which takes one of
the server's receive descriptors and so wakes it.  The pieces before it are in place by then, as a
connection delivers in order.
"""

from __future__ import annotations

import struct
from typing import Any

from nicscope.interfaces.via import Cluster, Reliability
from nicscope.interfaces.via.descriptor import AddressSegment

LEVEL = Reliability.VIP_SERVICE_RELIABLE_DELIVERY
PIECE = 256
PIECES = 3
WHERE = struct.Struct("<QI")  # address and handle
WRITTEN = 7  # what the immediate data says


async def server(host: Any) -> str:
    """Offer a page; what was in it when the client had written."""
    nic = await host.open_nic()
    tag = await nic.create_ptag()
    vi = await nic.create_vi(tag, LEVEL, enable_rdma_write=True)
    sends, receives = await nic.descriptors(tag), await nic.descriptors(tag)
    page = await nic.register_mem(nic.allocate(4096), tag, enable_rdma_write=True)
    letter = await nic.register_mem(nic.allocate(64), tag)
    await nic.post_recv(vi, receives.request())  # for the immediate data
    await nic.connect_accept(await nic.connect_wait("page"), vi)
    await nic.write(letter.address, WHERE.pack(page.address, page.handle))
    await nic.post_send(vi, sends.request(letter.segment(0, WHERE.size)))
    await nic.send_wait(vi)
    told = await nic.recv_wait(vi)
    assert told.immediate == WRITTEN
    content = await nic.read(page.address, PIECES * PIECE)
    return "".join(chr(content[i * PIECE]) for i in range(PIECES))


async def client(host: Any) -> list[float]:
    """Write the pieces; the us from each post to its end."""
    nic = await host.open_nic()
    tag = await nic.create_ptag()
    vi = await nic.create_vi(tag, LEVEL, enable_rdma_write=True)
    sends, receives = await nic.descriptors(tag), await nic.descriptors(tag)
    room = await nic.register_mem(nic.allocate(4096), tag)
    await nic.post_recv(vi, receives.request(room.segment(0, WHERE.size)))
    await nic.connect_request(vi, 1, "page")
    await nic.recv_wait(vi)
    where = AddressSegment(*WHERE.unpack(await nic.read(room.address, WHERE.size)))
    times = []
    for number in range(PIECES):
        await nic.write(room.address, bytes([ord("a") + number]) * PIECE)
        began = nic.now_us
        there = AddressSegment(where.address + number * PIECE, where.handle)
        last = number == PIECES - 1
        own = [room.segment(0, PIECE)]
        await nic.rdma_write(vi, sends, own, there, immediate=WRITTEN if last else None)
        assert (await nic.send_wait(vi)).ok
        times.append(nic.now_us - began)
    return times


def main() -> None:
    """Print a line for each of two ways into the NIC."""
    for way in ("edt", "cc-dma-intervention"):
        cluster = Cluster("sonic-via", mechanism=way)
        cluster.start(0, client)
        cluster.start(1, server)
        times, content = cluster.run()
        print(f"{way:20} {content!r} written, us each:", *(f"{took:.2f}" for took in times))


if __name__ == "__main__":
    main()
