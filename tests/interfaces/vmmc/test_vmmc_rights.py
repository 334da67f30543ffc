"""Who may do what with VMMC's exported memory, from where, and how long."""

import pytest

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.vmmc import Cluster
from nicscope.nic.ports.layout import WRITE
from program_results import results_of
from refusals import refused

PAGE = 4096


@pytest.mark.requirement("UT-50")
def test_who_is_not_allowed_cannot_import():
    async def keeper(endpoint):
        await endpoint.export(endpoint.allocate(PAGE), "private", allow=(1, 1))

    async def user(endpoint):
        try:
            return await endpoint.import_buffer(0, "private")
        except SimulationError as error:
            return str(error)

    _, refused, allowed = results_of(Cluster("utlb"), (0, keeper), (1, user), (1, user))

    assert "may not import 'private'" in refused
    assert allowed.length == PAGE


@pytest.mark.requirement("UT-50")
@pytest.mark.parametrize(("store", "fetch"), [(True, False), (False, True)])
def test_rights_say_what_an_importer_may_do(store, fetch):
    async def keeper(endpoint):
        await endpoint.export(endpoint.allocate(PAGE), "b", store=store, fetch=fetch)

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(64)
        stored = await endpoint.wait(await endpoint.store(remote, mine))
        fetched = await endpoint.wait(await endpoint.fetch(remote, mine))
        return stored.ok, fetched.ok, {stored.status, fetched.status}

    assert results_of(Cluster("utlb"), keeper, user)[1] == (store, fetch, {"done", "no rights"})


@pytest.mark.parametrize("offset", [-1, PAGE - 15, PAGE, 2**40])
def test_beyond_the_remote_buffer_nothing_goes(offset):
    async def keeper(endpoint):
        table, behind = endpoint.allocate(PAGE), endpoint.allocate(PAGE)
        await endpoint.export(table, "b")
        await endpoint.sleep(2000)
        return await table.read() + await behind.read()

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(16)
        await mine.write(b"x" * 16)
        stored = await endpoint.wait(await endpoint.store(remote, mine, offset))
        fetched = await endpoint.wait(await endpoint.fetch(remote, mine, offset, length=16))
        return stored.status, fetched.status, await mine.read()

    assert results_of(Cluster("utlb"), keeper, user) == [
        bytes(2 * PAGE),
        ("out of bounds", "out of bounds", b"x" * 16),
    ]


@pytest.mark.requirement("UT-50")
def test_after_unexport_stores_are_rejected_also_when_the_place_is_taken_again():
    async def keeper(endpoint):
        old, new = endpoint.allocate(PAGE), endpoint.allocate(PAGE)
        exported = await endpoint.export(old, "b")
        await endpoint.sleep(500)
        await endpoint.unexport(exported)
        again = await endpoint.export(new, "other")
        assert again.number == exported.number
        await endpoint.sleep(1500)
        return await old.read(2), await new.read(2)

    async def user(endpoint):
        remote = await endpoint.import_buffer(0, "b")
        mine = endpoint.allocate(2)
        await mine.write(b"on")
        statuses = [(await endpoint.wait(await endpoint.store(remote, mine))).status]
        await endpoint.sleep(1000)
        await mine.write(b"no")
        statuses.append((await endpoint.wait(await endpoint.store(remote, mine))).status)
        statuses.append((await endpoint.wait(await endpoint.fetch(remote, mine))).status)
        return statuses

    cluster = Cluster("utlb", size=PortSize(exports=1))
    assert results_of(cluster, keeper, user) == [
        (b"on", bytes(2)),
        ["done", "rejected", "rejected"],
    ]


@pytest.mark.requirement("UT-55", "UT-2")
def test_an_import_is_good_at_the_command_buffer_of_its_process_alone():
    imports = []

    async def keeper(endpoint):
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "b")
        await endpoint.sleep(1500)
        return await table.read(4)

    async def owner(endpoint):
        mine = endpoint.allocate(PAGE)
        await mine.write(b"mine")
        imports.append(await endpoint.import_buffer(0, "b"))
        await endpoint.wait(await endpoint.store(imports[0], mine, length=4))
        return mine.address

    async def thief(endpoint):
        mine = endpoint.allocate(PAGE)
        await mine.write(b"evil")
        await endpoint.sleep(1000)
        with refused(SimulationError, "process 0 of node 1"):
            await endpoint.store(imports[0], mine, length=4)
        # Nor does a descriptor get anywhere that names its place on the NIC.
        await endpoint.post(WRITE, imports[0].number, [(mine.address, 4)])
        return mine.address, (await endpoint.done()).status

    cluster = Cluster("utlb")
    kept, address, (same, status) = results_of(cluster, (0, keeper), (1, owner), (1, thief))

    assert address == same  # one address, two processes, two pages
    assert status == "no such buffer"
    assert kept == b"mine"
    assert cluster.counts(1)["pins"] == 2
