"""Messages go from where they lie to where the receiver wants them, and nothing else is touched."""

import numpy as np
import pytest
from paged_endpoints import DISK_US, PAGE, pong, run, written

from nicscope.nic.ports.layout import SEND


@pytest.mark.requirement("UM-21", "UM-26")
def test_what_lies_in_the_buffer_when_the_ni_reads_it_is_what_is_sent():
    """A copy made when the descriptor was posted would have kept the old bytes."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        away, here = await written(process, 1), process.allocate(PAGE)
        process.swap_out()  # the first piece is 22 ms away, and the second waits behind it
        await here.write(b"old " * 25)
        await endpoint.send(tag, away.part(0, 60), here.part(0, 100))
        posted = process.now_us
        await here.write(b"new " * 25)
        assert process.now_us - posted < DISK_US
        assert (await endpoint.sent()).ok
        return process.copied_bytes, process.cluster.counts(0)["lookups_send"]

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.provide(process.allocate(PAGE))
        return await (await endpoint.receive()).read()

    ((copied, lookups), content), cluster = run((0, ping), (1, pong))
    assert content == b"\1" * 60 + b"new " * 25
    assert copied == 0
    assert (cluster.simulation.machine.ports.nodes["copied"] == 0).all()
    # Each piece is translated: once in vain, once when its page was there, and the other one once.
    assert lookups >= 2


@pytest.mark.requirement("UM-21")
def test_the_tag_becomes_the_header_of_the_endpoint_that_it_was_made_for():
    async def ping(process):
        endpoint = await process.open()
        tags = [await endpoint.connect(1, name) for name in ("left", "right")]
        assert len(set(tags)) == 2
        for tag, fill in zip(reversed(tags), (b"r", b"l"), strict=True):
            await endpoint.send(tag, fill)
        return tags

    def sink(name):
        async def program(process):
            endpoint = await process.open(name)
            return (await endpoint.receive()).content

        return program

    (_, left, right), _ = run((0, ping), (1, sink("left")), (1, sink("right")))
    assert (left, right) == (b"l", b"r")


def left_the_sender(place):
    """Everything of a message that leaves, if its receiver has its buffer at page ``place``."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(2_000)
        await endpoint.send(tag, await written(process, 7, 1000))
        await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        room = process.allocate((place + 1) * PAGE)
        await endpoint.provide(room.part(place * PAGE, PAGE))
        message = await endpoint.receive()
        assert message.buffers[0].address == room.address + place * PAGE
        return await message.read()

    (_, content), cluster = run((0, ping), (1, pong))
    assert content == bytes([7]) * 1000
    machine = cluster.simulation.machine
    packets = machine.sends[0].copy()
    packets["posted_at"] = 0  # the observer's
    return packets, machine.ports.send_heads[0].copy(), machine.store.send_ring[0].copy()


@pytest.mark.requirement("UM-38")
def test_a_message_is_the_same_wherever_its_receiver_puts_it():
    here, there = left_the_sender(0), left_the_sender(5)
    for one, other in zip(here, there, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.requirement("UM-38", "UM-4")
def test_a_sender_that_names_an_address_does_not_choose_where_the_message_goes():
    async def ping(process):
        endpoint = await process.open()
        await endpoint.connect(1, "pong")
        room = await written(process, 7, 1000)
        await process.sleep(2_000)
        await process.post(SEND, 0, [(room.address, 1000)], offset=3 * PAGE, port=endpoint.port)
        return (await endpoint.sent()).status

    async def pong(process):
        endpoint = await process.open("pong")
        room = await written(process, 1, 4 * PAGE)
        await endpoint.provide(room.part(PAGE, PAGE))
        message = await endpoint.receive()
        return message.buffers[0].address - room.address, message.length, await room.read()

    (status, (place, length, content)), _ = run((0, ping), (1, pong))
    assert (status, place, length) == ("done", PAGE, 1000)
    assert content == b"\1" * PAGE + b"\7" * 1000 + b"\1" * (3 * PAGE - 1000)


def tables_after(body):
    """Page tables and frames of a host whose process has written 4 pages and then done ``body``."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        rooms = [await written(process, fill) for fill in range(4)]
        await body(endpoint, tag, rooms)

    _, cluster = run((0, ping), (1, pong))
    state = cluster.memory.state
    return state.entries[0].copy(), state.frames[0].copy(), state.spaces[0].copy()


@pytest.mark.requirement("UM-58", "UM-51", "UM-55")
def test_the_ni_holds_pages_by_their_reference_counts_and_changes_no_table():
    async def rests(_endpoint, _tag, _rooms):
        pass

    async def sends(endpoint, tag, rooms):
        for room in rooms:
            await endpoint.send(tag, room)
            assert (await endpoint.sent()).ok

    (before, idle, _), (after, used, spaces) = tables_after(rests), tables_after(sends)
    for name in before.dtype.names:  # page tables: what is mapped, where, and with what right
        assert np.array_equal(before[name], after[name]), name
    held = used["pins"] > idle["pins"]
    assert held.sum() == 4 == spaces["pinned"].sum()
    assert (used["pins"][held] == 1).all()
    # Of a frame only what says that it is pinned, by whom and for what, and since when.
    pinning = {"pins", "pinned_to_write", "pinner", "generation"}
    assert pinning < set(idle.dtype.names)
    for name in set(idle.dtype.names) - pinning:
        assert np.array_equal(idle[name], used[name]), name
