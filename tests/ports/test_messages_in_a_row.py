"""Messages that follow each other closely: while one is being moved to the host, the next comes."""

import port_world as world
import pytest

from nicscope.drivers.simulate.ports.build import PortSize, Transport
from nicscope.nic.ports.layout import SEND

SIZES = (4096, 30, 9000, 4096, 64, 1, 12288, 5000, 17, 4096)


@pytest.mark.requirement("UM-7")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_messages_that_overlap_on_the_nic_all_arrive_once_and_in_order(design):
    rounds = 3

    async def sender(process):
        world.join(process, 3, 1, 4)
        source = process.allocate(sum(SIZES))
        await source.write(world.content(1, sum(SIZES)))
        posted = 0
        for _ in range(rounds):
            at = 0
            for size in SIZES:
                if size <= 64:
                    await process.post_inline(SEND, 3, world.content(1, sum(SIZES))[at : at + size])
                else:
                    await process.post(SEND, 3, [(source.address + at, size)])
                posted += 1
                at += size
        return [(await process.done()).status for _ in range(posted)]

    async def receiver(process):
        world.join(process, 4, 0, 3)
        memory = process.allocate(40 * world.PAGE)
        for place in range(40):
            await process.provide(memory.address + place * world.PAGE)
        whole = world.content(1, sum(SIZES))
        for _ in range(rounds):
            at = 0
            for size in SIZES:
                arrival = await process.arrival()
                assert arrival.length == size
                found = arrival.content
                if found is None:
                    found = world.buffers_of(process, arrival.buffers, size)
                    for buffer in arrival.buffers:
                        await process.provide(buffer)
                assert found == whole[at : at + size]
                at += size

    cluster = world.cluster_of(design)
    statuses, _ = world.run_on_nodes(cluster, sender, receiver)
    assert statuses == ["done"] * rounds * len(SIZES)
    assert world.uses_left(cluster) == [0, 0]
    assert world.stale(cluster) == 0


@pytest.mark.parametrize("design", world.DESIGNS)
def test_a_buffer_that_those_being_filled_kept_from_its_turn_has_it_when_they_are_full(design):
    """Found by the twin: the buffer stayed in the free queue, and messages were refused."""

    async def sender(process):
        world.join(process, 3, 1, 4, unit=512)
        source = process.allocate(world.PAGE)
        await source.write(world.content(1, 1700))
        statuses = []
        for length in (1400, 300):
            await process.sleep(5000)
            await process.post(SEND, 3, [(source.address, length)])
            statuses.append((await process.done()).status)
        return statuses

    async def receiver(process):
        world.join(process, 4, 0, 3, unit=512)
        memory = process.allocate(4 * world.PAGE)
        for place in range(4):  # of which three are filled at once: all that a port may have
            await process.provide(memory.address + place * world.PAGE)
        await process.sleep(300_000)
        return [len((await process.arrival()).buffers) for _ in range(process.waiting())]

    cluster = world.cluster_of(
        design, size=PortSize(ring=2, ready=1), transport=Transport(most_retries=3)
    )
    assert world.run_on_nodes(cluster, sender, receiver) == [["done", "done"], [3, 1]]
