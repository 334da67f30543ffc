"""Calls of VIPL about what there is: attributes, sizes, names, ways, and the end of it all."""

import pytest
from conforming import DONE, RECEIVE, alone, code_of
from pairs import DELIVERY, RECEPTION, UNRELIABLE, Cluster, ended, idle, make_end, run_pair

from nicscope.interfaces.via import Return, State, Status
from nicscope.interfaces.via.descriptor import SystemInfo
from nicscope.interfaces.via.library import Discovered, MemAttributes
from nicscope.interfaces.via.vi import Attributes
from program_results import results_of

PROTECTION = Status.VIP_STATUS_PROTECTION_ERROR


def test_a_vi_tells_its_state_its_attributes_and_whether_its_queues_are_empty():
    async def first(end):
        connected = await end.nic.query_vi(end.vi)
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.post_send(end.vi, end.send(0, 8))
        busy = await end.nic.query_vi(end.vi)
        await end.nic.send_wait(end.vi)
        return connected, busy, await end.nic.query_vi(end.vi)

    connected, busy, sent = run_pair(first, idle)[0]
    assert connected.attributes == Attributes(1, DELIVERY, 65536, False, False, 0)
    found = [(one.state, one.send_queue_empty, one.recv_queue_empty) for one in (busy, sent)]
    assert (connected.state, connected.send_queue_empty, connected.recv_queue_empty) == (
        State.VIP_STATE_CONNECTED,
        True,
        True,
    )
    assert found == [
        (State.VIP_STATE_CONNECTED, False, False),
        (State.VIP_STATE_CONNECTED, True, False),
    ]


def test_attributes_of_an_idle_vi_may_be_changed_and_count_from_then_on():
    """Level, longest message, tag and class of service, as a connection has them."""

    async def first(host):
        end = await make_end(host)
        other = await end.nic.create_ptag()
        room = await end.nic.register_mem(end.nic.allocate(64), other)
        places = await end.nic.descriptors(other, 4)
        how = {"tag": other, "reliability": UNRELIABLE, "max_transfer": 20, "qos": 3}
        await end.nic.set_vi_attributes(end.vi, **how)
        theirs = await end.nic.connect_request(end.vi, 1, "changed")
        await end.nic.post_send(end.vi, places.request(room.segment(0, 20)))
        fits = (await end.nic.send_wait(end.vi)).status
        await end.nic.post_send(end.vi, places.request(room.segment(0, 21)))
        long = (await ended(end.nic.send_wait(end.vi))).status
        busy = await code_of(end.nic.set_vi_attributes(end.vi, qos=4))
        await end.nic.post_send(end.vi, places.request(end.out.segment(0, 8)))
        foreign = (await ended(end.nic.send_wait(end.vi))).status
        return theirs, fits, long, foreign, busy, end.vi.state

    async def second(host):
        end = await make_end(host)
        await end.nic.set_vi_attributes(end.vi, max_transfer=20, reliability=UNRELIABLE, qos=3)
        request = await end.nic.connect_wait("changed")
        asked = request.node, request.attributes.qos
        await end.nic.connect_accept(request, end.vi)
        await end.nic.compute(500)
        return asked

    (theirs, *statuses, busy, state), asked = results_of(Cluster(), first, second)
    assert theirs == Attributes(1, UNRELIABLE, 20, False, False, 3)
    assert asked == (0, 3)
    length = Status.VIP_STATUS_LENGTH_ERROR
    assert statuses == [DONE, DONE | length, DONE | PROTECTION]
    assert (busy, state) == (Return.VIP_INVALID_STATE, State.VIP_STATE_CONNECTED)


def test_attributes_that_no_vi_has_are_refused_and_change_nothing():
    async def program(host):
        end = await make_end(host)
        wrong = {"tag": 99, "reliability": 3, "max_transfer": 0, "qos": 256}
        codes = [
            await code_of(end.nic.set_vi_attributes(end.vi, **{name: value}))
            for name, value in wrong.items()
        ]
        read = {"reliability": UNRELIABLE, "enable_rdma_read": True}
        codes.append(await code_of(end.nic.set_vi_attributes(end.vi, **read)))
        return codes, end.vi.attributes

    codes, left = alone(program)
    assert codes == [
        Return.VIP_INVALID_PTAG,
        Return.VIP_INVALID_RELIABILITY_LEVEL,
        Return.VIP_INVALID_MTU,
        Return.VIP_INVALID_QOS,
        Return.VIP_INVALID_RDMAREAD,
    ]
    assert left == Attributes(1, DELIVERY, 65536, False, False, 0)


