"""Whatever is full, in use, gone or dead: each descriptor ends, and each buffer comes back."""

from __future__ import annotations

import msgspec
import port_world as world
import pytest

from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, Transport
from nicscope.drivers.simulate.records import POST, REGISTER
from nicscope.errors import SimulationError
from nicscope.host.pages import swap_table
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import FETCH, SEND, WRITE

PATIENCE = Transport(most_retries=3)
TINY = {
    "vmmc-interrupt": {"entries": 2, "ways": 1},
    "unet-mm-pca200": {"entries": 2, "victim_entries": 0},
    "mini": {"entries": 4, "line": 2, "ways": 1},
    "utlb": {"entries": 2, "ways": 1},
    "utlb-shared": {"entries": 2, "ways": 1},
}


def tiny(design: str):
    """A design whose cache has room for next to nothing."""
    return msgspec.structs.replace(load_design(design), **TINY[design])


async def exported(process, pages: int, number: int = 0):
    """Memory that others may store to, registered where that is the library's task."""
    memory = process.allocate(pages * world.PAGE)
    await memory.write(bytes(len(memory)))
    await process._sim_process.ask(
        REGISTER, peer=process.port, address=memory.address, payload=len(memory)
    )
    world.export(process, number, memory.address, len(memory))
    return memory


@pytest.mark.parametrize("design", TINY)
def test_buffers_that_nothing_fills_leave_the_cache_to_transfers(design):
    async def waits(process):
        window = await exported(process, 4)
        world.import_from(process, 0, 1, 0, 0, 4 * world.PAGE)
        free = process.allocate(2 * world.PAGE)
        for place in range(2):  # every set is full of them
            await process.provide(free.address + place * world.PAGE)
        await process.sleep(5000)
        source = process.allocate(2 * world.PAGE)
        await source.write(b"a" * len(source))
        await process.post(WRITE, 0, [(source.address, len(source))])
        statuses = [(await process.done()).status]
        await process.sleep(200_000)
        return statuses, await window.read(2 * world.PAGE)

    async def stores(process):
        window = await exported(process, 4)
        world.import_from(process, 0, 0, 0, 0, 4 * world.PAGE)
        source = process.allocate(2 * world.PAGE)
        await source.write(b"b" * len(source))
        await process.sleep(100_000)
        await process.post(WRITE, 0, [(source.address, len(source))])
        statuses = [(await process.done()).status]
        return statuses, await window.read(2 * world.PAGE)

    cluster = world.cluster_of(tiny(design))
    assert world.run_on_nodes(cluster, waits, stores) == [
        (["done"], b"b" * 2 * world.PAGE),
        (["done"], b"a" * 2 * world.PAGE),
    ]
    assert world.stale(cluster) == 0


@pytest.mark.requirement("UM-45")
@pytest.mark.parametrize("design", ["vmmc-interrupt", "unet-mm-pca200", "utlb"])
def test_two_nodes_that_wait_for_each_others_entries_do_not_wait_for_ever(design):
    async def program(process):
        await exported(process, 4)
        peer = 1 - process.node
        world.join(process, 3, peer, 3)
        world.import_from(process, 0, peer, 0, 0, 4 * world.PAGE)
        free = process.allocate(4 * world.PAGE)
        for place in range(4):
            await process.provide(free.address + place * world.PAGE)
        source = process.allocate(4 * world.PAGE)
        await source.write(bytes(len(source)))
        await process.sleep(5000)
        record = process._ports.table[process.node, process.port]
        ended = []
        for _ in range(2):
            for operation, name in ((SEND, 3), (WRITE, 0), (FETCH, 0)):
                await process.post(operation, name, [(source.address + 50, 3 * world.PAGE)])
        while len(ended) < 6:
            while record["reported"] > record["reaped"]:
                ended.append((await process.done()).status)
            while record["received"] > record["read"]:
                for buffer in (await process.arrival()).buffers:
                    await process.provide(buffer)
            await process.sleep(500)
            assert process.now_us < 20_000_000, "this goes on for ever"
        return ended

    cluster = world.cluster_of(tiny(design), transport=PATIENCE)
    for ended in world.run_on_nodes(cluster, program, program):
        assert set(ended) <= {"done", "rejected", "no room"}
    assert world.stale(cluster) == 0


