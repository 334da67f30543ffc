"""Two processes that write to and fetch from each other's memory by key."""

import port_world as world
import work_world
from work_world import KEY, PAGE, cluster_of, connect, digest, with_memory

from nicscope.config.design import Transport
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.nic.ports.layout import WRITE

TRANSPORT = Transport(time_out_ps=200_000_000, most_retries=20)
FAULTS = Faults(seed=3, loss=0.05, duplication=0.03, reordering=0.03, corruption=0.03)
PAGES = 6
SIZE = PAGES * PAGE


def stretches(rng, half):
    """Stretches of one half of a process's memory that do not overlap, in any order."""
    begin = half * SIZE // 2
    many = 2 * rng.randrange(1, work_world.SEGMENTS + 1)
    places = sorted(rng.sample(range(begin, begin + SIZE // 2), many))
    pairs = zip(places[::2], places[1::2], strict=True)
    return rng.sample([(first, last - first) for first, last in pairs], many // 2)


def run(asker, owner, level, faults=None, design="vmmc-static", way=None):
    """What both programs return; node 0's asks for memory of node 1, and connects them."""

    async def first(process):
        memory = await with_memory(process, PAGES, 1)
        await process.sleep(1500)
        connect(process, level, unit=1500)
        return await asker(process, memory)

    async def second(process):
        memory = await with_memory(process, PAGES, 2)
        return await owner(process, memory)

    cluster = cluster_of(design, way, transport=TRANSPORT, faults=faults)
    results = world.run_on_nodes(cluster, first, second)
    assert world.stale(cluster) == 0
    assert work_world.uses_left(cluster) == [0, 0]
    return results


async def ask(process, operation, pieces, offset, key=KEY, **how):
    """Post a remote operation on the peer's memory, which begins at its address 0; its number."""
    return await process.post_gather(operation, pieces, name=key, offset=offset, **how)


async def wait_for(process, say):
    """Wait until the other program has said something."""
    while not say:
        await process.sleep(50)


def changed(operations):
    """What the asker's and the owner's memory hold after remote operations, one after the other."""
    mine, theirs = (bytearray(world.content(which, SIZE)) for which in (1, 2))
    for operation, pieces, offset in operations:
        for begin, count in pieces:
            if operation == WRITE:
                theirs[offset : offset + count] = mine[begin : begin + count]
            else:
                mine[begin : begin + count] = theirs[offset : offset + count]
            offset += count
    return digest(bytes(mine)), digest(bytes(theirs))


async def own_memory(process, owner):
    return await owner(process, await with_memory(process, PAGES, 2))
