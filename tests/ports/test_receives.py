"""Ports whose messages take a receive each: gathers of registered memory go to scatter lists."""

from __future__ import annotations

import port_world as world
import work_world
from work_world import PAGE, connect, have_queues, register

from nicscope.nic.ports.layout import SEND

KEY = 9


async def with_memory(process, pages, seed=None):
    """Have queues, and ``pages`` pages of registered memory."""
    have_queues(process)
    memory = process.allocate(pages * PAGE)
    if seed is not None:
        await memory.write(world.content(seed, len(memory)))
    await register(process, KEY, memory.address, len(memory))
    return memory


def run(sender, receiver, *how, **named):
    cluster = work_world.cluster_of(*how, **named)
    cluster.start(0, sender)
    cluster.start(1, receiver)
    results = cluster.run()
    assert world.stale(cluster) == 0
    return results


def at(memory, *pieces):
    return [(memory.address + offset, length, KEY) for offset, length in pieces]


def bytes_of(process, memory, *pieces):
    return b"".join(
        world.memory_of(process, memory.address + offset, length) for offset, length in pieces
    )


def test_a_gather_arrives_in_the_pieces_of_a_receive():
    sent = [(100, 3000), (5000, 1), (8000, 4500)]
    into = [(4000, 200), (7, 1), (9000, 7000), (20000, 300)]

    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(500)
        connect(process)
        request = await process.post_gather(SEND, at(memory, *sent), immediate=-5)
        return await process.ended() == (request, "done", SEND, 7501, None), bytes_of(
            process, memory, *sent
        )

    async def receiver(process):
        memory = await with_memory(process, 6)
        await process.post_receive(77, at(memory, *into))
        said = await process.received()
        return said, bytes_of(process, memory, *into)[:7501]

    (done, content), (said, found) = run(sender, receiver)
    assert done
    assert said == (77, "done", SEND, 7501, -5)
    assert found == content
