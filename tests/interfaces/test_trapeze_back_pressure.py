"""Receivers that have no room: what is sent waits on the link, and nothing is lost."""

import msgspec
import pytest

from nicscope.config.delivery import POLICIES
from nicscope.drivers.simulate.log import Engine, Task
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of

COUNT, SIZE, PAUSE_US = 6, 512, 300.0
SLOW = ("p6-natoma", "alcor")  # moves payloads to its host at half the speed at which they come


def sent(platform="p6-natoma", size=SIZE, pause=PAUSE_US, **settings):
    """The log of messages to a host that reads one now and then; it checks their bytes."""
    delivery = msgspec.structs.replace(POLICIES["adaptive"], max_payload=size, **settings)

    async def sender(endpoint):
        page = endpoint.allocate(size)
        for number in range(COUNT):
            await page.write(bytes([number]) * size)
            await endpoint.send(1, page)

    async def receiver(endpoint):
        for number in range(COUNT):
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

    assert len(came) == len(read) == COUNT
    for number in range(ring, COUNT):
        assert came[number] > read[number - ring]
    assert came[ring - 1] < read[0]


@pytest.mark.requirement("TR-29")
@pytest.mark.parametrize("buffers", [1, 2])
def test_no_payload_comes_before_the_nic_has_a_buffer_for_it(buffers):
    log = sent(SLOW, 8192, 0.0, receive_buffers=buffers)
    posted = ends(log, Engine.FIRMWARE, 0, Task.POST_PAYLOAD)
    freed = ends(log, Engine.FIRMWARE, 0, Task.COMPLETE)

    assert len(posted) == len(freed) == COUNT
    for number in range(buffers, COUNT):
        assert posted[number] > freed[number - buffers]
