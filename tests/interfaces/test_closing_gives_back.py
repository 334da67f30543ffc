"""What is opened and closed again and again leaves every table as it was, at both ends."""

import pytest
from steady_tables import PAGE, TIMES, is_steady, tables

from nicscope.drivers.simulate.ports.build import HostSize, PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces import mini, trapeze, unet, vmmc
from program_results import results_of
from refusals import refused

# --- U-Net ---------------------------------------------------------------------------------------


async def stays(process):
    """An endpoint that others come to and go from; it answers what it hears."""
    endpoint = await process.open("stays")
    pages = {}
    for _ in range(4):
        page = endpoint.allocate(PAGE)
        pages[page.address] = page
        await endpoint.provide(page)
    for _ in range(2 * TIMES):  # all that ever come
        message = await endpoint.receive()
        content = await message.read()
        for buffer in message.buffers:
            await endpoint.provide(pages[buffer.address])
        if content[:1] == b"?":
            await endpoint.send(message.tag, b"!")
            await endpoint.sent()
    await process.sleep(10_000)
    await endpoint.close()


@pytest.mark.requirement("UM-9", "UM-47")
@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet", "unet-mm-dc21140"])
def test_an_endpoint_gives_back_its_tags_at_both_ends(design):
    seen = []

    async def comes_and_goes(process):
        room = process.allocate(PAGE)
        await room.write(b"?" * PAGE)
        for number in range(TIMES):
            endpoint = await process.open(f"number {number}")
            tag = await endpoint.connect(1, "stays")
            out = room if endpoint.area is None else endpoint.allocate(PAGE)
            await out.write(b"?" * 1000)
            await endpoint.send(tag, b"small")
            await endpoint.send(tag, out.part(0, 1000))
            assert (await endpoint.sent()).ok
            assert (await endpoint.sent()).ok
            assert (await endpoint.receive()).content == b"!"
            await process.sleep(50)  # until the peer has heard that its answer has come
            await endpoint.close()
            assert [cluster.registry.tags_in_use(node) for node in (0, 1)] == [0, 0]
            seen.append(tables(cluster, process))

    platform = "pca200-linux" if design == "unet" else None
    cluster = unet.Cluster(design, platform, area_bytes=8 * PAGE if design == "unet" else None)
    results_of(cluster, comes_and_goes, stays)
    assert is_steady(seen)
    left = tables(cluster)
    assert {left[name] == [0, 0] for name in ("tags", "pending", "held", "in use", "cuts")} == {
        True
    }
    assert cluster.registry._names == {}
    assert cluster.registry._taken == set()


def test_an_unread_message_keeps_its_tag_until_it_is_read():
    """Or an answer to it would go to whoever has the tag next."""

    async def comes_and_goes(process):
        found = []
        for _ in range(3):
            endpoint = await process.open()
            tag = await endpoint.connect(1, "slow")
            await endpoint.send(tag, b"hello")
            await endpoint.sent()
            await process.sleep(100)
            await endpoint.close()
            found.append(cluster.registry.tags_in_use(1))
        await process.sleep(2000)
        return found, cluster.registry.tags_in_use(1), cluster.registry.tags_in_use(0)

    async def slow(process):
        endpoint = await process.open("slow")
        await process.sleep(1500)
        return len({(await endpoint.receive()).tag for _ in range(3)})

    cluster = unet.Cluster()
    (found, here, there), different = results_of(cluster, comes_and_goes, slow)
    assert (found, here, there, different) == ([1, 2, 3], 0, 0, 3)


def test_a_tag_comes_again_as_late_as_possible():
    async def comes_and_goes(process):
        tags = []
        for _ in range(70):
            endpoint = await process.open()
            tags.append(await endpoint.connect(1, "stays"))
            await endpoint.close()
        return tags

    async def opens(process):
        await process.open("stays")

    cluster = unet.Cluster()
    assert results_of(cluster, comes_and_goes, opens)[0] == [
        32 + number % 64 for number in range(70)
    ]


