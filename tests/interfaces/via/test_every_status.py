"""Every status, error and return code of the specification is raised, or it is said why not."""

from __future__ import annotations

import pytest
from conforming import code_of, nobodys
from pairs import RECEPTION, UNRELIABLE, ended, idle, run_pair

from nicscope.interfaces.via import Control, Error, Return, Status
from nicscope.interfaces.via.names import STATUS_OP_MASK

RIGHTS = {"enable_rdma_write": True, "enable_rdma_read": True}
# By name, as words of different kinds are equal numbers: what it is, both programs of a pair, and
# what their cluster is like.
RAISED: dict = {}
NEVER = {
    "VIP_STATUS_PARTIAL_ERROR": "a message is given whole or not at all",
    "VIP_ERROR_VI_OVERRUN": "the library counts descriptors, and refuses: VIP_ERROR_RESOURCE",
    "VIP_ERROR_RDMAW_DATA": "what comes damaged is lost: the link's check finds it",
    "VIP_ERROR_RDMAW_ABORT": "bytes that came before a write broke off stay, as unreliable",
    "VIP_ERROR_RDMA_TRANSPORT": "a lost peer is told as VIP_ERROR_CONN_LOST",
}
TOLD_OTHERWISE = {
    "VIP_SUCCESS": "a call that returns",
    "VIP_NOT_DONE": "None",
}


def raises(what, second=idle, **how):
    """What the decorated program of the first node returns is, or has in it, ``what``."""

    def note(first):
        RAISED[what.name] = what, first, second, how
        return first

    return note


async def status_of(end, descriptor):
    await end.nic.post_send(end.vi, descriptor)
    return (await ended(end.nic.send_wait(end.vi))).status


async def read_or_write(end, region, read=False):
    call = end.nic.rdma_read if read else end.nic.rdma_write
    await call(end.vi, end.places, [end.out.segment(0, 8)], region.remote())
    return (await ended(end.nic.send_wait(end.vi))).status


async def sends(end, **how):
    return await status_of(end, end.send(0, 8, **how))


async def later(end):
    """Send when the other side has posted what it wishes."""
    await end.nic.compute(200)
    return await sends(end)


# --- status words ------------------------------------------------------------------------------


@raises(Status.VIP_STATUS_DONE)
async def _(end):
    return await sends(end)


@raises(Status.VIP_STATUS_FORMAT_ERROR)
async def _(end):
    return await sends(end, control=Control(0x20))


@raises(Status.VIP_STATUS_PROTECTION_ERROR)
async def _(end):
    return await status_of(end, end.places.request(await nobodys(end)))


@raises(Status.VIP_STATUS_LENGTH_ERROR, settings={"max_transfer": 100})
async def _(end):
    return await status_of(end, end.send(0, 101))


@raises(Status.VIP_STATUS_DESC_FLUSHED_ERROR)
async def _(end):
    await end.nic.disconnect(end.vi)
    return await sends(end)


@raises(Status.VIP_STATUS_TRANSPORT_ERROR, posted=0)
async def _(end):
    return await sends(end)


@raises(Status.VIP_STATUS_RDMA_PROT_ERROR)
async def _(end):
    return await read_or_write(end, end.out)


async def small(end):
    await end.nic.post_recv(end.vi, end.receive(0, 4))
    await idle(end)


@raises(Status.VIP_STATUS_REMOTE_DESC_ERROR, small, level=RECEPTION, posted=0)
async def _(end):
    return await later(end)


@raises(Status.VIP_STATUS_OP_RECEIVE, sends)
async def _(end):
    await end.nic.post_recv(end.vi, end.receive())
    return (await end.nic.recv_wait(end.vi)).status


@raises(Status.VIP_STATUS_IMMEDIATE, lambda end: sends(end, immediate=7))
async def _(end):
    await end.nic.post_recv(end.vi, end.receive())
    return (await end.nic.recv_wait(end.vi)).status


@raises(Status.VIP_STATUS_OP_RDMA_WRITE)
async def _(end):
    return await read_or_write(end, end.out)


@raises(Status.VIP_STATUS_OP_RDMA_READ, rights=RIGHTS)
async def _(end):
    return await read_or_write(end, end.out, read=True)


async def writes_with_a_word(end):
    remote = end.into.remote()  # the same place there: both ends are made alike
    await end.nic.rdma_write(end.vi, end.places, [end.out.segment(0, 8)], remote, immediate=7)
    await end.nic.send_wait(end.vi)


@raises(Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE, writes_with_a_word, rights=RIGHTS)
async def _(end):
    await end.nic.post_recv(end.vi, end.receive())
    return (await end.nic.recv_wait(end.vi)).status


# --- errors beside descriptors -----------------------------------------------------------------


@raises(Error.VIP_ERROR_POST_DESC)
async def _(end):
    await sends(end, control=Control(0x20))
    return end.nic.errors(end.vi)


async def disconnects(end):
    await end.nic.disconnect(end.vi)


