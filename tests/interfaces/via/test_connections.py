"""One connection after another: what is left of one that is over is nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import DELIVERY, RECEPTION, UNRELIABLE, Cluster, ended, make_end, run_pair

from nicscope.interfaces.via import State
from suite import share

LEVELS = (UNRELIABLE, DELIVERY, RECEPTION)
SENDS = 3
LENGTH = 250  # bytes: three frames
CONNECTED = State.VIP_STATE_CONNECTED


def flood(cluster, node):
    """The last two of four nodes keep that one's NIC busy, so that much waits there."""

    def flooder(number):
        async def program(host):
            end = await make_end(host, UNRELIABLE, 4096)
            await end.nic.connect_request(end.vi, node, f"flood {number}")
            for _ in range(6):
                await end.nic.post_send(end.vi, end.send())
                await end.nic.send_wait(end.vi)

        return program

    async def sink(host):
        for number in range(2):
            end = await make_end(host, UNRELIABLE)
            wanted = await end.nic.connect_wait(f"flood {number}")
            await end.nic.connect_accept(wanted, end.vi)

    cluster.start(node, sink)
    for number in range(2):
        cluster.start(3 - number, flooder(number))


async def left_over(end):
    """Every posted descriptor of a VI that is not connected, when it is done."""
    takes = [end.nic.send_wait] * SENDS + [end.nic.recv_wait] * SENDS
    return [await ended(take(end.vi)) for take in takes]


@share(0.5)
@given(
    level=st.sampled_from(LEVELS),
    mechanism=st.sampled_from(["edt", "dma", "pio"]),
    busy=st.booleans(),
    fresh=st.booleans(),
    loss=st.sampled_from([0.0, 0.2]),
    window=st.sampled_from([1, 4]),
    delays=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150)), min_size=1, max_size=4),
)
def test_a_connection_has_its_own_messages_alone_whenever_the_one_before_ended(
    level, mechanism, busy, fresh, loss, window, delays
):
    changed = {"mtu": 100, "window": window, "retries": 60}
    cluster = Cluster(mechanism=mechanism, nodes=4, loss=loss, settings=changed)
    if busy:
        flood(cluster, 1)
    last = len(delays)
    rounds = [*delays, (60_000, 60_000)]

    def program(side):
        async def run(host):
            end, found = await make_end(host, level), []
            for number, times in enumerate(rounds):
                for _ in range(SENDS):
                    await end.nic.post_recv(end.vi, end.receive(number * 256, 256))
                if side:
                    wanted = await end.nic.connect_wait(f"round {number}")
                    await end.nic.connect_accept(wanted, end.vi)
                else:
                    await end.nic.connect_request(end.vi, 1, f"round {number}")
                await end.nic.write(end.out.address + number * 256, bytes([number + 1] * LENGTH))
                for _ in range(SENDS):
                    await end.nic.post_send(end.vi, end.send(number * 256, LENGTH))
                await end.nic.compute(times[side])
                await end.nic.disconnect(end.vi)
                done = await left_over(end)
                # Whatever came went into this round's buffer.
                came = await end.nic.read(end.into.address + number * 256, LENGTH)
                assert set(came) <= {0, number + 1}
                assert all(one.length == LENGTH for one in done[SENDS:] if one.ok)
                found.append(sum(one.ok for one in done[SENDS:]))
                if fresh and number < last:
                    await end.nic.destroy_vi(end.vi)
                    vi = await end.nic.create_vi(end.tag, level)
                    end = end._replace(vi=vi)
            return found

        return run

    cluster.start(0, program(0))
    cluster.start(1, program(1))
    for found in cluster.run()[-2:]:
        came = found[-1]
        assert came == SENDS or (level == UNRELIABLE and (busy or loss) and came < SENDS)


def test_a_dead_vi_breaks_nobody_elses_connection():
    happened = set()

    async def after(end, event):
        while event not in happened:
            await end.nic.compute(5)

    async def dead(host):
        end = await make_end(host)
        await end.nic.connect_request(end.vi, 1, "old")
        await after(end, "new")
        assert end.vi.state is State.VIP_STATE_ERROR
        await end.nic.post_send(end.vi, end.send(0, 8, control=3))
        assert not (await ended(end.nic.send_wait(end.vi))).ok
        happened.add("posted")

    async def gone(host):
        end = await make_end(host)
        await end.nic.connect_accept(await end.nic.connect_wait("old"), end.vi)
        await end.nic.disconnect(end.vi)
        await end.nic.destroy_vi(end.vi)
        happened.add("gone")

    async def heir(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        while "gone" not in happened:
            await nic.compute(5)
        vi = await nic.create_vi(tag)
        await nic.connect_accept(await nic.connect_wait("new"), vi)
        happened.add("new")
        while "posted" not in happened:
            await nic.compute(5)
        await nic.compute(100)
        return vi.state, nic.errors(vi)

    async def stranger(host):
        end = await make_end(host)
        await after(end, "gone")
        await end.nic.connect_request(end.vi, 1, "new")
        await after(end, "posted")
        await end.nic.compute(100)
        return end.vi.state, end.nic.errors(end.vi)

    cluster = Cluster(nodes=3)
    for node, program in enumerate([dead, gone, stranger]):
        cluster.start(node, program)
    cluster.start(1, heir)
    *_, one, other = cluster.run()
    assert one == other == (CONNECTED, [])


@pytest.mark.parametrize("mechanism", ["dma", "pio", "cni"])
def test_an_rdma_read_does_not_get_the_bytes_that_one_before_its_connection_asked_for(mechanism):
    asked = {}

    async def first(end):
        await end.nic.compute(60)
        for number, name in enumerate(("again", None)):
            remote = asked["region"].remote(8 * number)
            into = [end.into.segment(8 * number, 8)]
            await end.nic.rdma_read(end.vi, end.places, into, remote)
            if name is not None:
                await end.nic.compute(30)
                await end.nic.disconnect(end.vi)
                assert not (await ended(end.nic.send_wait(end.vi))).ok
                await end.nic.connect_request(end.vi, 1, name)
        assert (await end.nic.send_wait(end.vi)).ok
        return await end.nic.read(end.into.address, 16)

    async def second(end):
        asked["region"] = end.out
        await end.nic.write(end.out.address, b"the old.the new.")
        while end.vi.connected:
            await end.nic.compute(1)
        await end.nic.disconnect(end.vi)
        await end.nic.connect_accept(await end.nic.connect_wait("again"), end.vi)
        await end.nic.compute(2000)

    rights = {"enable_rdma_read": True}
    slow = {"interrupt": 300_000_000, "retries": 60}
    found, _ = run_pair(first, second, mechanism, posted=0, rights=rights, settings=slow)
    assert found == bytes(8) + b"the new."
