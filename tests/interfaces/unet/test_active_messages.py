"""Active Messages over endpoints: handlers get what was sent, once, and nothing is lost."""

import pytest

from nicscope.drivers.simulate.ports.build import PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.unet import Cluster
from nicscope.interfaces.unet.active_messages import ANSWER, PIECE, ActiveMessages
from program_results import results_of
from refusals import refused

MINE = 20  # a handler
BUFFERS = 8


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


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize("inside", [True, False])
def test_each_request_runs_its_handler_once_and_in_order(inside):
    lengths = [0, 1, 39, 40, 47, 48] * 4  # 40 and the header no longer fit a descriptor

    async def program(process, messages):
        taken = []

        async def take(node, first, second, content):
            taken.append((node, first, second, content))

        messages.on(MINE, take)
        await messages.barrier()
        if process.node == 0:
            for at, length in enumerate(lengths):
                await messages.request(1, MINE, at, 7 << 40, bytes([at]) * length)
        else:
            await messages.wait_until(lambda: len(taken) == len(lengths))
        await messages.barrier()
        return taken

    (_, taken), lost = run(program, small_inside=inside)
    assert taken == [(0, at, 7 << 40, bytes([at]) * n) for at, n in enumerate(lengths)]
    assert lost == 0


@pytest.mark.requirement("UM-84")
def test_all_store_to_all_at_once_and_every_byte_arrives():
    size, nodes = 3 * PIECE + 5, 3

    async def program(process, messages):
        memory = {node: bytearray(size) for node in range(nodes)}
        taken = 0

        async def take(node, first, second, content):
            nonlocal taken
            assert second == node
            memory[node][first : first + len(content)] = content
            taken += len(content)

        messages.on(MINE, take)
        data = messages.endpoint.allocate(size)
        await data.write(bytes([process.node + 1]) * size)
        await messages.barrier()
        for node in range(nodes):
            if node != process.node:
                await messages.store(node, MINE, 0, data, process.node)
        await messages.wait_until(lambda: taken == (nodes - 1) * size)
        await messages.barrier()
        return memory

    results, lost = run(program, nodes)
    assert lost == 0
    for node, memory in enumerate(results):
        for other in set(range(nodes)) - {node}:
            assert memory[other] == bytes([other + 1]) * size


@pytest.mark.requirement("UM-84")
def test_what_one_shows_others_get_while_it_waits():
    size = 5 * PIECE + 100
    content = bytes(i * 7 % 251 for i in range(size))

    async def program(process, messages):
        shown = process.allocate(size)
        if process.node == 1:
            await shown.write(content)
            messages.show(3, shown)
        await messages.barrier()
        into = process.allocate(size)
        if process.node != 1:
            await messages.get(1, 3, 50, into.part(0, size - 50))
        await messages.barrier()
        return await into.read()

    results, lost = run(program, nodes=3)
    assert lost == 0
    assert results[0][:-50] == results[2][:-50] == content[50:]


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
