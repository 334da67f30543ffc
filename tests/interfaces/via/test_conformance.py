"""What the specification says of errors, states and return codes, row by row.

From the tables of the Virtual Interface Architecture Specification 1.0: status of descriptors,
behaviour by level of reliability, states of a VI.  ``docs/via.md`` says where it leaves a choice.
"""

from __future__ import annotations

import pytest
from pairs import (
    COHERENT,
    DELIVERY,
    MECHANISMS,
    RECEPTION,
    UNRELIABLE,
    Cluster,
    idle,
    make_end,
    run_pair,
)

from nicscope.interfaces.via import Control, Error, Return, State, Status, VipError
from nicscope.interfaces.via.descriptor import DataSegment

DONE = Status.VIP_STATUS_DONE
FLUSHED = Status.VIP_STATUS_DESC_FLUSHED_ERROR
RECEIVE = Status.VIP_STATUS_OP_RECEIVE
LEVELS = (UNRELIABLE, DELIVERY, RECEPTION)


def alone(program, mechanism="edt", nodes=1, **how):
    """What one program returns."""
    cluster = Cluster(mechanism=mechanism, nodes=nodes, **how)
    cluster.start(0, program)
    return cluster.run()[0]


async def code_of(call):
    """The return code of a call that must fail."""
    with pytest.raises(VipError) as caught:
        await call
    return caught.value.code


async def sent(end, descriptor):
    await end.nic.post_send(end.vi, descriptor)
    return (await end.nic.send_wait(end.vi)).status


async def outcome(end):
    """Status of the next receive, then the state of the VI and its errors some time later."""
    status = (await end.nic.recv_wait(end.vi)).status
    await end.nic.compute(100)
    return status, end.vi.state, end.nic.errors(end.vi)


# --- a receive descriptor that is too small ----------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_message_longer_than_the_descriptor_is_a_length_error(level, mechanism):
    async def first(end):
        status = await sent(end, end.send(0, 65))
        await end.nic.compute(100)
        return status, end.vi.state

    async def second(end):
        return await outcome(end)

    async def small(end):
        await end.nic.post_recv(end.vi, end.receive(0, 64))
        return await second(end)

    (status, state), (received, there, errors) = run_pair(first, small, mechanism, level, posted=0)
    assert received == DONE | RECEIVE | Status.VIP_STATUS_LENGTH_ERROR
    if level is UNRELIABLE:
        assert (status, state, there, errors) == (
            DONE,
            State.VIP_STATE_CONNECTED,
            State.VIP_STATE_CONNECTED,
            [],
        )
        return
    assert (state, there) == (State.VIP_STATE_ERROR, State.VIP_STATE_ERROR)
    remote = Status.VIP_STATUS_REMOTE_DESC_ERROR if level is RECEPTION else Status(0)
    assert status == DONE | remote


# --- no receive posted -------------------------------------------------------------------------


@pytest.mark.requirement("ED-7")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_message_that_finds_no_receive_is_dropped_or_ends_the_connection(level, mechanism):
    async def first(end):
        status = await sent(end, end.send(0, 64))
        await end.nic.compute(100)
        return status, end.vi.state, end.nic.errors(end.vi)

    async def second(end):
        await end.nic.compute(500)
        return end.vi.state, end.nic.errors(end.vi)

    (status, state, errors), there = run_pair(first, second, mechanism, level, posted=0)
    if level is UNRELIABLE:
        assert (status, state, errors) == (DONE, State.VIP_STATE_CONNECTED, [])
        assert there == (State.VIP_STATE_CONNECTED, [Error.VIP_ERROR_RECVQ_EMPTY])
    else:
        assert status == DONE | Status.VIP_STATUS_TRANSPORT_ERROR
        assert (state, errors) == (State.VIP_STATE_ERROR, [Error.VIP_ERROR_CONN_LOST])
        assert there == (State.VIP_STATE_ERROR, [Error.VIP_ERROR_RECVQ_EMPTY])


# --- protection --------------------------------------------------------------------------------


async def foreign(end):
    """A segment of registered memory with another protection tag."""
    tag = await end.nic.create_ptag()
    return (await end.nic.register_mem(end.nic.allocate(128), tag)).segment(0, 64)


async def unregistered(end):
    return DataSegment(end.nic.allocate(128).address, end.out.handle, 64)


async def beyond(end):
    return DataSegment(end.out.address + end.out.length - 32, end.out.handle, 64)


async def nobodys(end):
    return DataSegment(end.out.address, 999, 64)


async def deregistered(end):
    region = await end.nic.register_mem(end.nic.allocate(128), end.tag)
    await end.nic.deregister_mem(region)
    return DataSegment(region.address, region.handle, 64)


