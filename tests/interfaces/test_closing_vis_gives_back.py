"""What VIA programs make and destroy again and again leaves every table as it was."""

import pytest
from steady_tables import PAGE, SETTLED, TIMES, tables

from nicscope.interfaces.via import Cluster, VipError
from program_results import results_of


def left(cluster, nic):
    """What is taken on both nodes; how many connections there have been is not told."""
    found = tables(cluster)
    ports = cluster.simulation.machine.ports
    for kernel in cluster.kernels:
        node = kernel.node
        found[f"kernel of {node}"] = [
            len(kernel.tags._owners),
            len(kernel.vis),
            len(kernel.regions),
            int((ports.work.regions[node]["key"] != 0).sum()),
            len(kernel._free["port"]),
            len(kernel._free["queue"]),
            len(kernel._free["key"]),
            len(kernel.asked.waiting),
            int(ports.work.queues[node]["open"].sum()),
        ]
    return found, len(nic._owner._records)


@pytest.mark.parametrize("mechanism", ["pci", "edt", "cc-dma-intervention", "cni", "pio", "dma"])
def test_all_that_via_makes_is_given_back(mechanism):
    seen = []

    async def one(nic, number, first):
        tag = await nic.create_ptag()
        queue = await nic.create_cq(tag, 4)
        places = await nic.descriptors(tag, 4)
        region = await nic.register_mem(rooms[nic.node], tag)
        vi = await nic.create_vi(tag, send_cq=queue)
        await nic.post_recv(vi, places.request(region.segment(0, 8)))
        if first:
            await nic.connect_request(vi, 1, f"number {number}")
        else:
            await nic.connect_accept(await nic.connect_wait(f"number {number}"), vi)
        await nic.post_send(vi, places.request(region.segment(8, 8)))
        await nic.cq_wait(queue)
        assert (await nic.send_done(vi)).ok
        assert (await nic.recv_wait(vi)).ok
        await nic.post_recv(vi, places.request(region.segment(0, 8)))
        await nic.compute(100)
        await nic.disconnect(vi)
        with pytest.raises(VipError, match="FLUSHED"):
            await nic.recv_wait(vi)
        await nic.destroy_vi(vi)
        await nic.destroy_cq(queue)
        await nic.destroy_descriptors(places)
        await nic.deregister_mem(region)
        await nic.destroy_ptag(tag)

    rooms = {}

    def program(first):
        async def run(host):
            nic = await host.open_nic()
            rooms[nic.node] = nic.allocate(PAGE)
            for number in range(TIMES):
                await one(nic, number, first)
                if first:
                    await nic.compute(1000)  # until the other end has done too
                    seen.append(left(cluster, nic))
                await nic.compute(4000)

        return run

    cluster = Cluster(mechanism=mechanism)
    results_of(cluster, program(True), program(False))
    assert len(seen) == TIMES
    assert [each for each in seen[SETTLED:] if each != seen[SETTLED]][:1] == []
