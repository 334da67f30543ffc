"""Many messages on several VIs both ways at once: each arrives whole, in its VI's order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import MECHANISMS, Cluster, make_end

from suite import INTERPRETED, share

MOST = 200 if INTERPRETED else 9000


def filled(size, number):
    return bytes((number * 17 + i * 3) % 256 for i in range(size))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@share(0.2)
@given(
    sizes=st.lists(st.integers(0, MOST), min_size=1, max_size=6),
    order=st.permutations([0, 1]),
    pause=st.integers(0, 40),
)
def test_several_vis_at_once_keep_their_messages_apart(mechanism, sizes, order, pause):
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
    cluster.start(0, lambda host: side(host, True))
    cluster.start(1, lambda host: side(host, False))
    cluster.run()
