"""Descriptors and buffers that cannot be, or cannot be now, beside those that can."""

import port_world as world
import pytest
from posting_world import HUGE, nothing, register, run

from nicscope.drivers.simulate.ports.build import HostSize, PortSize, Transport
from nicscope.drivers.simulate.records import GIVE_UP, REGISTER
from nicscope.errors import SimulationError
from nicscope.memory.paging.layout import GARBAGE_FRAME, READ
from nicscope.memory.pinning import PINNED
from nicscope.nic.ports.layout import DONE, FETCH, NO_RIGHTS, SEND, WRITE
from refusals import refused

ROUNDS = 12


@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_descriptor_of_unmapped_memory_fails_alone_and_however_often_it_is_posted(design):
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 1 << 20)
        good = process.allocate(3 * world.PAGE)
        await good.write(world.content(1, len(good)))
        missing = 100 * world.PAGE
        where = [good.address, missing, good.address, missing, missing, good.address]
        requests = [await process.post(WRITE, 0, [(at, 8192)]) for at in where]
        ended = dict([await process.done() for _ in requests])
        return [ended[request] for request in requests]

    async def receiver(process):
        target = process.allocate(1 << 20)
        world.export(process, 0, target.address, 1 << 20)
        await register(process, target.address, 1 << 20)
        await process.sleep(20_000)
        return await target.read(8192)

    statuses, found = run(design, sender, receiver)
    assert statuses == ["done", "no rights", "done", "no rights", "no rights", "done"]
    assert found == world.content(1, 3 * world.PAGE)[:8192]


@pytest.mark.parametrize("design", world.DESIGNS)
def test_lengths_and_addresses_that_wrap_around_are_refused(design):
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 1 << 20)
        good = process.allocate(world.PAGE)
        wrong = [
            (good.address + 1, HUGE),
            (HUGE, HUGE),
            (-4096, 4096),
            (-1, 1),
            (good.address, 0),
            (good.address, -1),
            (good.address, -HUGE),
            (HUGE - 10, 64),
            (512 * world.PAGE - 1, 2),
        ]
        begun = process.now_us
        statuses = []
        for operation in (WRITE, FETCH):
            for segment in wrong:
                await process.post(operation, 0, [segment])
                statuses.append((await process.done()).status)
        assert process.now_us >= begun
        for address in (-1, HUGE, -HUGE - 1, 512 * world.PAGE):
            await process.provide(address)
            assert (await process.arrival()).status == "no rights"
        return set(statuses)

    statuses, _ = run(design, sender, nothing, nodes=2)
    assert statuses == {"bad descriptor", "no rights"}


def pinned_at(process):
    """On the process's node: pins of requests that go on, pages that translate, pins of frames."""
    node, ports = process.node, process._ports
    pinning = ports.translations.host.pinning
    return (
        int(pinning.held[node].sum()),
        int((pinning.state[node] & PINNED != 0).sum()),
        int(ports.memory.frames["pins"][node, GARBAGE_FRAME + 1 :].sum()),
    )


@pytest.mark.parametrize("design", ["utlb", "utlb-shared", "utlb-process", "vmmc-static"])
def test_memory_that_is_not_there_is_not_registered_and_not_kept(design):
    async def sender(process):
        good = process.allocate(world.PAGE)
        missing = good.address + 10 * world.PAGE
        found = []
        for address, length in ((missing, 1), (-1, 5), (HUGE, HUGE), (good.address, HUGE)):
            found.append((await register(process, address, length), pinned_at(process)))
        # What is there of the rest may stay pinned, as after use, but for no request.
        found.append((await register(process, good.address, 3 * world.PAGE), pinned_at(process)))
        whole = await process._sim_process.ask(
            REGISTER, peer=process.port, address=good.address, payload=world.PAGE
        )
        found.append((whole.address, pinned_at(process)))
        await process._sim_process.ask(
            GIVE_UP, peer=process.port, address=good.address, payload=world.PAGE
        )
        return found

    found, _ = run(design, sender, nothing)
    assert found == [(NO_RIGHTS, (0, 0, 0))] * 4 + [(NO_RIGHTS, (0, 1, 1)), (DONE, (1, 1, 1))]


