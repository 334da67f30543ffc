"""What the specification says of whole work queues: fences, descriptors' memory, overruns."""

import pytest
from conforming import DONE, FLUSHED, LEVELS, RECEIVE
from pairs import MECHANISMS, RECEPTION, ended, idle, run_pair

from nicscope.interfaces.via import Control, Error, Return, State, Status, VipError
from pairwise import in_turn, pairs_of

PROTECTION = Status.VIP_STATUS_PROTECTION_ERROR
CONNECTED, BROKEN = State.VIP_STATE_CONNECTED, State.VIP_STATE_ERROR

# --- an error comes back as one ----------------------------------------------------------------


@pytest.mark.parametrize("call", ["done", "wait"])
@pytest.mark.parametrize("queue", ["send", "recv"])
def test_work_that_ended_with_an_error_is_raised_with_its_descriptor_and_off_its_queue(queue, call):
    async def first(end):
        posted = end.send(0, 8) if queue == "send" else end.receive()
        await (end.nic.post_send if queue == "send" else end.nic.post_recv)(end.vi, posted)
        await end.nic.disconnect(end.vi)
        await end.nic.compute(100)
        take = getattr(end.nic, f"{queue}_{call}")
        with pytest.raises(VipError, match="VIP_STATUS_DESC_FLUSHED_ERROR") as caught:
            await take(end.vi)
        with pytest.raises(VipError, match="no descriptor is posted") as empty:
            await take(end.vi)
        assert caught.value.code is empty.value.code is Return.VIP_DESCRIPTOR_ERROR
        assert empty.value.descriptor is None
        assert caught.value.descriptor is posted
        return posted.status

    how = {"settings": {"send_queue": 50_000_000}}  # it is flushed before it leaves
    status = run_pair(first, idle, **how)[0]
    assert status == DONE | FLUSHED | (RECEIVE if queue == "recv" else 0)


# --- the queue fence ---------------------------------------------------------------------------


@pytest.mark.parametrize("fence", [Control.VIP_CONTROL_QFENCE, Control(0)])
def test_a_send_waits_for_a_read_before_it_where_it_has_the_queue_fence(fence):
    """What it sends is what the read has brought, or what was there before."""
    shared = {}

    async def first(end):
        await end.nic.compute(60)
        await end.nic.write(end.into.address, b"before")
        await end.nic.rdma_read(end.vi, end.places, [end.into.segment(0, 6)], shared["remote"])
        await end.nic.post_send(end.vi, end.places.request(end.into.segment(0, 6), control=fence))
        return [(await end.nic.send_wait(end.vi)).ok for _ in range(2)]

    async def second(end):
        await end.nic.write(end.out.address, b"behind")
        shared["remote"] = end.out.remote()
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, 6)

    ends, found = run_pair(first, second, level=RECEPTION, rights={"enable_rdma_read": True})
    assert ends == [True, True]
    assert found == (b"behind" if fence else b"before")


# --- descriptors' own memory -------------------------------------------------------------------


async def with_another_tag(end):
    """A descriptor in memory of a tag that is not its VI's."""
    places = await end.nic.descriptors(await end.nic.create_ptag(), 1)
    return places.request(end.out.segment(0, 8))


async def by_another_handle(end):
    """One whose handle is of other memory of the VI's tag."""
    descriptor = end.send(0, 8)
    descriptor.handle = end.into.handle
    return descriptor


async def by_no_handle(end):
    """One whose handle is nobody's."""
    descriptor = end.send(0, 8)
    descriptor.handle = 4000
    return descriptor


WRONG = [with_another_tag, by_another_handle, by_no_handle]


