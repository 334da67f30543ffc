"""Many messages: on several VIs both ways, within any window, and from where they were written."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import COHERENT, DELIVERY, MECHANISMS, RECEPTION, Cluster, make_end, run_pair

from program_results import results_of
from suite import seeds, share

MTU = 100
MOST = 9000


def filled(size, number):
    return bytes((number * 17 + i * 3) % 256 for i in range(size))


@pytest.mark.parametrize("seed", seeds(1, 10))
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_several_vis_at_once_keep_their_messages_apart(mechanism, seed):
    draw = random.Random(f"{mechanism} {seed}")
    sizes = [draw.choice((0, draw.randint(1, MOST))) for _ in range(draw.randint(2, 6))]
    order, pause = draw.sample([0, 1], 2), draw.randint(0, 40)

    async def side(host, first):
        ends = [await make_end(host, room=len(sizes) * 10240) for _ in range(2)]
        nic = ends[0].nic
        for end in ends:
            for place in range(len(sizes)):
                await nic.post_recv(end.vi, end.receive(place * 10240, 10240))
        await nic.compute(100)
        for end in ends:
            if first:
                await nic.connect_request(end.vi, 1, "traffic")
            else:
                await nic.connect_accept(await nic.connect_wait("traffic"), end.vi)
        for place, size in enumerate(sizes):
            for which, end in enumerate(ends):
                await nic.write(end.out.address + place * 10240, filled(size, place + which))
                await nic.post_send(end.vi, end.send(place * 10240, size))
            await nic.compute(pause)
        # Whichever VI is asked first, the other's messages wait.
        for which in order:
            for place, size in enumerate(sizes):
                done = await nic.recv_wait(ends[which].vi)
                assert done.ok
                assert done.length == size
                got = await nic.read(done.data[0].address, size)
                assert got == filled(size, place + which)
        for end in ends:
            for _ in sizes:
                assert (await nic.send_wait(end.vi)).ok

    cluster = Cluster(mechanism=mechanism)
    results_of(cluster, lambda host: side(host, True), lambda host: side(host, False))


@share(0.4)
@given(
    mechanism=st.sampled_from(COHERENT),
    level=st.sampled_from([DELIVERY, RECEPTION]),
    window=st.sampled_from([1, 2, 8, 32]),
    sizes=st.lists(st.integers(0, 500), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
)
def test_what_is_posted_arrives_in_order_and_once_whatever_the_window(
    mechanism, level, window, sizes, seed
):
    async def first(end):
        for number, size in enumerate(sizes):
            await end.nic.write(end.out.address + 512 * number, bytes([number + 1] * size))
            await end.nic.post_send(end.vi, end.send(512 * number, size))
        for _ in sizes:
            assert (await end.nic.send_wait(end.vi)).ok

    async def spread(end):
        for number in range(len(sizes) + 1):
            await end.nic.post_recv(end.vi, end.receive(512 * number, 512))

    async def second(end):
        found = []
        for number in range(len(sizes)):
            done = await end.nic.recv_wait(end.vi)
            found.append(await end.nic.read(end.into.address + 512 * number, done.length))
        await end.nic.compute(100_000)
        assert await end.nic.recv_done(end.vi) is None
        return found

    changed = {"mtu": MTU, "retries": 60, "window": window}
    how = {"loss": 0.3, "seed": seed, "settings": changed, "posted": 0, "prepared": spread}
    _, found = run_pair(first, second, mechanism, level, **how)

    assert found == [bytes([number + 1] * size) for number, size in enumerate(sizes)]


@pytest.mark.requirement("ED-47", "ED-47a", "ED-24")
@share(1)
@given(seed=st.integers(0, 999), size=st.integers(1, 900))
def test_a_message_written_in_any_order_in_its_registered_place_is_sent_from_there(seed, size):
    places = list(range(0, size, 8))
    random.Random(seed).shuffle(places)
    whole = bytes((seed + i) % 256 for i in range(size))

    async def first(end):
        for place in places:
            await end.nic.write(end.out.address + place, whole[place : place + 8])
        descriptor = end.send(0, size)
        await end.nic.post_send(end.vi, descriptor)
        await end.nic.send_wait(end.vi)

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, size), end.nic.now_us

    # What an engine moved, or the host was interrupted for, would take at least that.
    slow = dict.fromkeys(("dma_init", "dma_interrupt", "interrupt"), 10_000_000_000)
    (_, arrived) = run_pair(first, second, settings=slow | {"retry_timeout": 100_000_000})
    assert arrived[0] == whole
    assert arrived[1] < 10_000
