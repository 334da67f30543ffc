"""Every status, error and return code of the specification is raised, or it is said why not."""

import pytest
from conforming import code_of, nobodys, sent
from pairs import RECEPTION, UNRELIABLE, ended, idle, run_pair

from nicscope.interfaces.via import Control, Error, Return, Status
from nicscope.interfaces.via.descriptor import STATUS_OP_MASK

RIGHTS = {"rights": {"enable_rdma_write": True, "enable_rdma_read": True}}
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


async def sends(end, **how):
    return await sent(end, end.send(0, 8, **how))


async def later(end):
    """Send when the other side has posted what it wishes."""
    await end.nic.compute(200)
    return await sends(end)


async def from_nobodys(end):
    return await sent(end, end.places.request(await nobodys(end)))


async def disconnected(end):
    await end.nic.disconnect(end.vi)
    return await sends(end)


async def receives(end):
    await end.nic.post_recv(end.vi, end.receive())
    return (await end.nic.recv_wait(end.vi)).status


async def receives_little(end):
    await end.nic.post_recv(end.vi, end.receive(0, 4))
    return await errors_later(end)


async def moves(end, call="rdma_write", into="out", offset=0, **more):
    """RDMA with the other side's memory; both ends are made alike, so it has the same place."""
    remote = getattr(end, into).remote(offset)
    await getattr(end.nic, call)(end.vi, end.places, [end.out.segment(0, 8)], remote, **more)
    return (await ended(end.nic.send_wait(end.vi))).status


async def reads_beyond(end):
    remote = end.out.remote(4096)  # behind its end
    control = Control.VIP_CONTROL_OP_RDMAREAD
    return await sent(
        end, end.places.request(end.into.segment(0, 8), control=control, remote=remote)
    )


async def errors_later(end):
    await end.nic.compute(500)
    return end.nic.errors(end.vi)


async def errors_of_a_wrong_word(end):
    await sends(end, control=Control(0x20))
    return end.nic.errors(end.vi)


async def takes_one(end):
    vi = await end.nic.create_vi(end.tag)
    await end.nic.connect_accept(await end.nic.connect_wait("narrow"), vi)
    await end.nic.compute(2000)


async def overruns(end):
    queue = await end.nic.create_cq(end.tag, 1)
    vi = await end.nic.create_vi(end.tag, recv_cq=queue)
    for _ in range(2):
        await end.nic.post_recv(vi, end.receive())
    await end.nic.connect_request(vi, 1, "narrow")
    await end.nic.disconnect(vi)  # two that are flushed, and room for one
    await end.nic.compute(500)
    return end.nic.errors(vi)


async def rejects(end):
    await end.nic.connect_reject(await end.nic.connect_wait("no"))


def called(name, *given, **how):
    """A call of the NIC with these, and its code."""
    return lambda end: code_of(getattr(end.nic, name)(*given, **how))


def made(*past, **how):
    return lambda end: code_of(end.nic.create_vi(end.tag, *past, **how))


def asks(node, name):
    async def program(end):
        vi = await end.nic.create_vi(end.tag)
        return await code_of(end.nic.connect_request(vi, node, name, timeout_us=50))

    return program


