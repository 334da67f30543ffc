"""Networks that lose, double, delay and corrupt packets, and nodes and links that die."""

import port_world as world
import pytest
from fault_world import held, hold, word

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.nic.ports.layout import FETCH, SEND, WRITE

MESSAGES = 20_000
AHEAD = 32  # messages on their way
QUICK = Transport(time_out_ps=200_000_000, most_retries=40)


def stream(cluster, count):
    """Have node 0 send ``count`` small messages to node 1, which checks each."""

    async def sender(process):
        world.join(process, 3, 1, 4)
        open_ = 0
        for number in range(count):
            if open_ == AHEAD:
                assert (await process.done()).ok
                open_ -= 1
            await process.post_inline(SEND, 3, word(number))
            open_ += 1
        for _ in range(open_):
            assert (await process.done()).ok

    async def receiver(process):
        world.join(process, 4, 0, 3)
        for number in range(count):
            assert (await process.arrival()).content == word(number)

    world.run_on_nodes(cluster, sender, receiver)


@pytest.mark.requirement("MI-6")
@pytest.mark.requirement("SH-5")
# Each fault must occur.
@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_small_messages_arrive_once_in_order_and_unchanged(rate):
    wrong = Faults(seed=7, loss=rate, duplication=rate, reordering=rate, corruption=rate)
    cluster = world.cluster_of("vmmc-static", faults=wrong, transport=QUICK)
    stream(cluster, MESSAGES // 2)
    came = cluster.report().total.received
    assert came.lost > 0
    assert came.corrupted > 0
    streams = cluster.simulation.machine.ports.pools.streams
    assert streams["duplicates"].sum() > 0


@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet-mm-dc21140"])
def test_what_comes_twice_or_late_is_what_was_sent_and_not_what_was_written_there_since(design):
    """Over an unreliable transport: a sender is told when nothing will read its pages again."""
    wrong = Faults(seed=5, duplication=0.3, reordering=0.3)
    loose = Transport(reliable=False)
    cluster = world.cluster_of(design, faults=wrong, transport=loose)
    rounds, size = 20, world.PAGE + 500
    came = []

    async def sender(process):
        world.join(process, 3, 1, 3)
        source = process.allocate(2 * world.PAGE)
        for number in range(rounds):
            await source.write(world.content(number, size))
            await process.post(SEND, 3, [(source.address, size)])
            assert (await process.done()).ok
            await source.write(bytes([255]) * size)
            await process.sleep(3000)
        await process.post_inline(SEND, 3, b"end")

    async def receiver(process):
        world.join(process, 3, 0, 3)
        free = process.allocate(4 * rounds * world.PAGE)
        for place in range(8):
            await process.provide(free.address + place * world.PAGE)
        place = 8
        while True:
            arrival = await process.arrival()
            if arrival.content is not None:
                return
            came.append(world.buffers_of(process, arrival.buffers, size))
            for _ in arrival.buffers:
                await process.provide(free.address + place * world.PAGE)
                place += 1

    world.run_on_nodes(cluster, sender, receiver)

    sent = [world.content(number, size) for number in range(rounds)]
    assert len(came) > rounds // 4
    assert all(message in sent for message in came)
    assert [sent.index(message) for message in came] == sorted({*map(sent.index, came)})


@pytest.mark.compiled
@pytest.mark.long
def test_a_million_small_messages_arrive_once_in_order_and_unchanged():
    wrong = Faults(seed=1, loss=0.01, duplication=0.01, reordering=0.01, corruption=0.01)
    stream(world.cluster_of("vmmc-static", faults=wrong, transport=QUICK), 1_000_000)


@pytest.mark.requirement("MI-6")
@pytest.mark.requirement("SH-5")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("design", world.DESIGNS)
def test_long_messages_stores_and_fetches_survive_a_bad_network(design, seed):
    rate = (0.01, 0.05, 0.1, 0.2)[seed]
    wrong = Faults(seed=seed, loss=rate, duplication=rate, reordering=rate, corruption=rate)
    # A time-out shorter than a window of pages takes on ATM would only send them again.
    patience = Transport(time_out_ps=20_000_000_000 if "pca" in design else 500_000_000)
    cluster = world.cluster_of(design, faults=wrong, transport=patience)
    rounds = 2
    size = 3 * world.PAGE - 100

    async def program(process):
        me, peer = process.node, 1 - process.node
        world.join(process, 3, peer, 3)
        world.join(process, 4, peer, 4)
        window = process.allocate(4 * world.PAGE)
        await window.write(bytes(len(window)))
        world.export(process, 0, window.address, len(window))
        await hold(process, window)
        world.import_from(process, 0, peer, 0, window.address, len(window))
        free = process.allocate(16 * world.PAGE)
        for place in range(16):
            await process.provide(free.address + place * world.PAGE)
        await process.sleep(3000)
        source = process.allocate(4 * world.PAGE)
        back = process.allocate(4 * world.PAGE)
        for number in range(rounds):
            mine, theirs = (world.content(100 * who + number, size) for who in (me, peer))
            await source.write(mine, offset=50)
            await process.post(SEND, 3, [(source.address + 50, size)])
            await process.post_inline(SEND, 4, mine[:60])
            await process.post(WRITE, 0, [(source.address + 50, size)], offset=77, notify=True)
            await process.post(FETCH, 0, [(back.address + 9, size)], offset=77)
            found = {}
            for _ in range(3):
                arrival = await process.arrival()
                if arrival.operation == WRITE:
                    found["store"] = await window.read(size, offset=77)
                elif arrival.content is not None:
                    found["small"] = arrival.content
                else:
                    found["long"] = world.buffers_of(process, arrival.buffers, size)
                    for buffer in arrival.buffers:
                        await process.provide(buffer)
            assert found == {"long": theirs, "small": theirs[:60], "store": theirs}
            for _ in range(4):
                assert (await process.done()).ok
            assert await back.read(size, offset=9) == mine
            # Both are through before either begins anew.
            await process.post_inline(SEND, 4, b"next")
            assert (await process.arrival()).content == b"next"
            assert (await process.done()).ok
        await process.sleep(100_000)

    world.run_on_nodes(cluster, program, program)
    assert world.stale(cluster) == 0
    assert world.uses_left(cluster) == [4 * held(cluster), 4 * held(cluster)]


def test_an_unreliable_port_loses_messages_but_never_doubles_or_breaks_one():
    wrong = Faults(seed=3, loss=0.05, duplication=0.1, reordering=0.05, corruption=0.05)
    loose = Transport(reliable=False)
    cluster = world.cluster_of("unet-mm-pca200", faults=wrong, transport=loose)
    count = 100

    async def sender(process):
        world.join(process, 3, 1, 4)
        source = process.allocate(3 * world.PAGE)
        for number in range(count):
            size = 60 if number % 2 else 2 * world.PAGE + 10
            message = number.to_bytes(4, "little") + world.content(number, size - 4)
            if size <= 64:
                await process.post_inline(SEND, 3, message)
            else:
                await source.write(message)
                await process.post(SEND, 3, [(source.address, size)])
            assert (await process.done()).ok
        await process.sleep(10_000)

    async def receiver(process):
        world.join(process, 4, 0, 3)
        memory = process.allocate(16 * world.PAGE)
        for place in range(16):
            await process.provide(memory.address + place * world.PAGE)
        last, many = -1, 0
        while last < count - 8:
            arrival = await process.arrival()
            found = arrival.content
            if found is None:
                found = world.buffers_of(process, arrival.buffers, arrival.length)
                for buffer in arrival.buffers:
                    await process.provide(buffer)
            number = int.from_bytes(found[:4], "little")
            assert number > last
            assert found[4:] == world.content(number, len(found) - 4)
            last, many = number, many + 1
        return many

    _, many = world.run_on_nodes(cluster, sender, receiver)
    assert count // 3 < many < count
    assert world.uses_left(cluster)[0] == 0
    assert world.stale(cluster) == 0
