"""Whatever becomes of a message and its reports: each buffer that it was given comes back."""

import port_world as world
import pytest

from nicscope.drivers.simulate.ports.build import PortSize, Transport
from nicscope.drivers.simulate.records import REGISTER
from nicscope.nic.ports.layout import SEND, WRITE


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
    world.run_on_nodes(cluster, program)
    assert world.uses_left(cluster)[0] == 0


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
    assert world.run_on_nodes(cluster, sender, receiver) == [["done"] * 5, True]
    assert world.uses_left(cluster) == [0, 0]


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
            await process._sim_process.ask(
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
            int(process._ports.shared.exports[process.node, 0]["stores"]),
        )

    cluster = world.cluster_of(design)
    cluster.start(0, sender)
    cluster.start(1, owner)
    # The page that is not there is the first, and the last is: its packet alone came through.
    assert cluster.run() == [["rejected", "rejected", "done"], (2 * world.PAGE, world.PAGE, 1)]


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
    assert world.run_on_nodes(cluster, sender, receiver) == [
        ["no rights", "done", "done", "done", "done"],
        [b"whole"] * 4,
    ]


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
        design, nodes=3, transport=Transport(most_retries=3, reliable=reliable)
    )
    assert world.run_on_nodes(cluster, sender, receiver, other) == [
        "no rights",
        (2, 2 * world.PAGE, 2),
        "done",
    ]
    assert world.uses_left(cluster) == [0, 0, 0]
