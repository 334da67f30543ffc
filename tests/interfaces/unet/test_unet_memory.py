"""U-Net/MM: pages come and go under endpoints, and nobody has to pin anything."""

import pytest
from paged_endpoints import DISK_US, PAGE, pong, run, written

from nicscope.memory.paging.layout import WRITE as WRITE_ONLY
from nicscope.nic.ports.layout import SEND


@pytest.mark.requirement("UM-15", "UM-23", "UM-51", "UM-53")
def test_a_page_is_pinned_when_the_ni_needs_it_and_by_nobody_else():
    async def ping(process):
        pinned = process.cluster.memory.state.hosts["pinned"]
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = await written(process, 1)
        before = int(pinned[0])
        await endpoint.send(tag, room)
        await endpoint.sent()
        return before, int(pinned[0])

    ((before, after), _), cluster = run((0, ping), (1, pong))
    assert (before, after) == (0, 1)
    assert cluster.counts(0)["interrupts"] == 1
    assert cluster.simulation.machine.ports.nodes["interrupts"].tolist() == [1, 0]


@pytest.mark.requirement("UM-25", "UM-26", "UM-65")
def test_a_page_in_suspends_its_endpoint_and_no_other():
    # Processes that poll keep the CPU from the others of their node until their time slice ends.
    async def slow(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "slow")
        room = await written(process, 7)
        process.swap_out()
        await endpoint.send(tag, room)
        await endpoint.send(tag, b"and after it")
        return (await endpoint.sent("block")).ok, process.now_us

    async def quick(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "quick")
        await process.sleep(500)
        room = await written(process, 8)
        begun = process.now_us
        for _ in range(20):
            await endpoint.send(tag, room)
            await endpoint.receive()
        return begun, process.now_us

    async def sink(process):
        endpoint = await process.open("slow")
        await endpoint.provide(process.allocate(PAGE))
        first = await (await endpoint.receive("block")).read()
        return first, (await endpoint.receive("block")).content

    async def echo(process):
        endpoint = await process.open("quick")
        for _ in range(20):
            await endpoint.provide(process.allocate(PAGE))
            message = await endpoint.receive()
            await endpoint.send(message.tag, b"again")

    (first, (begun, ended), late, _), cluster = run((0, slow), (0, quick), (1, sink), (1, echo))
    assert first[0]
    assert first[1] > DISK_US > ended
    assert ended - begun < 20 * 600
    assert late == (bytes([7]) * PAGE, b"and after it")
    assert cluster.simulation.machine.ports.nodes[0]["page_ins"] == 1