WRONG = [foreign, unregistered, beyond, nobodys, deregistered]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_send_from_memory_that_is_not_the_vis_is_a_protection_error(wrong, mechanism):
    async def first(end):
        descriptor = end.places.request(end.out.segment(0, 8), await wrong(end))
        status = await sent(end, descriptor)
        return status, end.vi.state

    found = run_pair(first, idle, mechanism, UNRELIABLE)[0]
    assert found == (DONE | Status.VIP_STATUS_PROTECTION_ERROR, State.VIP_STATE_CONNECTED)
    found = run_pair(first, idle, mechanism, DELIVERY)[0]
    assert found == (DONE | Status.VIP_STATUS_PROTECTION_ERROR, State.VIP_STATE_ERROR)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_after_a_refused_send_the_next_one_still_arrives(mechanism):
    async def first(end):
        wrong = await sent(end, end.places.request(await foreign(end)))
        await end.nic.write(end.out.address, b"after all")
        return wrong, await sent(end, end.send(0, 9))

    async def second(end):
        await end.nic.recv_wait(end.vi)
        return await end.nic.read(end.into.address, 9)

    (wrong, right), arrived = run_pair(first, second, mechanism, UNRELIABLE)
    assert wrong == DONE | Status.VIP_STATUS_PROTECTION_ERROR
    assert (right, arrived) == (DONE, b"after all")


@pytest.mark.parametrize("level", LEVELS)
def test_a_receive_into_foreign_memory_is_a_protection_error(level):
    async def first(end):
        status = await sent(end, end.send(0, 64))
        await end.nic.compute(100)
        return status, end.vi.state

    async def second(end):
        await end.nic.post_recv(end.vi, end.places.request(await foreign(end)))
        return await outcome(end)

    async def later(end):
        await end.nic.compute(200)
        return await first(end)

    (_, state), (status, there, _) = run_pair(later, second, level=level, posted=0)
    assert status == DONE | RECEIVE | Status.VIP_STATUS_PROTECTION_ERROR
    broken = State.VIP_STATE_CONNECTED if level is UNRELIABLE else State.VIP_STATE_ERROR
    assert (state, there) == (broken, broken)


# --- RDMA --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("level", LEVELS)
def test_rdma_to_memory_that_does_not_allow_it_is_an_rdma_protection_error(level, mechanism):
    mailbox = {}

    async def first(end):
        await end.nic.compute(100)
        remote = mailbox["region"].remote()
        await end.nic.rdma_write(end.vi, end.places, [end.out.segment(0, 64)], remote)
        status = (await end.nic.send_wait(end.vi)).status
        await end.nic.compute(100)
        return status, end.vi.state

    async def second(end):
        mailbox["region"] = end.into
        await end.nic.write(end.into.address, b"mine")
        await end.nic.compute(500)
        return end.vi.state, end.nic.errors(end.vi), await end.nic.read(end.into.address, 4)

    (status, state), (there, errors, left) = run_pair(first, second, mechanism, level)
    assert errors == [Error.VIP_ERROR_RDMAW_PROT]
    assert left == b"mine"
    rdma = DONE | Status.VIP_STATUS_OP_RDMA_WRITE
    if level is UNRELIABLE:
        assert (status, state, there) == (rdma, *[State.VIP_STATE_CONNECTED] * 2)
    else:
        assert status == rdma | Status.VIP_STATUS_RDMA_PROT_ERROR
        assert (state, there) == (State.VIP_STATE_ERROR, State.VIP_STATE_ERROR)


def test_an_rdma_read_without_the_right_is_an_rdma_protection_error():
    async def first(end):
        remote = end.into.remote()
        await end.nic.rdma_read(end.vi, end.places, [end.out.segment(0, 64)], remote)
        return (await end.nic.send_wait(end.vi)).status

    status, _ = run_pair(first, idle)
    assert status & Status.VIP_STATUS_RDMA_PROT_ERROR


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name not in COHERENT])
def test_rdma_interrupts_a_host_whose_memory_the_nic_cannot_reach_coherently(mechanism):
    rights = {"enable_rdma_write": True}
    mailbox = {}

    async def first(end):
        await end.nic.compute(100)
        begun = end.nic.now_us
        data = [end.out.segment(0, 64)]
        await end.nic.rdma_write(end.vi, end.places, data, mailbox["region"].remote())
        await end.nic.send_wait(end.vi)
        return end.nic.now_us - begun

    async def second(end):
        mailbox["region"] = end.into
        # Dirty in the caches, and beside what is written: neither may come back later.
        await end.nic.write(end.into.address, b"o" * 100)
        await end.nic.compute(500)
        return await end.nic.read(end.into.address, 100)

    def run(us):
        how = {"rights": rights, "settings": {"interrupt": us * 10**6}}
        return run_pair(first, second, mechanism, RECEPTION, **how)

    (short, left), (long, _) = run(5), run(25)
    assert left == bytes(64) + b"o" * 36
    assert long - short == pytest.approx(20)


# --- descriptors -------------------------------------------------------------------------------


