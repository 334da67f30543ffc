"""A few messages there and back on every interface, and the cluster that they ran on."""

from nicscope.interfaces import mini, trapeze, unet, via, vmmc
from nicscope.interfaces.verbs_device import calls as verbs
from nicscope.interfaces.verbs_device.calls import Caps, Piece, QpState, Receive, Send
from nicscope.interfaces.verbs_device.device import Device
from program_results import results_of

AT_LAST_US = 60_000.0  # all that was begun has ended by then
BYTES = 5000


def on_unet(*design, **how):
    """A message of one piece, and one of a page; each is answered."""
    cluster = unet.Cluster(*(design or ["unet-mm-pca200"]), **how)

    async def side(process, first):
        endpoint = await process.open("first" if first else "second")
        if first:
            tag = await endpoint.connect(1, "second")
        await endpoint.provide(*(endpoint.allocate(4096) for _ in range(4)))
        for size in (40, 1400):
            if first:
                await endpoint.send(tag, endpoint.allocate(size))
            message = await endpoint.receive()
            if not first:
                await endpoint.send(message.tag, endpoint.allocate(size))
        await process.sleep(AT_LAST_US)

    return _run(cluster, side)


def on_vmmc(design="utlb", **how):
    """A table that one side exports; the other stores to it, and fetches it."""
    cluster = vmmc.Cluster(design, **how)

    async def side(endpoint, first):
        room = endpoint.allocate(BYTES)
        if first:
            await endpoint.export(room, "table", allow=1)
        else:
            remote = await endpoint.import_buffer(0, "table")
            assert (await endpoint.wait(await endpoint.store(remote, room))).ok
            assert (await endpoint.wait(await endpoint.fetch(remote, room))).ok
        await endpoint.sleep(AT_LAST_US)

    return _run(cluster, side)


def on_mini(design="mini", **how):
    """A buffer that one side registers; the other writes it, and reads it."""
    cluster = mini.Cluster(design, **how)

    async def side(end, first):
        room = end.allocate(BYTES)
        if first:
            await end.register(room, name="table")
        else:
            remote = await end.open(await end.find("table"))
            await end.write(remote, room, notify=False)
            assert (await end.done()).ok
            await end.read(remote, room)
            assert (await end.done()).ok
        await end.sleep(AT_LAST_US)

    return _run(cluster, side)


def on_trapeze(platform="p6-natoma", **how):
    """A control message, one with a payload, and the answers; and the CPU computes and copies."""
    cluster = trapeze.Cluster(platform, **how)

    async def side(endpoint, first):
        payload = endpoint.allocate(BYTES)
        for page in (None, payload):
            if first:
                await endpoint.send(1, page)
            endpoint.release(await endpoint.receive())
            if not first:
                await endpoint.send(0, page)
        await endpoint.compute(3)
        await endpoint.copy(100)
        await endpoint.sleep(AT_LAST_US)

    return _run(cluster, side)


def on_verbs(design, **how):
    """A message of several pages from one queue pair to another of the same device."""
    device = Device(design, **how)
    pd, cq = device.open_pd(), device.make_cq(8).handle
    caps = Caps(1, 1, 1, 1, 0)
    one, other = [device.make_qp(pd, verbs.RC, cq, cq, 0, caps, True).number for _ in range(2)]
    for pair, peer in ((one, other), (other, one)):
        for state in (verbs.INIT, verbs.RTR, verbs.RTS):
            device.modify_qp(pair, QpState(state, dest_qpn=peer, timeout=14, retry=7))
    room = device.map(2 * BYTES)
    key = device.register(pd, room, 2 * BYTES, room, verbs.LOCAL_WRITE).lkey
    device.post_recv(other, Receive(1, (Piece(room, BYTES, key),)))
    device.post_send(one, Send(2, verbs.WR_SEND, (Piece(room + BYTES, BYTES, key),)))
    ended = []
    while len(ended) < 2:
        ended += device.poll(cq, 2)
    assert {each.status for each in ended} == {verbs.SUCCESS}
    return device


def on_via(mechanism="edt", reads=False, **how):
    """A message of several frames and its answer; with ``reads``, RDMA both ways after that."""
    cluster = via.Cluster(mechanism=mechanism, **how)
    regions = {}

    async def side(host, first):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        rights = {"enable_rdma_write": True, "enable_rdma_read": True}
        vi = await nic.create_vi(tag, **rights)
        places = await nic.descriptors(tag)
        room = await nic.register_mem(nic.allocate(2 * BYTES), tag, **rights)
        regions[first] = room
        await nic.post_recv(vi, places.request(room.segment(0, BYTES)))
        if first:
            await nic.connect_request(vi, 1, "test")
        else:
            await nic.connect_accept(await nic.connect_wait("test"), vi)
            await nic.recv_wait(vi)
        await nic.post_send(vi, places.request(room.segment(BYTES, BYTES)))
        await nic.send_wait(vi)
        if first:
            await nic.recv_wait(vi)
            if reads:
                await nic.rdma_write(vi, places, [room.segment(0, 700)], regions[False].remote())
                await nic.send_wait(vi)
                await nic.rdma_read(vi, places, [room.segment(0, 900)], regions[False].remote())
                await nic.send_wait(vi)
        await nic.compute(AT_LAST_US)

    return _run(cluster, side)


def _run(cluster, side):
    results_of(cluster, lambda process: side(process, True), lambda process: side(process, False))
    return cluster
