"""A port closes with work under way: all of it ends, its pages are let go, and nobody hangs."""

from itertools import cycle

import port_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.records import GIVE_UP, REGISTER
from nicscope.nic.ports.layout import FETCH, SEND, WRITE

MOMENTS = (1, 30, 120, 300, 700, 1500, 4000)  # us after the posts
DESIGNS = [*world.DESIGNS, "utlb-shared", "utlb-process", "unet-mm-dc21140"]
KEEPS = ("vmmc-static", "utlb", "utlb-shared", "utlb-process", "mini")
PATIENCE = Transport(time_out_ps=5_000_000_000, most_retries=12)
LENGTH = 2 * world.PAGE + 100


async def prepare(process, tag):
    """Memory to send from, an export, and buffers; all is registered as the library would."""
    peer = 1 - process.node
    world.join(process, tag, peer, tag)
    memory = process.allocate(4 * world.PAGE)
    await memory.write(world.content(tag, len(memory)))
    window = process.allocate(4 * world.PAGE)
    await window.write(bytes(len(window)))
    if process.cluster.design.name in KEEPS:
        await process._sim_process.ask(
            REGISTER, peer=process.port, address=window.address, payload=len(window)
        )
    world.export(process, tag, window.address, len(window))
    world.import_from(process, tag, peer, tag, window.address, len(window))
    free = process.allocate(8 * world.PAGE)
    for place in range(8):
        await process.provide(free.address + place * world.PAGE)
    await process.sleep(3000)
    return memory, window


async def work(process, tag, memory):
    """Post one of each, twice."""
    kinds = (SEND, WRITE, FETCH)
    if process.cluster.design.name == "unet-mm-dc21140":
        kinds = (SEND,)
    for _ in range(2):
        for operation in kinds:
            await process.post(operation, tag, [(memory.address + 50, LENGTH)])
    return 2 * len(kinds)


async def closes(process, tag, moment):
    """Post, be sent to, and close in the middle of it; how all ended."""
    memory, window = await prepare(process, tag)
    many = await work(process, tag, memory)
    await process.sleep(moment)
    await process.close_port()
    if process.cluster.design.name in KEEPS:
        await process._sim_process.ask(
            GIVE_UP, peer=process.port, address=window.address, payload=len(window)
        )
    ended = [(await process.done()).status for _ in range(many)]
    await process.post(SEND, tag, [(memory.address, 100)])
    await process.provide(memory.address)
    assert (await process.done()).status == "closed"
    return ended


async def stays(process, tag):
    """Talk to the peer's port of the same tag and take what comes; how it ended."""
    memory, _ = await prepare(process, tag)
    record = process._ports.table[process.node, process.port]
    ended = []
    for _ in range(3):
        left = await work(process, tag, memory)
        while left:
            while record["received"] > record["read"]:
                for buffer in (await process.arrival()).buffers:
                    await process.provide(buffer)
            while record["reported"] > record["reaped"]:
                ended.append((await process.done()).status)
                left -= 1
            await process.sleep(50)
            assert process.now_us < 20_000_000, "this goes on for ever"
    for _ in range(50):  # what comes to the last
        await process.sleep(1000)
        while record["received"] > record["read"]:
            for buffer in (await process.arrival()).buffers:
                await process.provide(buffer)
    return ended


def close_in_the_middle(design, moment, **how):
    """One port of node 0 closes, and its neighbour's goes on."""
    cluster = world.cluster_of(design, transport=PATIENCE, **how)
    mine, neighbour, peer, others = world.run_on_nodes(
        cluster,
        (lambda process: closes(process, 3, moment), lambda process: stays(process, 4)),
        (lambda process: stays(process, 3), lambda process: stays(process, 4)),
    )
    assert set(mine) <= {"done", "closed"}
    assert set(peer) <= {"done", "rejected"}
    assert set(neighbour) == set(others) == {"done"}
    assert world.stale(cluster) == 0
    window = 4 * (design in KEEPS)  # of the three that stay
    assert world.uses_left(cluster) == [window, 2 * window]
    ports = cluster.simulation.machine.ports
    assert ports.table[0, 1]["open"] == 0
    if design not in ("vmmc-static", "mini"):  # which register for good, and pin by lines
        pinned = int(ports.memory.spaces[0, 0]["pinned"])
        assert pinned == 4 * (design in KEEPS)  # of what was exported, until it is unpinned


def at_moments(moments, each):
    """Each design at some of the moments, which take turns."""
    turns = cycle(moments)
    return [(design, next(turns)) for design in DESIGNS for _ in range(each)]


@pytest.mark.parametrize(("design", "moment"), at_moments(MOMENTS, 4))
def test_a_port_closes_with_work_under_way(design, moment):
    close_in_the_middle(design, moment)


@pytest.mark.parametrize(("design", "moment"), at_moments(MOMENTS[-2:], 1))
def test_so_it_does_on_a_network_that_fails(design, moment):
    wrong = Faults(seed=3, loss=0.05, duplication=0.05, reordering=0.05, corruption=0.05)
    close_in_the_middle(design, moment, faults=wrong)


@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_port_closes_though_its_peer_is_dead(design):
    dies = Faults(node_deaths={1: 4_000_000_000})
    patience = Transport(time_out_ps=1_000_000_000, most_retries=2)
    cluster = world.cluster_of(design, faults=dies, transport=patience)

    async def program(process):
        memory, _ = await prepare(process, 3)
        await process.sleep(5000)
        many = await work(process, 3, memory)
        await process.sleep(500)
        await process.close_port()
        return process.now_us, [(await process.done()).status for _ in range(many)]

    async def doomed(process):
        await prepare(process, 3)
        await process.sleep(100_000)

    now, ended = world.run_on_nodes(cluster, program, doomed)[0]
    assert now < 40_000
    assert set(ended) <= {"closed", "peer dead"}
    assert world.uses_left(cluster)[0] == 4 * (design in KEEPS)


def test_a_port_that_opens_again_knows_nothing_of_what_was_before():
    async def program(process):
        memory, _ = await prepare(process, 3)
        many = await work(process, 3, memory)
        await process.sleep(100)
        await process.close_port()
        for _ in range(many):
            await process.done()
        record = process._ports.table[process.node, process.port]
        while record["received"] > record["read"]:
            await process.arrival()
        await process.sleep(20_000)
        process.open_port(process.port)
        world.join(process, 7, 1, 7)
        fresh = process.allocate(world.PAGE)
        await process.provide(fresh.address)
        await process.post_inline(SEND, 7, b"new")
        assert (await process.done()).ok
        arrival = await process.arrival()
        return arrival.name, arrival.length, arrival.buffers == (fresh.address,)

    async def peer(process):
        memory, _ = await prepare(process, 3)
        await work(process, 3, memory)
        world.join(process, 7, 0, 7)
        while (await process.arrival()).name != 7:
            pass
        await process.post(SEND, 3, [(memory.address, 100)])  # to a tag that is gone
        await process.post(SEND, 7, [(memory.address, 200)])
        return {(await process.done()).status for _ in range(8)}

    for design in ("vmmc-interrupt", "utlb"):
        cluster = world.cluster_of(design)
        mine, theirs = world.run_on_nodes(cluster, program, peer)
        assert mine == (7, 200, True)
        assert "rejected" in theirs
        assert "done" in theirs
