"""The steps of a message as EDT's sections 3 to 6 order them, by the log of a run."""

import pytest
from pairs import MECHANISMS, Cluster, ended, idle, run_pair
from test_descriptors_over_the_bus import of, play

from nicscope.drivers.simulate.observe import Engine, Task
from nicscope.interfaces.via import Status
from nicscope.interfaces.via.descriptor import DataSegment

NS = 1000  # ps
SLOW_BUS = {"arbitration": 100}  # cycles: a doorbell takes over a microsecond
PROTECTION = Status.VIP_STATUS_DONE | Status.VIP_STATUS_PROTECTION_ERROR


@pytest.mark.requirement("ED-3", "ED-24")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_nothing_of_a_message_leaves_before_its_doorbell_has_rung(mechanism):
    """However long it has been written, and with the doorbell the last thing that the CPU does."""
    rung = []

    async def first(end):
        await end.nic.write(end.out.address, bytes(300))
        await end.nic.compute(200)
        begun = end.nic.now_ps
        await end.nic.post_send(end.vi, end.send(0, 300))
        await end.nic.compute(0)
        rung.append(end.nic.now_ps)
        assert (await end.nic.send_wait(end.vi)).ok
        return begun

    begun, log, machine = play(first, mechanism=mechanism, settings=SLOW_BUS)
    served = of(log, Engine.FIRMWARE)
    served = served[(served["task"] == Task.SERVE) & (served["end"] > begun)]
    sent = of(log, Engine.NET_TX)
    cpu = of(log, Engine.CPU)
    doorbell = cpu[(cpu["start"] >= begun) & (cpu["end"] <= rung[0])][-1]
    assert doorbell["end"] - doorbell["start"] >= 100 * 10 * NS  # an access of the bus
    assert served["start"].min() >= doorbell["end"]
    assert sent["start"].min() >= doorbell["end"]
    assert machine.bus.ways.nics.registers[0, 0]["doorbells"] >= 1


@pytest.mark.requirement("ED-24")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_written_again_before_the_doorbell_is_what_leaves(mechanism):
    async def first(end):
        for turn in (b"first", b"again", b"at last"):
            for place in (256, 0, 128):
                await end.nic.write(end.out.address + place, turn)
            await end.nic.compute(20)  # the NIC may have it by now
        await end.nic.post_send(end.vi, end.send(0, 300))
        await end.nic.send_wait(end.vi)

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return [await end.nic.read(end.into.address + place, 7) for place in (0, 128, 256)]

    assert run_pair(first, second, mechanism)[1] == [b"at last"] * 3


@pytest.mark.requirement("ED-26", "ED-22")
def test_neither_cpu_nor_firmware_nor_engine_does_anything_for_a_block():
    """Under EDT the sender does the same for eight blocks as for one, and takes as long."""

    def steps(size):
        async def first(end):
            for _ in range(2):  # the second finds warm caches
                await end.nic.write(end.out.address, bytes(size))
                await end.nic.compute(100)
                begun = end.nic.now_ps
                await end.nic.post_send(end.vi, end.send(0, size))
                assert (await end.nic.send_wait(end.vi)).ok
            return begun

        begun, log, _ = play(first, mechanism="edt")
        found = []
        for engine in (Engine.CPU, Engine.FIRMWARE, Engine.DESCRIPTOR, Engine.HOST_TX):
            rows = of(log, engine)
            rows = rows[rows["start"] >= begun]
            rows = rows[rows["end"] <= of(log, Engine.NET_TX)["start"].max()]
            found.append([(int(row["task"]), int(row["end"] - row["start"])) for row in rows])
        return found

    one, eight = steps(128), steps(8 * 128)

    assert one == eight
    assert [name for name, rows in zip("cfdt", one, strict=True) if not rows] == []


@pytest.mark.requirement("ED-47a")
def test_what_was_produced_in_memory_that_is_not_registered_must_be_copied_to_be_sent():
    async def first(end):
        elsewhere = end.nic.allocate(64)
        await end.nic.write(elsewhere.address, b"produced elsewhere")
        forged = DataSegment(elsewhere.address, end.out.handle, 18)
        await end.nic.post_send(end.vi, end.places.request(forged))
        refused = (await ended(end.nic.send_wait(end.vi))).status
        await end.nic.disconnect(end.vi)
        await end.nic.connect_request(end.vi, 1, "again")
        await end.nic.write(end.out.address, await end.nic.read(elsewhere.address, 18))
        await end.nic.post_send(end.vi, end.send(0, 18))
        return refused, (await end.nic.send_wait(end.vi)).ok

    async def second(end):
        await end.nic.compute(100)
        await end.nic.disconnect(end.vi)
        while await ended(end.nic.recv_done(end.vi)) is None:
            pass
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("again"), end.vi)
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, 18)

    (refused, sent), came = run_pair(first, second)
    assert (refused, sent, came) == (PROTECTION, True, b"produced elsewhere")


@pytest.mark.requirement("ED-60")
@pytest.mark.parametrize("mechanism", ["edt", "cc-dma-intervention", "cc-dma-retry"])
def test_what_is_posted_is_carried_by_the_nics_while_both_processors_do_something_else(mechanism):
    cluster = Cluster(mechanism=mechanism, keep_log=4000)

    async def first(end):
        await end.nic.write(end.out.address, b"carried")
        await end.nic.post_send(end.vi, end.send(0, 7))
        await idle(end)

    times = []

    async def second(end):
        times.append(end.nic.now_ps)
        await end.nic.compute(900)
        times.append(end.nic.now_ps)

    _, log, _ = play(first, second, cluster=cluster)
    (brought,) = of(log, Engine.REPORT, node=1)
    assert times[0] < brought["end"] < times[1]
    cpu = of(log, Engine.CPU, node=1)
    busy = cpu[(cpu["start"] < brought["end"]) & (cpu["end"] > times[0])]
    assert len(busy) <= 1  # computing, if that is told of at all
