"""Programs on Trapeze endpoints: real bytes, rings, tags, and what goes wrong."""

import runpy
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trapeze_sizes import PLATFORM, SMALL

from nicscope.config.design import POLICIES
from nicscope.config.platform import load_platform
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.process import Ended
from nicscope.drivers.simulate.records import OPERATION
from nicscope.errors import SimulationError
from nicscope.interfaces.trapeze import NO_TAG, Cluster
from nicscope.studies.reproduce.experiments.trapeze import (
    PAIRS,
    latency_us,
    pair_costs,
    platform_costs,
)
from program_results import results_of
from refusals import refused
from suite import share

EXAMPLES = Path(__file__).parents[2] / "examples"


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


@pytest.mark.requirement("TR-1", "TR-3", "TR-10")
@given(
    sizes=st.lists(st.integers(0, 600), min_size=1, max_size=12),
    policy=st.sampled_from(sorted(POLICIES)),
    pause=st.sampled_from([0.0, 300.0]),
    buffers=st.integers(1, 3),
)
@share(2.5)
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
    sent, received = results_of(cluster, sender_of(sizes), receiver_of(sizes, pause=pause))

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

    address, got = results_of(Cluster(PLATFORM, policy=SMALL), program, other)[1]

    assert got[0] == (3, False, address)
    assert got[1][:2] == (NO_TAG, True)
    assert got[2][:2] == (4, True)
    assert len({where for _, _, where in got}) == 3


@pytest.mark.requirement("TR-4", "TR-5")
def test_a_full_ring_makes_the_sender_wait_and_loses_nothing():
    sizes = [64] * 20
    cluster = Cluster(PLATFORM, policy=SMALL)
    sent, received = results_of(cluster, sender_of(sizes), receiver_of(sizes, pause=500.0))

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

    with refused(SimulationError, "endpoint.receive()", "receive ring", "release"):
        results_of(Cluster(PLATFORM, policy=SMALL), program, hoarder)


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
                with refused(SimulationError, "released already"):
                    endpoint.release(message)
        return len({message.address for message in kept})

    assert results_of(Cluster(PLATFORM, policy=SMALL), sends_pages(12), receiver)[1] == 3


def test_a_buffer_released_by_a_program_that_ends_serves_the_others():
    async def leaver(endpoint):
        kept = [await endpoint.receive() for _ in range(3)]
        for message in kept:
            endpoint.release(message)

    async def stayer(endpoint):
        await endpoint.sleep(10_000)  # until the first three are gone, and the fourth waits
        return [(await endpoint.receive()).number for _ in range(3)]

    cluster = Cluster(PLATFORM, policy=SMALL)
    assert results_of(cluster, (0, sends_pages(6)), (1, leaver), (1, stayer))[2] == [3, 4, 5]


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
    return results_of(cluster, program, sink)[1], cluster.simulation.machine.log


@pytest.mark.requirement("TR-11")
def test_a_shadow_buffer_costs_a_pass_through_memory_at_either_end_where_nothing_bursts():
    direct, _ = latency_of_a_control_message(PLATFORM, False)
    shadow, _ = latency_of_a_control_message(PLATFORM, True)

    a_pass = 128 * load_platform(PLATFORM).costs["block_copy_per_byte"].high_ps / 1e6
    assert shadow - direct == pytest.approx(2 * a_pass)


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


@pytest.mark.requirement("TR-8")
@pytest.mark.parametrize("reserved", [0, 1, 128])
def test_a_control_message_is_sent_whole_however_little_of_it_is_used(reserved):
    async def program(endpoint):
        endpoint.reserve(reserved)
        await endpoint.send(1)

    async def sink(endpoint):
        return (await endpoint.receive()).control

    cluster = Cluster(PLATFORM, keep_log=100)
    control = results_of(cluster, program, sink)[1]

    machine = cluster.simulation.machine
    (sent,) = machine.log[machine.log["engine"] == Engine.NET_TX]
    costs = machine.costs[0]
    port = 2 * int(costs["nic_memory_per_byte"])  # of the two that NIC memory has
    on_link = 128 * max(int(costs["link_per_byte"]), port)
    before = int(costs["link_start"]) + int(costs["switch_hop"])
    assert control == bytes(128)
    assert int(sent["bytes"]) == 128
    assert int(sent["end"] - sent["start"]) == before + on_link


def test_what_crosses_to_programs_is_an_operation_word_by_word():
    assert Ended._fields == OPERATION.names
    assert {OPERATION[name] for name in Ended._fields} == {np.dtype("i8")}
    assert OPERATION.itemsize == 8 * len(Ended._fields)


@pytest.mark.requirement("TR-13", "TR-14")
def test_a_kernels_users_share_frames_and_every_byte_is_right(capsys):
    runpy.run_path(str(EXAMPLES / "trapeze_kernel.py"), run_name="__main__")

    assert capsys.readouterr().out == (EXAMPLES / "trapeze_kernel.out").read_text()


# --- hosts of several platforms ------------------------------------------------------------------

PAYLOAD = 4096
CONTENT = bytes(range(256)) * (PAYLOAD // 256)


async def sends(endpoint):
    page = endpoint.allocate(PAYLOAD)
    await page.write(CONTENT)
    await endpoint.send(1, page)


async def receives(endpoint):
    message = await endpoint.receive()
    assert bytes(message.payload) == CONTENT
    return endpoint.now_us


def programs_latency_us(platform):
    cluster = Cluster(platform, policy="cut-through")
    return results_of(cluster, sends, receives)[1], cluster


@pytest.mark.requirement("TR-26")
@pytest.mark.parametrize("pair", PAIRS)
def test_programs_between_two_platforms_take_what_a_script_between_them_takes(pair):
    took, cluster = programs_latency_us(PAIRS[pair])

    assert took == pytest.approx(
        latency_us(pair_costs(platform_costs(), pair), "cut-through", PAYLOAD), abs=1e-9
    )
    assert cluster.report().platform == " and ".join(dict.fromkeys(PAIRS[pair]))


@pytest.mark.requirement("TR-26")
def test_which_of_two_platforms_sends_matters():
    forth, _ = programs_latency_us(("alcor", "p6-natoma"))
    back, _ = programs_latency_us(("p6-natoma", "alcor"))

    assert forth < back  # Alcor receives at half the link's speed, and reads slowly


def test_hosts_at_a_memory_bus_are_all_of_one_platform(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text((files("nicscope.catalog") / "platforms" / "p6-natoma-edt.toml").read_text())

    with refused(SimulationError, "one platform"):
        Cluster(["p6-natoma-edt", str(own)], way="cc-dma-intervention")
