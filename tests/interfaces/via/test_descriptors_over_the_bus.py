"""Where descriptors lie and how they come to the NIC: stored, handed over, fetched, served."""

import pytest
from pairs import DELIVERY, MECHANISMS, Cluster, ended, idle, make_end

from nicscope.drivers.simulate.observe import Engine, Task
from nicscope.drivers.simulate.records import POLLING
from nicscope.interfaces.via import Status
from nicscope.memory.coherence.layout import CPU, UNCACHED_WRITE
from program_results import results_of

FETCHED = ("edt", "cc-dma-intervention", "cc-dma-retry", "dma")  # by the NIC itself
FLUSHED = int(Status.VIP_STATUS_DESC_FLUSHED_ERROR)
NS = 1000  # ps


def play(first, second=idle, mechanism="cc-dma-intervention", cluster=None, **how):
    """What the first of two connected programs returns, and the run's log."""
    cluster = cluster or Cluster(mechanism=mechanism, keep_log=4000, **how)

    async def left(host):
        end = await make_end(host, DELIVERY)
        await end.nic.connect_request(end.vi, 1, "test")
        return await first(end)

    async def right(host):
        end = await make_end(host, DELIVERY)
        for _ in range(8):
            await end.nic.post_recv(end.vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("test"), end.vi)
        await second(end)

    found = results_of(cluster, left, right)[0]
    machine = cluster.simulation.machine
    return found, machine.log[: int(machine.tally[0]["log"])], machine


def sends(count, size=64):
    async def first(end):
        for _ in range(count):
            await end.nic.write(end.out.address, bytes(size))
            await end.nic.post_send(end.vi, end.send(0, size))
            assert (await end.nic.send_wait(end.vi)).ok

    return first


def of(log, engine, node=0):
    return log[(log["engine"] == engine) & (log["node"] == node)]


@pytest.mark.requirement("ED-8")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_nic_has_the_descriptor_before_it_fetches_the_message(mechanism):
    _, log, _ = play(sends(3), mechanism=mechanism)
    read = of(log, Engine.DESCRIPTOR)
    assert len(read) == (3 if mechanism in FETCHED else 0)
    moved = of(log, Engine.HOST_TX)
    moved = moved[moved["bytes"] > 0]
    for descriptor, message in zip(read, moved, strict=False):
        assert descriptor["bytes"] == 48
        assert descriptor["end"] <= message["start"]
    served = of(log, Engine.FIRMWARE)
    served = served[served["task"] == Task.SERVE]
    for descriptor in read:  # a token is taken before, and the descriptor served behind
        assert (served["end"] <= descriptor["start"]).any()
        assert (served["start"] >= descriptor["end"]).any()


