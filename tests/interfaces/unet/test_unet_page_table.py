"""U-Net/MM: what the NI's table holds is pinned, until the table or an endpoint lets go of it."""

import msgspec
import pytest
from paged_endpoints import PAGE, pong, run, small_table, written

from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import HostSize


@pytest.mark.requirement("UM-57")
def test_a_page_unmapped_while_the_ni_maps_it_lives_until_the_ni_lets_go():
    async def ping(process):
        memory = process.cluster.memory
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = await written(process, 5)
        await endpoint.send(tag, room.part(0, 100))
        await endpoint.sent()
        frame = int(memory.state.entries[0, 0, 0]["frame"])
        memory.unmap(0, 0, 0, 1)
        alive = int(memory.state.frames[0, frame]["pins"])
        generation = int(memory.state.frames[0, frame]["generation"])
        for _ in range(3):  # with one entry and one victim it is gone by then
            await endpoint.send(tag, (await written(process, 6)).part(0, 100))
            await endpoint.sent()
        reused = int(memory.state.frames[0, frame]["generation"]) > generation
        return alive, reused, int(memory.state.hosts[0]["pinned"])

    (found, _), _ = run((0, ping), (1, pong), design=small_table(1, 1))
    assert found == (1, True, 2)


@pytest.mark.requirement("UM-54", "UM-55", "UM-59c")
def test_no_more_is_pinned_than_the_table_holds_and_the_rest_can_be_swapped():
    async def ping(process):
        state = process.cluster.memory.state
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        rooms = [await written(process, fill) for fill in range(12)]
        most = 0
        for room in rooms:
            await endpoint.send(tag, room)
            await endpoint.sent()
            most = max(most, int(state.hosts[0]["pinned"]))
        taken = process.swap_out()
        mapped = [int(entry["state"]) for entry in state.entries[0, 0, :12]]
        return most, taken, mapped

    ((most, taken, _), _), _ = run((0, ping), (1, pong), design=small_table(4, 2))
    assert most == 6
    assert taken == 12 - 6


@pytest.mark.requirement("UM-56", "UM-45")
@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet-mm-dc21140"])
@pytest.mark.parametrize("most", [1, 3])
def test_a_kernel_that_lets_few_entries_be_valid_pins_no_more_and_messages_go_on(most, design):
    capped = msgspec.structs.replace(load_design(design), most_valid=most)
    seen = []

    def look(process):
        state = process.cluster.memory.state.spaces["pinned"]
        seen.append(int(state[process.node, process.number]))

    def talking(own, other):
        async def program(process):
            endpoint = await process.open(own)
            tag = await endpoint.connect(1 - process.node, other)
            rooms = [await written(process, fill) for fill in range(8)]
            buffers = {room.address: room for room in [process.allocate(PAGE) for _ in range(4)]}
            await endpoint.provide(*buffers.values())
            for room in rooms:
                await endpoint.send(tag, room.part(0, 1400))
                assert (await endpoint.sent()).ok
                look(process)
                while endpoint.waiting:
                    message = await endpoint.receive()
                    await endpoint.provide(buffers[message.buffers[0].address])
                    look(process)
            return process.cluster.counts(process.node)["unpins"]

        return program

    unpins, _ = run((0, talking("one", "other")), (1, talking("other", "one")), design=capped)
    assert max(seen) == most
    assert min(unpins) >= 8 - most


@pytest.mark.requirement("UM-41", "UM-42", "UM-43", "UM-45", "UM-79")
def test_transfers_keep_their_pages_in_a_table_of_one_entry():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        rooms = [await written(process, fill) for fill in range(6)]
        for number in range(12):
            first, second = rooms[number % 6], rooms[(number + 1) % 6]
            await endpoint.send(tag, first.part(0, 2000), second.part(0, 2000))
        for _ in range(12):
            assert (await endpoint.sent()).ok

    async def pong(process):
        endpoint = await process.open("pong")
        rooms = {room.address: room for room in (process.allocate(PAGE) for _ in range(4))}
        await endpoint.provide(*rooms.values())
        seen = []
        for _ in range(12):
            message = await endpoint.receive()
            content = await message.read()
            seen.append((content[0], content[-1]))
            await endpoint.provide(rooms[message.buffers[0].address])
        return seen

    from nicscope.drivers.simulate.ports.build import Transport

    (_, seen), cluster = run(
        (0, ping), (1, pong), design=small_table(1, 1), transport=Transport(reliable=True)
    )
    assert seen == [(number % 6, (number + 1) % 6) for number in range(12)]
    assert cluster.counts(0)["unpins"] > 6