def test_memory_that_is_mapped_after_a_refused_post_is_sent_as_it_is():
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 1 << 20)
        address = process._next_page * world.PAGE
        await process.post(WRITE, 0, [(address, 4096)])
        assert (await process.done()).status == "no rights"
        source = process.allocate(world.PAGE)
        assert source.address == address
        await source.write(world.content(2, 4096))
        await process.post(WRITE, 0, [(address, 4096)])
        return (await process.done()).status

    async def receiver(process):
        target = process.allocate(1 << 20)
        world.export(process, 0, target.address, 1 << 20)
        await register(process, target.address, 1 << 20)
        await process.sleep(10_000)
        return await target.read(4096)

    for design in ("utlb", "utlb-shared", "vmmc-static"):
        status, found = run(design, sender, receiver)
        assert status == "done"
        assert found == world.content(2, 4096)


@pytest.mark.requirement("UM-24")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_buffer_that_reaches_into_the_next_page_comes_back_unfilled(design):
    async def sender(process):
        world.join(process, 3, 1, 4)
        source = process.allocate(world.PAGE)
        await source.write(world.content(3, world.PAGE))
        await process.post(SEND, 3, [(source.address, world.PAGE)])
        return (await process.done()).status

    async def receiver(process):
        world.join(process, 4, 0, 3)
        memory = process.allocate(3 * world.PAGE)
        await memory.write(b"x" * len(memory))
        await process.provide(memory.address + 100)
        await process.provide(memory.address + 2 * world.PAGE)
        back = await process.arrival()
        assert (back.status, back.buffers) == ("bad descriptor", (memory.address + 100,))
        arrival = await process.arrival()
        assert arrival.buffers == (memory.address + 2 * world.PAGE,)
        return await memory.read()

    status, found = run(design, sender, receiver)
    assert status == "done"
    assert found == b"x" * 8192 + world.content(3, world.PAGE)


@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_message_longer_than_all_its_buffers_is_rejected_and_the_next_one_arrives(design):
    async def sender(process):
        world.join(process, 3, 1, 4, unit=512, most=1 << 20)
        source = process.allocate(5 * world.PAGE)
        await source.write(world.content(4, len(source)))
        for size in (5 * world.PAGE, 600):
            await process.post(SEND, 3, [(source.address, size)])
        return [(await process.done()).status for _ in range(2)]

    async def receiver(process):
        world.join(process, 4, 0, 3, unit=512)
        memory = process.allocate(20 * world.PAGE)
        for place in range(20):
            await process.provide(memory.address + place * world.PAGE)
        arrival = await process.arrival()
        assert world.buffers_of(process, arrival.buffers, 600, 512) == world.content(4, 20480)[:600]

    statuses, _ = run(design, sender, receiver)
    assert statuses == ["rejected", "done"]