@pytest.mark.requirement("UM-45")
@pytest.mark.parametrize("design", ["vmmc-interrupt", "unet-mm-pca200"])
def test_two_nodes_that_store_to_each_other_through_one_entry_both_get_through(design):
    one = msgspec.structs.replace(tiny(design), entries=1)

    async def program(process):
        window = await exported(process, 4)
        world.import_from(process, 0, 1 - process.node, 0, 0, 4 * world.PAGE)
        source = process.allocate(4 * world.PAGE)
        await source.write(world.content(process.node, len(source)))
        await process.sleep(5000)
        for _ in range(2):  # the page is waiting for its acknowledgement when the other's comes
            await process.post(WRITE, 0, [(source.address, 4 * world.PAGE)])
        statuses = [(await process.done()).status for _ in range(2)]
        await process.sleep(300_000)
        await process.close_port()
        return statuses, await window.read()

    wrong = Faults(seed=2, loss=0.05, duplication=0.05, reordering=0.05, corruption=0.05)
    patience = Transport(time_out_ps=5_000_000_000)
    for faults in (Faults(), wrong):
        cluster = world.cluster_of(one, transport=patience, faults=faults)
        assert world.run_on_nodes(cluster, program, program) == [
            (["done"] * 2, world.content(1 - node, 4 * world.PAGE)) for node in range(2)
        ]
        assert world.stale(cluster) == 0
        assert world.uses_left(cluster) == [0, 0]
        assert cluster.simulation.machine.ports.memory.hosts["pinned"].tolist() == [0, 0]


def test_a_buffer_whose_page_comes_does_not_wake_a_port_that_waits_for_another_page():
    async def program(process):
        world.join(process, 3, 1, 3)
        memory = process.allocate(2 * world.PAGE)
        await memory.write(world.content(1, len(memory)))
        while process._memory.swap_out(process.node):
            pass
        await process.provide(memory.address)
        await process.post(SEND, 3, [(memory.address + world.PAGE, 100)])
        ended = await process.done()
        await process.sleep(200_000)
        return ended.status

    async def peer(process):
        world.join(process, 3, 0, 3)
        await process.provide(process.allocate(world.PAGE).address)
        await process.arrival()

    cluster = world.cluster_of("unet-mm-pca200")
    assert world.run_on_nodes(cluster, program, peer)[0] == "done"
    serving = cluster.simulation.machine.ports.nodes[0]
    assert (serving["page_ins"], serving["thread_misses"]) == (2, 2)  # each page once
    assert world.uses_left(cluster)[0] == 0


def test_a_controller_that_knows_no_ports_refuses_remote_memory():
    async def program(process):
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        source = process.allocate(world.PAGE)
        await source.write(bytes(world.PAGE))
        statuses = []
        for operation in (WRITE, FETCH):
            with pytest.raises(SimulationError, match="takes messages only"):
                await process.post(operation, 0, [(source.address, 100)])
            # Past the library, as whoever writes into the queue itself:
            await process._sim_process.ask(
                POST, peer=process.port, payload=100, address=source.address, own=operation
            )
            statuses.append((await process.done()).status)
        return statuses

    async def owner(process):
        await exported(process, 1)

    reliable = Transport(time_out_ps=10_000_000_000)
    cluster = world.cluster_of("unet-mm-dc21140", transport=reliable)
    assert world.run_on_nodes(cluster, program, owner)[0] == ["bad descriptor"] * 2


def test_a_peer_that_dies_while_a_page_for_it_is_pinned_is_reported_dead():
    dies = Faults(node_deaths={1: 1_000_000_000})
    patience = Transport(time_out_ps=1_000_000_000, most_retries=1)
    cluster = world.cluster_of("vmmc-interrupt", faults=dies, transport=patience)
    cluster._service.steps["pin_send"] = 5_000_000_000  # far longer than the peer is waited for

    async def program(process):
        world.join(process, 3, 1, 3)
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        source = process.allocate(world.PAGE)
        await source.write(bytes(world.PAGE))
        await process.sleep(1500)
        await process.post_inline(SEND, 3, b"anybody there?")
        await process.post(WRITE, 0, [(source.address, world.PAGE)])
        return [(await process.done()).status for _ in range(2)]

    async def doomed(process):
        await process.sleep(100_000)

    assert world.run_on_nodes(cluster, program, doomed)[0] == ["peer dead"] * 2
    assert world.uses_left(cluster)[0] == 0


@pytest.mark.parametrize("design", ["vmmc-interrupt", "unet-mm-pca200", "mini"])
def test_a_store_to_a_page_for_which_there_is_no_frame_is_rejected(design):
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        source = process.allocate(world.PAGE)
        await source.write(bytes(world.PAGE))
        await process.sleep(50_000)
        await process.post(WRITE, 0, [(source.address, 100)])
        while process._ports.table[0, process.port]["reported"] == 0:
            await process.sleep(1000)
            assert process.now_us < 5_000_000, "this goes on for ever"
        return (await process.done()).status

    async def owner(process):
        memory = process.allocate(world.PAGE)
        await memory.write(b"s" * world.PAGE)
        world.export(process, 0, memory.address, world.PAGE)
        while process._memory.swap_out(process.node):
            pass
        page = process.allocate(60 * world.PAGE).address // world.PAGE
        while int(process._memory.state.hosts[process.node]["free_frames"]) > 0:
            process._memory.pin(process.node, process.number, page)
            page += 1
        with pytest.raises(SimulationError, match="no frame"):
            process._memory.pin(process.node, process.number, page)

    cluster = world.cluster_of(design, host=HostSize(frames=40, pages_per_space=128))
    assert world.run_on_nodes(cluster, sender, owner)[0] == "rejected"
    assert world.stale(cluster) == 0


