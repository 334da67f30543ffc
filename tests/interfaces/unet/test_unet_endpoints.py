"""Endpoints of U-Net: queues, tags, messages small and large, completions."""

import pytest
from paged_endpoints import pong

from nicscope.interfaces.unet import AtmCircuits, Cluster, EthernetPorts
from program_results import results_of

DESIGNS = ("unet-mm-pca200", "unet")


def run(ping, pong, design="unet-mm-pca200", **settings):
    """Run ``ping`` on node 0 and ``pong`` on node 1; what they return, and the cluster."""
    cluster = Cluster(design, "pca200-linux", **settings)
    return results_of(cluster, ping, pong), cluster


async def send_one(process, *lengths, small=b"", name=None):
    """Send one message of as many pieces as there are lengths; its bytes, and its end."""
    endpoint = await process.open(name)
    tag = await endpoint.connect(1, "pong")
    room = endpoint.allocate(4096 * 4)
    await room.write(bytes(i * 7 % 251 for i in range(4096 * 4)))
    pieces = [room.part(i * 4096 + 100 * i, length) for i, length in enumerate(lengths)]
    content = b"".join([await piece.read() for piece in pieces])
    await endpoint.send(tag, *(pieces or [small]))
    return content or small, await endpoint.sent()


async def receive_one(process, buffers=8):
    endpoint = await process.open("pong")
    for _ in range(buffers):
        await endpoint.provide(endpoint.allocate(4096))
    message = await endpoint.receive()
    return await message.read(), message


@pytest.mark.requirement("UM-2", "UM-3", "UM-4", "UM-5", "UM-20", "UM-31")
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("lengths", [(56,), (4096,), (1000, 2000, 3000), (90, 1, 3000, 17)])
def test_a_gathered_message_arrives_whole_and_its_report_says_whence_and_how_much_is_where(
    design, lengths
):
    async def other(process):
        await process.open("other")

    async def pong(process):
        endpoint = await process.open("pong")
        tags = [await endpoint.connect(node, name) for node, name in ((0, "other"), (2, "ping"))]
        buffers = [endpoint.allocate(4096) for _ in range(3)]
        await endpoint.provide(*buffers)
        message = await endpoint.receive()
        return tags, [each.address for each in buffers], message, await message.read()

    async def ping(process):
        await process.sleep(1000)  # then the tag for "other" is the first that pong has
        return await send_one(process, *lengths, name="ping")

    cluster = Cluster(design, "pca200-linux", nodes=3)
    _, (tags, given, message, arrived), (content, done) = results_of(cluster, *(other, pong, ping))
    assert done.ok
    assert arrived == content
    assert (message.tag, message.node, message.length) == (tags[1], 2, sum(lengths))
    full, rest = divmod(sum(lengths), 4096)
    filled = [4096] * full + [rest] * (rest > 0)
    told = [(buffer.address, len(buffer)) for buffer in message.buffers]
    assert told == list(zip(given, filled, strict=False))


@pytest.mark.requirement("UM-6")
@pytest.mark.parametrize("inside", [True, False])
def test_less_than_56_bytes_take_no_buffer_unless_that_is_switched_off(inside):
    async def ping(process):
        return await send_one(process, 55)

    ((content, _), (arrived, message)), cluster = run(ping, receive_one, small_inside=inside)
    assert arrived == content
    assert len(message.buffers) == (0 if inside else 1)
    assert cluster.counts(0)["lookups_send"] == (0 if inside else 1)


@pytest.mark.requirement("UM-7", "UM-8", "UM-9")
@pytest.mark.parametrize("tag", [31, 33, 1000, -1, 3.5])
def test_a_tag_that_is_not_registered_is_an_error_in_the_completion(tag):
    async def ping(process):
        endpoint = await process.open()
        await endpoint.connect(1, "pong")
        await endpoint.send(tag, b"for nobody")
        return await endpoint.sent()

    (done, _), cluster = run(ping, pong)
    assert done.status == "tag not registered"
    assert cluster.simulation.machine.nodes["received"].sum() == 0


@pytest.mark.requirement("UM-9")
def test_a_tag_of_another_endpoint_of_the_process_is_not_registered_here():
    async def ping(process):
        one, other = await process.open(), await process.open()
        tag = await one.connect(1, "pong")
        await other.send(tag, b"mine?")
        return await other.sent()

    (done, _), _ = run(ping, pong, endpoints=2)
    assert done.status == "tag not registered"


@pytest.mark.requirement("UM-10")
@pytest.mark.parametrize("form", [AtmCircuits(), EthernetPorts()])
def test_the_form_of_tags_is_the_networks(form):
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await endpoint.send(tag, b"hello")
        answer = await endpoint.receive()
        return tag, answer.tag, answer.content

    async def pong(process):
        endpoint = await process.open("pong")
        message = await endpoint.receive()
        await endpoint.send(message.tag, b"hello yourself")
        return message.tag

    ((tag, back, content), there), _ = run(ping, pong, tags=form)
    assert content == b"hello yourself"
    assert tag == back == form.tag(0, 0)
    assert there == form.tag(1, 0)
    assert form.channel(0, tag) == 0