@pytest.mark.parametrize(
    ("wrong", "mechanism", "level"), pairs_of(wrong=WRONG, mechanism=MECHANISMS, level=LEVELS)
)
def test_a_send_whose_descriptor_is_not_in_the_vis_memory_ends_its_connection(
    wrong, mechanism, level
):
    """It is not read, what is behind it does not go, and the error is told beside it."""

    async def first(end):
        await end.nic.post_send(end.vi, await wrong(end))
        await end.nic.post_send(end.vi, end.send(0, 8))
        statuses = [(await ended(end.nic.send_wait(end.vi))).status for _ in range(2)]
        return statuses, end.vi.state, end.nic.errors(end.vi)

    async def second(end):
        status = (await ended(end.nic.recv_wait(end.vi))).status
        return status, end.vi.state, end.nic.errors(end.vi)

    here, there = run_pair(first, second, mechanism, level)
    assert here == ([DONE | PROTECTION, DONE | FLUSHED], BROKEN, [Error.VIP_ERROR_POST_DESC])
    assert there == (DONE | RECEIVE | FLUSHED, BROKEN, [Error.VIP_ERROR_CONN_LOST])


@pytest.mark.parametrize(("wrong", "level"), in_turn(pytest.mark.long, WRONG, LEVELS))
def test_a_receive_whose_descriptor_is_not_in_the_vis_memory_ends_its_connection(wrong, level):
    async def first(end):
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.post_recv(end.vi, await wrong(end))
        statuses = [(await ended(end.nic.recv_wait(end.vi))).status for _ in range(2)]
        return sorted(statuses), end.vi.state, end.nic.errors(end.vi)

    async def second(end):
        await end.nic.compute(300)
        return end.vi.state, end.nic.errors(end.vi)

    here, there = run_pair(first, second, level=level)
    statuses = [DONE | RECEIVE | PROTECTION, DONE | RECEIVE | FLUSHED]
    assert here == (statuses, BROKEN, [Error.VIP_ERROR_POST_DESC])
    assert there == (BROKEN, [Error.VIP_ERROR_CONN_LOST])


@pytest.mark.parametrize("wrong", WRONG)
def test_such_a_receive_of_an_idle_vi_is_told_of_and_leaves_it_idle(wrong):
    async def first(end):
        vi = await end.nic.create_vi(end.tag)
        await end.nic.post_recv(vi, await wrong(end))
        status = (await ended(end.nic.recv_wait(vi))).status
        return status, vi.state, end.nic.errors(vi)

    found = run_pair(first, idle)[0]
    assert found == (
        DONE | RECEIVE | PROTECTION,
        State.VIP_STATE_IDLE,
        [Error.VIP_ERROR_POST_DESC],
    )


# --- completion queues that are full -----------------------------------------------------------


async def overrun_by(end, host_side, entries):
    """A VI of ``end``'s process with a completion queue of so many entries for one work queue."""
    queue = await end.nic.create_cq(end.tag, entries)
    vi = await end.nic.create_vi(end.tag, end.vi.attributes.reliability, **{host_side: queue})
    return queue, vi


@pytest.mark.parametrize(
    ("mechanism", "level"),
    in_turn(pytest.mark.long, ["edt", "cc-dma-intervention", "dma", "pio"], LEVELS),
)
def test_a_receive_that_finds_its_completion_queue_full_ends_the_connection(level, mechanism):
    """All receives are found at the work queue, those that came and those that then end flushed."""

    async def first(end):
        vi = await end.nic.create_vi(end.tag, level)
        await end.nic.connect_request(vi, 1, "narrow")
        for number in range(4):
            await end.nic.post_send(vi, end.send(0, 8 + number))
        await end.nic.compute(3000)
        return vi.state, end.nic.errors(vi)

    async def second(end):
        queue, vi = await overrun_by(end, "recv_cq", 2)
        for _ in range(6):
            await end.nic.post_recv(vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("narrow"), vi)
        await end.nic.compute(3000)
        state, errors = vi.state, end.nic.errors(vi)
        announced = 0
        while await end.nic.cq_done(queue) is not None:
            announced += 1
        taken = [await ended(end.nic.recv_done(vi)) for _ in range(6)]
        return state, errors, announced, [(one.length, one.status) for one in taken]

    lost, (state, errors, announced, taken) = run_pair(first, second, mechanism, level)
    assert (state, errors, announced) == (BROKEN, [Error.VIP_ERROR_CATASTROPHIC], 2)
    assert lost == (BROKEN, [Error.VIP_ERROR_CONN_LOST])
    came = [one for one in taken if one[1] == DONE | RECEIVE]
    assert [length for length, _ in came] == list(range(8, 8 + len(came)))
    assert len(came) >= 3  # the third found no room
    assert taken[len(came) :] == [(0, DONE | RECEIVE | FLUSHED)] * (6 - len(came))
    assert len(came) < 6