@pytest.mark.requirement("ED-8")
@pytest.mark.parametrize("segments", [1, 7])
def test_an_engine_fetches_it_in_the_time_of_a_transfer_of_its_blocks(segments):
    """Arbitration, address, snoop, the cache's answer, 16 bytes a cycle; set up and told of."""

    async def first(end):
        data = [end.out.segment(8 * i, 8) for i in range(segments)]
        await end.nic.post_send(end.vi, end.places.request(*data))
        assert (await end.nic.send_wait(end.vi)).ok

    settings = {"dma_init": 70 * NS, "dma_interrupt": 50 * NS, "cache_supply": 30 * NS}
    _, log, machine = play(first, settings=settings)
    (read,) = of(log, Engine.DESCRIPTOR)
    count = 32 + 16 * segments
    host = machine.bus.hosts.config[0, 0]
    cycle = int(host["bus_cycle"])
    waits = int(host["arbitration"] + host["address_phase"] + host["snoop"]) * cycle
    blocks = [min(128, count), max(count - 128, 0)]
    moved = sum(waits + 30 * NS + -(-size // 16) * cycle for size in blocks if size)
    assert read["end"] - read["start"] == 70 * NS + moved + 50 * NS


@pytest.mark.requirement("ED-23")
def test_under_edt_it_comes_to_the_nic_without_being_fetched():
    """Or on its way: its blocks are read as they are stored, and no engine is set up for it."""
    settings = {"dma_init": 10_000 * NS, "dma_interrupt": 10_000 * NS}
    read = of(play(sends(4), mechanism="edt", settings=settings)[1], Engine.DESCRIPTOR)
    assert len(read) == 4
    assert (read["end"] - read["start"] <= 300 * NS).all()


@pytest.mark.requirement("ED-3", "ED-23")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_its_bytes_are_stored_where_the_program_has_put_it(mechanism):
    """As the library's header lays them out, but for the words that the NIC writes."""

    async def first(end):
        data = end.out.segment(24, 16), end.out.segment(100, 3)
        descriptor = end.places.request(*data)
        await end.nic.post_send(end.vi, descriptor)
        await end.nic.compute(50)
        return descriptor

    cluster = Cluster(mechanism=mechanism)
    descriptor = play(first, cluster=cluster)[0]
    raw = cluster.memory.read(0, 0, descriptor.address, descriptor.byte_count)
    assert bytes(raw[:20]) == descriptor.encode()[:20]
    assert bytes(raw[28:]) == descriptor.encode()[28:]


@pytest.mark.requirement("ED-3", "ED-61")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_post_rings_the_doorbell_once_and_makes_no_system_call(mechanism):
    cluster = Cluster(mechanism=mechanism, settings={"system_call": 1_000_000_000})

    async def first(end):
        machine = cluster.simulation.machine
        registers = machine.bus.ways.nics.registers[0, 0]
        stores = machine.bus.hosts.counts[0, CPU]
        rung, stored = int(registers["doorbells"]), int(stores[UNCACHED_WRITE])
        begun = end.nic.now_us
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.compute(0)
        spent = end.nic.now_us - begun
        return spent, int(registers["doorbells"]) - rung, int(stores[UNCACHED_WRITE]) - stored

    spent, rung, stored = play(first, cluster=cluster)[0]
    assert rung == 1
    assert spent < 10
    if mechanism in (*FETCHED, "cni"):
        assert stored == 1


@pytest.mark.requirement("ED-9", "ED-33")
@pytest.mark.parametrize("mechanism", FETCHED)
def test_a_message_is_in_the_hosts_memory_before_its_end_is_told(mechanism):
    times, came = [], []
    raw = bytes(i % 251 for i in range(300))

    async def first(end):
        await end.nic.write(end.out.address, raw)
        await end.nic.post_send(end.vi, end.send(0, 300))
        assert (await end.nic.send_wait(end.vi)).ok

    async def second(end):
        while await end.nic.recv_done(end.vi) is None:
            pass
        times.append(end.nic.now_ps)
        came.append(await end.nic.read(end.into.address, 300))

    # A report takes long to write, and who polls looks often.
    settings = {"poll": 100 * NS, "arbitration": 200}
    _, log, _ = play(first, second, mechanism, settings=settings)
    assert came == [raw]
    brought = of(log, Engine.HOST_RCV, node=1)
    brought = brought[brought["bytes"] > 0]
    told = of(log, Engine.FIRMWARE, node=1)
    told = told[told["task"] == Task.COMPLETE]
    assert brought["bytes"].sum() == 300
    assert brought["end"].max() <= told["start"].max()
    (reported,) = of(log, Engine.REPORT, node=1)
    assert brought["end"].max() <= reported["start"]
    assert told["end"].max() <= reported["start"] < reported["end"] < times[0]
    found = of(log, Engine.CPU, node=1)
    found = found[found["task"] == POLLING]  # by the poll that finds it
    assert reported["end"] <= found["start"].max()


@pytest.mark.parametrize("mechanism", FETCHED)
def test_one_that_lies_over_the_end_of_a_page_is_fetched_in_two_parts(mechanism):
    async def first(end):
        places = await end.nic.descriptors(end.tag, 30, segments=8)
        for number in range(26):
            descriptor = places.request(*[end.out.segment(8 * i, 8) for i in range(8)])
            over = descriptor.address % 4096 > 4096 - 160
            await end.nic.post_send(end.vi, descriptor)
            assert (await end.nic.send_wait(end.vi)).ok
            if over:
                return number
        raise AssertionError("none lies over the end of a page")

    async def take(end):
        for _ in range(over + 1):
            await end.nic.recv_wait(end.vi)
            await end.nic.post_recv(end.vi, end.receive())

    over = 21  # places of 192 bytes: 21 of them are 4032
    found, log, _ = play(first, take, mechanism)
    assert found == over
    read = of(log, Engine.DESCRIPTOR)
    assert read["bytes"].tolist() == [160] * over + [64, 96]


@pytest.mark.parametrize("mechanism", FETCHED)
def test_one_that_is_not_in_memory_of_its_vi_is_never_fetched(mechanism):
    async def first(end):
        places = await end.nic.descriptors(await end.nic.create_ptag(), 1)
        await end.nic.post_send(end.vi, places.request(end.out.segment(0, 8)))
        return (await ended(end.nic.send_wait(end.vi))).ok

    found, log, _ = play(first, mechanism=mechanism)
    assert not found
    assert of(log, Engine.DESCRIPTOR).size == 0


@pytest.mark.parametrize("mechanism", FETCHED)
def test_what_is_flushed_while_it_is_fetched_is_told_of_once(mechanism):
    async def first(end):
        descriptors = [end.send(0, 8) for _ in range(3)]
        for descriptor in descriptors:
            await end.nic.post_send(end.vi, descriptor)
        await end.nic.disconnect(end.vi)
        await end.nic.compute(50)
        found = [await ended(end.nic.send_wait(end.vi)) for _ in descriptors]
        return [int(one.status) & FLUSHED == FLUSHED for one in found]

    found, _, machine = play(first, mechanism=mechanism)
    assert found == [True] * 3
    assert int(machine.ports.nodes[0]["bringing"]) == -1


@pytest.mark.parametrize("mechanism", FETCHED)
def test_one_that_is_posted_while_a_flushed_one_is_served_is_fetched_before_it_is(mechanism):
    """By the same VI on its next connection, while the processor is at what the last one left."""

    async def first(end):
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.compute(100)  # it is fetched and being served
        await end.nic.disconnect(end.vi)
        flushed = await ended(end.nic.send_wait(end.vi))
        await end.nic.connect_request(end.vi, 1, "again")
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.compute(0)
        posted = end.nic.now_ps
        return flushed.ok, (await end.nic.send_wait(end.vi)).ok, posted

    settings = {"send_queue": 500_000 * NS, "retry_timeout": 10**11}
    found, log, _ = play(first, takes_again, mechanism, settings=settings)
    served = of(log, Engine.FIRMWARE)
    served = served[served["task"] == Task.SERVE]
    left, fetched = of(log, Engine.DESCRIPTOR)
    assert found[:2] == (False, True)
    under_way = served[(served["start"] >= left["end"]) & (served["start"] < found[2])]
    assert len(under_way) == 1
    assert under_way["end"][0] > found[2]  # the processor was at the one that was flushed
    assert fetched["start"] >= under_way["end"][0]


async def takes_again(end):
    """Lose a connection and take a message on the next one."""
    await end.nic.disconnect(end.vi)
    while end.vi._shown.posted[1]:
        await ended(end.nic.recv_wait(end.vi))
    await end.nic.post_recv(end.vi, end.receive())
    await end.nic.connect_accept(await end.nic.connect_wait("again"), end.vi)
    await end.nic.recv_wait(end.vi)


@pytest.mark.parametrize("mechanism", FETCHED[1:])  # of what an engine is set up for
@pytest.mark.parametrize("segments", [1, 5])
def test_one_that_is_posted_while_a_flushed_one_is_fetched_is_fetched_itself(mechanism, segments):
    """By the same VI on its next connection, while the engine is at what the last one left."""

    async def first(end):
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.disconnect(end.vi)
        flushed = await ended(end.nic.send_wait(end.vi))
        await end.nic.connect_request(end.vi, 1, "again")
        data = [end.out.segment(8 * i, 8) for i in range(segments)]
        await end.nic.post_send(end.vi, end.places.request(*data))
        posted = end.nic.now_ps
        return flushed.ok, (await end.nic.send_wait(end.vi)).ok, posted

    settings = {"dma_init": 500_000 * NS, "retry_timeout": 10**11}
    found, log, _ = play(first, takes_again, mechanism, settings=settings)
    left, fetched = of(log, Engine.DESCRIPTOR)
    assert found[:2] == (False, True)
    assert left["end"] > found[2]
    assert (left["bytes"], fetched["bytes"]) == (48, 32 + 16 * segments)
