"""Trapeze over a network that loses and damages, and to receivers that have no room."""

import msgspec
import pytest

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import Engine, Task
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.fabric.faults import CORRUPTED, LOST, fate, new_faults
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of

COUNT = 40
FAULTS = Faults(seed=7, loss=0.2, corruption=0.3)


def befell(number):
    return fate(new_faults(7, 0.2, 0.0, 0.0, 0.3)[0], 0, number, 0)


WHOLE = [number for number in range(COUNT) if not befell(number) & (LOST | CORRUPTED)]


def run(policy="adaptive", faults=FAULTS):
    cluster = Cluster("pentium2-440lx", policy=policy, faults=faults)

    async def send(endpoint):
        page = endpoint.allocate(4096)
        for number in range(COUNT):
            await page.write(bytes([number]) * 4096)
            endpoint.reserve(1)[:] = bytes([number])
            await endpoint.send(1, page)
        await endpoint.sleep(1000)  # until the last of them has come

    async def receive(endpoint):
        seen = []
        for _ in WHOLE:
            message = await endpoint.receive()
            content = message.payload.tobytes()
            endpoint.release(message)
            assert set(content) == {content[0]}
            seen.append(content[0])
        return seen

    return cluster, results_of(cluster, send, receive)[1]


@pytest.mark.parametrize("policy", ["adaptive", "store-and-forward", "cut-through"])
def test_what_is_not_lost_or_damaged_comes_whole_and_in_order(policy):
    cluster, seen = run(policy)
    assert seen == WHOLE
    received = cluster.report().nodes[1].received
    lost = sum(bool(befell(number) & LOST) for number in range(COUNT))
    assert 0 < lost < COUNT - len(WHOLE)
    assert received.lost == lost
    assert received.corrupted == COUNT - len(WHOLE) - lost
    assert received.broken_off == received.cut_off == 0
    assert received.delivered == len(WHOLE)


def test_a_dead_node_says_and_hears_nothing_more():
    deaths = Faults(node_deaths={1: 0})
    cluster = Cluster("pentium2-440lx", faults=deaths)

    async def send(endpoint):
        for _ in range(3):
            await endpoint.send(1)
        await endpoint.sleep(1000)

    async def receive(endpoint):
        return await endpoint.receive()

    assert results_of(cluster, send, receive) == [None, None]
    assert cluster.report().nodes[1].received.cut_off == 3


# --- receivers that have no room: what is sent waits on the link, and nothing is lost -----------

MANY, SIZE, PAUSE_US = 6, 512, 300.0
SLOW = ("p6-natoma", "alcor")  # moves payloads to its host at half the speed at which they come


def sent(platform="p6-natoma", size=SIZE, pause=PAUSE_US, **settings):
    """The log of messages to a host that reads one now and then; it checks their bytes."""
    delivery = msgspec.structs.replace(POLICIES["adaptive"], max_payload=size, **settings)

    async def sender(endpoint):
        page = endpoint.allocate(size)
        for number in range(MANY):
            await page.write(bytes([number]) * size)
            await endpoint.send(1, page)

    async def receiver(endpoint):
        for number in range(MANY):
            await endpoint.sleep(pause)
            message = await endpoint.receive()
            assert bytes(message.payload) == bytes([number]) * size
            endpoint.release(message)

    cluster = Cluster(platform, policy=delivery, keep_log=1 << 12)
    results_of(cluster, sender, receiver)
    return cluster.simulation.machine.log[: cluster.simulation.machine.tally[0]["log"]]


def ends(log, engine, control, task=-1):
    """By packet, when the last such record of it ended; of the firmware, the receiver's."""
    chosen = (log["engine"] == engine) & (log["control"] == control)
    if engine == Engine.FIRMWARE:
        chosen &= (log["node"] == 1) & (log["task"] == task)
    return {int(each["packet"]): int(each["end"]) for each in log[chosen]}


@pytest.mark.requirement("TR-4", "TR-29")
@pytest.mark.parametrize("ring", [1, 2, 3])
def test_no_control_message_comes_before_the_ring_has_an_entry_for_it(ring):
    log = sent(receive_ring=ring)
    came, read = ends(log, Engine.NET_RCV, 1), ends(log, Engine.HOST_READ, 1)

    assert len(came) == len(read) == MANY
    for number in range(ring, MANY):
        assert came[number] > read[number - ring]
    assert came[ring - 1] < read[0]


@pytest.mark.requirement("TR-29")
@pytest.mark.parametrize("buffers", [1, 2])
def test_no_payload_comes_before_the_nic_has_a_buffer_for_it(buffers):
    log = sent(SLOW, 8192, 0.0, receive_buffers=buffers)
    posted = ends(log, Engine.FIRMWARE, 0, Task.POST_PAYLOAD)
    freed = ends(log, Engine.FIRMWARE, 0, Task.COMPLETE)

    assert len(posted) == len(freed) == MANY
    for number in range(buffers, MANY):
        assert posted[number] > freed[number - buffers]
