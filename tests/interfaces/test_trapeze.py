"""Programs on Trapeze endpoints: real bytes, rings, tags, and what goes wrong."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicscope.config.delivery import POLICIES
from nicscope.drivers.simulate.log import Engine
from nicscope.drivers.simulate.machine import OPERATION
from nicscope.drivers.simulate.programs import Ended
from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import NO_TAG, Cluster

PLATFORM = "p6-natoma"
SMALL = msgspec.structs.replace(POLICIES["adaptive"], max_payload=600, send_ring=3, receive_ring=3)


def numbers(seed, count):
    return np.random.default_rng(seed).integers(0, 256, count, dtype=np.uint8)


def sender_of(sizes, seed=0):
    async def program(endpoint):
        pages = []
        for number, size in enumerate(sizes):
            page = endpoint.allocate(size) if size else None
            if page is not None:
                await page.write(numbers(seed + number, size))
            pages.append(page)
            endpoint.reserve(2)[:] = number.to_bytes(2, "little")
            endpoint.reserve(1)[:] = b"!"
            await endpoint.send(1, page)
        return endpoint.now_us

    return program


def receiver_of(sizes, seed=0, pause=0.0):
    async def program(endpoint):
        for number, size in enumerate(sizes):
            await endpoint.sleep(pause)
            message = await endpoint.receive()
            assert message.scan(2) == number.to_bytes(2, "little")
            assert message.scan(1) == b"!"
            assert (message.sender, message.number) == (0, number)
            expected = numbers(seed + number, size) if size else np.zeros(0, np.uint8)
            assert np.array_equal(message.payload, expected)
            endpoint.release(message)
        return endpoint.now_us

    return program


@pytest.mark.requirement("TR-1", "TR-2", "TR-3", "TR-8", "TR-10")
@given(
    sizes=st.lists(st.integers(0, 600), min_size=1, max_size=12),
    policy=st.sampled_from(sorted(POLICIES)),
    pause=st.sampled_from([0.0, 300.0]),
    buffers=st.integers(1, 3),
)
@settings(max_examples=25)
def test_every_byte_arrives_once_in_order_and_unchanged(sizes, policy, pause, buffers):
    delivery = msgspec.structs.replace(
        POLICIES[policy],
        max_payload=600,
        send_ring=3,
        receive_ring=2,
        send_buffers=buffers,
        receive_buffers=buffers,
    )
    cluster = Cluster(PLATFORM, policy=delivery)
    cluster.start(0, sender_of(sizes))
    cluster.start(1, receiver_of(sizes, pause=pause))

    sent, received = cluster.run()

    assert received > sent > 0


@pytest.mark.requirement("TR-6", "TR-7")
def test_a_tagged_payload_goes_where_the_table_says_and_others_to_the_ring():
    async def program(endpoint):
        page = endpoint.allocate(600)
        await page.write(bytes([5]) * 600)
        await endpoint.send(1, page, tag=3)
        await endpoint.send(1, page)
        await endpoint.send(1, page, tag=4)

    async def other(endpoint):
        place = endpoint.allocate(600)
        endpoint.map_payload(3, place)
        messages = [await endpoint.receive() for _ in range(3)]
        assert (place.bytes == 5).all()
        return place.address, [(m.tag, m.own, m.address) for m in messages]

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, program)
    cluster.start(1, other)

    address, got = cluster.run()[1]

    assert got[0] == (3, False, address)
    assert got[1][:2] == (NO_TAG, True)
    assert got[2][:2] == (4, True)
    assert len({where for _, _, where in got}) == 3


@pytest.mark.requirement("TR-4", "TR-5", "TR-29")
def test_a_full_ring_makes_the_sender_wait_and_loses_nothing():
    sizes = [64] * 20
    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, sender_of(sizes))
    cluster.start(1, receiver_of(sizes, pause=500.0))

    sent, received = cluster.run()

    # Rings and buffers hold a few messages, so the sender is kept back by the receiver's pauses.
    assert sent > 10 * 500.0
    assert received >= 20 * 500.0


def test_a_payload_buffer_that_is_not_given_back_is_not_used_again():
    async def program(endpoint):
        page = endpoint.allocate(100)
        for _ in range(4):
            await endpoint.send(1, page)

    async def hoarder(endpoint):
        kept = [await endpoint.receive() for _ in range(3)]
        assert len({message.address for message in kept}) == 3
        await endpoint.receive()

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, program)
    cluster.start(1, hoarder)

    with pytest.raises(SimulationError, match=r"programs wait: process 1 on node 1 to receive"):
        cluster.run()


def sends_pages(count):
    async def program(endpoint):
        page = endpoint.allocate(100)
        for _ in range(count):
            await endpoint.send(1, page)

    return program


def test_buffers_released_one_after_the_other_all_serve_again():
    async def receiver(endpoint):
        for _ in range(4):
            kept = [await endpoint.receive() for _ in range(3)]
            for message in kept:
                endpoint.release(message)
                with pytest.raises(SimulationError, match="a message that is released already"):
                    endpoint.release(message)
        return len({message.address for message in kept})

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, sends_pages(12))
    cluster.start(1, receiver)

    assert cluster.run()[1] == 3


def test_a_buffer_released_by_a_program_that_ends_serves_the_others():
    async def leaver(endpoint):
        kept = [await endpoint.receive() for _ in range(3)]
        for message in kept:
            endpoint.release(message)

    async def stayer(endpoint):
        await endpoint.sleep(10_000)  # until the first three are gone, and the fourth waits
        return [(await endpoint.receive()).number for _ in range(3)]

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, sends_pages(6))
    cluster.start(1, leaver)
    cluster.start(1, stayer)

    assert cluster.run()[2] == [3, 4, 5]


def test_a_cluster_runs_again_from_the_start():
    cluster = Cluster(PLATFORM, policy=SMALL, host_bytes=2500)
    cluster.start(0, sends_pages(2))

    async def receiver(endpoint):
        for _ in range(2):
            endpoint.release(await endpoint.receive())
        return endpoint.now_us

    cluster.start(1, receiver)

    assert cluster.run() == cluster.run()


def test_many_processes_share_a_cpu_and_an_endpoint():
    async def worker(endpoint):
        await endpoint.compute(10)
        await endpoint.send(1)
        return endpoint.now_us

    async def sink(endpoint):
        return [(await endpoint.receive()).number for _ in range(3)]

    cluster = Cluster(PLATFORM)
    for _ in range(3):
        cluster.start(0, worker)
    cluster.start(1, sink)

    *times, got = cluster.run()

    assert got == [0, 1, 2]
    assert times[0] < times[1] < times[2]
    assert times[2] >= 30


def test_programs_end_alike_every_time():
    def run():
        cluster = Cluster(PLATFORM, nodes=3, keep_log=5000)

        def talk(partner):
            async def program(endpoint):
                page = endpoint.allocate(3000)
                for _ in range(5):
                    await endpoint.send(partner, page)
                    endpoint.release(await endpoint.receive())
                await endpoint.copy(500)
                return endpoint.now_us

            return program

        for node in range(3):
            cluster.start(node, talk((node + 1) % 3))
        results = cluster.run()
        return results, cluster.simulation.machine.log.tobytes()

    assert run() == run()


def latency_of_a_control_message(platform, shadow):
    async def program(endpoint):
        await endpoint.send(1)

    async def sink(endpoint):
        await endpoint.receive()
        return endpoint.now_us

    cluster = Cluster(platform, shadow=shadow, keep_log=100)
    cluster.start(0, program)
    cluster.start(1, sink)
    return cluster.run()[1], cluster.simulation.machine.log


@pytest.mark.requirement("TR-11")
def test_a_shadow_buffer_costs_a_pass_through_memory_where_nothing_bursts():
    direct, _ = latency_of_a_control_message(PLATFORM, False)
    shadow, _ = latency_of_a_control_message(PLATFORM, True)

    assert shadow > direct


@pytest.mark.requirement("TR-11", "TR-12")
def test_a_shadow_buffer_pays_where_the_bridge_bursts():
    direct, _ = latency_of_a_control_message("alcor", False)
    shadow, _ = latency_of_a_control_message("alcor", True)

    assert shadow < direct


@pytest.mark.requirement("TR-9")
def test_control_messages_cross_the_bus_without_dma():
    _, log = latency_of_a_control_message(PLATFORM, False)

    used = {Engine(record) for record in log["engine"]}
    assert not used & {Engine.HOST_TX, Engine.HOST_RCV}
    assert {Engine.HOST_WRITE, Engine.NET_TX, Engine.NET_RCV, Engine.HOST_READ} <= used


async def nothing(_endpoint):
    return None


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda e: e.reserve(129), "control message has 128 bytes: 0 are reserved, 129 more"),
        (lambda e: e.allocate(10**9), "bytes of memory left"),
        (lambda e: e.map_payload(99, e.allocate(600)), "tag must be from 0 to 63, got 99"),
        (lambda e: e.unmap_payload(1), "tag 1 of node 0 is not mapped"),
        (lambda e: e.map_payload(1, e.allocate(10)), "must hold the largest payload"),
    ],
)
def test_what_an_endpoint_cannot_do_is_said_in_a_line(action, message):
    async def program(endpoint):
        action(endpoint)

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, program)

    with pytest.raises(SimulationError, match=message):
        cluster.run()


@pytest.mark.parametrize(
    ("destination", "size", "message"),
    [
        (7, 10, "no path from node 0 to node 7"),
        (0, 10, "no path from node 0 to node 0"),
        (1, 601, "payload must be at most 600 bytes, got 601"),
    ],
)
def test_what_cannot_be_sent_is_refused(destination, size, message):
    async def program(endpoint):
        await endpoint.send(destination, endpoint.allocate(size))

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, program)

    with pytest.raises(SimulationError, match=message):
        cluster.run()


def test_a_cluster_that_cannot_be_is_refused():
    with pytest.raises(SimulationError, match="did you mean 'adaptive'"):
        Cluster(PLATFORM, policy="adaptve")
    with pytest.raises(SimulationError, match="no node 2; there are 2"):
        Cluster(PLATFORM).start(2, nothing)


def test_what_crosses_to_programs_is_an_operation_word_by_word():
    assert Ended._fields == OPERATION.names
    assert {OPERATION[name] for name in Ended._fields} == {np.dtype("i8")}
    assert OPERATION.itemsize == 8 * len(Ended._fields)


def test_a_cluster_without_programs_is_done_at_once():
    assert Cluster(PLATFORM).run() == []


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
    cluster.start(0, reuses)
    cluster.start(1, hears_all)
    assert cluster.run()[1] == [counted(number, 4096) for number in range(MANY)]


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

    cluster = Cluster(PLATFORM)
    cluster.start(0, asks)
    cluster.start(1, hears_all)
    asked, heard = cluster.run()
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
    cluster.start(0, program)
    cluster.start(1, sink)
    ended = cluster.run()[0]
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

    cluster = Cluster(PLATFORM)
    cluster.start(0, program)
    cluster.start(1, sink)
    begun, beside, over = cluster.run()[0]
    assert begun == beside < over


def test_nothing_is_stored_through_a_view():
    """Or a program could change, behind the library, what the NIC has yet to read."""

    async def program(endpoint):
        page = endpoint.allocate(600)
        for view in (page.bytes, page.bytes[10:], page.part(3, 5).bytes):
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 1
        await endpoint.send(0, page) if endpoint.node else await endpoint.send(1, page)
        message = await endpoint.receive()
        with pytest.raises(ValueError, match="read-only"):
            message.payload[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            cluster.memory(endpoint.node)[0] = 1

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, program)
    cluster.start(1, program)
    cluster.run()


def test_a_message_that_was_never_sent_is_not_waited_for():
    async def program(endpoint):
        with pytest.raises(SimulationError, match="no message to wait for; send one first"):
            await endpoint.sent()
        with pytest.raises(SimulationError, match="process 0 of node 0 has sent no message 3"):
            await endpoint.sent(3)
        await endpoint.send(1)
        await endpoint.sleep(100)
        other = endpoint.is_sent(0)
        with pytest.raises(SimulationError, match="has sent no message 1"):
            endpoint.is_sent(1)  # the neighbour's
        return other

    async def neighbour(endpoint):
        await endpoint.sleep(50)
        await endpoint.send(1)
        await endpoint.sleep(100)

    async def sink(endpoint):
        for _ in range(2):
            await endpoint.receive()

    cluster = Cluster(PLATFORM)
    for node, each in ((0, program), (0, neighbour), (1, sink)):
        cluster.start(node, each)
    assert cluster.run()[0] is True


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
            with pytest.raises(SimulationError, match="tag 3 of node 0 is process 0 of node 0's"):
                call()
        await endpoint.sleep(100)
        endpoint.map_payload(3, endpoint.allocate(600))

    cluster = Cluster(PLATFORM, policy=SMALL)
    cluster.start(0, first)
    cluster.start(0, second)
    cluster.run()
