"""Whatever is full, in use, gone or dead: each descriptor ends, and each buffer comes back."""

from __future__ import annotations

import msgspec
import port_world as world
import pytest

from nicscope.config.design import load_design
from nicscope.drivers.simulate.machine import POST, REGISTER
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, Transport
from nicscope.errors import SimulationError
from nicscope.host.second_level import swap_table
from nicscope.kernel.entering import bound
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
    await process._driven.ask(
        REGISTER, peer=process.port, address=memory.address, payload=len(memory)
    )
    world.export(process, number, memory.address, len(memory))
    return memory


@pytest.mark.requirement("UM-45")
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
    cluster.start(0, waits)
    cluster.start(1, stores)
    assert cluster.run() == [
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
    for node in range(2):
        cluster.start(node, program)
    for ended in cluster.run():
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
        for node in range(2):
            cluster.start(node, program)
        assert cluster.run() == [
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
    cluster.start(0, program)
    cluster.start(1, peer)
    assert cluster.run()[0] == "done"
    serving = cluster.simulation.machine.ports.nodes[0]
    assert (serving["page_ins"], serving["thread_misses"]) == (2, 2)  # each page once
    assert world.uses_left(cluster)[0] == 0


@pytest.mark.requirement("UM-20")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_buffers_come_back_though_their_reports_find_the_queue_full(design):
    async def program(process):
        wrong = [-1 - place for place in range(11)]  # nobody's memory
        for address in wrong:
            await process.provide(address)
            await process.sleep(200)
        back = []
        for _ in wrong:
            arrival = await process.arrival()
            back += arrival.buffers
            assert arrival.status == "no rights"
        assert back == wrong

    cluster = world.cluster_of(design, size=PortSize(ring=8))
    cluster.start(0, program)
    cluster.run()
    assert world.uses_left(cluster)[0] == 0


@pytest.mark.requirement("UM-20")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_buffers_that_no_message_fits_in_come_back_though_the_queue_is_full(design):
    async def sender(process):
        world.join(process, 3, 1, 3)
        source = process.allocate(world.PAGE)
        await source.write(world.content(2, world.PAGE))
        statuses = []
        for _ in range(4):
            await process.post_inline(SEND, 3, b"small")
            statuses.append((await process.done()).status)
        await process.post(SEND, 3, [(source.address, 100)])
        return [*statuses, (await process.done()).status]

    async def receiver(process):
        world.join(process, 3, 0, 3)
        memory = process.allocate(8 * world.PAGE)
        good = memory.address + 4 * world.PAGE
        given = [memory.address + place * world.PAGE + 1 for place in range(3)]
        for address in (*given, good):
            await process.provide(address)
        await process.sleep(10_000)
        back, messages = [], 0
        while len(back) < 3 or messages < 5:
            arrival = await process.arrival()
            if arrival.operation == SEND:
                messages += 1
                assert arrival.buffers in ((), (good,))
            else:
                back += arrival.buffers
        return back == given

    cluster = world.cluster_of(design, size=PortSize(ring=4), transport=Transport(most_retries=40))
    cluster.start(0, sender)
    cluster.start(1, receiver)
    assert cluster.run() == [["done"] * 5, True]
    assert world.uses_left(cluster) == [0, 0]


@pytest.mark.requirement("SH-6")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_store_of_which_a_part_is_rejected_notifies_nobody(design):
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 3 * world.PAGE)
        source = process.allocate(3 * world.PAGE)
        await source.write(bytes(len(source)))
        await process.sleep(5000)
        statuses = []
        for length in (3 * world.PAGE, 100):
            await process.post(WRITE, 0, [(source.address, length)], notify=True)
            statuses.append((await process.done()).status)
        await process.post(
            WRITE, 0, [(source.address, world.PAGE)], offset=2 * world.PAGE, notify=True
        )
        statuses.append((await process.done()).status)
        return statuses

    async def owner(process):
        memory = process.allocate(3 * world.PAGE)
        await memory.write(bytes(len(memory)))
        process._memory.unmap(process.node, process.number, memory.address // world.PAGE, 1)
        for page in range(1, 3):
            await process._driven.ask(
                REGISTER,
                peer=process.port,
                address=memory.address + page * world.PAGE,
                payload=world.PAGE,
            )
        world.export(process, 0, memory.address, len(memory))
        arrival = await process.arrival()
        return (
            arrival.offset,
            arrival.length,
            int(process._ports.exports[process.node, 0]["stores"]),
        )

    cluster = world.cluster_of(design)
    cluster.start(0, sender)
    cluster.start(1, owner)
    # The page that is not there is the first, and the last is: its packet alone came through.
    assert cluster.run() == [["rejected", "rejected", "done"], (2 * world.PAGE, world.PAGE, 1)]


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
            await process._driven.ask(
                POST, peer=process.port, payload=100, address=source.address, own=operation
            )
            statuses.append((await process.done()).status)
        return statuses

    async def owner(process):
        await exported(process, 1)

    reliable = Transport(time_out_ps=10_000_000_000)
    cluster = world.cluster_of("unet-mm-dc21140", transport=reliable)
    cluster.start(0, program)
    cluster.start(1, owner)
    assert cluster.run()[0] == ["bad descriptor"] * 2


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

    cluster.start(0, program)
    cluster.start(1, doomed)
    assert cluster.run()[0] == ["peer dead"] * 2
    assert world.uses_left(cluster)[0] == 0


@pytest.mark.parametrize("design", ["vmmc-interrupt", "unet-mm-pca200", "mini"])
def test_what_is_left_of_a_message_cut_short_spoils_no_later_descriptor(design):
    async def sender(process):
        world.join(process, 3, 1, 3)
        world.join(process, 4, 1, 4)
        source = process.allocate(2 * world.PAGE)
        await source.write(bytes(len(source)))
        process._memory.unmap(process.node, process.number, source.address // world.PAGE + 1, 1)
        await process.post(SEND, 3, [(source.address, len(source))])
        statuses = [(await process.done()).status]
        for _ in range(4):  # the last takes the place of the first
            await process.post_inline(SEND, 4, b"whole")
        return statuses + [(await process.done()).status for _ in range(4)]

    async def receiver(process):
        world.join(process, 3, 0, 3)  # for which it provides no buffer
        world.join(process, 4, 0, 4)
        return [(await process.arrival()).content for _ in range(4)]

    patience = Transport(most_retries=3, time_out_ps=5_000_000_000)
    cluster = world.cluster_of(design, size=PortSize(ring=4), transport=patience)
    cluster.start(0, sender)
    cluster.start(1, receiver)
    assert cluster.run() == [["no rights", "done", "done", "done", "done"], [b"whole"] * 4]


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("design", ["vmmc-interrupt", "unet-mm-pca200", "mini"])
def test_a_message_cut_short_gives_its_buffers_back(design, reliable):
    async def sender(process):
        world.join(process, 3, 1, 3)
        source = process.allocate(3 * world.PAGE)
        await source.write(bytes(len(source)))
        process._memory.unmap(process.node, process.number, source.address // world.PAGE + 2, 1)
        await process.sleep(5000)
        await process.post(SEND, 3, [(source.address, len(source))])
        return (await process.done()).status

    async def receiver(process):
        world.join(process, 3, 0, 3)
        world.join(process, 4, 2, 3)
        memory = process.allocate(2 * world.PAGE)
        for place in range(2):
            await process.provide(memory.address + place * world.PAGE)
        arrival = await process.arrival()
        return arrival.node, arrival.length, len(arrival.buffers)

    async def other(process):
        world.join(process, 3, 1, 4)
        source = process.allocate(2 * world.PAGE)
        await source.write(bytes(len(source)))
        await process.sleep(60_000)
        await process.post(SEND, 3, [(source.address, len(source))])
        return (await process.done()).status

    cluster = world.cluster_of(
        design, nodes=3, transport=msgspec.structs.replace(PATIENCE, reliable=reliable)
    )
    for node, program in enumerate((sender, receiver, other)):
        cluster.start(node, program)
    assert cluster.run() == ["no rights", (2, 2 * world.PAGE, 2), "done"]
    assert world.uses_left(cluster) == [0, 0, 0]


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
    cluster.start(0, sender)
    cluster.start(1, owner)
    assert cluster.run()[0] == "rejected"
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
    cluster.start(0, program)
    cluster.start(1, owner)
    assert cluster.run()[0] == ["done"] * 3


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
    cluster.start(0, sender)
    cluster.start(1, owner)
    statuses, (ended, back) = cluster.run()
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
    cluster.start(0, program)
    cluster.start(1, peer)
    ended = cluster.run()[0]
    assert set(ended) <= {"done", "rejected"}
    assert world.stale(cluster) == 0
