"""Two connected ends, made the way a program makes them; tests say what the ends then do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.interfaces.via import Cluster, Descriptors, Nic, Reliability, Return, VipError
from program_results import results_of

if TYPE_CHECKING:
    from nicscope.interfaces.via.descriptor import Region
    from nicscope.interfaces.via.vi import Vi

UNRELIABLE = Reliability.VIP_SERVICE_UNRELIABLE
DELIVERY = Reliability.VIP_SERVICE_RELIABLE_DELIVERY
RECEPTION = Reliability.VIP_SERVICE_RELIABLE_RECEPTION
MECHANISMS = (
    "edt",
    "cc-dma-intervention",
    "cc-dma-retry",
    "cni",
    "dma",
    "pio",
    "pio-combined",
)
COHERENT = MECHANISMS[:3]


class End(NamedTuple):
    nic: Nic
    tag: int
    vi: Vi
    places: Descriptors
    out: Region
    into: Region

    def send(self, offset=0, length=None, **more):
        return self.places.request(self.out.segment(offset, length), **more)

    def receive(self, offset=0, length=None):
        return self.places.request(self.into.segment(offset, length))


async def make_end(host, level=DELIVERY, room=4096, **rights):
    """A NIC with a VI and two registered buffers, not connected."""
    nic = await host.open_nic()
    tag = await nic.create_ptag()
    vi = await nic.create_vi(
        tag,
        level,
        enable_rdma_write=bool(rights.get("enable_rdma_write")),
        enable_rdma_read=bool(rights.get("enable_rdma_read")),
    )
    places = await nic.descriptors(tag, 32, segments=8)
    out = await nic.register_mem(nic.allocate(room), tag, **rights)
    into = await nic.register_mem(nic.allocate(room), tag, **rights)
    return End(nic, tag, vi, places, out, into)


def run_pair(
    first: Any,
    second: Any,
    mechanism="edt",
    level=DELIVERY,
    room=4096,
    posted=1,
    rights=None,
    prepared: Any = None,
    **how,
) -> Any:
    """What two programs on connected ends return; the second has ``posted`` receives posted.

    ``prepared``: what it does besides before it is connected.  ``how`` goes to the cluster.
    """
    cluster = Cluster(mechanism=mechanism, **how)

    async def left(host):
        end = await make_end(host, level, room, **(rights or {}))
        await end.nic.connect_request(end.vi, 1, "test")
        return await first(end)

    async def right(host):
        end = await make_end(host, level, room, **(rights or {}))
        for _ in range(posted):
            await end.nic.post_recv(end.vi, end.receive())
        if prepared is not None:
            await prepared(end)
        # So that the NIC has read them before the first message.
        await end.nic.compute(50)
        await end.nic.connect_accept(await end.nic.connect_wait("test"), end.vi)
        return await second(end)

    return results_of(cluster, left, right)


async def ended(call):
    """The descriptor that a call takes off its queue, done or with an error."""
    try:
        return await call
    except VipError as error:
        if error.descriptor is None or error.code is not Return.VIP_DESCRIPTOR_ERROR:
            raise
        return error.descriptor


async def idle(end):
    """Do nothing for long."""
    await end.nic.compute(1000)
