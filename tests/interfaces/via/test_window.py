"""The transport's window: how many packets may be on their way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pairs import COHERENT, DELIVERY, RECEPTION, run_pair

from suite import share

MTU = 100


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
        await end.nic.compute(50)
        await end.nic.connect_accept(await end.nic.connect_wait("late"), end.vi)
        found = []
        for number in range(len(sizes)):
            done = await end.nic.recv_wait(end.vi)
            found.append(await end.nic.read(end.into.address + 512 * number, done.length))
        await end.nic.compute(100_000)
        assert await end.nic.recv_done(end.vi) is None
        return found

    async def late(end):
        await end.nic.disconnect(end.vi)
        await end.nic.connect_request(end.vi, 1, "late")
        return await first(end)

    async def again(end):
        await end.nic.disconnect(end.vi)
        return await spread(end)

    changed = {"mtu": MTU, "retries": 60, "window": window}
    how = {"loss": 0.3, "seed": seed, "settings": changed, "posted": 0}
    _, found = run_pair(late, again, mechanism, level, **how)

    assert found == [bytes([number + 1] * size) for number, size in enumerate(sizes)]
