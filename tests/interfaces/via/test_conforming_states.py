"""What the specification says of connections that end, of states, and of calls that are refused."""

import pytest
from conforming import DONE, FLUSHED, RECEIVE, alone, code_of, nobodys, sent
from pairs import (
    MECHANISMS,
    RECEPTION,
    ended,
    idle,
    run_pair,
)

from nicscope.interfaces.via import Error, Return, State, Status


@pytest.mark.parametrize("off", [8, 32])
def test_a_descriptor_out_of_alignment_is_refused_by_the_library(off):
    async def first(end):
        descriptor = end.send(0, 8)
        descriptor.address += off
        return await code_of(end.nic.post_send(end.vi, descriptor))

    assert run_pair(first, idle)[0] is Return.VIP_INVALID_PARAMETER


def test_polling_an_empty_queue_is_a_descriptor_error_and_an_unfinished_one_is_not_done():
    async def first(end):
        empty = await code_of(end.nic.send_done(end.vi))
        await end.nic.post_recv(end.vi, end.receive())
        return empty, await end.nic.recv_done(end.vi), await code_of(end.nic.recv_wait(end.vi, 5))

    assert run_pair(first, idle)[0] == (Return.VIP_DESCRIPTOR_ERROR, None, Return.VIP_TIMEOUT)


def test_a_broken_connection_flushes_what_is_posted_and_what_is_posted_later():
    async def first(end):
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.compute(20)
        await sent(end, end.places.request(await nobodys(end)))
        flushed = (await ended(end.nic.recv_wait(end.vi))).status
        await end.nic.post_recv(end.vi, end.receive())
        later = (await ended(end.nic.recv_wait(end.vi))).status
        return flushed, later, await sent(end, end.send(0, 8))

    async def second(end):
        return (await ended(end.nic.recv_wait(end.vi))).status, end.nic.errors(end.vi)

    (posted, later, send), (there, errors) = run_pair(first, second)
    assert posted == later == there == DONE | RECEIVE | FLUSHED
    assert send == DONE | FLUSHED
    assert errors == [Error.VIP_ERROR_CONN_LOST]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_disconnection_flushes_one_side_and_the_other_loses_its_connection(mechanism):
    async def first(end):
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.disconnect(end.vi)
        status = (await ended(end.nic.recv_wait(end.vi))).status
        return status, end.vi.state, end.nic.errors(end.vi)

    async def second(end):
        status = (await ended(end.nic.recv_wait(end.vi))).status
        found = status, end.vi.state, end.nic.errors(end.vi)
        await end.nic.disconnect(end.vi)
        return (*found, end.vi.state)

    mine, theirs = run_pair(first, second, mechanism)
    assert mine == (DONE | RECEIVE | FLUSHED, State.VIP_STATE_IDLE, [])
    assert theirs == (
        DONE | RECEIVE | FLUSHED,
        State.VIP_STATE_ERROR,
        [Error.VIP_ERROR_CONN_LOST],
        State.VIP_STATE_IDLE,
    )


def test_a_connection_that_loses_every_frame_is_a_transport_error():
    async def first(end):
        status = await sent(end, end.send(0, 8))
        return status, end.vi.state

    how = {"loss": 0.999999, "settings": {"retries": 2}}
    found = run_pair(first, idle, **how)[0]
    assert found == (DONE | Status.VIP_STATUS_TRANSPORT_ERROR, State.VIP_STATE_ERROR)


def test_requests_for_connections_fail_with_their_own_codes():
    async def first(end):
        nic, vi = end.nic, await end.nic.create_vi(end.tag)
        busy = await code_of(nic.connect_request(end.vi, 1, "x"))
        nowhere = await code_of(nic.connect_request(vi, 7, "x"))
        nobody = await code_of(nic.connect_request(vi, 1, "x", timeout_us=10))
        rejected = await code_of(nic.connect_request(vi, 1, "no"))
        slow = await code_of(nic.connect_request(vi, 1, "slow", timeout_us=10))
        return busy, nowhere, nobody, rejected, slow, vi.state

    async def second(end):
        await end.nic.connect_reject(await end.nic.connect_wait("no"))
        late = await end.nic.connect_wait("slow")
        await end.nic.compute(50)
        vi = await end.nic.create_vi(end.tag)
        gone = await code_of(end.nic.connect_accept(late, vi))
        return gone, await code_of(end.nic.connect_wait("x", timeout_us=5))

    found, (gone, waited) = run_pair(first, second)
    assert found == (
        Return.VIP_INVALID_STATE,
        Return.VIP_NOT_REACHABLE,
        Return.VIP_NO_MATCH,
        Return.VIP_REJECT,
        Return.VIP_TIMEOUT,
        State.VIP_STATE_IDLE,
    )
    assert gone is waited is Return.VIP_TIMEOUT


def test_vis_of_different_levels_or_lengths_do_not_connect():
    async def first(end):
        other = await end.nic.create_vi(end.tag, RECEPTION)
        short = await end.nic.create_vi(end.tag, max_transfer=100)
        return [
            await code_of(end.nic.connect_request(vi, 1, "x", timeout_us=20))
            for vi in (other, short)
        ]

    async def second(end):
        codes = []
        for _ in range(2):
            vi = await end.nic.create_vi(end.tag)
            request = await end.nic.connect_wait("x")
            codes.append(await code_of(end.nic.connect_accept(request, vi)))
        return codes

    asked, accepted = run_pair(first, second)
    assert asked == [Return.VIP_TIMEOUT] * 2
    assert accepted == [Return.VIP_INVALID_RELIABILITY_LEVEL, Return.VIP_INVALID_MTU]


def test_what_is_not_there_is_neither_used_nor_given_back():
    async def program(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        region = await nic.register_mem(nic.allocate(64), tag)
        vi = await nic.create_vi(tag)
        codes = [await code_of(nic.destroy_ptag(tag)), await code_of(nic.destroy_ptag(99))]
        await nic.deregister_mem(region)
        await nic.destroy_vi(vi)
        codes += [await code_of(nic.deregister_mem(region)), await code_of(nic.destroy_vi(vi))]
        await nic.destroy_ptag(tag)
        return await code_of(nic.register_mem(nic.allocate(64), 99)), codes

    parameter = Return.VIP_INVALID_PARAMETER
    expected = [Return.VIP_ERROR_RESOURCE, *[parameter] * 3]
    assert alone(program) == (Return.VIP_INVALID_PTAG, expected)


def test_a_vi_with_a_connection_or_descriptors_is_not_destroyed():
    async def first(end):
        connected = await code_of(end.nic.destroy_vi(end.vi))
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.disconnect(end.vi)
        return connected, await code_of(end.nic.destroy_vi(end.vi))

    found = run_pair(first, idle)[0]
    assert found == (Return.VIP_INVALID_STATE, Return.VIP_ERROR_RESOURCE)
