"""Two ports of one node are each other's peers: the NIC sends to itself."""

import msgspec
import pytest
import work_world as work

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.ports.connections import connect_ports
from nicscope.errors import SimulationError
from nicscope.nic.ports.layout import DELIVERY, FETCH, RECEPTION, SEND, UNRELIABLE, WRITE

QUICK = Transport(time_out_ps=200_000_000, most_retries=40)
WRONG = Faults(seed=3, loss=0.2, duplication=0.1, reordering=0.1, corruption=0.1)
THEIR_KEY = work.KEY + 1
PAGES, LENGTH, MANY = 8, 5000, 6


async def have_room(process):
    """The other port's memory, of which the key is another."""
    work.have_queues(process)
    memory = process.allocate(PAGES * work.PAGE)
    await work.register(process, THEIR_KEY, memory.address, len(memory))
    return memory


def talk(cluster, level, node=0):
    """Messages from port 1 to port 2 of the node; ends of sends, receives, and what is there."""
    apart = [(number * (LENGTH + 8), LENGTH) for number in range(MANY)]

    async def sender(process):
        memory = await work.with_memory(process, PAGES, seed=1)
        await process.sleep(2000)
        connect_ports(process._ports, (node, 1), (node, 2), level, work.UNIT)
        for number in range(MANY):
            pieces = work.at(memory, [(100 * number, LENGTH)])
            await process.post_gather(SEND, pieces, immediate=number)
            await process.sleep(3000)
        return [(await process.ended()).status for _ in range(MANY)]

    async def receiver(process):
        memory = await have_room(process)
        for number, (begin, length) in enumerate(apart):
            await process.post_receive(number, [(memory.address + begin, length, THEIR_KEY)])
        await process.sleep(60_000)
        said = []
        while process.waiting():
            said.append(await process.received())
        return [(each.cookie, each.immediate, each.length) for each in said], [
            work.digest(await work.read(memory, [stretch])) for stretch in apart
        ]

    cluster.start(node, sender)
    cluster.start(node, receiver)
    ended, (received, found) = cluster.run()
    assert work.world.stale(cluster) == 0
    return ended, received, found


def wished():
    """What each receive should hold."""
    return [work.digest(work.of(1, PAGES, [(100 * each, LENGTH)])) for each in range(MANY)]


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("level", [UNRELIABLE, DELIVERY, RECEPTION])
def test_messages_come_back_in_at_every_level(level, nodes):
    cluster = work.cluster_of(nodes=nodes, ports=2)

    ended, received, found = talk(cluster, level, node=nodes - 1)

    assert ended == ["done"] * MANY
    assert received == [(each, each, LENGTH) for each in range(MANY)]
    assert found == wished()


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
def test_what_the_network_does_happens_on_the_way_back_in_too(level):
    cluster = work.cluster_of(nodes=1, ports=2, faults=WRONG, transport=QUICK)

    ended, received, found = talk(cluster, level)

    assert ended == ["done"] * MANY
    assert received == [(each, each, LENGTH) for each in range(MANY)]
    assert found == wished()
    said = cluster.report().nodes[0]
    assert said.received.lost > 0
    assert said.sent.again > 0


def test_an_unreliable_loop_loses_messages_whole():
    cluster = work.cluster_of(nodes=1, ports=2, faults=Faults(seed=5, loss=0.15), transport=QUICK)

    ended, received, _ = talk(cluster, UNRELIABLE)

    assert ended == ["done"] * MANY
    numbers = [word for _, word, _ in received]
    assert numbers == sorted(set(numbers))
    assert 0 < len(numbers) < MANY
    assert [cookie for cookie, _, _ in received] == list(range(len(numbers)))


def test_memory_of_the_same_node_is_written_and_fetched_by_key():
    cluster = work.cluster_of("utlb", nodes=2, ports=2)

    async def asker(process):
        memory = await work.with_memory(process, PAGES, seed=1)
        await process.sleep(2000)
        connect_ports(process._ports, (0, 1), (0, 2), RECEPTION, work.UNIT)
        theirs = process.cluster.theirs
        for operation, begin in ((WRITE, 10), (FETCH, 20_000)):
            pieces = work.at(memory, [(begin, LENGTH)])
            await process.post_gather(operation, pieces, name=THEIR_KEY, offset=theirs + 77)
        assert [(await process.ended()).status for _ in "wf"] == ["done"] * 2
        return await work.read(memory, [(20_000, LENGTH)])

    async def owner(process):
        memory = await have_room(process)
        process.cluster.theirs = memory.address
        await process.sleep(20_000)
        return await work.read(memory, [(77, LENGTH)])

    assert work.run_on_nodes(cluster, (asker, owner)) == [work.of(1, PAGES, [(10, LENGTH)])] * 2


def test_a_loop_and_other_nodes_share_the_way_into_the_nic():
    """Nothing is lost where two send to one NIC, of which one is itself."""
    cluster = work.cluster_of(nodes=2, ports=3, transport=QUICK)

    def sender(node, port, number):
        async def program(process):
            memory = await work.with_memory(process, PAGES, seed=number)
            await process.sleep(2000)
            connect_ports(process._ports, (node, port), (0, 1 + number), RECEPTION, work.UNIT)
            for _ in range(MANY):
                await process.post_gather(SEND, work.at(memory, [(0, LENGTH)]))
            return [(await process.ended()).status for _ in range(MANY)]

        return program

    def receiver(number):
        async def program(process):
            work.have_queues(process)
            memory = process.allocate(PAGES * work.PAGE)
            key = work.KEY + number
            await work.register(process, key, memory.address, len(memory))
            for cookie in range(MANY):
                await process.post_receive(cookie, [(memory.address, LENGTH, key)])
            for _ in range(MANY):
                await process.received()
            return work.digest(await work.read(memory, [(0, LENGTH)]))

        return program

    here = sender(0, 1, 1), receiver(1), receiver(2)
    mine, one, other, theirs = work.run_on_nodes(cluster, here, sender(1, 1, 2))

    assert mine == theirs == ["done"] * MANY
    assert one == work.digest(work.of(1, PAGES, [(0, LENGTH)]))
    assert other == work.digest(work.of(2, PAGES, [(0, LENGTH)]))


def test_a_node_has_streams_for_both_ends_of_a_loop_or_none():
    one = msgspec.structs.replace(work.SIZE, connections=1)
    cluster = work.cluster_of(nodes=1, ports=2, size=one)

    async def program(process):
        work.have_queues(process)
        with pytest.raises(SimulationError, match="connections"):
            connect_ports(process._ports, (0, 1), (0, 2), RECEPTION, work.UNIT)
        return work.state_of(process, "channel")

    assert work.run_on_nodes(cluster, program) == [-1]
