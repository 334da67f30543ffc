"""Active Messages: reliable by themselves where U-Net loses, doubles and damages what they send."""

import pytest

from nicscope.drivers.simulate.ports.build import Faults, PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.active_messages import (
    ANSWER,
    MOST_TRIES,
    NUMBERS,
    PIECE,
    TIME_OUT_US,
    WINDOW,
    ActiveMessages,
    Kept,
    Stream,
)
from nicscope.interfaces.unet import Cluster
from program_results import results_of
from refusals import refused

MINE, KEEP = 20, 21  # handlers
BUFFERS = 8
LONG = PIECE + 90  # a store of two messages, of which the last is not a small one
BAD = {"loss": 0.1, "duplication": 0.05, "reordering": 0.05, "corruption": 0.05}


def exchanged(count, nodes=2, faults=None, **how):
    """What ``exchange`` returns on each node, and what the network did."""
    size = PortSize(ring=64 + BUFFERS, ready=BUFFERS)
    cluster = Cluster(nodes=nodes, size=size, faults=faults, **how)

    async def program(process):
        messages = ActiveMessages(process, nodes, BUFFERS, 2)
        await messages.open()
        found = await exchange(process, messages, count)
        await messages.linger()
        return *found, messages.repeated

    results = results_of(cluster, *[program] * nodes)
    assert not cluster.transport_of_run.reliable
    for mine, (taken, stored, got, _) in enumerate(results):
        others = [node for node in range(nodes) if node != mine]
        for node in others:
            assert [one[1:] for one in taken if one[0] == node] == requests(count)
            assert bytes(stored[node]) == content_of(node)
        assert got == [content_of(node) for node in others]
    return sum(result[-1] for result in results), cluster.report().total.received


def requests(count):
    """What each process sends each other one, in this order."""
    return [(at, bytes([at % 251]) * (at % 49)) for at in range(count)]


def content_of(node):
    return bytes((at + node) % 256 for at in range(LONG))


async def exchange(process, messages, count):
    """Small messages, stores and gets among all; what has been taken, stored and got."""
    others = [node for node in range(messages.nodes) if node != process.node]
    taken, stored, arrived = [], {node: bytearray(LONG) for node in others}, []

    async def take(node, first, second, content):
        assert second == 7 << 40
        taken.append((node, first, content))

    async def keep(node, first, _second, content):
        stored[node][first : first + len(content)] = content
        arrived.append(len(content))

    messages.on(MINE, take)
    messages.on(KEEP, keep)
    room, into = process.allocate(LONG), process.allocate(LONG)
    await room.write(content_of(process.node))
    messages.show(1, room)
    await messages.barrier()
    for at, content in requests(count):
        for node in others:
            await messages.request(node, MINE, at, 7 << 40, content)
    for node in others:
        await messages.store(node, KEEP, 0, room)
    got = []
    for node in others:
        await messages.get(node, 1, 0, into)
        got.append(await into.read())
    await messages.wait_until(
        lambda: len(taken) == count * len(others) and sum(arrived) == LONG * len(others)
    )
    await messages.barrier()
    return taken, stored, got


@pytest.mark.requirement("UM-84")
@pytest.mark.requirement("UM-66", weak="all but the CRC, by which the NIC drops what was damaged")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("nodes", "seed"), [(2, 1), (3, 3)])
def test_everything_is_taken_once_and_in_order_on_a_network_that_loses(nodes, seed, inside):
    faults = Faults(seed=seed, **BAD)
    repeated, received = exchanged(60, nodes, faults, small_inside=inside)
    assert received.lost > 5
    assert received.corrupted > 1
    assert repeated > 5


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize(("design", "nodes"), [("unet-mm-pca200", 3), ("unet-mm-dc21140", 2)])
def test_nothing_is_sent_again_on_a_network_that_loses_nothing(design, nodes):
    repeated, received = exchanged(40, nodes, design=design, buffer_bytes=4096)
    assert repeated == 0
    assert received.dropped["buffer"] == 0


def test_a_peer_that_has_died_is_told_of_in_words():
    async def program(process):
        messages = ActiveMessages(process, 2, BUFFERS, 2)
        await messages.open()
        await process.sleep(20_000 - process.now_us)
        if process.node == 0:
            await messages.request(1, MINE)
            with refused(SimulationError, "node 1", "node 0"):
                await messages.flush()
        return process.now_us

    cluster = Cluster(faults=Faults(node_deaths={1: 10_000_000_000}))
    for node in (0, 1):
        cluster.start(node, program)
    assert cluster.run()[0] > TIME_OUT_US * MOST_TRIES


