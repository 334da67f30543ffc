"""Work queues, completion queues, descriptors, registration: what a VI is made of."""

import pytest
from pairs import MECHANISMS, Cluster, idle, make_end, run_pair

from nicscope.interfaces.via import Return, Status, VipError
from nicscope.interfaces.via.descriptor import CONTROL_SEGMENT, DATA_SEGMENT
from nicscope.interfaces.via.vi import ERRORS
from nicscope.nic.ports import work_queues
from oracle.descriptors import decode
from pairwise import in_turn
from program_results import results_of
from refusals import refused


@pytest.mark.requirement("ED-1", "ED-4")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_one_completion_queue_merges_the_queues_of_several_vis(mechanism):
    async def first(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        queue = await nic.create_cq(tag, 4)
        places = await nic.descriptors(tag, 8)
        room = await nic.register_mem(nic.allocate(256), tag)
        vis = [await nic.create_vi(tag, send_cq=queue, recv_cq=queue) for _ in range(2)]
        for number, vi in enumerate(vis):
            await nic.post_recv(vi, places.request(room.segment(128 * number, 8)))
            await nic.connect_request(vi, 1, "merged")
        assert await nic.cq_done(queue) is None
        await nic.post_send(vis[0], places.request(room.segment(64, 8)))
        found = []
        for _ in range(3):
            vi, received = await nic.cq_wait(queue, 1000)
            done = await (nic.recv_done if received else nic.send_done)(vi)
            found.append((vis.index(vi), received, done.ok))
        with pytest.raises(VipError, match="VIP_ERROR_RESOURCE"):
            await nic.destroy_cq(queue)
        return found

    async def second(host):
        ends = []
        for _ in range(2):
            end = await make_end(host)
            await end.nic.post_recv(end.vi, end.receive())
            await end.nic.compute(10)
            await end.nic.connect_accept(await end.nic.connect_wait("merged"), end.vi)
            ends.append(end)
        await ends[0].nic.recv_wait(ends[0].vi)
        for end in reversed(ends):
            await end.nic.post_send(end.vi, end.send(0, 8))
            await end.nic.send_wait(end.vi)

    found = results_of(Cluster(mechanism=mechanism), first, second)[0]
    expected = [(0, False, True), (1, True, True), (0, True, True)]
    # Word that a send has arrived comes with the next message, which is before it then.
    assert sorted(found) == sorted(expected)


async def merged(host, entries=4):
    """A VI with a completion queue for both work queues, connected, and one without."""
    nic = await host.open_nic()
    tag = await nic.create_ptag()
    queue = await nic.create_cq(tag, entries)
    places = await nic.descriptors(tag, 16)
    room = await nic.register_mem(nic.allocate(256), tag)
    vi = await nic.create_vi(tag, send_cq=queue, recv_cq=queue)
    for _ in range(4):
        await nic.post_recv(vi, places.request(room.segment(128, 8)))
    await nic.connect_request(vi, 1, "merged")
    return nic, queue, places, room, vi


async def answers(host, count=4):
    """Take messages and send as many back."""
    end = await make_end(host)
    for _ in range(count):
        await end.nic.post_recv(end.vi, end.receive())
    await end.nic.compute(10)
    await end.nic.connect_accept(await end.nic.connect_wait("merged"), end.vi)
    for _ in range(count):
        await end.nic.recv_wait(end.vi)
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.send_wait(end.vi)


def play(first, second=answers, **how):
    return results_of(Cluster(**how), first, second)[0]


@pytest.mark.requirement("ED-4")
@pytest.mark.parametrize("call", ["send", "recv"])
def test_a_queue_with_a_completion_queue_is_waited_for_there_alone(call):
    """As in VIPL: or an entry would stay that announces what has been taken already."""

    async def first(host):
        nic, queue, places, room, vi = await merged(host)
        await nic.post_send(vi, places.request(room.segment(0, 8)))
        with refused(VipError, "cq_wait", f"{call}_done") as caught:
            await getattr(nic, f"{call}_wait")(vi)
        found = []
        for _ in range(2):
            vi, received = await nic.cq_wait(queue, 1000)
            found.append((received, (await (nic.recv_done if received else nic.send_done)(vi)).ok))
        return caught.value.code, found, await nic.cq_done(queue)

    code, found, left = play(first, lambda host: answers(host, 1))
    assert code is Return.VIP_INVALID_PARAMETER
    assert (found, left) == ([(False, True), (True, True)], None)


@pytest.mark.requirement("ED-4")
@pytest.mark.parametrize(
    ("early", "receives"),
    in_turn(pytest.mark.long, [(), (0,), (1,), (0, 1), (0, 1, 2, 3)], [False, True]),
)
def test_what_is_taken_off_its_queue_by_itself_leaves_no_entry_behind(early, receives):
    """``early``: which completions of one work queue are taken before their entries."""

    async def first(host):
        nic, queue, places, room, vi = await merged(host, entries=8)
        done = nic.recv_done if receives else nic.send_done
        heard = 0
        for number in range(4):
            await nic.post_send(vi, places.request(room.segment(0, 8)))
            await nic.compute(500)  # by then it is sent, and answered
            if number in early:
                assert (await done(vi)).ok
        while (entry := await nic.cq_done(queue)) is not None:
            assert entry[0] is vi
            assert (await (nic.recv_done if entry[1] else nic.send_done)(vi)).ok
            heard += entry[1] == receives
        with pytest.raises(VipError, match="no descriptor is posted"):
            await done(vi)
        await nic.disconnect(vi)
        await nic.destroy_vi(vi)
        return heard, await nic.cq_done(queue), queue._shown.written - queue._shown.read

    assert play(first) == (4 - len(early), None, 0)


def test_a_ring_of_completions_is_not_full_of_those_that_were_taken():
    async def first(host):
        nic, queue, places, room, vi = await merged(host, entries=2)
        for _ in range(4):
            await nic.post_send(vi, places.request(room.segment(0, 8)))
            await nic.compute(500)
            assert (await nic.send_done(vi)).ok
            assert (await nic.recv_done(vi)).ok
        return nic.errors(vi), await nic.cq_done(queue)

    assert play(first) == ([], None)


def test_each_error_that_the_nic_tells_beside_descriptors_has_its_name_in_the_library():
    # They stand together; no VI shares receives, or asks for what only other ports may.
    names = [*vars(work_queues)]
    told = names[names.index("POSTED_BADLY") : names.index("RECEIVES_LOW")]
    codes = [getattr(work_queues, name) for name in told]

    assert {code: int(error) for code, error in ERRORS.items()} == {x: x for x in codes}


@pytest.mark.requirement("ED-2")
def test_a_descriptor_is_a_control_segment_then_an_address_then_data():
    async def program(host):
        end = await make_end(host)
        parts = [end.out.segment(0, 8), end.out.segment(8, 16)]
        return end.places.request(*parts, control=1, remote=end.into.remote(4), immediate=9)

    descriptor = results_of(Cluster(nodes=1), program)[0]
    raw = descriptor.encode()
    found = decode(raw)

    assert len(raw) == CONTROL_SEGMENT.size + 3 * DATA_SEGMENT.size == 80
    assert found.remote == (descriptor.remote.address, descriptor.remote.handle)
    assert found.data == [(one.address, one.handle, one.length) for one in descriptor.data]
    assert (found.length, found.immediate) == (24, 9)
    assert decode(raw[:-1]) is None


@pytest.mark.requirement("ED-61")
def test_calls_of_the_kernel_agent_take_the_time_of_a_system_call():
    async def program(host):
        begun = (nic := await host.open_nic()).now_us
        tag = await nic.create_ptag()
        await nic.create_vi(tag)
        return nic.now_us - begun

    assert results_of(Cluster(nodes=1, settings={"system_call": 3_000_000}), program)[0] == 6


@pytest.mark.requirement("ED-4")
def test_a_completion_is_in_the_descriptors_own_bytes():
    async def first(end):
        descriptor = end.send(0, 40)
        await end.nic.post_send(end.vi, descriptor)
        await end.nic.compute(200)
        raw = await end.nic.read(descriptor.address, 32)
        return CONTROL_SEGMENT.unpack(raw)[6:]

    assert run_pair(first, idle)[0] == (40, Status.VIP_STATUS_DONE)