@pytest.mark.parametrize("level", LEVELS)
def test_a_send_that_finds_its_completion_queue_full_ends_the_connection(level):
    async def first(end):
        queue, vi = await overrun_by(end, "send_cq", 1)
        await end.nic.connect_request(vi, 1, "narrow")
        for _ in range(3):
            await end.nic.post_send(vi, end.send(0, 8))
            await end.nic.compute(500)
        state, errors = vi.state, end.nic.errors(vi)
        assert await end.nic.cq_done(queue) is not None
        taken = [(await ended(end.nic.send_done(vi))).status for _ in range(3)]
        again = await end.nic.cq_done(queue)
        await end.nic.disconnect(vi)
        await end.nic.destroy_vi(vi)
        await end.nic.destroy_cq(queue)
        return state, errors, taken, again

    async def second(end):
        vi = await end.nic.create_vi(end.tag, level)
        for _ in range(4):
            await end.nic.post_recv(vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("narrow"), vi)
        await end.nic.compute(3000)
        return vi.state, end.nic.errors(vi)

    found, lost = run_pair(first, second, level=level)
    assert found == (
        BROKEN,
        [Error.VIP_ERROR_CATASTROPHIC],
        [DONE, DONE, DONE | FLUSHED],
        None,
    )
    assert lost == (BROKEN, [Error.VIP_ERROR_CONN_LOST])


def test_a_connection_that_is_made_anew_is_not_ended_by_what_overran_the_one_before():
    """While the processor is at something else the VI is disconnected and connected again."""

    async def first(end):
        queue, vi = await overrun_by(end, "send_cq", 1)
        await end.nic.connect_request(vi, 1, "narrow")
        for _ in range(3):
            await end.nic.post_send(vi, end.send(0, 8))
        while not end.nic.errors(vi):
            await end.nic.compute(0.1)
        await end.nic.disconnect(vi)
        for _ in range(3):
            await ended(end.nic.send_done(vi))
        await end.nic.connect_request(vi, 1, "narrow")
        await end.nic.post_send(vi, end.send(0, 8))
        assert (await end.nic.cq_wait(queue, 5000))[0] is vi
        return (await end.nic.send_done(vi)).ok, vi.state, end.nic.errors(vi)

    async def second(end):
        vi = await end.nic.create_vi(end.tag, end.vi.attributes.reliability)
        for turn in range(2):
            for _ in range(4):
                await end.nic.post_recv(vi, end.receive())
            await end.nic.connect_accept(await end.nic.connect_wait("narrow"), vi)
            while turn == 0 and vi.connected:
                await end.nic.compute(1)
            if turn == 0:
                await end.nic.disconnect(vi)
                while vi._shown.posted[1]:
                    await ended(end.nic.recv_wait(vi))
        await end.nic.compute(3000)
        return vi.state

    settings = {"send_queue": 100_000_000, "retry_timeout": 10**10}
    (ok, state, errors), there = run_pair(first, second, settings=settings)
    assert (ok, state, there) == (True, CONNECTED, CONNECTED)
    assert errors == [Error.VIP_ERROR_CATASTROPHIC]
