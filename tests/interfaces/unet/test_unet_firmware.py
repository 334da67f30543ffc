"""What the firmware and the kernel do for each other: hits, misses, who waits for whom (5.1)."""

import msgspec
import pytest
from paged_endpoints import PAGE, run, written

from nicscope.config.design import load_design
from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.host.pages import translated_frame
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.paging.layout import READ

HIT, HANDSHAKE, INTERRUPT, PIN, UNPIN = 1, 24, 10, 11, 4  # us, Table 1, send


@kernel
def _frame(machine, n, space, page, receive):
    return translated_frame(machine, n, space, page, receive)


def frame_on_ni(cluster, node, space, page, receive=0):
    return int(bound(_frame, cluster.simulation.machine)(node, space, page, receive))


def serving(cluster, node):
    return cluster.simulation.machine.ports.nodes[node]


async def deaf(process):
    await process.open("sink")


def sending(body):
    """A program that opens an endpoint, connects it to "sink", and goes on with ``body``."""

    async def program(process):
        endpoint = await process.open()
        return await body(process, endpoint, await endpoint.connect(1, "sink"))

    return program


@pytest.mark.requirement("UM-14")
def test_no_queue_needs_the_kernel():
    async def body(process, endpoint, tag):
        costs = process.cluster.simulation.machine.ports.costs
        costs["system_call"] = 10**12  # a second each
        room = await written(process, 1)
        began = process.now_us
        await endpoint.provide(process.allocate(PAGE))
        for _ in range(3):
            await endpoint.send(tag, room)
            assert (await endpoint.sent()).ok
        assert (await endpoint.receive()).length == PAGE
        return process.now_us - began

    async def echo(process):
        endpoint = await process.open("sink")
        await endpoint.provide(process.allocate(PAGE))
        message = await endpoint.receive()
        await endpoint.send(message.tag, message.buffers[0])
        await endpoint.sent()

    (spent, _), cluster = run((0, sending(body)), (1, echo))
    assert spent < 5_000
    assert serving(cluster, 0)["kernel_time"] == 0


@pytest.mark.requirement("UM-22", "UM-62")
def test_a_hit_asks_nobody_and_a_miss_in_a_full_table_names_the_page_to_unpin():
    small = msgspec.structs.replace(load_design("unet-mm-pca200"), entries=1, victim_entries=0)

    async def body(process, endpoint, tag):
        counted = []
        one, other = await written(process, 1), await written(process, 2)
        for room in (one, one, other):
            nodes = process.cluster.simulation.machine.ports.nodes
            before = int(nodes[0]["miss_time"])
            await endpoint.send(tag, room.part(0, 100))
            await endpoint.sent()
            counts = process.cluster.counts(0)
            counted.append(
                (
                    (int(nodes[0]["miss_time"]) - before) / 1e6,
                    *(counts[name] for name in ("interrupts", "pins", "unpins")),
                )
            )
        frames = [frame_on_ni(process.cluster, 0, 0, page) for page in (0, 1)]
        entries = process.cluster.memory.state.entries[0, 0]
        return counted, frames, int(entries[1]["frame"])

    ((counted, frames, present), _), _ = run((0, sending(body)), (1, deaf), design=small)
    # The hit was begun for and its 1 us charged before it was seen to be a miss.
    miss = HANDSHAKE + INTERRUPT + PIN - HIT
    assert counted == [(miss, 1, 1, 0), (0, 1, 1, 0), (miss + UNPIN, 2, 2, 1)]
    assert frames == [-1, present]  # the physical address is the page's own


@pytest.mark.requirement("UM-30")
def test_so_many_buffers_are_translated_ahead_and_one_more_when_one_is_filled():
    async def body(process, endpoint, tag):
        await process.sleep(2_000)
        await endpoint.send(tag, await written(process, 1))
        await endpoint.sent()

    async def sink(process):
        pinned = process.cluster.memory.state.hosts["pinned"]
        endpoint = await process.open("sink")
        await endpoint.provide(*(process.allocate(PAGE) for _ in range(9)))
        await process.sleep(1_000)
        ahead = int(pinned[1])
        await endpoint.receive()
        await process.sleep(1_000)
        return ahead, int(pinned[1]), process.cluster.counts(1)["ni_misses"]

    (_, found), cluster = run((0, sending(body)), (1, sink), size=PortSize(ready=4))
    assert found == (4, 5, 5)
    assert serving(cluster, 1)["miss_time"] == 5 * (24 + 10 + 36 - 1) * 10**6  # zero map-in


@pytest.mark.requirement("UM-40", "UM-50")
def test_equal_addresses_of_two_processes_are_two_frames_and_each_sends_its_own():
    def one_of(fill):
        async def body(process, endpoint, tag):
            room = await written(process, fill)
            assert room.address == 0
            await endpoint.send(tag, room)
            await endpoint.sent()
            return int(process.cluster.memory.state.entries[0, process.number, 0]["frame"])

        return sending(body)

    async def sink(process):
        endpoint = await process.open("sink")
        await endpoint.provide(process.allocate(PAGE), process.allocate(PAGE))
        return {bytes(await (await endpoint.receive()).read())[:1] for _ in range(2)}

    (first, second, seen), cluster = run((0, one_of(3)), (0, one_of(4)), (1, sink))
    assert seen == {b"\3", b"\4"}
    assert first != second
    assert [frame_on_ni(cluster, 0, space, 0) for space in (0, 1)] == [first, second]