# What is returned by the first of two programs, the second's, and what their cluster is like.
ROWS = [
    (Status.VIP_STATUS_DONE, sends, idle, {}),
    (Status.VIP_STATUS_FORMAT_ERROR, lambda end: sends(end, control=Control(0x20)), idle, {}),
    (Status.VIP_STATUS_PROTECTION_ERROR, from_nobodys, idle, {}),
    (
        Status.VIP_STATUS_LENGTH_ERROR,
        lambda end: sent(end, end.send(0, 101)),
        idle,
        {"settings": {"max_transfer": 100}},
    ),
    (Status.VIP_STATUS_DESC_FLUSHED_ERROR, disconnected, idle, {}),
    (Status.VIP_STATUS_TRANSPORT_ERROR, sends, idle, {"posted": 0}),
    (Status.VIP_STATUS_RDMA_PROT_ERROR, moves, idle, {}),
    (
        Status.VIP_STATUS_REMOTE_DESC_ERROR,
        later,
        receives_little,
        {"level": RECEPTION, "posted": 0},
    ),
    (Status.VIP_STATUS_OP_RECEIVE, receives, sends, {}),
    (Status.VIP_STATUS_IMMEDIATE, receives, lambda end: sends(end, immediate=7), {}),
    (Status.VIP_STATUS_OP_RDMA_WRITE, moves, idle, {}),
    (Status.VIP_STATUS_OP_RDMA_READ, lambda end: moves(end, "rdma_read"), idle, RIGHTS),
    (
        Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE,
        receives,
        lambda end: moves(end, into="into", immediate=7),
        RIGHTS,
    ),
    # Errors beside descriptors.
    (Error.VIP_ERROR_POST_DESC, errors_of_a_wrong_word, idle, {}),
    (Error.VIP_ERROR_CONN_LOST, errors_later, lambda end: end.nic.disconnect(end.vi), {}),
    (Error.VIP_ERROR_RECVQ_EMPTY, errors_later, sends, {}),
    (Error.VIP_ERROR_RDMAW_PROT, errors_later, moves, {}),
    (Error.VIP_ERROR_RDMAR_PROT, errors_later, reads_beyond, RIGHTS),
    (Error.VIP_ERROR_COMP_PROT, receives_little, later, {"posted": 0}),
    (Error.VIP_ERROR_CATASTROPHIC, overruns, takes_one, {}),
    # What calls return.
    (Return.VIP_INVALID_PARAMETER, lambda end: code_of(end.nic.create_cq(end.tag, 0)), idle, {}),
    (Return.VIP_ERROR_RESOURCE, lambda end: code_of(end.nic.destroy_ptag(end.tag)), idle, {}),
    (Return.VIP_TIMEOUT, called("connect_wait", "nobody", timeout_us=5), idle, {}),
    (Return.VIP_REJECT, asks(1, "no"), rejects, {}),
    (Return.VIP_INVALID_RELIABILITY_LEVEL, made(3), idle, {}),
    (Return.VIP_INVALID_MTU, made(max_transfer=0), idle, {}),
    (Return.VIP_INVALID_QOS, made(qos=-1), idle, {}),
    (Return.VIP_INVALID_PTAG, called("create_vi", 101), idle, {}),
    (Return.VIP_INVALID_RDMAREAD, made(UNRELIABLE, enable_rdma_read=True), idle, {}),
    (Return.VIP_DESCRIPTOR_ERROR, lambda end: code_of(end.nic.send_done(end.vi)), idle, {}),
    (Return.VIP_INVALID_STATE, lambda end: code_of(end.nic.destroy_vi(end.vi)), idle, {}),
    (Return.VIP_ERROR_NAMESERVICE, called("ns_get_host_by_name", "node0"), idle, {}),
    (Return.VIP_NO_MATCH, asks(1, "nobody"), idle, {}),
    (Return.VIP_NOT_REACHABLE, asks(9, "far"), idle, {}),
    (Return.VIP_ERROR_NOT_SUPPORTED, called("query_system_management_info", 2), idle, {}),
]


def test_each_is_raised_or_has_a_reason_why_it_is_not():
    raised = [what.name for what, *_ in ROWS]
    every = [*Status.__members__, *Error.__members__, *Return.__members__]
    assert sorted([*raised, *NEVER, *TOLD_OTHERWISE]) == sorted(every)


@pytest.mark.parametrize(
    ("what", "first", "second", "how"), ROWS, ids=lambda one: getattr(one, "name", "")
)
def test_it_is_raised(what, first, second, how):
    found = run_pair(first, second, **how)[0]
    if isinstance(what, Error):
        assert found == [what]
    elif isinstance(what, Return):
        assert found is what
    elif what & STATUS_OP_MASK:
        assert found & STATUS_OP_MASK == what
    else:
        assert found & what == what
