"""Payloads of Trapeze: when they have been read, and what is there is not another's."""

from __future__ import annotations

import contextlib

from nicscope.errors import SimulationError
from nicscope.interfaces import trapeze
from refusals import refused


def trapeze_pair(sends, takes, **how):
    cluster = trapeze.Cluster("p6-natoma", **how)
    cluster.start(0, sends)
    cluster.start(1, takes)
    return cluster.run()


async def takes_one(endpoint):
    message = await endpoint.receive()
    found = bytes(message.payload)
    endpoint.release(message)
    return found


def test_trapeze_refuses_a_store_into_a_payload_that_is_not_read_yet_and_says_when_it_is():
    async def sends(endpoint):
        page = endpoint.allocate(4096)
        view = page.array()
        view[:] = 1
        sent = await endpoint.send(1, page)
        with refused(SimulationError, "still to read"):
            view[0] = 2
        with refused(SimulationError, "still to read"):
            await page.free()
        early = sent.was_read
        await sent.read()
        view[:] = 2
        await page.free()
        return early, sent.was_read, sent == 0

    found, content = trapeze_pair(sends, takes_one)
    assert found == (False, True, True)
    assert content == bytes([1]) * 4096


def test_trapeze_refuses_the_payload_of_what_is_released():
    async def takes(endpoint):
        message = await endpoint.receive()
        endpoint.release(message)
        return message.payload

    async def sends(endpoint):
        await endpoint.send(1, endpoint.allocate(64))

    with refused(SimulationError, "released already"):
        trapeze_pair(sends, takes)


def test_trapeze_refuses_what_others_overwrote_under_a_tag_and_counts_it():
    async def takes(endpoint):
        endpoint.map_payload(3, endpoint.allocate(4096))
        messages = [await endpoint.receive() for _ in range(50)]
        seen = 0
        for message in messages:
            with contextlib.suppress(SimulationError):
                assert (message.payload == 50).all()
                seen += 1
        with refused(SimulationError, "message 49", "node 0", "tag 3"):
            _ = messages[7].payload
        return seen, endpoint.overwritten

    async def sends(endpoint):
        page = endpoint.allocate(4096)
        for number in range(50):
            await page.write(bytes([number + 1] * 4096))
            await endpoint.send(1, page, tag=3)

    assert trapeze_pair(sends, takes, max_payload=4096)[1] == (1, 49)


def test_trapeze_frees_nothing_that_a_tag_leads_to():
    async def program(endpoint):
        buffer = endpoint.allocate(8192)
        endpoint.map_payload(3, buffer)
        with refused(SimulationError, "tag 3"):
            await buffer.free()
        endpoint.unmap_payload(3)
        await buffer.free()
        return True

    cluster = trapeze.Cluster("p6-natoma")
    cluster.start(0, program)
    assert cluster.run() == [True]
