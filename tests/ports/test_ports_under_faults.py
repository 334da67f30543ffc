"""Networks that lose, double, delay and corrupt packets, and nodes and links that die."""

from __future__ import annotations

import os

import port_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.nic.ports.layout import FETCH, SEND, WRITE

SLOW = any(os.environ.get(name) == "1" for name in ("NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"))
LONG = os.environ.get("NICSCOPE_LONG_TESTS") == "1"
MESSAGES = 100 if SLOW else 20_000
AHEAD = 32  # messages on their way
QUICK = Transport(time_out_ps=200_000_000, most_retries=40)


def word(number: int, salt: int = 0) -> bytes:
    """A message that says which it is."""
    return (number * 0x9E3779B97F4A7C15 + salt & 2**64 - 1).to_bytes(8, "little") * 2


def stream(cluster, count: int) -> None:
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

    cluster.start(0, sender)
    cluster.start(1, receiver)
    cluster.run()


@pytest.mark.requirement("MI-6")
@pytest.mark.requirement("SH-5")
@pytest.mark.parametrize("rate", [0.1, 0.2] if SLOW else [0.01, 0.1])  # each fault must occur
def test_small_messages_arrive_once_in_order_and_unchanged(rate):
    wrong = Faults(seed=7, loss=rate, duplication=rate, reordering=rate, corruption=rate)
    cluster = world.cluster_of("vmmc-static", faults=wrong, transport=QUICK)
    stream(cluster, MESSAGES // 2)
    came = cluster.report().total.received
    assert came.lost > 0
    assert came.corrupted > 0
    streams = cluster.simulation.machine.ports.pools.streams
    assert streams["duplicates"].sum() > 0


@pytest.mark.requirement("SH-5")
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

    cluster.start(0, sender)
    cluster.start(1, receiver)
    cluster.run()

    sent = [world.content(number, size) for number in range(rounds)]
    assert len(came) > rounds // 4
    assert all(message in sent for message in came)
    assert [sent.index(message) for message in came] == sorted({*map(sent.index, came)})


@pytest.mark.skipif(not LONG, reason="takes minutes; NICSCOPE_LONG_TESTS=1 runs it")
def test_a_million_small_messages_arrive_once_in_order_and_unchanged():
    wrong = Faults(seed=1, loss=0.01, duplication=0.01, reordering=0.01, corruption=0.01)
    stream(world.cluster_of("vmmc-static", faults=wrong, transport=QUICK), 1_000_000)


@pytest.mark.requirement("MI-6")
@pytest.mark.requirement("SH-5")
@pytest.mark.parametrize("seed", range(2 if SLOW else 4))
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

    cluster.start(0, program)
    cluster.start(1, program)
    cluster.run()
    assert world.stale(cluster) == 0
    assert world.uses_left(cluster) == [4 * held(cluster), 4 * held(cluster)]


def held(cluster) -> int:
    """Uses of an exported page that its library has registered."""
    return int(cluster.design.name in ("utlb", "vmmc-static", "mini"))


async def hold(process, window) -> None:
    """Have the library pin what is exported, where that is its task, for good."""
    from nicscope.drivers.simulate.machine import REGISTER

    ended = await process._driven.ask(
        REGISTER, peer=process.port, address=window.address, payload=len(window)
    )
    assert ended.address == 0


@pytest.mark.parametrize("design", world.DESIGNS)
def test_who_talks_to_a_dead_node_learns_of_it_in_time_and_others_go_on(design):
    patience = Transport(time_out_ps=100_000_000, most_retries=3)
    death = 2_000_000_000
    dies = Faults(node_deaths={1: death})
    cluster = world.cluster_of(design, nodes=3, faults=dies, transport=patience)

    async def sender(process):
        world.join(process, 3, 1, 3)
        world.join(process, 5, 2, 5)
        world.import_from(process, 0, 1, 0, 0, world.PAGE)
        source = process.allocate(2 * world.PAGE)
        await source.write(world.content(1, len(source)))
        alive = 0
        while True:
            begun = process.now_us
            await process.post_inline(SEND, 3, b"to the dead")
            status = (await process.done()).status
            if status != "done":
                break
            alive += 1
            await process.sleep(50)
        took = process.now_us - begun
        later = []
        for operation in (SEND, WRITE, FETCH):
            name = 3 if operation == SEND else 0
            await process.post(operation, name, [(source.address, 100)])
            later.append((await process.done()).status)
        for number in range(20):
            await process.post_inline(SEND, 5, word(number))
            assert (await process.done()).ok
        await process.sleep(10_000)
        return alive, status, took, later

    async def doomed(process):
        world.join(process, 3, 0, 3)
        while True:
            await process.arrival()

    async def bystander(process):
        world.join(process, 5, 0, 5)
        for number in range(20):
            assert (await process.arrival()).content == word(number)
        return "through"

    cluster.start(0, sender)
    cluster.start(1, doomed)
    cluster.start(2, bystander)
    (alive, status, took, later), of_dead, of_other = cluster.run()
    assert alive > 0
    assert status == "peer dead"
    # Plus a little for the packets themselves.
    assert took <= (patience.most_retries + 1) * patience.time_out_ps / 1e6 + 200
    assert later == ["peer dead"] * 3
    assert of_dead is None
    assert of_other == "through"
    assert world.uses_left(cluster)[0] == 0


def test_a_question_to_a_node_that_dies_over_it_and_an_answer_to_the_dead_both_end():
    for dead in (0, 1):
        cluster = world.cluster_of(
            "utlb",
            faults=Faults(node_deaths={dead: 1_000_000_000}),
            transport=Transport(time_out_ps=100_000_000, most_retries=3),
        )

        async def asker(process):
            world.import_from(process, 0, 1, 0, 0, 8 * world.PAGE)
            back = process.allocate(8 * world.PAGE)
            await process.sleep(500)
            status = "done"
            while status == "done":
                await process.post(FETCH, 0, [(back.address, len(back))])
                status = (await process.done()).status
            return status

        async def owner(process):
            window = process.allocate(8 * world.PAGE)
            await window.write(bytes(len(window)))
            await hold(process, window)
            world.export(process, 0, window.address, len(window))
            await process.sleep(5000)
            return "alive"

        cluster.start(0, asker)
        cluster.start(1, owner)
        asked, owned = cluster.run()
        assert (asked, owned) == ((None, "alive") if dead == 0 else ("peer dead", None))


def test_a_dead_link_looks_like_a_dead_peer_to_both_and_to_nobody_else():
    patience = Transport(time_out_ps=100_000_000, most_retries=3)
    cluster = world.cluster_of("vmmc-static", nodes=3, transport=patience)
    # The link from node 0 to the switch: nothing of node 0 gets through.
    link = first_link_of(cluster, 0)
    cluster.faults = Faults(link_deaths={link: 500_000_000})

    async def program(process):
        others = [node for node in range(3) if node != process.node]
        for node in others:
            world.join(process, 10 * process.node + node, node, 10 * node + process.node)
        await process.sleep(1000)
        statuses = {}
        for node in others:
            await process.post_inline(SEND, 10 * process.node + node, b"still there?")
            statuses[node] = (await process.done()).status
        return statuses

    for node in range(3):
        cluster.start(node, program)
    found = cluster.run()
    assert found == [
        {1: "peer dead", 2: "peer dead"},
        {0: "peer dead", 2: "done"},
        {0: "peer dead", 1: "done"},
    ]


def first_link_of(cluster, node: int) -> int:
    """The first link of every way that leads out of ``node``."""
    return cluster.topology.paths[node, 1 if node == 0 else 0][0]


def test_an_unreliable_port_loses_messages_but_never_doubles_or_breaks_one():
    wrong = Faults(seed=3, loss=0.05, duplication=0.1, reordering=0.05, corruption=0.05)
    loose = Transport(reliable=False)
    cluster = world.cluster_of("unet-mm-pca200", faults=wrong, transport=loose)
    count = 30 if SLOW else 100

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

    cluster.start(0, sender)
    cluster.start(1, receiver)
    _, many = cluster.run()
    assert count // 3 < many < count
    assert world.uses_left(cluster)[0] == 0
    assert world.stale(cluster) == 0


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("design", [*world.DESIGNS, "unet-mm-dc21140"])
def test_a_node_that_dies_in_the_middle_of_a_message_keeps_no_buffer(design, reliable):
    patience = Transport(time_out_ps=2_000_000_000, most_retries=3, reliable=reliable)
    cluster = world.cluster_of(design, nodes=3, transport=patience)

    async def sender(process, begin: float):
        world.join(process, 3, 1, 3 + process.node)
        source = process.allocate(8 * world.PAGE)
        await source.write(bytes(len(source)))
        await process.sleep(begin)
        await process.post(SEND, 3, [(source.address, len(source))])
        return (await process.done()).status

    async def receiver(process):
        for node in (0, 2):
            world.join(process, 3 + node, node, 3)
        memory = process.allocate(8 * world.PAGE)
        for place in range(8):
            await process.provide(memory.address + place * world.PAGE)
        channels = process._ports.channels[process.node]
        while channels[3]["placed"] < 2 * world.PAGE:
            await process.sleep(10)
        process._ports.deaths.nodes[0] = round(process.now_us * 1e6)  # it dies now
        arrival = await process.arrival()
        return arrival.node, len(arrival.buffers)

    cluster.faults = Faults(node_deaths={0: 10**15})
    cluster.start(0, lambda process: sender(process, 2000))
    cluster.start(1, receiver)
    cluster.start(2, lambda process: sender(process, 40_000))
    _, arrived, status = cluster.run()
    assert (arrived, status) == ((2, 8), "done")
    assert world.uses_left(cluster)[1] == 0


def test_memory_of_a_message_whose_peer_was_given_up_is_read_no_more():
    hasty = Transport(time_out_ps=150_000_000, most_retries=1)
    cluster = world.cluster_of("unet-mm-pca200", transport=hasty)
    # Nothing that node 1 says gets through, and it hears all: node 0 gives it up too early.
    cluster.faults = Faults(link_deaths={first_link_of(cluster, 1): 0})
    before = world.content(1, 12 * world.PAGE)

    async def sender(process):
        world.join(process, 3, 1, 3)
        source = process.allocate(len(before))
        await source.write(before)
        await process.sleep(6000)
        await process.post(SEND, 3, [(source.address, len(source))])
        status = (await process.done()).status
        await source.write(bytes(len(source)))
        await process.sleep(100_000)
        return status

    async def receiver(process):
        world.join(process, 3, 0, 3)
        memory = process.allocate(12 * world.PAGE)
        for place in range(12):
            await process.provide(memory.address + place * world.PAGE)
        await process.sleep(100_000)
        record = process._ports.table[process.node, process.port]
        if record["received"] == 0:
            return before
        arrival = await process.arrival()
        return world.buffers_of(process, arrival.buffers, len(before))

    cluster.start(0, sender)
    cluster.start(1, receiver)
    assert cluster.run() == ["peer dead", before]
    assert world.uses_left(cluster) == [0, 0]