@pytest.mark.requirement("UM-11")
def test_both_ends_that_connect_are_given_one_channel():
    async def ping(process):
        endpoint = await process.open("ping")
        return await endpoint.connect(1, "pong"), await endpoint.connect(1, "pong")

    async def pong(process):
        endpoint = await process.open("pong")
        await process.sleep(200)
        return await endpoint.connect(0, "ping")

    ((one, again), there), cluster = run(ping, pong)
    assert one == again == there == 32
    assert (cluster.simulation.machine.ports.channels["port"] >= 0).sum() == 2


@pytest.mark.requirement("UM-1", "UM-9")
def test_messages_come_out_of_the_endpoint_that_they_were_sent_to():
    async def ping(process):
        endpoint = await process.open()
        for name in ("left", "right", "other"):
            tag = await endpoint.connect(1, name)
            await endpoint.send(tag, name.encode())
            await endpoint.sent()

    async def pong(process):
        left, right = await process.open("left"), await process.open("right")
        return (await right.receive()).content, (await left.receive()).content

    async def other(process):
        endpoint = await process.open("other")
        return (await endpoint.receive()).content

    cluster = Cluster(endpoints=3)
    assert results_of(cluster, (0, ping), (1, pong), (1, other))[1:] == [
        (b"right", b"left"),
        b"other",
    ]


@pytest.mark.requirement("UM-32")
def test_a_message_without_a_buffer_is_lost_and_one_after_it_is_not():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = endpoint.allocate(4096)
        for fill in (b"a", b"b"):
            await room.write(fill * 100)
            await endpoint.send(tag, room.part(0, 100))
            assert (await endpoint.sent()).ok
            await process.sleep(500)

    async def pong(process):
        endpoint = await process.open("pong")
        await process.sleep(500)
        await endpoint.provide(endpoint.allocate(4096))
        return await (await endpoint.receive()).read()

    (_, content), cluster = run(ping, pong)
    assert content == b"b" * 100
    assert cluster.report().nodes[1].received.dropped["buffer"] == 1


@pytest.mark.requirement("UM-12")
def test_a_message_for_a_closed_endpoint_goes_nowhere():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        for _ in range(12):
            await endpoint.send(tag, b"are you there?")
        ended = {(await endpoint.sent()).status for _ in range(12)}
        await process.sleep(500)
        return ended

    async def pong(process):
        endpoint = await process.open("pong")
        await endpoint.receive()
        await endpoint.close()
        return endpoint.waiting + 1  # what it has heard of

    (ended, heard), cluster = run(ping, pong)
    assert cluster.report().nodes[1].received.refused == 12 - heard > 0
    assert ended == {"done"}


@pytest.mark.requirement("UM-9", "UM-12")
@pytest.mark.parametrize("forged", ["nobody's", "another sender's", "another tag's"])
def test_a_message_by_a_tag_that_was_not_registered_for_its_sender_reaches_nobody(forged):
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(1000)
        mine = cluster.simulation.machine.ports.channels[0]
        theirs = {"nobody's": 40, "another sender's": int(mine[0]["tag"]) + 1}
        if (
            forged == "another tag's"
        ):  # the right one there, but as if sent by one not its other end
            cluster.simulation.machine.ports.channels[1, int(mine[0]["tag"])]["tag"] = 7
        else:
            mine[0]["tag"] = theirs[forged]
        await endpoint.send(tag, b"for whom?")
        assert (await endpoint.sent()).ok
        await process.sleep(1000)

    async def third(process):
        endpoint = await process.open()
        await endpoint.connect(1, "pong")

    async def pong(process):
        endpoint = await process.open("pong")
        await process.sleep(5000)
        return endpoint.waiting

    cluster = Cluster(nodes=3)
    assert results_of(cluster, (0, ping), (1, pong), (2, third))[1] == 0
    assert cluster.report().nodes[1].received.refused == 1


@pytest.mark.requirement("UM-37")
def test_a_filled_buffer_stays_the_programs_and_another_address_is_given_instead():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = endpoint.allocate(4096)
        for number in range(4):
            await room.write(bytes([number]) * 4096)
            await endpoint.send(tag, room)
            await endpoint.sent()
            await process.sleep(500)

    async def pong(process):
        endpoint = await process.open("pong")
        kept = []
        await endpoint.provide(endpoint.allocate(4096))
        for _ in range(4):
            message = await endpoint.receive()
            await endpoint.provide(endpoint.allocate(4096))
            kept.append(message)
        return [await message.read() for message in kept]

    (_, kept), _ = run(ping, pong)
    assert kept == [bytes([number]) * 4096 for number in range(4)]