@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_store_of_which_one_page_is_not_there_is_rejected_as_a_whole(design):
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 3 * world.PAGE)
        source = process.allocate(3 * world.PAGE)
        await source.write(world.content(5, len(source)))
        await process.sleep(5000)
        await process.post(WRITE, 0, [(source.address, len(source))])
        status = (await process.done()).status
        back = process.allocate(3 * world.PAGE)
        await process.post(FETCH, 0, [(back.address, len(source))])
        fetched = (await process.done()).status
        await process.sleep(5000)  # until the answer is acknowledged
        return status, fetched

    async def receiver(process):
        first = process.allocate(world.PAGE)
        hole = process.allocate(world.PAGE)
        process.allocate(world.PAGE)
        await register(process, first.address, world.PAGE)
        await register(process, first.address + 2 * world.PAGE, world.PAGE)
        process._memory.unmap(process.node, process.number, hole.address // world.PAGE, 1)
        world.export(process, 0, first.address, 3 * world.PAGE)

    (stored, fetched), _ = run(design, sender, receiver)
    assert stored == "rejected"
    assert fetched == "no rights"


RELIABLE = [design for design in world.DESIGNS if not design.startswith("unet")]


@pytest.mark.parametrize("takes_away", ["protect", "unmap"])
@pytest.mark.parametrize("design", RELIABLE)
def test_a_fetch_whose_answer_may_not_be_put_there_ends_with_an_error(design, takes_away):
    """Found by a storm of pages: the answer was refused, and who had asked waited for ever."""

    async def asker(process):
        world.import_from(process, 0, 1, 0, 0, 3 * world.PAGE)
        back = process.allocate(3 * world.PAGE)
        page = back.address // world.PAGE + 1
        await process.sleep(5000)
        if takes_away == "protect":
            process._memory.protect(process.node, process.number, page, 1, READ)
        else:
            process._memory.unmap(process.node, process.number, page, 1)
        await process.post(FETCH, 0, [(back.address, 3 * world.PAGE)])
        fetched = (await process.done()).status
        await process.post(FETCH, 0, [(back.address, world.PAGE)])
        again = (await process.done()).status
        await process.sleep(5000)
        return fetched, again, world.memory_of(process, back.address, world.PAGE)

    async def owner(process):
        source = process.allocate(3 * world.PAGE)
        await source.write(world.content(5, len(source)))
        await register(process, source.address, len(source))
        world.export(process, 0, source.address, len(source))
        await process.sleep(20_000)

    (fetched, again, found), _ = run(design, asker, owner)
    assert fetched == "no rights"
    assert again == "done"
    assert found == world.content(5, 3 * world.PAGE)[: world.PAGE]


def test_a_window_that_numbers_could_not_wrap_in_is_refused():
    for window in (0, 33, 48, 128):
        cluster = world.cluster_of("utlb", transport=Transport(window=window))
        cluster.start(0, nothing)
        with pytest.raises(SimulationError, match="power of two"):
            cluster.run()


def test_packets_of_which_none_asks_for_an_acknowledgement_are_refused():
    cluster = world.cluster_of("utlb", transport=Transport(ack_every=0))
    cluster.start(0, nothing)
    with pytest.raises(SimulationError, match="ack_every must be at least 1"):
        cluster.run()


def test_a_host_without_a_free_frame_refuses_and_sends_nobodys_bytes():
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 1 << 20)
        source = process.allocate(40 * world.PAGE)
        statuses = []
        for place in range(40):
            await process.post(WRITE, 0, [(source.address + place * world.PAGE, 64)], offset=0)
            statuses.append((await process.done()).status)
        return statuses

    async def receiver(process):
        target = process.allocate(world.PAGE)
        await target.write(b"\xff" * world.PAGE)
        world.export(process, 0, target.address, world.PAGE)
        await register(process, target.address, world.PAGE)
        await process.sleep(50_000)
        return await target.read(64)

    for design in ("utlb", "vmmc-static", "unet-mm-pca200", "vmmc-interrupt"):
        cluster = world.cluster_of(design, host=HostSize(frames=20, swap_blocks=0))
        statuses, found = world.run_on_nodes(cluster, sender, receiver)
        assert found == bytes(64)  # demand zero
        assert set(statuses) >= {"done"}
        assert set(statuses) - {"done"}, design
        assert world.uses_left(cluster) == [0, 0]


def test_small_rings_and_tables_fill_and_empty():
    async def sender(process):
        world.join(process, 3, 1, 4)
        source = process.allocate(world.PAGE)
        statuses = []
        for place in range(ROUNDS):
            await source.write(world.content(place, world.PAGE))
            await process.post(SEND, 3, [(source.address, world.PAGE)])
            statuses.append((await process.done()).status)
        return statuses

    async def receiver(process):
        world.join(process, 4, 0, 3)
        memory = process.allocate(2 * world.PAGE)
        await process.provide(memory.address)
        await process.provide(memory.address + world.PAGE)
        for place in range(ROUNDS):
            arrival = await process.arrival()
            assert world.buffers_of(process, arrival.buffers, 4096) == world.content(place, 4096)
            await process.provide(arrival.buffers[0])

    for design in world.DESIGNS:
        statuses, _ = run(design, sender, receiver, size=PortSize(ring=2, ready=1))
        assert statuses == ["done"] * ROUNDS


@pytest.mark.parametrize("design", ["utlb", "vmmc-static"])
def test_what_is_too_long_to_be_pinned_at_once_is_refused_with_a_way_out(design):
    async def sender(process):
        world.import_from(process, 0, 1, 0, 0, 1 << 20)
        room = process.allocate(9 * world.PAGE)
        await process.sleep(5_000)  # until the other side has registered
        await process.post(WRITE, 0, [(room.address, 8 * world.PAGE)])
        assert (await process.done()).status == "done"
        with refused(SimulationError, "9 pages", "longest=9"):
            await process.post(WRITE, 0, [(room.address, len(room))])

    async def receiver(process):
        target = process.allocate(1 << 20)
        await register(process, target.address, 9 * world.PAGE)
        world.export(process, 0, target.address, 1 << 20)
        await process.sleep(20_000)

    run(design, sender, receiver, size=PortSize(longest=8))
