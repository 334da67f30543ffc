"""Messages of Trapeze that the NIC has still to read: who waits, and who holds what meanwhile."""

import msgspec
import pytest
from trapeze_sizes import PLATFORM, SMALL

from nicscope.config.design import POLICIES
from nicscope.drivers.simulate.observe import Engine
from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import Cluster
from program_results import results_of
from refusals import refused

MANY = 50


def counted(number, size):
    return bytes([number + 1]) * size


async def hears_all(endpoint):
    heard = []
    for _ in range(MANY):
        message = await endpoint.receive()
        heard.append(bytes(message.payload))
        endpoint.release(message)
    return heard


@pytest.mark.requirement("TR-3", "TR-4", "TR-22")
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("ring", [1, 3, 64])
def test_a_payload_is_not_overwritten_before_the_nic_has_read_it(policy, ring):
    """``write`` waits, so one page serves message after message, however many are on their way."""
    delivery = msgspec.structs.replace(POLICIES[policy], max_payload=4096, send_ring=ring)

    async def reuses(endpoint):
        page = endpoint.allocate(4096)
        for number in range(MANY):
            await page.write(counted(number, 4096))
            await endpoint.send(1, page)

    cluster = Cluster(PLATFORM, policy=delivery)
    assert results_of(cluster, reuses, hears_all)[1] == [
        counted(number, 4096) for number in range(MANY)
    ]


def test_a_program_can_wait_for_the_nic_itself_and_ask_whether_it_is_done():
    async def asks(endpoint):
        page = endpoint.allocate(4096)
        seen = []
        for number in range(MANY):
            await page.write(counted(number, 4096))
            sent = await endpoint.send(1, page)
            before = endpoint.is_sent(sent), endpoint.now_us
            await endpoint.sent(sent)
            assert endpoint.is_sent(sent)
            after = endpoint.now_us
            await page.write(counted(number, 4096))
            assert endpoint.now_us == after  # there was nothing left to wait for
            seen.append((before[0], before[1] < after))
        await endpoint.sent()
        return set(seen)

    asked, heard = results_of(Cluster(PLATFORM), asks, hears_all)
    assert asked == {(False, True)}
    assert heard == [counted(number, 4096) for number in range(MANY)]


def test_the_wait_ends_when_the_ring_shows_the_message_gone_and_costs_nothing_more():
    async def program(endpoint):
        page = endpoint.allocate(4096)
        await endpoint.send(1, page)
        await endpoint.sent()
        return endpoint.now_us

    async def sink(endpoint):
        await endpoint.receive()

    cluster = Cluster(PLATFORM, keep_log=100)
    ended = results_of(cluster, program, sink)[0]
    log = cluster.simulation.machine.log
    left = max(int(each["end"]) for each in log if each["engine"] == Engine.NET_TX)
    fetched = max(int(each["end"]) for each in log if each["engine"] == Engine.HOST_TX)
    finish = cluster.simulation.machine.costs[0]["firmware_finish"]
    assert fetched < left
    assert left + finish <= ended * 10**6 <= left + 20 * finish


def test_only_what_is_still_to_be_read_is_waited_for():
    async def program(endpoint):
        room = endpoint.allocate(8192)
        first, second = room.part(0, 4096), room.part(4096, 4096)
        await endpoint.send(1, first)
        begun = endpoint.now_us
        await second.write(b"x" * 4096)
        beside = endpoint.now_us
        await room.write(b"y", 4095)  # the last byte that is under way
        return begun, beside, endpoint.now_us

    async def sink(endpoint):
        await endpoint.receive()

    begun, beside, over = results_of(Cluster(PLATFORM), program, sink)[0]
    assert begun == beside < over


def test_an_entry_of_the_payload_table_is_whose_it_was_first_until_it_is_given_back():
    async def first(endpoint):
        endpoint.map_payload(3, endpoint.allocate(600))
        endpoint.map_payload(3, endpoint.allocate(600))
        await endpoint.sleep(100)
        endpoint.unmap_payload(3)

    async def second(endpoint):
        await endpoint.sleep(50)
        room = endpoint.allocate(600)
        for call in (lambda: endpoint.map_payload(3, room), lambda: endpoint.unmap_payload(3)):
            with refused(SimulationError, "tag 3 of node 0", "process 0 of node 0's"):
                call()
        await endpoint.sleep(100)
        endpoint.map_payload(3, endpoint.allocate(600))

    results_of(Cluster(PLATFORM, policy=SMALL), (0, first), (0, second))
