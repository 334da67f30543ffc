"""Nodes and links that die: who talks to them learns of it, and nobody else is touched."""

import port_world as world
import pytest
from fault_world import hold, word

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.nic.ports.layout import FETCH, SEND, WRITE


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

    (alive, status, took, later), of_dead, of_other = world.run_on_nodes(
        cluster, sender, doomed, bystander
    )
    assert alive > 0
    assert status == "peer dead"
    # Then the way there and the way back are looked for: a probe along the route in use and one
    # over the switch's only link to the dead, none of which is answered.
    probes_us = 2 * 2 * patience.probe_time_out_ps / 1e6
    # Plus a little for the packets themselves.
    assert took <= (patience.most_retries + 1) * patience.time_out_ps / 1e6 + probes_us + 200
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

        asked, owned = world.run_on_nodes(cluster, asker, owner)
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


def first_link_of(cluster, node):
    """The first link of every way that leads out of ``node``."""
    return cluster.topology.paths[node, 1 if node == 0 else 0][0]


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("design", [*world.DESIGNS, "unet-mm-dc21140"])
def test_a_node_that_dies_in_the_middle_of_a_message_keeps_no_buffer(design, reliable):
    patience = Transport(time_out_ps=2_000_000_000, most_retries=3, reliable=reliable)
    cluster = world.cluster_of(design, nodes=3, transport=patience)

    async def sender(process, begin):
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
    _, arrived, status = world.run_on_nodes(
        cluster,
        lambda process: sender(process, 2000),
        receiver,
        lambda process: sender(process, 40_000),
    )
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

    assert world.run_on_nodes(cluster, sender, receiver) == ["peer dead", before]
    assert world.uses_left(cluster) == [0, 0]
