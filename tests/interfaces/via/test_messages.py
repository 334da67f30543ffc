"""Messages of any size arrive as they were sent, whatever carries them."""

from itertools import cycle, product

import pytest
import test_descriptors_over_the_bus as over_the_bus
from hypothesis import given
from hypothesis import strategies as st
from pairs import DELIVERY, MECHANISMS, RECEPTION, UNRELIABLE, run_pair

from nicscope.drivers.simulate.observe import Engine
from nicscope.interfaces.via import Status
from pairwise import others_marked
from suite import share

# Without the compiler a kilobyte takes long.
MOST = 65536


def some_sizes(*sizes):
    """Every mechanism with the last size, and with one of the others in turn; the rest is long."""
    *others, last = sizes
    chosen = [*product(MECHANISMS, [last]), *zip(MECHANISMS, cycle(others))]
    return others_marked(pytest.mark.long, product(MECHANISMS, sizes), chosen)


def pattern(size, seed=1):
    return bytes((seed * 31 + i * 7 + (i >> 8)) % 256 for i in range(size))


def pass_on(size, mechanism, messages=1, **how):
    """Send ``messages`` of ``size`` bytes; what arrives, and the statuses on both sides."""

    async def first(end):
        found = []
        for seed in range(messages):
            await end.nic.write(end.out.address, pattern(size, seed))
            await end.nic.post_send(end.vi, end.send(0, size))
            found.append((await end.nic.send_wait(end.vi)).status)
            await end.nic.compute(500 + size // 16)  # the other side posts its next receive
        return found

    async def second(end):
        found = []
        for seed in range(messages):
            descriptor = await end.nic.recv_wait(end.vi)
            assert descriptor.ok
            assert descriptor.length == size
            found.append(await end.nic.read(end.into.address, size) == pattern(size, seed))
            if seed + 1 < messages:
                await end.nic.post_recv(end.vi, end.receive())
        return found

    sent, intact = run_pair(first, second, mechanism, room=max(size, 1), **how)
    assert all(status == Status.VIP_STATUS_DONE for status in sent)
    return intact


@pytest.mark.requirement("ED-64")
@pytest.mark.parametrize(("mechanism", "size"), some_sizes(0, 1, 63, 129, MOST))
def test_a_message_arrives_unchanged_under_every_mechanism(mechanism, size):
    assert pass_on(size, mechanism) == [True]


@share(0.3)
@given(
    mechanism=st.sampled_from(MECHANISMS),
    size=st.integers(0, MOST),
    mtu=st.sampled_from([64, 1500, 9000]),
    level=st.sampled_from([UNRELIABLE, DELIVERY, RECEPTION]),
)
def test_any_size_arrives_at_any_mtu_and_level(mechanism, size, mtu, level):
    assert pass_on(size, mechanism, messages=2, level=level, settings={"mtu": mtu}) == [True, True]


@pytest.mark.requirement("ED-63")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_message_goes_in_frames_of_an_mtu_and_is_told_of_once(mechanism):
    _, log, _ = over_the_bus.play(
        over_the_bus.sends(1, 300), mechanism=mechanism, settings={"mtu": 128}
    )

    frames = over_the_bus.of(log, Engine.NET_TX)
    assert frames[frames["control"] == 0]["bytes"].tolist() == [128, 128, 44]
    assert len(over_the_bus.of(log, Engine.REPORT, node=1)) == 1


@share(0.3)
@given(
    mechanism=st.sampled_from(MECHANISMS),
    size=st.integers(0, min(MOST, 6000)),
    level=st.sampled_from([DELIVERY, RECEPTION]),
    seed=st.integers(0, 1000),
)
def test_what_is_promised_arrives_in_spite_of_losses(mechanism, size, level, seed):
    how = {"loss": 0.2, "seed": seed, "settings": {"mtu": 700, "retries": 60}}
    assert pass_on(size, mechanism, messages=3, level=level, **how) == [True] * 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_segments_are_gathered_and_scattered(mechanism):
    async def first(end):
        await end.nic.write(end.out.address, pattern(200))
        parts = [end.out.segment(150, 30), end.out.segment(0, 0), end.out.segment(3, 70)]
        await end.nic.post_send(end.vi, end.places.request(*parts))
        return (await end.nic.send_wait(end.vi)).ok

    async def scatters(end):
        parts = [end.into.segment(400, 33), end.into.segment(128, 60), end.into.segment(0, 50)]
        await end.nic.post_recv(end.vi, end.places.request(*parts))

    async def second(end):
        assert (await end.nic.recv_wait(end.vi)).length == 100
        whole = await end.nic.read(end.into.address, 450)
        return whole[400:433] + whole[128:188] + whole[:7]

    found = run_pair(first, second, mechanism, posted=0, prepared=scatters)
    assert found == [True, pattern(200)[150:180] + pattern(200)[3:73]]


@pytest.mark.parametrize("mechanism", ["cni", "pio"])
def test_messages_wait_on_the_nic_until_the_processor_takes_them(mechanism):
    count = 12
    size = 3000

    async def first(end):
        for number in range(count):
            await end.nic.write(end.out.address, pattern(size, number))
            await end.nic.post_send(end.vi, end.send(0, size))
            await end.nic.send_wait(end.vi)

    async def second(end):
        await end.nic.compute(20_000)
        found = []
        for number in range(count):
            await end.nic.recv_wait(end.vi)
            found.append(await end.nic.read(end.into.address, size) == pattern(size, number))
        return found

    assert run_pair(first, second, mechanism, posted=count)[1] == [True] * count


@pytest.mark.parametrize(("mechanism", "size"), some_sizes(0, 5, min(MOST, 4000)))
def test_rdma_writes_and_reads_memory_of_the_other_side(mechanism, size):
    rights = {"enable_rdma_write": True, "enable_rdma_read": True}
    mailbox = {}

    async def first(end):
        while "remote" not in mailbox:
            await end.nic.compute(1)
        remote = mailbox["remote"]
        await end.nic.write(end.out.address, pattern(size))
        own = [end.out.segment(0, size)]
        await end.nic.rdma_write(end.vi, end.places, own, remote.remote(32), immediate=77)
        written = await end.nic.send_wait(end.vi)
        assert written.status == Status.VIP_STATUS_DONE | Status.VIP_STATUS_OP_RDMA_WRITE
        await end.nic.rdma_read(end.vi, end.places, [end.into.segment(0, size)], remote.remote(32))
        got = await end.nic.send_wait(end.vi)
        assert got.status == Status.VIP_STATUS_DONE | Status.VIP_STATUS_OP_RDMA_READ
        return await end.nic.read(end.into.address, size)

    async def second(end):
        mailbox["remote"] = end.into
        descriptor = await end.nic.recv_wait(end.vi)
        assert descriptor.immediate == 77
        assert descriptor.status & Status.VIP_STATUS_IMMEDIATE
        assert descriptor.status & 0x70000 == Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE
        found = await end.nic.read(end.into.address + 32, size)
        await end.nic.compute(500)
        return found

    read, found = run_pair(first, second, mechanism, rights=rights, room=8192)
    assert found == pattern(size)
    assert read == pattern(size)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_rdma_and_messages_of_both_sides_do_not_get_into_each_others_way(mechanism, loss):
    rights = {"enable_rdma_write": True, "enable_rdma_read": True}
    mailbox = {}
    size, count = 200, 4

    async def play(end, me):
        for place in range(count):
            await end.nic.post_recv(end.vi, end.receive(place * 256, size))
        await end.nic.write(end.out.address, pattern(size, me))
        mailbox[me] = end.out, end.into
        while len(mailbox) < 2:
            await end.nic.compute(1)
        await end.nic.compute(20)
        out, into = mailbox[1 - me]
        own = [end.out.segment(0, size)]
        for _ in range(count):
            await end.nic.post_send(end.vi, end.send(0, size))
            await end.nic.rdma_write(end.vi, end.places, own, into.remote(2048))
            read = [end.into.segment(3072, size)]
            await end.nic.rdma_read(end.vi, end.places, read, out.remote())
        statuses = [(await end.nic.send_wait(end.vi)).ok for _ in range(3 * count)]
        found = []
        for place in [0, 256, 512, 768]:
            assert (await end.nic.recv_wait(end.vi)).ok
            found.append(await end.nic.read(end.into.address + place, size))
        await end.nic.compute(20_000)
        found += [await end.nic.read(end.into.address + at, size) for at in (2048, 3072)]
        return all(statuses), found == [pattern(size, 1 - me)] * (count + 2)

    how = {"loss": loss, "seed": 4, "settings": {"retries": 60}, "rights": rights, "posted": 0}
    assert (
        run_pair(
            lambda end: play(end, 0),
            lambda end: play(end, 1),
            mechanism,
            RECEPTION,
            room=8192,
            **how,
        )
        == [(True, True)] * 2
    )


def test_the_same_seed_is_the_same_run_and_another_is_not():
    def ends(seed):
        async def first(end):
            for _ in range(4):
                await end.nic.post_send(end.vi, end.send(0, 200))
                await end.nic.send_wait(end.vi)
            return end.nic.now_ps

        async def second(end):
            for _ in range(4):
                await end.nic.recv_wait(end.vi)
            return end.nic.now_ps

        return run_pair(first, second, posted=4, loss=0.3, seed=seed, settings={"retries": 50})

    assert ends(5) == ends(5)
    assert ends(5) != ends(6)


def test_an_unreliable_level_loses_messages_but_never_part_of_one():
    count = 12

    async def first(end):
        for number in range(count):
            await end.nic.write(end.out.address, pattern(300, number))
            await end.nic.post_send(end.vi, end.send(0, 300))
            assert (await end.nic.send_wait(end.vi)).ok
            await end.nic.compute(20)

    async def spread(end):
        for number in range(count):
            await end.nic.post_recv(end.vi, end.receive(number * 320, 320))

    async def second(end):
        await end.nic.compute(5000)
        found = []
        while (descriptor := await end.nic.recv_done(end.vi)) is not None:
            assert descriptor.length == 300
            found.append(await end.nic.read(descriptor.data[0].address, 300))
        return found

    how = {"loss": 0.3, "seed": 4, "settings": {"mtu": 100}}
    _, found = run_pair(first, second, level=UNRELIABLE, posted=0, prepared=spread, **how)
    sent = [pattern(300, number) for number in range(count)]
    assert 0 < len(found) < count
    assert all(one in sent for one in found)
