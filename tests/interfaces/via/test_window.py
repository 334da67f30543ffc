"""The transport's window: how many frames may be on their way, and what a loss then costs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config
from pairs import (
    COHERENT,
    DELIVERY,
    RECEPTION,
    Cluster,
    idle,
    make_end,
    of_its_own_machine,
    on_ports,
    run_pair,
)

FEW = 4 if config.DISABLE_JIT else 15
MTU = 100


def watch(end, lost=()):
    """Of VI-MSG: (frames unsettled, time) at each draw; those draws in ``lost`` are lost."""
    network, seen = end.nic._ni.network, []
    drawn = network.loses

    def loses():
        seen.append((len(end.vi._shown.unsettled), end.nic.now_ps))
        return len(seen) - 1 in lost or drawn()

    network.loses = loses
    return seen


def link_of(end):
    return end.nic._ni.firmware.memory.links[end.vi.place]


@settings(max_examples=FEW)
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
    unsettled = []

    async def first(end):
        seen = [] if on_ports() else watch(end)
        for number, size in enumerate(sizes):
            await end.nic.write(end.out.address + 512 * number, bytes([number + 1] * size))
            await end.nic.post_send(end.vi, end.send(512 * number, size))
        for _ in sizes:
            assert (await end.nic.send_wait(end.vi)).ok
        unsettled.extend(count for count, _ in seen)

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
    assert on_ports() or max(unsettled) <= window


@of_its_own_machine("acknowledgements that take no time")
@pytest.mark.parametrize("size", [64, 450])
@pytest.mark.parametrize("delivery", ["store-and-forward", "cut-through"])
def test_without_losses_a_message_takes_as_long_whatever_the_window(size, delivery):
    async def first(end):
        await end.nic.post_send(end.vi, end.send(0, size))
        await end.nic.send_wait(end.vi)
        return end.nic.now_ps

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return end.nic.now_ps

    found = {
        tuple(run_pair(first, second, settings={"mtu": MTU, "window": w}, delivery=delivery))
        for w in (1, 2, 32)
    }
    assert len(found) == 1


def send_with_losses(size, window, lost):
    """When a message has arrived (us after it was sent), and the sender's record of the link."""

    async def first(end):
        watch(end, lost)
        end.nic.begin = end.nic.now_us
        await end.nic.post_send(end.vi, end.send(0, size))
        await end.nic.compute(1000)
        return end.nic.begin, {name: int(link_of(end)[name]) for name in ("resent", "time_outs")}

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return end.nic.now_us, int(link_of(end)["gaps"])

    settings = {"mtu": MTU, "window": window, "retry_timeout": 200_000_000}
    (began, sender), (ended, gaps) = run_pair(first, second, settings=settings)
    return ended - began, sender["resent"], sender["time_outs"], gaps


@of_its_own_machine("it draws the losses of VI-MSG by hand")
def test_a_lost_acknowledgement_is_made_good_by_the_next():
    # Draws of the network: frame, its acknowledgement, the next frame, ...
    waited = send_with_losses(2 * MTU, 1, {1})
    at_once = send_with_losses(2 * MTU, 2, {1})

    assert waited[0] > 200 > at_once[0]
    assert waited[1:] == (1, 1, 0)
    assert at_once[1:] == (0, 0, 0)


@of_its_own_machine("it draws the losses of VI-MSG by hand")
def test_behind_a_lost_frame_all_are_turned_away_and_sent_again():
    taken, resent, time_outs, gaps = send_with_losses(3 * MTU, 4, {0})

    assert taken > 200
    assert (resent, time_outs, gaps) == (3, 1, 2)


@of_its_own_machine("it draws the losses of VI-MSG by hand")
def test_a_lost_frame_does_not_hold_up_another_connection():
    async def client(host):
        one, other = [await make_end(host) for _ in range(2)]
        await one.nic.connect_request(one.vi, 1, "one")
        await other.nic.connect_request(other.vi, 1, "other")
        watch(one, {0})
        for end in (one, other):
            await end.nic.post_send(end.vi, end.send(0, 64))
        return host.node

    async def server(host):
        ends = {name: await make_end(host) for name in ("one", "other")}
        for name, end in ends.items():
            await end.nic.post_recv(end.vi, end.receive())
            await end.nic.connect_accept(await end.nic.connect_wait(name), end.vi)
        began = end.nic.now_us
        await ends["other"].nic.recv_wait(ends["other"].vi)
        second = end.nic.now_us - began
        await ends["one"].nic.recv_wait(ends["one"].vi)
        return second, end.nic.now_us - began

    cluster = Cluster(settings={"retry_timeout": 200_000_000, "window": 2})
    cluster.start(0, client)
    cluster.start(1, server)
    _, (other, one) = cluster.run()
    assert other < 50
    assert one > 200


@of_its_own_machine("it draws the losses of VI-MSG by hand")
def test_a_disconnected_vi_sends_nothing_again():
    async def first(end):
        seen = watch(end, {0, 1, 2, 3})
        await end.nic.post_send(end.vi, end.send(0, 3 * MTU))
        await end.nic.compute(50)
        await end.nic.disconnect(end.vi)
        before = len(seen)
        await end.nic.compute(1000)
        return before, len(seen), len(end.vi._shown.unsettled)

    before, after, left = run_pair(first, idle, settings={"mtu": MTU})[0]
    assert before == after == 3
    assert left == 0
