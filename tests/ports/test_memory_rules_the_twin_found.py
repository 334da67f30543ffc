"""Rules of ports on hosts that run short of memory, which the twin found broken."""

import msgspec
import port_world as world
import pytest

from nicscope.config.design import load_design
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import HostSize
from nicscope.host import calls, pages
from nicscope.memory.paging.frames import unpin_frame
from nicscope.nic.ports.layout import SEND, WRITE

MISSING = 8  # what the processor waits for, as records have it
PERIOD_US = 1000


def leave_no_frame(process):
    """Pin pages until the host has no frame that is free; what is not pinned stays in its own."""
    page = process.allocate(60 * world.PAGE).address // world.PAGE
    while int(process._memory.state.hosts[process.node]["free_frames"]) > 0:
        process._memory.pin(process.node, process.number, page)
        page += 1


OTHERS = ("vmmc-static", "vmmc-interrupt", "unet-mm-pca200", "mini")
TABLELESS = (*OTHERS, "utlb-shared", "utlb-process")  # utlb asks for a frame for its table first


@pytest.mark.parametrize("design", TABLELESS)
def test_a_page_for_which_the_host_has_no_frame_is_no_room_and_one_that_is_not_mapped_no_rights(
    design,
):
    """Found by the twin: it was said that the process had no right to its own page."""
    host = HostSize(frames=40, pages_per_space=128, swap_blocks=0)
    cluster = world.cluster_of(design, host=host)

    async def sender(process):
        world.join(process, 3, 1, 4)
        memory = process.allocate(world.PAGE)
        leave_no_frame(process)
        statuses = []
        for address in (memory.address, 127 * world.PAGE):
            await process.post(SEND, 3, [(address, 8)])
            statuses.append((await process.done()).status)
        return statuses

    async def receiver(process):
        await process.sleep(1)

    assert world.run_on_nodes(cluster, sender, receiver)[0] == ["no room", "no rights"]


@pytest.mark.parametrize("design", ["unet-mm-pca200", "vmmc-interrupt", "mini"])
def test_a_buffer_for_which_the_host_has_no_frame_comes_back_with_no_room(design):
    """Found by the twin: it came back with *no rights*."""
    cluster = world.cluster_of(design, host=HostSize(frames=40, pages_per_space=128))

    async def receiver(process):
        world.join(process, 4, 1, 3)
        memory = process.allocate(world.PAGE)
        await memory.write(b"on the disk, soon")
        while process._memory.swap_out(process.node):
            pass
        leave_no_frame(process)
        await process.provide(memory.address)
        return (await process.arrival()).status

    async def sender(process):
        world.join(process, 3, 0, 4)
        memory = process.allocate(world.PAGE)
        await process.sleep(50_000)
        await process.post(SEND, 3, [(memory.address, 8)])
        await process.sleep(50_000)

    assert world.run_on_nodes(cluster, receiver, sender)[0] == "no room"


def test_what_leaves_for_a_page_that_cannot_be_had_is_paid_for():
    """Found by the twin: the processor waited for no page that is unpinned, if another failed."""
    design = msgspec.structs.replace(load_design("vmmc-interrupt"), entries=1, ways=1)
    host = HostSize(frames=40, pages_per_space=128, swap_blocks=0)
    cluster = world.cluster_of(design, host=host, keep_log=1000)

    async def sender(process):
        world.join(process, 3, 1, 4)
        memory = process.allocate(2 * world.PAGE)
        await memory.part(0, 8).write(bytes(8))
        leave_no_frame(process)
        statuses = []
        for page in range(2):
            await process.post(SEND, 3, [(memory.address + page * world.PAGE, 8)])
            statuses.append((await process.done()).status)
        return statuses

    async def receiver(process):
        world.join(process, 4, 0, 3)
        await process.provide(process.allocate(world.PAGE).address)
        await process.sleep(2000)

    assert world.run_on_nodes(cluster, sender, receiver)[0] == ["done", "no room"]
    log = cluster.simulation.machine.log
    waits = log[(log["node"] == 0) & (log["engine"] == Engine.FIRMWARE) & (log["task"] == MISSING)]
    assert (waits["end"] - waits["start"]).tolist()[-1] == cluster._service.steps["unpin"]


