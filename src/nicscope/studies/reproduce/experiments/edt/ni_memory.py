"""How many regions of 4 KB can be registered with 4 MB on the NIC, and what happens then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.coherent.boundary import Boundary
from nicscope.drivers.coherent.machine import new_machine
from nicscope.drivers.coherent.registration import FALLEN_BACK, REGISTERED
from nicscope.interfaces.via import Cluster
from nicscope.interfaces.via.journal import Part
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.studies.reproduce.verdict import Outcome

if TYPE_CHECKING:
    from nicscope.interfaces.via import Host
    from nicscope.studies.reproduce.verdict import Item

ROOM = 1 << 23  # bytes of host memory
TAGS = 1200


def run(item: Item) -> Outcome:
    """Register until the NIC has no room, then send from a region that has none."""
    printed = item.printed
    size = printed["buffer_kbytes"] << 10
    memory = printed["ni_memory_mbytes"] << 20
    machine = new_machine(
        1, {"memory_bytes": ROOM}, {"memory_bytes": memory, "pinned_bytes_max": ROOM}, tags=TAGS
    )
    node = Boundary(machine, 0, Mechanism.EDT)
    held, now = 0, 0
    while True:
        found, now = node.register(held * size, size, now)
        if found != REGISTERED:
            break
        held += 1
    outcome = Outcome()
    outcome.point("registrations", "regions", held)
    transfers, intact = _send_without_room(size)
    outcome.shape(
        "then-it-falls-back",
        found == FALLEN_BACK and transfers and intact,
        f"registration {held + 1:,} falls back; {size:,} bytes from such a region arrive by DMA",
    )
    return outcome


def _send_without_room(size: int) -> tuple[bool, bool]:
    """Whether DMA served a region that found no room on the NIC, and its bytes arrived."""
    sent = bytes(i % 251 for i in range(size))

    async def send(host: Host) -> bool:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        places = await nic.descriptors(tag, 8)
        for _ in range(4):
            region = await nic.register_mem(nic.allocate(size), tag)
        await nic.connect_request(vi, 1, "full")
        await nic.write(region.address, sent)
        descriptor = places.request(region.segment())
        await nic.post_send(vi, descriptor)
        await nic.send_wait(vi)
        return bool(descriptor.journal and descriptor.journal.parts[Part.DMA_EXEC])

    async def receive(host: Host) -> bool:
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        places = await nic.descriptors(tag, 8)
        region = await nic.register_mem(nic.allocate(size), tag)
        await nic.post_recv(vi, places.request(region.segment()))
        await nic.connect_accept(await nic.connect_wait("full"), vi)
        await nic.recv_wait(vi)
        return await nic.read(region.address, size) == sent

    cluster = Cluster(mechanism="edt", settings={"pinned_bytes_max": 3 * size})
    cluster.start(0, send)
    cluster.start(1, receive)
    transfers, intact = cluster.run()
    return bool(transfers), bool(intact)
