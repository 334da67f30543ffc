"""One fast trap for a whole queue, and one transmit-poll demand for all that it put on the ring.

Where a time is expected it is of U-Net/MM's Table 1, DC21140 under Windows NT: a trap takes 3 us, a
message's queue handling 2.8 us and a hit 1 us; a post is 0.1 us (assumed by the platform).
"""

import msgspec
import pytest

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.unet import Cluster
from program_results import results_of
from refusals import refused

TRAP, QUEUE, HIT, POST = 3.0, 2.8, 1.0, 0.1
LENGTH = 100


def run(queue, count, **settings):
    """Have ``queue`` send ``count`` messages of pages that are translated; what became of it."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = process.allocate(4096)
        await room.write(b"warm")
        await endpoint.send(tag, room.part(0, LENGTH))
        await endpoint.sent()
        await process.sleep(1000)
        nodes = cluster.simulation.machine.ports.nodes
        traps, demands = int(nodes[0]["traps"]), int(nodes[0]["demands"])
        begun = process.now_us
        messages = [(tag, room.part(64 * place, LENGTH)) for place in range(count)]
        await queue(endpoint, messages)
        spent = process.now_us - begun
        counted = int(nodes[0]["traps"]) - traps, int(nodes[0]["demands"]) - demands
        for _ in messages:
            assert (await endpoint.sent()).ok
        return begun, spent, counted

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(process.allocate(1498) for _ in range(count + 1)))
        lengths, times = [], []
        for _ in range(count + 1):
            lengths.append((await endpoint.receive()).length)
            times.append(process.now_us)
        assert lengths == [LENGTH] * (count + 1)
        return times[1:]

    cluster = Cluster("unet-mm-dc21140", **settings)
    (begun, spent, (traps, demands)), times = results_of(cluster, ping, pong)
    assert (cluster.simulation.machine.ports.nodes["stale"] == 0).all()
    return spent, traps, demands, [time - begun for time in times]


async def at_once(endpoint, messages):
    await endpoint.send_all(*messages)


async def one_by_one(endpoint, messages):
    for message in messages:
        await endpoint.send(*message)


@pytest.mark.requirement("UM-72")
def test_one_trap_and_one_poll_demand_are_for_a_whole_queue():
    spent, traps, demands, _ = run(at_once, 4)
    assert (traps, demands) == (1, 1)
    assert spent == pytest.approx(TRAP + 4 * (POST + QUEUE + HIT))
    spent, traps, demands, _ = run(one_by_one, 4)
    assert (traps, demands) == (4, 4)
    assert spent == pytest.approx(4 * (TRAP + POST + QUEUE + HIT))


@pytest.mark.requirement("UM-72")
def test_the_controller_is_asked_after_the_last_descriptor_is_on_its_ring():
    _, _, _, alone = run(at_once, 1)
    _, _, _, together = run(at_once, 4)
    # The first frame waits until the other three have been put behind it.
    assert together[0] - alone[0] == pytest.approx(3 * (POST + QUEUE + HIT))


@pytest.mark.requirement("UM-70")
@pytest.mark.parametrize("entries", [1, 2])
def test_a_full_send_ring_is_asked_for_at_once_and_the_trap_waits_for_a_place(entries):
    small = msgspec.structs.replace(POLICIES["adaptive"], send_ring=entries)
    spent, traps, demands, times = run(at_once, 6, policy=small)
    roomy = run(at_once, 6)
    assert traps == 1
    assert demands >= 6 // entries
    assert spent > roomy[0] + LENGTH * 0.08  # it waits for the wire: 80 ns a byte
    assert times[0] < roomy[3][0]  # and what fills the ring leaves before the trap has ended


@pytest.mark.requirement("UM-70")
def test_frames_that_find_the_receive_ring_full_wait_for_its_kernel_buffers():
    narrow = msgspec.structs.replace(POLICIES["adaptive"], receive_ring=1)
    slow = run(at_once, 8, policy=narrow)[3]
    fast = run(at_once, 8)[3]
    assert slow == sorted(slow)
    # With one buffer a frame is not let in before the handler has copied the one before it.
    assert slow[-1] - slow[0] > 1.3 * (fast[-1] - fast[0])


@pytest.mark.requirement("UM-72", "UM-73")
def test_a_queue_of_free_buffers_is_looked_at_in_one_trap():
    async def ping(process):
        await process.open()

    async def pong(process):
        endpoint = await process.open("pong")
        begun = process.now_us
        await endpoint.provide(*(process.allocate(1498) for _ in range(4)))
        return process.now_us - begun

    cluster = Cluster("unet-mm-dc21140")
    _, spent = results_of(cluster, ping, pong)
    node = cluster.simulation.machine.ports.nodes[1]
    assert (node["traps"], node["demands"]) == (1, 0)
    assert spent == pytest.approx(TRAP + 4 * (POST + 37))  # pre-translate, present page


@pytest.mark.requirement("UM-72")
def test_more_buffers_than_the_free_queue_has_places_are_all_provided():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(10_000)
        room = process.allocate(4096)
        with refused(SimulationError, "5 messages", "send queue has 4"):
            await endpoint.send_all(*[(tag, room.part(0, LENGTH))] * 5)
        for _ in range(7):
            await endpoint.send(tag, room.part(0, LENGTH))
            assert (await endpoint.sent()).ok

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(*(process.allocate(1498) for _ in range(7)))
        traps = int(cluster.simulation.machine.ports.nodes[1]["traps"])
        return traps, [(await endpoint.receive()).length for _ in range(7)]

    cluster = Cluster("unet-mm-dc21140", size=PortSize(ring=4, ready=8))
    assert results_of(cluster, ping, pong)[1] == (2, [LENGTH] * 7)