def test_numbers_and_acknowledgements_go_round():
    sender, receiver = Stream(5), Stream(5)
    for at in range(3 * NUMBERS):
        number = sender.number()
        assert number == at % NUMBERS
        sender.keep(Kept(at, (b"",), None, True), float(at))
        assert receiver.takes(number, False, float(at))
        assert not receiver.takes(number, False, float(at))  # it comes again
        assert not receiver.takes((number + WINDOW) % NUMBERS, False, float(at))  # or too early
        if len(sender.kept) == WINDOW:
            assert sender.is_full
            said = receiver.acknowledging()
            assert len(sender.acknowledged(said, float(at))) == WINDOW
            assert sender.acknowledged(said, float(at)) == []
    assert receiver.duplicates == 6 * NUMBERS


def run(program, nodes=2, **how):
    """What ``program(process, messages)`` returns on each node, and messages without a buffer."""
    cluster = Cluster(nodes=nodes, size=PortSize(ring=64 + BUFFERS, ready=BUFFERS), **how)

    async def opened(process):
        messages = ActiveMessages(process, nodes, BUFFERS, 2)
        await messages.open()
        found = await program(process, messages)
        await messages.flush()
        return found

    results = results_of(cluster, *[opened] * nodes)
    return results, cluster.report().total.received.dropped["buffer"]


def test_what_cannot_be_is_refused_in_words():
    async def none(node, first, second, content):
        """Takes nothing."""

    async def program(process, messages):
        with refused(SimulationError, "64 bytes", 65):
            await messages.request(1 - process.node, MINE, 0, 0, bytes(49))
        messages.on(MINE, none)
        for number in (3, MINE, 256):
            with refused(SimulationError, "16 to 255"):
                messages.on(number, none)
        with refused(SimulationError, "9 nodes"):
            ActiveMessages(process, 9, BUFFERS)

    run(program)


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("nodes", [2, 3])
def test_a_handler_gets_while_a_get_is_under_way_and_each_has_its_own_bytes(nodes, inside):
    """Handlers of requests that come in the middle, one in the other, at all nodes at once."""
    sizes = [9 * PIECE + 10, 3 * PIECE + 5, 7, 2 * PIECE]

    def content(node, name):
        return bytes((i * 7 + 50 * node + 13 * name) % 251 for i in range(sizes[name]))

    async def program(process, messages):
        mine, others, begun, done, depth = process.node, [], [], [], []
        into = {}
        for name, size in enumerate(sizes):
            shown = process.allocate(size)
            await shown.write(content(mine, name))
            messages.show(name, shown)
        for node in set(range(nodes)) - {mine}:
            others.append(node)
            into[node] = [process.allocate(size) for size in sizes]

        async def gets(node, name, *_):
            begun.append(name)
            depth.append(len(begun) - len(done))
            await messages.get(node, name, 0, into[node][name])
            done.append(name)

        messages.on(MINE, gets)
        await messages.barrier()
        for name in range(1, len(sizes)):
            for node in others:
                await messages.request(node, MINE, name)
        for node in others:
            await messages.get(node, 0, 0, into[node][0])
        await messages.wait_until(lambda: len(done) == len(others) * (len(sizes) - 1))
        await messages.barrier()
        right = [
            await buffer.read() == content(node, name)
            for node, buffers in into.items()
            for name, buffer in enumerate(buffers)
        ]
        return all(right), len(right), max(depth), messages.strange

    results, lost = run(program, nodes, small_inside=inside)
    assert lost == 0
    assert [found[:2] for found in results] == [(True, (nodes - 1) * len(sizes))] * nodes
    assert max(deepest for _, _, deepest, _ in results) > 1
    assert [strange for _, _, _, strange in results] == [0] * nodes


@pytest.mark.requirement("UM-84")
def test_an_answer_of_who_was_not_asked_is_not_taken_for_one():
    size = 6 * PIECE

    async def program(process, messages):
        shown = process.allocate(size)
        await shown.write(b"." * size)
        messages.show(3, shown)
        await messages.barrier()
        if process.node == 0:
            await messages.get(1, 3, 0, shown.part(0, size))
        elif process.node == 2:
            for at in range(0, 2 * PIECE, PIECE // 4):
                await messages.request(0, ANSWER, at, 0, b"wrong")
        await messages.barrier()
        return await shown.read(), messages.strange

    results, _ = run(program, nodes=3)
    assert results[0][0] == b"." * size
    assert results[0][1] >= 1
