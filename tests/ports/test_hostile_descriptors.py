"""Processes that write whatever they like into their own port, beside others that are honest."""

import numpy as np
import port_world as world
import pytest

from nicscope.drivers.simulate.ports.posting import PREPARED
from nicscope.drivers.simulate.records import POST, REGISTER
from nicscope.nic.ports.layout import BUFFERS, RECEIVED, SEND, WRITE

HOSTILE = 10_000
WORDS = np.array(
    [
        *(-(2**63), -(2**62), -4096, -1, 0, 1, 2, 3, 4, 5, 7, 15, 63, 64, 65, 100, 511, 512),
        *(4095, 4096, 4097, 8192, 12288, 2**20, 2**21 - 1, 2**21, 2**31, 2**32, 2**62),
        *(2**63 - 4096, 2**63 - 1),
    ],
    np.int64,
)


def forge(random, ports, node, port, slot):
    """Fill a descriptor with anything: mostly what once was dangerous somewhere."""
    request = ports.requests[node, port, slot]
    for name in request.dtype.names:
        request[name] = random.choice(WORDS)
    if random.random() < 0.7:
        request["operation"] = random.integers(0, 5)
        request["segments"] = random.integers(-1, 6)
        request["options"] = random.integers(0, 4)
        request["name"] = random.integers(-2, 66)
    for segment in ports.segments[node, port, slot]:
        segment["address"] = random.choice(WORDS)
        segment["length"] = random.choice(WORDS)
        if random.random() < 0.5:
            segment["address"] = random.integers(0, 20 * world.PAGE)
            segment["length"] = random.integers(0, 3 * world.PAGE)
    ports.inline[node, port, slot] = random.integers(0, 256, 64)


async def attack(process, count, seed):
    """Post ``count`` forged descriptors, and forge again those that are posted already."""
    random = np.random.default_rng(seed)
    ports = process._ports
    ring = int(ports.rules[0]["ring"])
    memory = process.allocate(8 * world.PAGE)
    await memory.write(b"H" * len(memory))
    # The honest neighbours' tags, imports and exports are 3 to 5; these are its own.
    world.join(process, 20, 1, 20)
    world.import_from(process, 20, 1, 20, 0, 4 * world.PAGE)
    found = {}
    open_ = 0
    for _ in range(count):
        if open_ == 24:
            status = (await process.done()).status
            found[status] = found.get(status, 0) + 1
            open_ -= 1
        record = ports.table[process.node, process.port]
        forge(random, ports, process.node, process.port, int(record["posted"]) % ring)
        await process._sim_process.ask(POST, peer=process.port, own=PREPARED)
        open_ += 1
        if random.random() < 0.3:  # what is posted, and perhaps under way, changes
            forge(random, ports, process.node, process.port, int(random.integers(ring)))
        waiting = int(record["free_posted"] - record["free_taken"])
        if random.random() < 0.1 and waiting < ring:
            await process.provide(int(random.choice(WORDS)))
        if random.random() < 0.05:
            place = int(random.integers(ring))
            ports.free[process.node, process.port, place]["address"] = random.choice(WORDS)
        while record["received"] > record["read"]:
            await process.arrival()
    for _ in range(open_):
        status = (await process.done()).status
        found[status] = found.get(status, 0) + 1
    return found


async def honest(process, peer, tag, rounds):
    """Messages and stores to and fro, each checked, and every other byte as it was."""
    me = process.node
    world.join(process, tag, peer, tag)
    window = process.allocate(2 * world.PAGE)
    guard = process.allocate(4 * world.PAGE)
    source = process.allocate(2 * world.PAGE)
    free = process.allocate(4 * world.PAGE)
    await window.write(bytes(len(window)))
    await guard.write(world.content(me, len(guard)))
    world.export(process, tag, window.address, len(window))
    if process.cluster.design.name in ("utlb", "vmmc-static", "mini"):
        await process._sim_process.ask(
            REGISTER, peer=process.port, address=window.address, payload=len(window)
        )
    world.import_from(process, tag, peer, tag, window.address, len(window))
    for place in range(4):
        await process.provide(free.address + place * world.PAGE)
    await process.sleep(3000)
    size = world.PAGE + 200
    for number in range(rounds):
        mine = world.content(10 * number + me, size)
        theirs = world.content(10 * number + peer, size)
        await source.write(mine)
        await process.post(SEND, tag, [(source.address, size)])
        await process.post(WRITE, tag, [(source.address, size)], offset=300, notify=True)
        for _ in range(2):
            arrival = await process.arrival()
            if arrival.operation == WRITE:
                assert (arrival.length, arrival.offset) == (size, 300)
                expected = bytes(300) + theirs + bytes(len(window) - 300 - size)
                assert await window.read() == expected
            else:
                assert world.buffers_of(process, arrival.buffers, size) == theirs
                for buffer in arrival.buffers:
                    await process.provide(buffer)
        for _ in range(2):
            assert (await process.done()).ok
        assert await guard.read() == world.content(me, len(guard))
        await process.post_inline(SEND, tag, b"next")
        assert (await process.arrival()).content == b"next"
        assert (await process.done()).ok
    return "whole"