def test_attributes_of_memory_are_told_and_changed_and_the_nic_goes_by_them():
    """Its right to be written from afar is given and taken away, and its tag is changed."""
    shared = {}

    async def write(end):
        remote = shared["region"].remote()
        await end.nic.rdma_write(end.vi, end.places, [end.out.segment(0, 5)], remote)
        await end.nic.send_wait(end.vi)
        await end.nic.compute(200)

    async def first(end):
        for text in (b"one  ", b"two  ", b"three"):
            await end.nic.compute(400)
            await end.nic.write(end.out.address, text)
            await write(end)

    async def second(end):
        region = shared["region"] = await end.nic.register_mem(end.nic.allocate(64), end.tag)
        seen = [await end.nic.query_mem(region)]
        found = []
        for allowed in (False, True, False):
            await end.nic.set_mem_attributes(region, enable_rdma_write=allowed)
            seen.append(await end.nic.query_mem(region))
            await end.nic.compute(600)
            found.append(await end.nic.read(region.address, 5))
        other = await end.nic.create_ptag()
        await end.nic.set_mem_attributes(region, tag=other)
        await end.nic.post_send(end.vi, end.places.request(region.segment(0, 8)))
        status = (await ended(end.nic.send_wait(end.vi))).status
        codes = [
            await code_of(end.nic.set_mem_attributes(region, tag=99)),
            await code_of(end.nic.destroy_ptag(other)),
        ]
        return seen, found, status, region.tag == other, codes

    rights = {"enable_rdma_write": True}
    seen, found, status, is_other, codes = run_pair(first, second, level=UNRELIABLE, rights=rights)[
        1
    ]
    assert seen == [MemAttributes(1, allowed, False) for allowed in (False, False, True, False)]
    assert found == [bytes(5), b"two  ", b"two  "]
    assert status == DONE | PROTECTION
    assert is_other
    assert codes == [Return.VIP_INVALID_PTAG, Return.VIP_ERROR_RESOURCE]


def test_a_completion_queue_is_made_larger_and_smaller_and_loses_nothing():
    async def first(end):
        queue = await end.nic.create_cq(end.tag, 1)
        vi = await end.nic.create_vi(end.tag, send_cq=queue)
        await end.nic.connect_request(vi, 1, "resized")
        await end.nic.resize_cq(queue, 3)
        for _ in range(3):
            await end.nic.post_send(vi, end.send(0, 8))
        await end.nic.compute(2000)
        codes = [
            await code_of(end.nic.resize_cq(queue, 2)),
            await code_of(end.nic.resize_cq(queue, 1 << 19)),
            await code_of(end.nic.resize_cq(queue, 0)),
        ]
        held = [(await end.nic.cq_done(queue))[0] is vi]
        await end.nic.resize_cq(queue, 2)
        held += [(await end.nic.cq_done(queue))[0] is vi for _ in range(2)]
        for _ in range(3):
            assert (await end.nic.send_done(vi)).ok
        entries, errors = queue.entries, end.nic.errors(vi)
        await end.nic.disconnect(vi)
        await end.nic.destroy_vi(vi)
        await end.nic.destroy_cq(queue)
        return codes, held, entries, errors

    async def second(end):
        vi = await end.nic.create_vi(end.tag)
        for _ in range(3):
            await end.nic.post_recv(vi, end.receive())
        await end.nic.connect_accept(await end.nic.connect_wait("resized"), vi)
        await end.nic.compute(4000)

    codes, held, entries, errors = run_pair(first, second)[0]
    resource, parameter = Return.VIP_ERROR_RESOURCE, Return.VIP_INVALID_PARAMETER
    assert codes == [resource, resource, parameter]
    assert (held, entries, errors) == ([True] * 3, 2, [])


def test_a_nic_is_closed_once_nothing_of_it_is_left_and_is_no_nic_then():
    async def program(host):
        nic, again = await host.open_nic(), await host.open_nic()
        tag = await nic.create_ptag()
        vi = await nic.create_vi(tag)
        await again.close_nic()  # the process has another
        closed = [await code_of(again.close_nic()), await code_of(again.create_ptag())]
        busy = await code_of(nic.close_nic())
        await nic.destroy_vi(vi)
        tagged = await code_of(nic.close_nic())
        await nic.destroy_ptag(tag)
        begun = nic.now_us
        await nic.close_nic()
        took = nic.now_us - begun
        return closed, busy, tagged, took > 0, await code_of(nic.query_vi(vi))

    parameter, resource = Return.VIP_INVALID_PARAMETER, Return.VIP_ERROR_RESOURCE
    assert alone(program) == ([parameter] * 2, resource, resource, True, parameter)


def test_the_name_service_knows_nodes_by_name_and_names_by_node():
    async def program(host):
        nic = await host.open_nic()
        early = [
            await code_of(nic.ns_get_host_by_name("server")),
            await code_of(nic.ns_get_host_by_addr(1)),
            await code_of(nic.ns_shutdown()),
        ]
        await nic.ns_init()
        known = [
            await nic.ns_get_host_by_name("server"),
            await nic.ns_get_host_by_name("both"),
            await nic.ns_get_host_by_name("both", 1),
            await nic.ns_get_host_by_addr(1),
        ]
        wrong = [
            await code_of(nic.ns_get_host_by_name("both", 2)),
            await code_of(nic.ns_get_host_by_name("sever")),
            await code_of(nic.ns_get_host_by_addr(2)),
        ]
        await nic.ns_shutdown()
        return early, known, wrong, await code_of(nic.ns_get_host_by_name("server"))

    async def unnamed(host):
        nic = await host.open_nic()
        await nic.ns_init()
        return await nic.ns_get_host_by_name("node1"), await nic.ns_get_host_by_addr(0)

    assert alone(unnamed, nodes=2) == (1, "node0")
    names = {"server": 1, "both": (0, 1)}
    early, known, wrong, late = alone(program, nodes=3, names=names)
    assert known == [1, 0, 1, "server"]
    assert {*early, *wrong, late} == {Return.VIP_ERROR_NAMESERVICE}


