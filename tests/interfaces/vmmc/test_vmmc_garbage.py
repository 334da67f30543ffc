"""The garbage page: what the library refuses, and what gets past it moves nothing that matters."""

import pytest

from nicscope.errors import SimulationError
from nicscope.interfaces.vmmc import Cluster
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.ports.layout import WRITE
from program_results import results_of

PAGE = 4096
FAR = 300 * PAGE  # mapped by nobody


def garbage_of(cluster, node):
    memory = cluster.memory.state
    start = GARBAGE_FRAME * PAGE
    return bytes(memory.bytes[node, start : start + PAGE])


async def keep_table(endpoint):
    table = endpoint.allocate(PAGE)
    await table.write(b"t" * PAGE)
    await endpoint.export(table, "table")
    await endpoint.sleep(3000)
    return await table.read()


async def post_and_rewrite(endpoint, remote, buffer, address):
    """Post a decent store; its process changes the address before the NIC takes it."""
    ring = endpoint._ports.segments[endpoint.node, endpoint.port]
    place = int(endpoint._ports.table[endpoint.node, endpoint.port]["posted"]) % len(ring)
    endpoint._ports.table[endpoint.node, endpoint.port]["blocked"] = 1
    number = await endpoint.post(WRITE, remote.number, [(buffer.address, 16)])
    ring[place, 0]["address"] = address
    endpoint._ports.table[endpoint.node, endpoint.port]["blocked"] = 0
    endpoint._ports.nodes[endpoint.node]["attention"] = 1
    await endpoint.compute(0.1)  # the doorbell
    done = await endpoint.done()
    assert done.request == number
    return done.status


@pytest.mark.requirement("UT-38")
@pytest.mark.parametrize("address", [FAR, 2**40])  # which is beyond its address space
def test_the_library_refuses_what_the_process_has_not_mapped(address):
    async def careless(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        await endpoint.post(WRITE, remote.number, [(address, 16)])
        return (await endpoint.done()).status

    cluster = Cluster("utlb")
    table, status = results_of(cluster, keep_table, careless)

    assert status == "no rights"
    assert table == b"t" * PAGE
    assert cluster.served(1)["garbage"] == 0


@pytest.mark.requirement("UT-38", "UT-30")
@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process"])
def test_a_descriptor_changed_behind_the_library_sends_the_garbage_page(design):
    async def hostile(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(PAGE)
        await buffer.write(b"mine" * 1024)
        return await post_and_rewrite(endpoint, remote, buffer, FAR)

    cluster = Cluster(design)
    table, status = results_of(cluster, keep_table, hostile)

    assert status == "done"  # the NIC checks no validity
    assert table == bytes(16) + b"t" * (PAGE - 16)  # what the garbage page held
    assert cluster.served(1)["garbage"] == 1
    assert cluster.served(1)["stale"] == 0


@pytest.mark.requirement("UT-38")
def test_a_static_table_has_no_garbage_page_and_the_nic_refuses():
    async def hostile(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(PAGE)
        return await post_and_rewrite(endpoint, remote, buffer, FAR)

    table, status = results_of(Cluster("vmmc-static"), keep_table, hostile)

    assert status == "no rights"
    assert table == b"t" * PAGE


@pytest.mark.requirement("UT-38", "UT-39")
@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process"])
def test_stores_into_a_page_that_was_unpinned_go_to_the_garbage_page(design):
    async def fickle(endpoint):
        table = endpoint.allocate(PAGE)
        await table.write(b"t" * PAGE)
        exported = await endpoint.export(table, "table")
        await endpoint.sleep(800)  # a first store has come, so the NIC has the entry
        before = await table.read(5)
        await endpoint._deregister_pages((table.address, table.length))
        assert await endpoint.unpin(table) == 1
        endpoint._ports.shared.exports[0, exported.number]["valid"] = 1
        await endpoint.sleep(1500)
        return before, await table.read(5)

    async def storing(endpoint):
        remote = await endpoint.import_buffer(0, "table")
        buffer = endpoint.allocate(PAGE)
        await buffer.write(b"first")
        statuses = [(await endpoint.wait(await endpoint.store(remote, buffer, length=5))).status]
        await endpoint.sleep(1000)
        await buffer.write(b"later")
        statuses.append(
            (await endpoint.wait(await endpoint.store(remote, buffer, length=5))).status
        )
        return statuses

    cluster = Cluster(design)
    (before, after), statuses = results_of(cluster, fickle, storing)

    assert statuses == ["done", "done"]
    assert before == after == b"first"
    assert garbage_of(cluster, 0)[:5] == b"later"
    assert cluster.served(0) == {
        "interrupts": 0, "rejected": 0, "stale": 0, "garbage": 1, "table_ins": 0, "remaps": 0,
    }  # fmt: skip


def test_a_buffer_of_another_process_cannot_be_exported():
    cluster = Cluster("utlb")
    shared = []

    async def first(endpoint):
        shared.append(endpoint.allocate(PAGE))

    async def second(endpoint):
        await endpoint.sleep(10)
        await endpoint.export(shared[0], "stolen")

    cluster.start(0, first)
    cluster.start(1, second)
    words = "a buffer of process 0 of node 0, not of process 0 of node 1"
    with pytest.raises(SimulationError, match=words):
        cluster.run()