@pytest.mark.requirement("UM-7", "UM-24")
@pytest.mark.parametrize("kind", ["unmapped", "beyond", "not to be read"])
def test_what_the_process_may_not_read_is_an_error_in_the_completion(kind):
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        secret = await written(process, 1)
        process.cluster.memory.protect(0, 0, secret.address // PAGE, 1, WRITE_ONLY)
        address = {"unmapped": 100 * PAGE, "beyond": 1 << 40}.get(kind, secret.address)
        await process.post(SEND, 0, [(address, 100)], port=endpoint.port)
        await endpoint.send(tag, b"still alive")
        return (await endpoint.sent()).status, (await endpoint.sent()).status

    (statuses, _), _ = run((0, ping), (1, pong))
    assert statuses == ("no rights", "done")


def out_of_memory_buffers(order, pause, **settings):
    """Provide buffers, of which "out" is swapped out, and receive 3 messages at 100 us each."""

    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(pause)
        for fill in (1, 2, 3):
            room = await written(process, fill, 1000)
            await endpoint.send(tag, room)
            await endpoint.sent()
            await process.sleep(100)

    async def pong(process):
        endpoint = await process.open("pong")
        out = await written(process, 9)
        process.swap_out()
        names = {out.address: "out"}
        for name in order:
            buffer = out if name == "out" else process.allocate(PAGE)
            names[buffer.address] = name
            await endpoint.provide(buffer)
        await process.sleep(100)
        await endpoint.send(await endpoint.connect(0, "back"), b"sends go on")
        assert (await endpoint.sent()).ok
        sent_at = process.now_us
        seen = []
        while len([one for one in seen if one[1] == "done"]) < 2:
            message = await endpoint.receive()
            seen.append((names[message.buffers[0].address], message.status))
        return seen, sent_at, await out.read(), process.now_us

    async def back(process):
        await process.open("back")

    results, cluster = run((0, ping), (0, back), (1, pong), **settings)
    return results[2], cluster


@pytest.mark.requirement("UM-33", "UM-34")
def test_a_buffer_whose_page_is_out_is_skipped_and_comes_back_unfilled():
    (seen, sent_at, content, _), cluster = out_of_memory_buffers(
        ("out", "first", "second"), 1000, fresh=False
    )
    assert seen == [("out", "page out"), ("first", "done"), ("second", "done")]
    assert content == bytes([9]) * PAGE
    assert sent_at < 1000
    assert cluster.simulation.machine.ports.nodes[1]["skipped"] == 1


@pytest.mark.requirement("UM-34")
def test_a_buffer_keeps_its_turn_while_its_page_comes_in():
    (seen, sent_at, content, _), _ = out_of_memory_buffers(
        ("first", "out", "second"), 30_000, fresh=False
    )
    assert seen == [("first", "done"), ("out", "done")]
    assert content == bytes([2]) * 1000 + bytes([9]) * (PAGE - 1000)
    assert sent_at < 1000


@pytest.mark.requirement("UM-35")
def test_a_whole_page_is_not_read_from_disk_to_be_filled():
    (seen, _, content, now), cluster = out_of_memory_buffers(("out", "first", "second"), 1000)
    assert seen == [("out", "done"), ("first", "done")]
    assert content == bytes([1]) * 1000 + bytes(PAGE - 1000)
    assert now < DISK_US
    assert cluster.memory.state.hosts[1]["page_ins"] == 0


@pytest.mark.requirement("UM-36")
def test_a_page_with_several_buffers_comes_from_disk():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await process.sleep(30_000)
        await endpoint.send(tag, await written(process, 1, 1000))
        await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        page = await written(process, 9)
        process.swap_out()
        await endpoint.provide(page.part(2048, 2048), page.part(0, 2048))
        message = await endpoint.receive()
        return message.buffers[0].address, await page.read()

    (_, (address, content)), cluster = run((0, ping), (1, pong), buffer_bytes=2048)
    assert address % PAGE == 2048
    assert content == bytes([9]) * 2048 + bytes([1]) * 1000 + bytes([9]) * 1048
    assert cluster.memory.state.hosts[1]["page_ins"] == 1


@pytest.mark.parametrize("offset", [1, 100, PAGE - 1])
def test_a_buffer_that_crosses_a_page_comes_back_and_nothing_else_is_written(offset):
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        await endpoint.send(tag, await written(process, 1))
        await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        pages = await written(process, 9, 2 * PAGE)
        await endpoint.provide(pages.part(offset, PAGE))
        back = await endpoint.receive()
        await process.sleep(2000)
        return back.status, await pages.read()

    (_, (status, content)), _ = run((0, ping), (1, pong))
    assert status == "bad descriptor"
    assert content == bytes([9]) * 2 * PAGE


@pytest.mark.requirement("UM-52")
@pytest.mark.parametrize("sends_first", [False, True])
def test_a_forked_page_is_copied_before_the_ni_writes_to_it(sends_first):
    async def ping(process):
        endpoint = await process.open("ping")
        tag = await endpoint.connect(1, "pong")
        await process.sleep(2000)
        await endpoint.send(tag, await written(process, 1))
        await endpoint.sent()

    async def pong(process):
        endpoint = await process.open("pong")
        page = await written(process, 9)
        process.cluster.memory.fork(1, 0, 1)
        if sends_first:  # then the NI has the shared frame, to read it
            await endpoint.send(await endpoint.connect(0, "ping"), page.part(0, 100))
            assert (await endpoint.sent()).ok
        await endpoint.provide(page)
        message = await endpoint.receive()
        return await message.read(), page.address

    async def child(process):
        await process.sleep(4000)
        return await process.load(0, PAGE)

    (_, (mine, address), its), cluster = run((0, ping), (1, pong), (1, child))
    assert address == 0
    assert mine == bytes([1]) * PAGE
    assert its == bytes([9]) * PAGE
    assert cluster.memory.state.hosts[1]["copied"] == 1