def test_what_the_scan_has_passed_over_is_unpinned_when_nothing_uses_it_any_more():
    """Found by the twin: it stayed pinned beyond the high water until the NIC missed again."""
    small = {"entries": 1, "line": 1, "ways": 1, "high_water": 0}
    design = msgspec.structs.replace(load_design("mini"), **small)
    host = HostSize(scan_period_ps=PERIOD_US * 10**6)
    cluster = world.cluster_of(design, nodes=3, host=host)
    pinned = []

    async def sender(process):
        world.join(process, 3, 1, 4)
        world.import_from(process, 0, 2, 0, 0, world.PAGE)
        memory = process.allocate(2 * world.PAGE)
        await memory.write(bytes(len(memory)))
        await process.sleep(100)
        await process.post(SEND, 3, [(memory.address, 8)])  # nobody has a buffer for it
        await process.sleep(2 * PERIOD_US)
        await process.post(WRITE, 0, [(memory.address + world.PAGE, 8)])  # its line leaves
        for _ in range(2):
            assert (await process.done()).status == "done"
            pinned.append(cluster.report().nodes[0].pinned_now)
        await process.sleep(2 * PERIOD_US)
        pinned.append(cluster.report().nodes[0].pinned_now)

    async def reader(process):
        world.join(process, 4, 0, 3)
        await process.sleep(8 * PERIOD_US)
        await process.provide(process.allocate(world.PAGE).address)
        await process.arrival()

    async def owner(process):
        memory = process.allocate(world.PAGE)
        await memory.write(bytes(world.PAGE))
        world.export(process, 0, memory.address, world.PAGE)
        await process.sleep(20 * PERIOD_US)

    world.run_on_nodes(cluster, sender, reader, owner)
    assert pinned == [2, 2, 1]  # the last is on the NIC


@pytest.mark.parametrize("design", ["unet-mm-pca200", "vmmc-interrupt", "mini"])
def test_a_remote_store_to_a_page_on_disk_keeps_the_bytes_around_it(design):
    """Found by the twin: where receive buffers are fresh, an exported page became zeros too."""
    cluster = world.cluster_of(design, fresh=True)

    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        source = process.allocate(world.PAGE)
        await source.write(b"new!")
        await process.sleep(50_000)
        await process.post(WRITE, 0, [(source.address, 4)])
        return (await process.done()).status

    async def owner(process):
        memory = process.allocate(world.PAGE)
        await memory.write(b"old content")
        world.export(process, 0, memory.address, world.PAGE)
        while process._memory.swap_out(process.node):
            pass
        await process.sleep(2_000_000)
        return await memory.read(11)

    assert world.run_on_nodes(cluster, sender, owner) == ["done", b"new!content"]


@pytest.mark.interpreted
def test_a_firmware_that_unpins_at_once_is_found_out(monkeypatch):
    honest = calls.pin_key

    def pin_and_let_go(machine, n, key, receive):
        pinned = honest(machine, n, key, receive)
        frame = machine.ports.frames[n, key]
        space, _ = pages.page_of_key(
            pages.translation_of(machine.ports.translations, n)[1],
            pages.translation_of(machine.ports.translations, n)[2],
            key,
        )
        unpin_frame(machine.ports.memory, n, space, frame)
        return pinned

    monkeypatch.setattr(calls, "pin_key", pin_and_let_go)
    cluster = world.cluster_of("vmmc-static")

    async def sender(process):
        world.join(process, 3, 1, 3)
        source = process.allocate(world.PAGE)
        await source.write(world.content(1, world.PAGE))
        await process.post(SEND, 3, [(source.address, world.PAGE)])
        await process.sleep(500)

    async def receiver(process):
        await process.sleep(500)

    world.run_on_nodes(cluster, sender, receiver)
    assert world.stale(cluster) > 0
