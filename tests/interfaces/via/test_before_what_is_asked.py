"""Stores and posts go before what is asked next: in order, each with its own, and none is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import Cluster, idle, make_end, run_pair

from nicscope.drivers.simulate.records import CHAIN
from program_results import results_of
from suite import share

SIZE = 24


@pytest.mark.parametrize("mechanism", ["pci", "edt", "pio", "cc-dma-retry"])
@share(0.3)
@given(
    lengths=st.lists(st.integers(0, SIZE), min_size=1, max_size=2 * CHAIN),
    words=st.data(),
)
def test_posts_behind_each_other_keep_their_own_pieces_and_words(mechanism, lengths, words):
    sent = [words.draw(st.none() | st.integers(0, 2**32 - 1)) for _ in lengths]

    async def first(end):
        raw = bytes(range(1, 1 + SIZE))
        for number in range(len(lengths)):
            await end.nic.write(end.out.address + SIZE * number, raw[number:] + raw[:number])
        for number, (length, word) in enumerate(zip(lengths, sent, strict=True)):
            halves = [
                end.out.segment(SIZE * number, length // 2),
                end.out.segment(SIZE * number + length // 2, length - length // 2),
            ]
            await end.nic.post_send(end.vi, end.places.request(*halves, immediate=word))
        return [(await end.nic.send_wait(end.vi)).ok for _ in lengths]

    async def spread(end):
        for number in range(len(lengths)):
            await end.nic.post_recv(end.vi, end.receive(SIZE * number, SIZE))

    async def second(end):
        found = []
        for number in range(len(lengths)):
            done = await end.nic.recv_wait(end.vi)
            came = await end.nic.read(end.into.address + SIZE * number, done.length)
            has_awaited_report = bool(done.status & 0x80000)
            found.append((came, done.immediate if has_awaited_report else None))
        return found

    done, found = run_pair(first, second, mechanism, posted=0, prepared=spread)

    assert done == [True] * len(lengths)
    raw = bytes(range(1, 1 + SIZE))
    turned = [raw[number:] + raw[:number] for number in range(len(lengths))]
    assert found == [
        (one[:length], word) for one, length, word in zip(turned, lengths, sent, strict=True)
    ]


def test_what_a_program_posts_last_is_posted_though_it_asks_for_nothing_more():
    async def first(end):
        await end.nic.write(end.out.address, b"the last")
        await end.nic.post_send(end.vi, end.send(0, 8))

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, 8)

    assert run_pair(first, second)[1] == b"the last"


def test_a_post_takes_its_time_before_what_is_asked_next():
    async def program(host):
        end = await make_end(host)
        times = []
        for posts in (0, 4):
            begun = end.nic.now_us
            for _ in range(posts):
                await end.nic.post_recv(end.vi, end.receive())
            await end.nic.compute(1)
            times.append(end.nic.now_us - begun)
        return times

    def times(post):
        return results_of(Cluster(mechanism="pci", nodes=1, settings={"post": post}), program)[0]

    assert times(100_000) == pytest.approx([1, 1.4])
    assert times(2_000_000) == pytest.approx([1, 9])


def test_memory_that_is_deregistered_is_posted_before():
    async def first(end):
        region = await end.nic.register_mem(end.nic.allocate(64), end.tag)
        await end.nic.post_recv(end.vi, end.places.request(region.segment()))
        await end.nic.deregister_mem(region)
        await end.nic.compute(100)
        return end.vi.state.name

    assert run_pair(first, idle)[0] == "VIP_STATE_CONNECTED"