async def victim(process):
    """Exports of its own that only ports which do not exist may import; they stay as they are."""
    world.join(process, 20, 0, 20)  # the hostile process may send here; nobody provides a buffer
    secret = process.allocate(4 * world.PAGE)
    await secret.write(b"S" * len(secret))
    await process.post(WRITE, 5, [(secret.address, 4)])
    assert (await process.done()).status == "no such buffer"
    world.export(process, 20, secret.address, len(secret))
    process._ports.shared.exports[process.node, 20]["importer"] = 99
    for _ in range(40):
        await process.sleep(2000)
        while (
            process._ports.table[1, process.port]["received"]
            > process._ports.table[1, process.port]["read"]
        ):
            await process.arrival()
    return await secret.read()


def battle(design, count, seed=0, rounds=6):
    """Two honest processes, their hostile neighbour and a victim; how its descriptors ended."""
    cluster = world.cluster_of(design)
    first, statuses, second, secret = world.run_on_nodes(
        cluster,
        (
            lambda process: honest(process, 1, 3, rounds),
            lambda process: attack(process, count, seed),
        ),
        (lambda process: honest(process, 0, 3, rounds), victim),
    )
    assert (first, second) == ("whole", "whole")
    assert secret == b"S" * len(secret)
    assert world.stale(cluster) == 0
    return statuses


@pytest.mark.requirement("UM-12", "UM-24", "MI-5")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_what_is_not_a_processs_to_name_or_to_read_reaches_nobody_and_it_is_told_so(design):
    async def intruder(process):
        own = process.allocate(world.PAGE)
        await own.write(b"H" * world.PAGE)
        world.join(process, 20, 1, 20)
        world.import_from(process, 20, 1, 20, 0, 2 * world.PAGE)
        await process.sleep(3000)
        here, behind, nowhere = own.address, own.address + world.PAGE, 2**62
        ended = []
        for operation, name, address, offset in (
            (SEND, 3, here, 0),  # its neighbour's tag
            (SEND, 63, here, 0),
            (WRITE, 3, here, 0),  # its neighbour's import
            (WRITE, 20, here, 2 * world.PAGE - 4),
            (SEND, 20, nowhere, 0),
            (SEND, 20, behind, 0),
        ):
            await process.post(operation, name, [(address, 8)], offset=offset)
            ended.append((await process.done()).status)
        return ended

    async def neighbour(process):
        world.join(process, 3, 1, 3)
        world.import_from(process, 3, 1, 3, 0, 2 * world.PAGE)

    async def owner(process):
        memory = process.allocate(2 * world.PAGE)
        await memory.write(bytes(len(memory)))
        for number in (3, 20):
            world.join(process, number, 0, number)
            world.export(process, number, memory.address, len(memory))
        await process.provide(process.allocate(world.PAGE).address)
        await process.sleep(60_000)
        return int(process._ports.table[1, process.port]["received"]), await memory.read()

    cluster = world.cluster_of(design)
    _, ended, found = world.run_on_nodes(cluster, (neighbour, intruder), owner)
    unknown, not_there = ["tag not registered"] * 2, ["no rights"] * 2
    assert ended == [*unknown, "no such buffer", "out of bounds", *not_there]
    assert found == (0, bytes(2 * world.PAGE))


@pytest.mark.requirement("MI-5")
@pytest.mark.parametrize("design", world.DESIGNS)
def test_forged_descriptors_harm_nobody_and_each_ends_with_a_status_of_its_own(design):
    statuses = battle(design, HOSTILE // len(world.DESIGNS))
    assert sum(statuses.values()) == HOSTILE // len(world.DESIGNS)
    assert "peer dead" not in statuses
    expected = {"bad descriptor", "no such buffer", "tag not registered", "no rights"}
    assert expected <= set(statuses)


def test_a_report_that_its_reader_forged_is_read_within_its_bounds():
    async def reader(process):
        world.join(process, 3, 1, 3)
        free = process.allocate(world.PAGE)
        await process.provide(free.address)
        await process.sleep(5000)
        record = process._ports.table[process.node, process.port]
        assert record["received"] == 1
        reports = process._ports.reports[process.node, process.port, RECEIVED]
        reports[0]["buffers"] = 2**40
        neighbour = process._ports.filled[1:].copy()
        arrival = await process.arrival()
        assert (process._ports.filled[1:] == neighbour).all()
        return arrival.buffers

    async def sender(process):
        world.join(process, 3, 0, 3)
        source = process.allocate(world.PAGE)
        await source.write(world.content(1, world.PAGE))
        await process.sleep(1000)
        await process.post(SEND, 3, [(source.address, world.PAGE)])
        assert (await process.done()).ok

    cluster = world.cluster_of("utlb")
    buffers = world.run_on_nodes(cluster, reader, sender)[0]
    assert len(buffers) == BUFFERS


@pytest.mark.compiled
@pytest.mark.long
def test_a_million_forged_descriptors_harm_nobody():
    for design in world.DESIGNS:
        battle(design, 200_000, seed=1, rounds=50)