def test_a_page_that_was_sent_and_has_left_the_primary_cache_can_still_be_written_to():
    design = msgspec.structs.replace(load_design("unet-mm-pca200"), entries=1, victim_entries=4)

    async def program(process):
        world.join(process, 3, 1, 3)
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        memory = process.allocate(2 * world.PAGE)
        await memory.write(world.content(1, len(memory)))
        await process.sleep(5000)
        statuses = []
        for page in range(2):  # pinned to be read; the second makes the first a victim
            await process.post(WRITE, 0, [(memory.address + page * world.PAGE, 100)])
            statuses.append((await process.done()).status)
        await process.post(FETCH, 0, [(memory.address, 100)])
        return [*statuses, (await process.done()).status]

    async def owner(process):
        await exported(process, 1)

    cluster = world.cluster_of(design)
    assert world.run_on_nodes(cluster, program, owner)[0] == ["done"] * 3


def test_a_table_for_which_there_is_no_frame_costs_what_needs_it_and_ends_nothing_else():
    async def sender(process):
        world.join(process, 3, 1, 3)
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        source = process.allocate(world.PAGE)
        await source.write(bytes(world.PAGE))
        await process.sleep(50_000)
        statuses = []
        for operation, name in ((SEND, 3), (WRITE, 0)):
            await process.post(operation, name, [(source.address, 100)])
            while process._ports.table[0, process.port]["reported"] == len(statuses):
                await process.sleep(1000)
                assert process.now_us < 5_000_000, "this goes on for ever"
            statuses.append((await process.done()).status)
        return statuses

    async def owner(process):
        world.join(process, 3, 0, 3)
        await exported(process, 1)
        free = process.allocate(2 * world.PAGE)
        for place in range(2):  # of which one is translated ahead
            await process.provide(free.address + place * world.PAGE)
        await process.post_inline(SEND, 5, b"no such tag")
        ended = [(await process.done()).status]
        await process.sleep(2000)
        machine = process.cluster.simulation.machine
        page = process.allocate(60 * world.PAGE).address // world.PAGE
        assert bound(swap_table, machine)(process.node, process.number, 0)
        while process._memory.swap_out(process.node):
            pass
        while int(process._memory.state.hosts[process.node]["free_frames"]) > 0:
            process._memory.pin(process.node, process.number, page)
            page += 1
        back = [await process.arrival(), await process.arrival()]
        record = process._ports.table[process.node, process.port]
        assert record["reported"] == record["reaped"]
        return ended, [(arrival.operation == SEND, arrival.status) for arrival in back]

    how = {"host": HostSize(frames=40, pages_per_space=128), "size": PortSize(ready=1)}
    cluster = world.cluster_of("utlb", **how)
    statuses, (ended, back) = world.run_on_nodes(cluster, sender, owner)
    assert statuses == ["done", "rejected"]
    assert ended == ["tag not registered"]
    assert sorted(back) == [(False, "no room"), (True, "done")]


@pytest.mark.parametrize("design", ["mini", "utlb"])
def test_a_port_whose_own_page_keeps_its_next_buffer_off_the_cache_goes_on_sending(design):
    # One entry, or one line: what the port sends from, or its buffer.
    small = {"mini": {"entries": 8, "line": 8, "ways": 1}}
    chosen = msgspec.structs.replace(tiny(design), **small.get(design, {"entries": 1}))

    async def program(process):
        world.join(process, 3, 1, 3)
        memory = process.allocate(16 * world.PAGE)
        await memory.write(world.content(1, len(memory)))
        for number in range(6):
            await process.post(SEND, 3, [(memory.address, 2 * world.PAGE)])
            await process.sleep(200)  # by then it waits for the window, with its page in use
            await process.provide(memory.address + (8 + number) * world.PAGE)
        record = process._ports.table[process.node, process.port]
        while record["reported"] < 6:
            await process.sleep(1000)
            assert process.now_us < 2_000_000, "this goes on for ever"
        return [(await process.done()).status for _ in range(6)]

    async def peer(process):
        world.join(process, 3, 0, 3)
        memory = process.allocate(12 * world.PAGE)
        await process.sleep(30_000)  # until then nothing is taken
        for place in range(12):
            await process.provide(memory.address + place * world.PAGE)
        await process.sleep(500_000)

    # The peer's cache is as small, so some may be rejected; that all end is what counts.
    cluster = world.cluster_of(chosen, transport=Transport(window=1, most_retries=60))
    ended = world.run_on_nodes(cluster, program, peer)[0]
    assert set(ended) <= {"done", "rejected"}
    assert world.stale(cluster) == 0