@pytest.mark.requirement("UM-40")
def test_an_entry_has_rights_and_what_was_pinned_to_be_read_is_no_place_for_a_message():
    async def body(process, endpoint, tag):
        room = await written(process, 5)
        process.cluster.memory.protect(0, 0, 0, 1, READ)
        await endpoint.send(tag, room)
        ended = await endpoint.sent()
        known = [frame_on_ni(process.cluster, 0, 0, 0, receive) for receive in (0, 1)]
        await endpoint.provide(room)
        return ended.status, known, (await endpoint.receive()).status

    ((status, known, returned), _), _ = run((0, sending(body)), (1, deaf))
    assert status == "done"
    assert known[0] > 0
    assert known[1] == -1
    assert returned == "no rights"


@pytest.mark.requirement("UM-44", "UM-46")
def test_what_the_table_holds_may_be_sent_whatever_the_process_has_done_to_its_page_since():
    async def body(process, endpoint, tag):
        known, unknown = await written(process, 6), await written(process, 7)
        statuses = []
        for room in (known, known, unknown):
            await endpoint.send(tag, room)
            statuses.append((await endpoint.sent()).status)
            process.cluster.memory.protect(0, 0, 0, 2, 0)  # neither may be read
        return statuses

    async def sink(process):
        endpoint = await process.open("sink")
        await endpoint.provide(*(process.allocate(PAGE) for _ in range(3)))
        return [(await (await endpoint.receive()).read())[0] for _ in range(2)]

    (statuses, seen), cluster = run((0, sending(body)), (1, sink))
    assert statuses == ["done", "done", "no rights"]
    assert seen == [6, 6]
    assert serving(cluster, 0)["stale"] == 0


@pytest.mark.requirement("UM-61")
def test_the_send_queues_of_open_endpoints_are_polled_in_turn():
    def queueing(fill):
        async def body(process, endpoint, tag):
            rooms = [await written(process, fill) for _ in range(6)]
            for room in rooms:
                await endpoint.send(tag, room)
            if fill == 3:  # queued before it closed, and never polled again
                await endpoint.close()
                return [(await endpoint.sent()).status for _ in range(6)]
            return [(await endpoint.sent()).status for _ in range(6)]

        return sending(body)

    async def sink(process):
        endpoint = await process.open("sink")
        await endpoint.provide(*(process.allocate(PAGE) for _ in range(18)))
        order = []
        while order.count(1) < 6 or order.count(2) < 6:
            order.append((await (await endpoint.receive()).read())[0])
        return order

    programs = [(0, queueing(fill)) for fill in (1, 2, 3)]
    (one, two, three, order), _ = run(*programs, (1, sink), size=PortSize(ready=32))
    assert one == two == ["done"] * 6
    assert three[-1] == "closed"
    open_ones = [fill for fill in order if fill != 3]
    # Each gets its turn: the other is never two messages ahead while both have some queued.
    lead = 0
    for fill in open_ones:
        lead += 1 if fill == 1 else -1
        assert abs(lead) <= 1
    assert order.count(3) == three.count("done")


@pytest.mark.requirement("UM-63")
def test_the_ni_waits_busily_for_the_kernel_and_the_host_is_interrupted():
    async def body(process, endpoint, tag):
        found = []
        node = process.cluster.simulation.machine.nodes[0]
        room = await written(process, 1)
        for _ in range(2):  # a miss, and a hit
            busy = int(node["processor_busy"])
            await endpoint.send(tag, room.part(0, 100))
            begun = process.now_us
            await process.compute(1_000)
            interrupted = process.now_us - begun - 1_000
            await endpoint.sent()
            found.append((interrupted, (int(node["processor_busy"]) - busy) / 1e6))
        return found

    ((miss, hit), _), _ = run((0, sending(body)), (1, deaf))
    # Table 1: the handler and the pin are the host's time, the whole miss is the NI's.
    assert miss[0] == pytest.approx(INTERRUPT + PIN)
    assert hit[0] == pytest.approx(0)
    assert miss[1] - hit[1] == pytest.approx(HANDSHAKE + INTERRUPT + PIN - HIT)


@pytest.mark.requirement("UM-64")
def test_only_a_page_on_the_disk_is_left_to_the_kernels_thread():
    async def body(process, endpoint, tag):
        found = []
        nodes = process.cluster.simulation.machine.ports.nodes
        room = await written(process, 1)
        for is_out in (False, True):
            if is_out:
                room = await written(process, 2)
                process.swap_out()
            before = int(nodes[0]["stolen"])
            await endpoint.send(tag, room.part(0, 100))
            began = process.now_us
            await process.compute(100)
            interrupted = process.now_us - began - 100
            await endpoint.sent()
            found.append(
                (
                    int(nodes[0]["thread_misses"]),
                    int(nodes[0]["page_ins"]),
                    round(interrupted),
                    (int(nodes[0]["stolen"]) - before) // 10**6,
                )
            )
        return found

    ((present, out), _), _ = run((0, sending(body)), (1, deaf))
    assert present[:3] == (0, 0, INTERRUPT + PIN)
    assert out[:3] == (1, 1, INTERRUPT)  # the handler wakes the thread and is done


@pytest.mark.requirement("UM-77")
def test_a_page_is_unpinned_in_the_trap_of_whatever_process_runs():
    small = msgspec.structs.replace(load_design("unet-mm-dc21140"), entries=1, victim_entries=0)

    def pinned_by(process, number):
        return int(process.cluster.memory.state.spaces[0, number]["pinned"])

    async def first(process, endpoint, tag):
        await endpoint.send(tag, await written(process, 1, 1000))
        await endpoint.sent()
        await process.sleep(2_000)
        return pinned_by(process, process.number)

    async def second(process, endpoint, tag):
        await process.sleep(1_000)
        before = pinned_by(process, 1 - process.number)
        await endpoint.send(tag, await written(process, 2, 1000))
        return before

    (left, before, _), _ = run((0, sending(first)), (0, sending(second)), (1, deaf), design=small)
    assert (before, left) == (1, 0)
