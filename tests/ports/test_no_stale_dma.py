"""Pages come and go under traffic; no transfer uses a translation that no longer holds."""

import numpy as np
import port_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults, HostSize, Transport
from nicscope.drivers.simulate.records import REGISTER
from nicscope.memory.paging.layout import READ
from nicscope.memory.paging.layout import WRITE as MAY_STORE
from nicscope.nic.ports.layout import FETCH, SEND, WRITE

ROUNDS = 20
PAGES = 24
PATIENCE = Transport(time_out_ps=3_000_000_000)


async def worker(process, peer, seed):
    """Messages, stores and fetches from and to all pages, while these come and go."""
    random = np.random.default_rng(seed)
    ports = process._ports
    record = ports.table[process.node, process.port]
    world.join(process, 3, peer, 3)
    memory = process.allocate(PAGES * world.PAGE)
    await memory.write(world.content(seed, len(memory)))
    free = process.allocate(PAGES * world.PAGE)
    world.export(process, 0, memory.address, len(memory))
    if process.cluster.design.name in ("vmmc-static", "utlb", "mini"):
        await process._sim_process.ask(
            REGISTER, peer=process.port, address=memory.address, payload=len(memory)
        )
    world.import_from(process, 0, peer, 0, memory.address, len(memory))
    for place in range(6):
        await process.provide(free.address + place * world.PAGE)
    await process.sleep(3000)
    done = open_ = 0
    for _ in range(ROUNDS):
        operation = (SEND, WRITE, FETCH)[random.integers(3)]
        length = int(random.integers(1, 3 * world.PAGE))
        offset = int(random.integers(0, len(memory) - length))
        name = 3 if operation == SEND else 0
        there = int(random.integers(0, len(memory) - length)) if operation != SEND else 0
        await process.post(operation, name, [(memory.address + offset, length)], offset=there)
        open_ += 1
        if open_ == 8:
            done += (await process.done()).ok
            open_ -= 1
        while record["received"] > record["read"]:
            arrival = await process.arrival()
            for buffer in arrival.buffers:
                await process.provide(buffer)
    while open_:
        done += (await process.done()).ok
        open_ -= 1
        while record["received"] > record["read"]:
            arrival = await process.arrival()
            for buffer in arrival.buffers:
                await process.provide(buffer)
    for _ in range(20):
        await process.sleep(2000)
        while record["received"] > record["read"]:
            arrival = await process.arrival()
            for buffer in arrival.buffers:
                await process.provide(buffer)
    return done


async def meddler(process, seed, forks):
    """The operating system and other processes: swaps, protects, unmaps, maps anew and forks."""
    random = np.random.default_rng(seed)
    memory = process._memory
    forked = False
    own = process.allocate(4 * world.PAGE)
    await process.sleep(1000)
    for _ in range(ROUNDS):
        await process.sleep(float(random.integers(20, 600)))
        what = random.integers(6)
        page = int(random.integers(0, 2 * PAGES))
        if what <= 1:
            for _ in range(int(random.integers(1, 8))):
                memory.swap_out(process.node)
        elif what == 2:
            memory.protect(process.node, 0, page, 1, READ)
        elif what == 3:
            memory.protect(process.node, 0, page, 1, READ | MAY_STORE)
        elif what == 4:
            memory.unmap(process.node, 0, page, 1)
            memory.map(process.node, 0, page, 1)
        elif forks and not forked:
            forked = True
            memory.close(process.node, 2)
            memory.fork(process.node, 0, 2)
        else:
            await own.write(world.content(seed, len(own)))
    if forked:
        memory.close(process.node, 2)


async def child(process):
    """An address space for a fork."""
    await process.sleep(1)


def storm(design, seed, **how):
    """Transfers with translations that did not hold, in one storm of pages."""
    host = HostSize(frames=90, pages_per_space=128, swap_blocks=400)
    how.setdefault("transport", PATIENCE)
    cluster = world.cluster_of(design, host=host, **how)
    for node in range(2):
        peer = 1 - node
        cluster.start(node, lambda process, peer=peer: worker(process, peer, seed))
        cluster.start(node, lambda process: meddler(process, seed, forks=True))
        cluster.start(node, child)
    results = cluster.run()
    assert results[0] > 0
    assert results[3] > 0
    return world.stale(cluster)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("design", world.DESIGNS)
def test_no_transfer_uses_a_translation_that_no_longer_holds(design, seed):
    assert storm(design, seed) == 0


@pytest.mark.parametrize("design", world.DESIGNS)
def test_nor_does_one_that_the_network_made_come_again(design):
    wrong = Faults(seed=5, loss=0.03, duplication=0.1, reordering=0.03, corruption=0.03)
    assert storm(design, 1, faults=wrong) == 0
