"""Active Messages are reliable by themselves: U-Net loses, doubles and damages what they send."""

import pytest

from nicscope.drivers.simulate.ports.build import Faults, PortSize
from nicscope.errors import SimulationError
from nicscope.interfaces.unet import Cluster
from nicscope.interfaces.unet.active_messages import PIECE, ActiveMessages
from nicscope.interfaces.unet.streams import MOST_TRIES, NUMBERS, TIME_OUT_US, WINDOW, Kept, Stream
from program_results import results_of
from refusals import refused

MINE, KEEP = 20, 21  # handlers
BUFFERS = 8
LONG = PIECE + 90  # a store of two messages, of which the last is not a small one
BAD = {"loss": 0.1, "duplication": 0.05, "reordering": 0.05, "corruption": 0.05}


def run(count, nodes=2, faults=None, **how):
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

    async def take(node, first, _second, content):
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
            await messages.request(node, MINE, at, 0, content)
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
    repeated, received = run(60, nodes, faults, small_inside=inside)
    assert received.lost > 5
    assert received.corrupted > 1
    assert repeated > 5


@pytest.mark.requirement("UM-84")
@pytest.mark.parametrize("design", ["unet-mm-pca200", "unet-mm-dc21140"])
def test_nothing_is_sent_again_on_a_network_that_loses_nothing(design):
    repeated, received = run(40, design=design, buffer_bytes=4096)
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
