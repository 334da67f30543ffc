"""What programs do wrong at first is answered by a line that lets one go on."""

from __future__ import annotations

import struct

import pytest
from failures import failure, told

from nicscope.errors import StuckError
from nicscope.interfaces import Cluster, mini, trapeze, unet, via, vmmc

MISTAKES = {}


def mistake(words, cluster):
    """Register a program on node 0 of ``cluster()`` that goes wrong, and what is said of that."""

    def registered(program):
        MISTAKES[program.__name__] = cluster, program, words
        return program

    return registered


def natoma():
    return trapeze.Cluster("p6-natoma")


async def opened(process):
    """An endpoint, and a tag of its process's network."""
    return await process.open(), 32


@mistake("a message begins with its tag, which connect() or a message that has", unet.Cluster)
async def sends_to_a_name(process):
    endpoint, _ = await opened(process)
    await endpoint.send("server", b"hello")


@mistake("a message begins with its tag", unet.Cluster)
async def swaps_tag_and_content(process):
    endpoint, tag = await opened(process)
    await endpoint.send(b"hello", tag)


@mistake("a message of 56 bytes or more, as this one of 100, is sent from buffers", unet.Cluster)
async def sends_many_bytes(process):
    endpoint, tag = await opened(process)
    await endpoint.send(tag, bytes(100))


@mistake("give the cluster endpoints=2 or more", unet.Cluster)
async def opens_two(process):
    await opened(process)
    await opened(process)


@mistake("an Endpoint has allocate, area, close, compute, connect, ", unet.Cluster)
async def calls_what_others_have(process):
    endpoint, _ = await opened(process)
    await endpoint.store(3)


@mistake("a buffer's bytes are read and written by its read(), write() and array()", unet.Cluster)
async def indexes_a_buffer(process):
    return process.allocate(10)[0]


@mistake("a call that waits has to be awaited: write 'await' before it", unet.Cluster)
async def loops_over_a_call(process):
    endpoint, _ = await opened(process)
    for _ in endpoint.receive():
        pass


@mistake("a transfer is needed, not the call store(): write 'await' before that", vmmc.Cluster)
async def waits_for_a_call(endpoint):
    await endpoint.wait(endpoint.store(3, 4))


@mistake("write the bytes to one that allocate() gave process 0 of node 0, and give", vmmc.Cluster)
async def exports_bytes(endpoint):
    await endpoint.export(b"hello", "table")


@mistake("no element 7: there are 5 of int64", vmmc.Cluster)
async def stores_beyond_an_array(endpoint):
    endpoint.allocate(40).array("i8")[7] = 3


@mistake("a buffer's handle is needed, as find(name) gives one, got 'table'", mini.Cluster)
async def opens_a_name(endpoint):
    await endpoint.open("table")


@mistake("no node 9; there are 2, numbered from 0 to 1", natoma)
async def sends_to_no_node(endpoint):
    await endpoint.send(9)


@mistake("no path from node 0 to node 0: name another node", natoma)
async def sends_to_itself(endpoint):
    await endpoint.send(0)


@mistake("a destination, which comes first, must be a whole number", natoma)
async def swaps_node_and_payload(endpoint):
    await endpoint.send(endpoint.allocate(8), 1)


@mistake("reserve(len(content))[:] = content", natoma)
async def reserves_too_much(endpoint):
    endpoint.reserve(5)[:] = b"abc"


@mistake("a str has no bytes until .encode()", natoma)
async def reserves_for_a_str(endpoint):
    endpoint.reserve(5)[:] = "hello"


@mistake("what a buffer shows as bytes is for reading: its write(), or array()", natoma)
async def stores_into_bytes(endpoint):
    endpoint.allocate(8).bytes[:5] = b"hello"


@mistake("not buffers: give what register_mem(buffer, tag) gave", via.Cluster)
async def gives_a_buffer_for_a_segment(host):
    nic = await host.open_nic()
    (await nic.descriptors(await nic.create_ptag())).request(nic.allocate(8))


@mistake("no descriptor is posted to the receive queue of VI 2", via.Cluster)
async def waits_for_what_was_not_posted(host):
    nic = await host.open_nic()
    await nic.recv_wait(await nic.create_vi(await nic.create_ptag()))


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_beginners_mistake_is_answered_with_what_to_do(name):
    cluster, program, words = MISTAKES[name]

    assert words in told(failure(cluster(), program, kind=Exception))


def test_a_call_without_await_within_another_is_told_to_be_awaited():
    async def program(endpoint):
        struct.unpack("<Q", endpoint.allocate(8).read())

    cluster = Cluster("utlb")
    cluster.start(0, program)

    with pytest.raises(TypeError) as caught:
        cluster.run()

    assert any("write 'await' before it" in note for note in caught.value.__notes__)


def test_a_server_that_is_left_alone_hears_of_daemons():
    async def server(endpoint):
        await endpoint.notification()

    async def client(endpoint):
        await endpoint.sleep(1.0)

    def said(*programs):
        cluster = Cluster("utlb")
        for node, program in enumerate(programs):
            cluster.start(node, program)
        with pytest.raises(StuckError) as caught:
            cluster.run()
        return str(caught.value)

    assert "a program waits; one that serves others for good takes daemon=True:" in said(
        server, client
    )
    assert "daemon" not in said(server, server)