def test_a_control_word_with_reserved_bits_is_a_format_error():
    async def first(end):
        return await sent(end, end.send(0, 8, control=Control(0x20)))

    assert run_pair(first, idle, level=UNRELIABLE)[0] == DONE | Status.VIP_STATUS_FORMAT_ERROR


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("operation", [1, 2])
def test_a_receive_that_asks_for_an_rdma_is_a_format_error(operation, level):
    """Only a send queue has those; what it names is not touched, and no message goes there."""

    async def first(end):
        await end.nic.compute(100)
        status = await sent(end, end.send(0, 8))
        await end.nic.compute(100)
        return status, end.vi.state

    async def second(end):
        asks = end.places.request(end.into.segment(), control=operation, remote=end.out.remote())
        await end.nic.post_recv(end.vi, asks)
        status = (await end.nic.recv_wait(end.vi)).status
        await end.nic.compute(500)
        left = await end.nic.read(end.into.address, 8)
        return status, end.vi.state, end.nic.errors(end.vi), left

    how = {"posted": 0, "rights": {"enable_rdma_write": True}}
    (_, there), (status, state, errors, left) = run_pair(first, second, level=level, **how)
    assert status == DONE | RECEIVE | Status.VIP_STATUS_FORMAT_ERROR
    assert left == bytes(8)
    if level is UNRELIABLE:
        assert (state, there) == (State.VIP_STATE_CONNECTED, State.VIP_STATE_CONNECTED)
        assert errors == [Error.VIP_ERROR_RECVQ_EMPTY]
    else:
        assert (state, there) == (State.VIP_STATE_ERROR, State.VIP_STATE_ERROR)
        assert errors == [Error.VIP_ERROR_POST_DESC]


def test_more_than_the_largest_transfer_is_a_length_error():
    async def first(end):
        return await sent(end, end.send(0, 101))

    how = {"settings": {"max_transfer": 100}, "level": UNRELIABLE}
    assert run_pair(first, idle, **how)[0] == DONE | Status.VIP_STATUS_LENGTH_ERROR


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


# --- states and connections --------------------------------------------------------------------


def test_a_send_on_a_vi_that_is_not_connected_comes_back_flushed():
    async def program(host):
        end = await make_end(host)
        return await sent(end, end.send(0, 8)), end.vi.state

    assert alone(program) == (DONE | FLUSHED, State.VIP_STATE_IDLE)


def test_a_broken_connection_flushes_what_is_posted_and_what_is_posted_later():
    async def first(end):
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.compute(20)
        await sent(end, end.places.request(await nobodys(end)))
        flushed = (await end.nic.recv_wait(end.vi)).status
        await end.nic.post_recv(end.vi, end.receive())
        later = (await end.nic.recv_wait(end.vi)).status
        return flushed, later, await sent(end, end.send(0, 8))

    async def second(end):
        return (await end.nic.recv_wait(end.vi)).status, end.nic.errors(end.vi)

    (posted, later, send), (there, errors) = run_pair(first, second)
    assert posted == later == there == DONE | RECEIVE | FLUSHED
    assert send == DONE | FLUSHED
    assert errors == [Error.VIP_ERROR_CONN_LOST]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_disconnection_flushes_one_side_and_the_other_loses_its_connection(mechanism):
    async def first(end):
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.disconnect(end.vi)
        status = (await end.nic.recv_wait(end.vi)).status
        return status, end.vi.state, end.nic.errors(end.vi)

    async def second(end):
        status = (await end.nic.recv_wait(end.vi)).status
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


def test_what_makes_no_vi_and_no_memory_has_its_code():
    async def program(host):
        nic = await host.open_nic()
        tag = await nic.create_ptag()
        room = nic.allocate(64)
        region = await nic.register_mem(room, tag)
        vi = await nic.create_vi(tag)
        codes = [
            await code_of(nic.create_vi(99)),
            await code_of(nic.create_vi(tag, 3)),
            await code_of(nic.create_vi(tag, max_transfer=0)),
            await code_of(nic.create_vi(tag, UNRELIABLE, enable_rdma_read=True)),
            await code_of(nic.register_mem(room, 99)),
            await code_of(nic.destroy_ptag(tag)),
            await code_of(nic.destroy_ptag(99)),
        ]
        await nic.deregister_mem(region)
        codes.append(await code_of(nic.deregister_mem(region)))
        await nic.destroy_vi(vi)
        codes.append(await code_of(nic.destroy_vi(vi)))
        await nic.destroy_ptag(tag)
        return codes

    assert alone(program) == [
        Return.VIP_INVALID_PTAG,
        Return.VIP_INVALID_RELIABILITY_LEVEL,
        Return.VIP_INVALID_MTU,
        Return.VIP_INVALID_RDMAREAD,
        Return.VIP_INVALID_PTAG,
        Return.VIP_ERROR_RESOURCE,
        Return.VIP_INVALID_PARAMETER,
        Return.VIP_INVALID_PARAMETER,
        Return.VIP_INVALID_PARAMETER,
    ]


def test_a_vi_with_a_connection_or_descriptors_is_not_destroyed():
    async def first(end):
        connected = await code_of(end.nic.destroy_vi(end.vi))
        await end.nic.post_recv(end.vi, end.receive())
        await end.nic.disconnect(end.vi)
        return connected, await code_of(end.nic.destroy_vi(end.vi))

    found = run_pair(first, idle)[0]
    assert found == (Return.VIP_INVALID_STATE, Return.VIP_ERROR_RESOURCE)