@pytest.mark.requirement("UM-47")
def test_closing_unpins_what_the_endpoint_used_and_nothing_of_another():
    async def ping(process):
        pinned = process.cluster.memory.state.hosts["pinned"]
        one, other = await process.open(), await process.open()
        for endpoint, count in ((one, 3), (other, 2)):
            tag = await endpoint.connect(1, "pong")
            for fill in range(count):
                await endpoint.send(tag, await written(process, fill))
                await endpoint.sent()
        await one.provide(process.allocate(PAGE))
        await process.sleep(200)
        before = int(pinned[0])
        await one.close()
        between = int(pinned[0])
        await other.close()
        return before, between, int(pinned[0])

    (counts, _), cluster = run((0, ping), (1, pong), endpoints=2)
    assert counts == (6, 2, 0)
    again = cluster.counts(0)
    assert again["pins"] == again["unpins"] == 6


@pytest.mark.requirement("UM-47")
def test_what_a_closing_endpoint_had_queued_ends_as_closed_and_it_opens_again():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        room = await written(process, 1)
        process.swap_out()
        await endpoint.send(tag, room)
        await endpoint.send(tag, b"behind it")
        await process.sleep(100)
        await endpoint.close()
        ends = [(await endpoint.sent()).status for _ in range(2)]
        again = await process.open()
        await again.send(await again.connect(1, "pong"), b"here again")
        return ends, (await again.sent()).ok

    async def pong(process):
        endpoint = await process.open("pong")
        return (await endpoint.receive()).content

    ((ends, ok), content), cluster = run((0, ping), (1, pong))
    assert ends == ["closed", "closed"]
    assert ok
    assert content == b"here again"
    assert cluster.memory.state.hosts["pinned"][0] == 0


def test_a_host_without_frames_tells_who_asked_for_them():
    async def ping(process):
        endpoint = await process.open()
        tag = await endpoint.connect(1, "pong")
        for fill in range(20):
            room = await written(process, fill)
            await endpoint.send(tag, room)
            assert (await endpoint.sent()).ok
        return True

    (ok, _), _ = run((0, ping), (1, pong), design=small_table(4, 2), host=HostSize(frames=12))
    assert ok


@pytest.mark.requirement("UM-49")
def test_what_the_paper_leaves_open_of_an_entry_is_chosen_as_it_is_written_down():
    """Its place is by the page alone, it is its last user's, and a write asks for it again."""

    async def send(endpoint, page):
        await endpoint.send(await endpoint.connect(1, "pong"), page.part(0, 100))
        assert (await endpoint.sent()).ok

    async def ping(process):
        def interrupts_and_pinned():
            ports = process.cluster.simulation.machine.ports
            return int(ports.nodes["interrupts"][0]), int(ports.memory.hosts["pinned"][0])

        one, other = await process.open(), await process.open()
        page = await written(process, 1)
        await process.sleep(1000)  # the twin has sent from its second page
        await send(one, page)
        await send(other, page)
        seen = [interrupts_and_pinned()]
        await one.close()
        seen.append(interrupts_and_pinned())
        await process.sleep(2000)  # the twin has sent from its first page
        seen.append(interrupts_and_pinned())
        await send(other, page)
        seen.append(interrupts_and_pinned())
        await other.provide(page)
        await process.sleep(1000)
        seen.append(interrupts_and_pinned())
        await other.close()
        return page.address, [*seen, interrupts_and_pinned()]

    async def twin(process):
        endpoint = await process.open()
        first, second = [await written(process, 2) for _ in range(2)]
        await send(endpoint, second)
        await process.sleep(2000 - process.now_us)
        await send(endpoint, first)
        return first.address

    programs = (0, ping), (0, twin), (1, pong)
    ((address, seen), its, _), _ = run(*programs, design=small_table(64, 0), endpoints=3)
    assert address == its
    shared, left, displaced, sent_again, to_be_written, closed = seen
    assert shared == left == (2, 2)
    assert (displaced, sent_again) == ((3, 2), (4, 2))
    assert (to_be_written, closed) == ((5, 2), (5, 1))
