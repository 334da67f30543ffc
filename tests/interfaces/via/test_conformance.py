"""What the specification says of errors, states and return codes, row by row.

From the tables of the Virtual Interface Architecture Specification 1.0: status of descriptors,
behaviour by level of reliability, states of a VI.  ``docs/via.md`` says where it leaves a choice.
"""

import pytest
from conforming import DONE, LEVELS, RECEIVE, nobodys, outcome, sent
from pairs import (
    COHERENT,
    MECHANISMS,
    RECEPTION,
    UNRELIABLE,
    ended,
    idle,
    run_pair,
)

from nicscope.interfaces.via import Error, State, Status
from nicscope.interfaces.via.descriptor import DataSegment
from pairwise import pairs_of

ROWS = pairs_of(
    row=("too long", "none posted", "RDMA not allowed"), mechanism=MECHANISMS, level=LEVELS
)


def over_ways_and_levels(row):
    """Every way and every level, of which each two meet in one of the rows."""
    cases = [case[1:] for case in ROWS if case[0] == row]
    return pytest.mark.parametrize(("mechanism", "level"), cases)


# --- a receive descriptor that is too small ----------------------------------------------------


@over_ways_and_levels("too long")
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
@over_ways_and_levels("none posted")
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


async def deregistered(end):
    region = await end.nic.register_mem(end.nic.allocate(128), end.tag)
    await end.nic.deregister_mem(region)
    return DataSegment(region.address, region.handle, 64)


WRONG = [foreign, unregistered, beyond, nobodys, deregistered]


@pytest.mark.parametrize(
    ("wrong", "mechanism", "level"), pairs_of(wrong=WRONG, mechanism=MECHANISMS, level=LEVELS)
)
def test_a_send_from_memory_that_is_not_the_vis_is_a_protection_error(wrong, mechanism, level):
    async def first(end):
        descriptor = end.places.request(end.out.segment(0, 8), await wrong(end))
        status = await sent(end, descriptor)
        return status, end.vi.state

    found = run_pair(first, idle, mechanism, level)[0]
    left = State.VIP_STATE_CONNECTED if level is UNRELIABLE else State.VIP_STATE_ERROR
    assert found == (DONE | Status.VIP_STATUS_PROTECTION_ERROR, left)


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


@over_ways_and_levels("RDMA not allowed")
def test_rdma_to_memory_that_does_not_allow_it_is_an_rdma_protection_error(level, mechanism):
    mailbox = {}

    async def first(end):
        await end.nic.compute(100)
        remote = mailbox["region"].remote()
        await end.nic.rdma_write(end.vi, end.places, [end.out.segment(0, 64)], remote)
        status = (await ended(end.nic.send_wait(end.vi))).status
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
        return (await ended(end.nic.send_wait(end.vi))).status

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
        status = (await ended(end.nic.recv_wait(end.vi))).status
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