def test_an_endpoint_that_cannot_be_opened_or_connected_takes_nothing():
    async def tries(process):
        await process.sleep(100)
        before = tables(cluster)
        failures = 0
        for _ in range(5):
            for name in ("taken", "free"):
                with pytest.raises(SimulationError):
                    await process.open(name)
                failures += 1
        return failures, tables(cluster) == before, cluster.registry._names

    async def holds(process):
        await process.open("taken")

    cluster = unet.Cluster(
        "unet", "pca200-linux", area_bytes=64 * PAGE, host=HostSize(frames=100, pages_per_space=80)
    )
    _, (failures, unchanged, names) = results_of(cluster, (0, holds), (0, tries))
    assert (failures, unchanged, names) == (10, True, {(0, "taken"): 1})


# --- VMMC ----------------------------------------------------------------------------------------


@pytest.mark.requirement("UT-50")
@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("design", ["utlb", "utlb-process", "vmmc-static", "vmmc-interrupt"])
def test_exports_and_imports_are_given_back(design, closes):
    """One by one, or all with their port."""
    seen = []

    async def comes_and_goes(endpoint):
        table, other, mine = (endpoint.allocate(2 * PAGE) for _ in range(3))
        for number in range(TIMES):
            exported = await endpoint.export(table, f"number {number}")
            await endpoint.redirect(exported, other)
            imported = await endpoint.import_buffer(1, "stays")
            assert (await endpoint.wait(await endpoint.store(imported, mine))).ok
            if closes:
                await endpoint.close_port()
                endpoint.open_port(endpoint.port)
            else:
                await endpoint.unexport(exported)
                endpoint.release(imported)
                await endpoint.unpin(mine)
            assert cluster.directory.in_use(0) == (0, 0)
            seen.append(tables(cluster, endpoint))

    async def stays_exported(endpoint):
        await endpoint.export(endpoint.allocate(2 * PAGE), "stays")

    cluster = vmmc.Cluster(design)
    results_of(cluster, comes_and_goes, stays_exported)
    assert is_steady(seen)
    assert {name for _, name in cluster.directory._names} == {"stays"}


def test_what_closed_with_its_port_is_not_what_is_exported_there_next():
    """An import of a name that went with its port gives no rights to what has its place now."""

    async def leaves(endpoint):
        await endpoint.export(endpoint.allocate(PAGE), "old")
        await endpoint.sleep(300)
        await endpoint.close_port()

    async def neighbour(endpoint):
        await endpoint.sleep(1000)
        table = endpoint.allocate(PAGE)
        await endpoint.export(table, "new")
        await endpoint.sleep(3000)
        return await table.read(4)

    async def storing(endpoint):
        old = await endpoint.import_buffer(0, "old")
        mine = endpoint.allocate(PAGE)
        await mine.write(b"evil")
        await endpoint.sleep(600)
        with refused(SimulationError, "'old'"):
            await endpoint.import_buffer(0, "old", patience_us=100)
        await endpoint.sleep(1000)
        return (await endpoint.wait(await endpoint.store(old, mine, length=4))).status

    cluster = vmmc.Cluster("utlb", size=PortSize(exports=1, longest=64))
    _, kept, status = results_of(cluster, (0, leaves), (0, neighbour), (1, storing))
    assert (kept, status) == (bytes(4), "rejected")