@raises(Error.VIP_ERROR_CONN_LOST, disconnects)
async def _(end):
    await end.nic.compute(500)
    return end.nic.errors(end.vi)


@raises(Error.VIP_ERROR_RECVQ_EMPTY, sends)
async def _(end):
    await end.nic.compute(500)
    return end.nic.errors(end.vi)


@raises(Error.VIP_ERROR_RDMAW_PROT, lambda end: read_or_write(end, end.out))
async def _(end):
    await end.nic.compute(500)
    return end.nic.errors(end.vi)


async def reads(end):
    there = end.places.request(
        end.into.segment(0, 8),
        control=Control.VIP_CONTROL_OP_RDMAREAD,
        remote=end.out.remote(4096),  # behind its end
    )
    return await status_of(end, there)


@raises(Error.VIP_ERROR_RDMAR_PROT, reads, rights=RIGHTS)
async def _(end):
    await end.nic.compute(500)
    return end.nic.errors(end.vi)


@raises(Error.VIP_ERROR_COMP_PROT, later, posted=0)
async def _(end):
    await end.nic.post_recv(end.vi, end.receive(0, 4))
    await end.nic.compute(500)
    return end.nic.errors(end.vi)


async def takes_one(end):
    vi = await end.nic.create_vi(end.tag)
    await end.nic.connect_accept(await end.nic.connect_wait("narrow"), vi)
    await end.nic.compute(2000)


@raises(Error.VIP_ERROR_CATASTROPHIC, takes_one)
async def _(end):
    queue = await end.nic.create_cq(end.tag, 1)
    vi = await end.nic.create_vi(end.tag, recv_cq=queue)
    for _ in range(2):
        await end.nic.post_recv(vi, end.receive())
    await end.nic.connect_request(vi, 1, "narrow")
    await end.nic.disconnect(vi)  # two that are flushed, and room for one
    await end.nic.compute(500)
    return end.nic.errors(vi)


# --- what calls return -------------------------------------------------------------------------


@raises(Return.VIP_INVALID_PARAMETER)
async def _(end):
    return await code_of(end.nic.create_cq(end.tag, 0))


@raises(Return.VIP_ERROR_RESOURCE)
async def _(end):
    return await code_of(end.nic.destroy_ptag(end.tag))


@raises(Return.VIP_TIMEOUT)
async def _(end):
    return await code_of(end.nic.connect_wait("nobody", timeout_us=5))


async def rejects(end):
    await end.nic.connect_reject(await end.nic.connect_wait("no"))


@raises(Return.VIP_REJECT, rejects)
async def _(end):
    return await code_of(end.nic.connect_request(await end.nic.create_vi(end.tag), 1, "no"))


@raises(Return.VIP_INVALID_RELIABILITY_LEVEL)
async def _(end):
    return await code_of(end.nic.create_vi(end.tag, 3))


@raises(Return.VIP_INVALID_MTU)
async def _(end):
    return await code_of(end.nic.create_vi(end.tag, max_transfer=0))


@raises(Return.VIP_INVALID_QOS)
async def _(end):
    return await code_of(end.nic.create_vi(end.tag, qos=-1))


@raises(Return.VIP_INVALID_PTAG)
async def _(end):
    return await code_of(end.nic.create_vi(end.tag + 100))


@raises(Return.VIP_INVALID_RDMAREAD)
async def _(end):
    return await code_of(end.nic.create_vi(end.tag, UNRELIABLE, enable_rdma_read=True))


@raises(Return.VIP_DESCRIPTOR_ERROR)
async def _(end):
    return await code_of(end.nic.send_done(end.vi))


@raises(Return.VIP_INVALID_STATE)
async def _(end):
    return await code_of(end.nic.destroy_vi(end.vi))


@raises(Return.VIP_ERROR_NAMESERVICE)
async def _(end):
    return await code_of(end.nic.ns_get_host_by_name("node0"))


@raises(Return.VIP_NO_MATCH)
async def _(end):
    vi = await end.nic.create_vi(end.tag)
    return await code_of(end.nic.connect_request(vi, 1, "nobody", timeout_us=5))


@raises(Return.VIP_NOT_REACHABLE)
async def _(end):
    return await code_of(end.nic.connect_request(await end.nic.create_vi(end.tag), 9, "far"))


@raises(Return.VIP_ERROR_NOT_SUPPORTED)
async def _(end):
    return await code_of(end.nic.query_system_management_info(2))


ALL = [*Status.__members__, *Error.__members__, *Return.__members__]


def test_each_is_raised_or_has_a_reason_why_it_is_not():
    assert sorted([*RAISED, *NEVER, *TOLD_OTHERWISE]) == sorted(ALL)


@pytest.mark.parametrize("name", RAISED)
def test_it_is_raised(name):
    what, first, second, how = RAISED[name]
    found = run_pair(first, second, **how)[0]
    if isinstance(what, Error):
        assert found == [what]
    elif isinstance(what, Return):
        assert found is what
    elif what & STATUS_OP_MASK:
        assert found & STATUS_OP_MASK == what
    else:
        assert found & what == what