def test_a_nic_discovers_the_nodes_to_which_there_is_a_way_and_says_no_more():
    async def program(host):
        nic = await host.open_nic()
        found = await nic.query_system_management_info(SystemInfo.VIP_SMI_AUTODISCOVERY)
        return found, await code_of(nic.query_system_management_info(2))

    found, code = alone(program, nodes=3)
    hops = Cluster(nodes=3).topology.hops
    assert found == (Discovered(1, hops[0, 1]), Discovered(2, hops[0, 2]))
    assert code is Return.VIP_ERROR_NOT_SUPPORTED


# --- connections between equals ----------------------------------------------------------------


def peers(first, second, **how):
    return results_of(Cluster(**how), first, second)


@pytest.mark.parametrize("late", [0, 300])
def test_two_that_ask_for_each_other_are_connected_whoever_is_first(late):
    async def first(host):
        end = await make_end(host, RECEPTION)
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.connect_peer_request(end.vi, "left", 1, "right")
        pending = end.vi.state, await end.nic.connect_peer_done(end.vi) is None
        theirs = await end.nic.connect_peer_wait(end.vi)
        status = (await end.nic.recv_wait(end.vi)).status
        return pending, theirs.rdma_write, status, await code_of(end.nic.connect_peer_done(end.vi))

    async def second(host):
        end = await make_end(host, RECEPTION, enable_rdma_write=True)
        await end.nic.compute(100 + late)
        wrong = await end.nic.create_vi(end.tag, RECEPTION)  # asks for another
        await end.nic.connect_peer_request(wrong, "right", 0, "other")
        await end.nic.connect_peer_request(end.vi, "right", 0, "left")
        theirs = await end.nic.connect_peer_done(end.vi)
        await end.nic.post_send(end.vi, end.send(0, 8))
        await end.nic.send_wait(end.vi)
        await end.nic.disconnect(wrong)
        return theirs.rdma_write, wrong.state

    (pending, theirs, status, code), there = peers(first, second)
    assert pending == (State.VIP_STATE_CONNECT_PENDING, True)
    assert (theirs, status, code) == (True, DONE | RECEIVE, Return.VIP_INVALID_STATE)
    assert there == (False, State.VIP_STATE_IDLE)


def test_two_that_ask_for_each_other_and_do_not_suit_both_learn_why():
    codes = {
        "reliability": Return.VIP_INVALID_RELIABILITY_LEVEL,
        "max_transfer": Return.VIP_INVALID_MTU,
        "qos": Return.VIP_INVALID_QOS,
    }

    def asks(here, there, node, how):
        async def program(host):
            end = await make_end(host)
            found = []
            for name, value in how.items():
                vi = await end.nic.create_vi(end.tag, **({name: value} if node == 0 else {}))
                await end.nic.compute(50 * node)
                await end.nic.connect_peer_request(vi, here, node, there)
                found.append((await code_of(end.nic.connect_peer_wait(vi)), vi.state))
            return found

        return program

    how = {"reliability": RECEPTION, "max_transfer": 100, "qos": 1}
    found = peers(asks("a", "b", 1, how), asks("b", "a", 0, how))
    expected = [(codes[name], State.VIP_STATE_IDLE) for name in how]
    assert found == [expected, expected]


def test_who_asks_for_one_that_does_not_ask_is_told_when_its_time_is_over():
    async def first(host):
        end = await make_end(host)
        begun = end.nic.now_us
        await end.nic.connect_peer_request(end.vi, "left", 1, "right", timeout_us=100)
        code = await code_of(end.nic.connect_peer_wait(end.vi))
        waited, state = end.nic.now_us - begun, end.vi.state
        await end.nic.connect_peer_request(end.vi, "left", 1, "right", timeout_us=50)
        await end.nic.compute(400)
        busy = await code_of(end.nic.connect_peer_request(end.vi, "left", 1, "right"))
        polled = await code_of(end.nic.connect_peer_done(end.vi))
        nowhere = await code_of(end.nic.connect_peer_request(end.vi, "left", 5, "right"))
        return code, waited, state, busy, polled, nowhere, end.vi.state

    async def second(host):
        end = await make_end(host)
        await end.nic.compute(350)  # the other side has asked, and its time is over
        await end.nic.connect_peer_request(end.vi, "right", 0, "left", timeout_us=20)
        return await code_of(end.nic.connect_peer_wait(end.vi))

    (code, waited, state, busy, polled, nowhere, left), there = peers(first, second)
    assert code is polled is there is Return.VIP_TIMEOUT
    assert 100 <= waited < 120
    assert state is left is State.VIP_STATE_IDLE
    assert (busy, nowhere) == (Return.VIP_INVALID_STATE, Return.VIP_NOT_REACHABLE)