def test_a_descriptor_that_names_a_released_import_never_goes_to_the_next():
    async def keeper(endpoint):
        first, second = endpoint.allocate(16 * PAGE), endpoint.allocate(PAGE)
        await endpoint.export(first, "first")
        await endpoint.export(second, "second")
        await endpoint.sleep(4000)
        return await second.read(4)

    async def hasty(endpoint):
        mine = endpoint.allocate(16 * PAGE)
        await mine.write(b"lost")
        one = await endpoint.import_buffer(0, "first")
        before = [await endpoint.store(one, mine) for _ in range(2)]
        transfer = await endpoint.store(one, mine, length=4)
        endpoint.release(one)
        with refused(SimulationError, "1 imports"):
            await endpoint.import_buffer(0, "second")  # the only place is still named
        *_, last = [await endpoint.wait(each) for each in (*before, transfer)]
        await endpoint.import_buffer(0, "second")
        return last.status

    cluster = vmmc.Cluster("utlb", size=PortSize(imports=1, longest=64))
    kept, status = results_of(cluster, keeper, hasty)
    assert (kept, status) == (bytes(4), "no such buffer")


# --- miNI ----------------------------------------------------------------------------------------


@pytest.mark.requirement("MI-33", "MI-34")
@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("design", ["mini", "vmmc-static"])
def test_registered_and_opened_buffers_are_given_back(design, closes):
    seen, handles = [], []

    async def comes_and_goes(end):
        room, mine = end.allocate(PAGE), end.allocate(PAGE)
        for number in range(TIMES):
            region = await end.register(room, name=f"number {number}")
            handles.append(region.handle)
            remote = await end.open(await end.find("stays"))
            await end.write(remote, mine, 64, notify=False)
            assert (await end.done()).ok
            if closes:
                await end.close_port()
                end.open_port(end.port)
            else:
                await end.unregister(region)
                await end.close(remote)
            assert cluster.directory.in_use(0) == (0, 0)
            seen.append(tables(cluster, end))

    async def stays_registered(end):
        await end.register(end.allocate(PAGE), name="stays")

    # A small table, so that its places come again.
    cluster = mini.Cluster(design, size=PortSize(exports=8, imports=8, longest=64))
    results_of(cluster, comes_and_goes, stays_registered)
    assert is_steady(seen)
    assert set(cluster.directory._names) == {"stays"}
    assert len(set(handles)) == TIMES  # the place comes again, its name does not


def test_a_handle_of_a_buffer_that_is_gone_does_not_name_the_next_one():
    async def owner(end):
        old = await end.register(end.allocate(PAGE), name="old")
        await end.sleep(500)
        await end.unregister(old)
        new = await end.register(end.allocate(PAGE), name="new")
        return old.handle, new.handle

    async def guest(end):
        old = await end.find("old")
        new = await end.find("new")
        with refused(SimulationError, "buffer 0"):
            await end.open(old)
        return (await end.open(new)).handle

    cluster = mini.Cluster(size=PortSize(exports=1, imports=1, longest=64))
    (old, new), opened = results_of(cluster, owner, guest)
    assert (old.buffer, new.buffer, opened) == (0, 1, new)


# --- Trapeze -------------------------------------------------------------------------------------


def test_entries_and_buffers_of_trapeze_are_given_back():
    seen = []

    def state(endpoint):
        store, machine = cluster.simulation.machine.store, cluster.simulation.machine
        return (
            store.payload_table.tolist(),
            machine.endpoints["attached"].tolist(),
            len(endpoint._owner._records),
            len(cluster.memories.mapped),
            len(endpoint._payloads._outstanding) <= cluster.delivery.send_ring,
        )

    async def comes_and_goes(endpoint):
        page, room = endpoint.allocate(PAGE), endpoint.allocate(cluster.delivery.max_payload)
        for number in range(TIMES):
            endpoint.map_payload(number % 8, room)
            await endpoint.send(1, page, tag=number % 3 - 1)
            endpoint.release(await endpoint.receive())
            endpoint.unmap_payload(number % 8)
            seen.append(state(endpoint))

    async def answers(endpoint):
        page = endpoint.allocate(PAGE)
        for number in range(TIMES):
            endpoint.release(await endpoint.receive())
            await endpoint.send(0, page if number % 2 else None)

    cluster = trapeze.Cluster("p6-natoma")
    results_of(cluster, comes_and_goes, answers)
    assert is_steady(seen)
