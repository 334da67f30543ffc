"""What a connection promises: less than its cluster's transport does, or more, beside others."""

import port_world as world
import pytest

from nicscope.drivers.simulate.ports.build import Faults, PortSize, Transport
from nicscope.nic.ports.layout import AS_ALL, DELIVERY, RECEPTION, SEND, UNRELIABLE

SIZE = PortSize(connections=8, ring=16)
QUICK = Transport(time_out_ps=200_000_000, most_retries=40)
LOOSE = Transport(reliable=False, time_out_ps=200_000_000, most_retries=40)
LOSS = Faults(seed=11, loss=0.1, duplication=0.05, reordering=0.05, corruption=0.05)
MESSAGES = 60
LENGTH = 1500


def run_pairs(levels, transport, faults=LOSS, design="vmmc-static"):
    """Node 0's programs send to those of node 1, by connections of ``levels``; what each got."""
    cluster = world.cluster_of(
        design, transport=transport, faults=faults, size=SIZE, ports=len(levels)
    )
    got = {level: [] for level in levels}

    async def sender(process):
        level = levels[process.number]
        world.connect(process, process.port, 1, process.port, level, unit=1024)
        source = process.allocate(world.PAGE)
        await process.sleep(20)
        for number in range(MESSAGES):
            await source.write(world.content(number, LENGTH))
            await process.post(SEND, process.port, [(source.address, LENGTH)])
            assert (await process.done()).ok
            await process.sleep(300)

    async def receiver(process):
        level = levels[process.number]
        buffers = [process.allocate(world.PAGE).address for _ in range(8)]
        await process.provide(*buffers)
        while process.now_us < 60_000 and len(got[level]) < MESSAGES:
            await process.sleep(50)
            while process.waiting():
                came = await process.arrival()
                got[level].append(world.buffers_of(process, came.buffers, came.length, 1024))
                await process.provide(*came.buffers)

    for node, program in ((0, sender), (1, receiver)):
        for _ in levels:
            cluster.start(node, program)
    cluster.run()
    return cluster, got


def numbers_of(messages):
    """Which messages these are; each must be one that was sent."""
    known = {world.content(number, LENGTH): number for number in range(MESSAGES)}
    return [known[message] for message in messages]


@pytest.mark.parametrize("transport", [QUICK, LOOSE])
def test_connections_of_all_levels_live_side_by_side_whatever_the_transport_is(transport):
    cluster, got = run_pairs([UNRELIABLE, DELIVERY, RECEPTION], transport)

    for level in (DELIVERY, RECEPTION):
        assert numbers_of(got[level]) == list(range(MESSAGES))
    loose = numbers_of(got[UNRELIABLE])
    assert loose == sorted(set(loose))
    assert 0.3 * MESSAGES < len(loose) < MESSAGES
    ports = cluster.simulation.machine.ports
    assert int(ports.pool[0]["kept"]) == 0
    assert world.uses_left(cluster) == [0, 0]


@pytest.mark.parametrize("transport", [QUICK, LOOSE])
def test_a_connection_without_a_level_is_as_the_transport(transport):
    _, got = run_pairs([AS_ALL], transport)
    came = numbers_of(got[AS_ALL])
    assert (came == list(range(MESSAGES))) == transport.reliable


def done_and_arrived(level, design="vmmc-static"):
    """When the send of a page was done, and when its receiver had it, in us."""
    cluster = world.cluster_of(design, size=SIZE, transport=Transport(ack_delay_ps=0))

    async def sender(process):
        world.connect(process, 1, 1, 1, level)
        source = process.allocate(world.PAGE)
        await process.sleep(20)
        await process.post(SEND, 1, [(source.address, world.PAGE)])
        assert (await process.done()).ok
        return process.now_us

    async def receiver(process):
        await process.provide(process.allocate(world.PAGE).address)
        await process.arrival()
        return process.now_us

    return world.run_on_nodes(cluster, sender, receiver)


@pytest.mark.parametrize("design", ["vmmc-static", "vmmc-interrupt"])
def test_delivery_is_done_before_the_bytes_are_in_memory_and_reception_after(design):
    early, arrived = done_and_arrived(DELIVERY, design)
    late, _ = done_and_arrived(RECEPTION, design)
    loose, _ = done_and_arrived(UNRELIABLE, design)
    assert loose < early < arrived < late
