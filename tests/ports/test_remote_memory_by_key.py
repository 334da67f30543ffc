"""Remote writes and fetches of connected ports: memory of the peer, named by key and address."""

from __future__ import annotations

import random

import port_world as world
import pytest
import work_world
from work_world import KEY, PAGE, at, cluster_of, connect, digest, read, state_of, with_memory

from nicscope.config.delivery import Transport, Way
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.nic.ports.layout import (
    BROKEN,
    CONNECTED,
    DELIVERY,
    FETCH,
    MAY_FETCH,
    MAY_WRITE,
    RECEPTION,
    SEND,
    UNRELIABLE,
    WRITE,
)
from nicscope.nic.ports.work_queues import (
    CONNECTION_LOST,
    FETCH_REFUSED,
    RECEIVES_EMPTY,
    WRITE_REFUSED,
)

TRANSPORT = Transport(time_out_ps=200_000_000, most_retries=20)
FAULTS = Faults(seed=3, loss=0.05, duplication=0.03, reordering=0.03, corruption=0.03)
PAGES = 6
SIZE = PAGES * PAGE


def stretches(rng, half):
    """Stretches of one half of a process's memory that do not overlap, in any order."""
    begin = half * SIZE // 2
    many = 2 * rng.randrange(1, work_world.SEGMENTS + 1)
    places = sorted(rng.sample(range(begin, begin + SIZE // 2), many))
    pairs = zip(places[::2], places[1::2], strict=True)
    return rng.sample([(first, last - first) for first, last in pairs], many // 2)


def run(asker, owner, level, faults=None, design="vmmc-static", way=None):
    """What both programs return; node 0's asks for memory of node 1, and connects them."""

    async def first(process):
        memory = await with_memory(process, PAGES, 1)
        await process.sleep(1500)
        connect(process, level, unit=1500)
        return await asker(process, memory)

    async def second(process):
        memory = await with_memory(process, PAGES, 2)
        return await owner(process, memory)

    cluster = cluster_of(design, way, transport=TRANSPORT, faults=faults)
    cluster.start(0, first)
    cluster.start(1, second)
    results = cluster.run()
    assert world.stale(cluster) == 0
    assert work_world.uses_left(cluster) == [0, 0]
    return results


async def ask(process, operation, pieces, offset, key=KEY, **how):
    """Post a remote operation on the peer's memory, which begins at its address 0; its number."""
    return await process.post_gather(operation, pieces, name=key, offset=offset, **how)


async def wait_for(process, say):
    """Wait until the other program has said something."""
    while not say:
        await process.sleep(50)


def changed(operations):
    """What the asker's and the owner's memory hold after remote operations, one after the other."""
    mine, theirs = (bytearray(world.content(which, SIZE)) for which in (1, 2))
    for operation, pieces, offset in operations:
        for begin, count in pieces:
            if operation == WRITE:
                theirs[offset : offset + count] = mine[begin : begin + count]
            else:
                mine[begin : begin + count] = theirs[offset : offset + count]
            offset += count
    return digest(bytes(mine)), digest(bytes(theirs))


def random_operations(seed, many=12):
    rng = random.Random(seed)
    operations = []
    for _ in range(many):
        operation = rng.choice([WRITE, FETCH])
        # What is written must not be changed before that is done.
        pieces = stretches(rng, operation == FETCH)
        total = sum(count for _, count in pieces)
        operations.append((operation, pieces, rng.randrange(SIZE - total + 1)))
    return operations


def check_random(seed, level, **how):
    """Random writes and fetches have the effect that they have one after the other."""
    operations = random_operations(seed)
    over = []

    async def asker(process, memory):
        for operation, pieces, offset in operations:
            await ask(process, operation, at(memory, pieces), offset)
        ended = [await process.ended() for _ in operations]
        assert [each.status for each in ended] == ["done"] * len(operations)
        for each, (operation, pieces, _) in zip(ended, operations, strict=True):
            assert (each.operation, each.length) == (operation, sum(n for _, n in pieces))
        over.append(True)
        found = await memory.read()
        await process.sleep(3000)
        return digest(found)

    async def owner(process, memory):
        await wait_for(process, over)
        await process.sleep(3000)
        return digest(await memory.read())

    assert tuple(run(asker, owner, level, **how)) == changed(operations)


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
@pytest.mark.parametrize("faults", [None, FAULTS])
@pytest.mark.parametrize("design", ["vmmc-static", "vmmc-interrupt"])
def test_writes_and_fetches_have_their_effect_once_and_in_order(level, faults, design):
    for seed in (1, 2):
        check_random(seed, level, faults=faults, design=design)


@pytest.mark.parametrize("way", [way.value for way in Way if way != Way.PCI])
def test_remote_memory_is_reached_over_every_way(way):
    check_random(5, RECEPTION, design="utlb", way=way)


def test_of_an_unreliable_write_what_arrives_is_written_and_it_is_done_when_it_has_left():
    over = []

    async def asker(process, memory):
        for number in range(20):
            await ask(process, WRITE, at(memory, [(number * 100, 100)]), number * 1000)
        ended = [(await process.ended()).status for _ in range(20)]
        await process.sleep(3000)
        over.append(True)
        return ended

    async def owner(process, memory):
        await wait_for(process, over)
        return await memory.read()

    ended, found = run(asker, owner, UNRELIABLE, Faults(seed=3, loss=0.3))
    assert ended == ["done"] * 20
    mine, before = world.content(1, SIZE), bytearray(world.content(2, SIZE))
    written = 0
    for number in range(20):
        place = slice(number * 1000, number * 1000 + 100)
        is_written = found[place] == mine[number * 100 : number * 100 + 100]
        assert is_written or found[place] == before[place]
        written += is_written
        before[place] = found[place]
    assert 0 < written < 20
    assert found == bytes(before)


@pytest.mark.parametrize("level", [UNRELIABLE, DELIVERY, RECEPTION])
@pytest.mark.parametrize("length", [0, 10, 4000])
def test_a_write_with_a_word_takes_a_receive_in_its_turn_and_leaves_its_memory_alone(level, length):
    async def asker(process, memory):
        await process.post_gather(SEND, at(memory, [(0, 20)]), immediate=1)
        await ask(process, WRITE, at(memory, [(0, 100)]), 5000)
        pieces = at(memory, [(0, length)]) if length else []
        await ask(process, WRITE, pieces, 9000, immediate=-7)
        await process.post_gather(SEND, at(memory, [(0, 30)]))
        return [(await process.ended()).status for _ in range(4)]

    async def owner(process, memory):
        for number in range(3):
            await process.post_receive(number, at(memory, [(number * 100, 50)]))
        said = [await process.received() for _ in range(3)]
        await process.sleep(5000)
        return said, await read(memory, [(100, 50), (5000, 100), (9000, length)])

    ended, (said, found) = run(asker, owner, level)
    assert ended == ["done"] * 4
    assert said == [
        (0, "done", SEND, 20, 1),
        (1, "done", WRITE, length, -7),
        (2, "done", SEND, 30, None),
    ]
    mine, theirs = world.content(1, SIZE), world.content(2, SIZE)
    assert found == theirs[100:150] + mine[:100] + mine[:length]


def test_writes_with_words_are_told_of_once_whatever_the_network_does():
    """A receive that a write has taken is given back if that has to come again."""

    async def asker(process, memory):
        for number in range(12):
            pieces = at(memory, [(number * 10, 3100 - number)])
            await ask(process, WRITE, pieces, 4096 * (number % 2), immediate=number)
        return [(await process.ended()).status for _ in range(12)]

    async def owner(process, memory):
        for number in range(12):
            await process.post_receive(number, at(memory, [(number * 50, 1)]))
        said = [await process.received() for _ in range(12)]
        await process.sleep(5000)
        return said

    for seed in range(1, 6):
        wrong = Faults(seed=seed, loss=0.15, corruption=0.1, duplication=0.05, reordering=0.05)
        ended, said = run(asker, owner, RECEPTION, wrong)
        assert ended == ["done"] * 12
        assert said == [(n, "done", WRITE, 3100 - n, n) for n in range(12)]


def test_of_unreliable_writes_with_words_those_that_are_whole_are_told_of():
    async def asker(process, memory):
        for number in range(12):
            pieces = at(memory, [(number * 10, 3100 - number)])
            await ask(process, WRITE, pieces, 4096 * number % (SIZE - PAGE), immediate=number)
            await process.sleep(300)
        return [(await process.ended()).status for _ in range(12)]

    async def owner(process, memory):
        for number in range(12):
            await process.post_receive(number, at(memory, [(number, 1)]))
        await process.sleep(12_000)
        taken = state_of(process, "receives_taken")
        said = [await process.received() for _ in range(process.waiting())]
        work_world.disconnect(process)  # or its receives would keep their pages
        await process.sleep(1000)
        return said, taken

    for seed in range(1, 4):
        ended, (said, taken) = run(
            asker, owner, UNRELIABLE, Faults(seed=seed, loss=0.07, corruption=0.07)
        )
        assert ended == ["done"] * 12
        words = [each.immediate for each in said]
        assert words == sorted(set(words))
        assert 0 < len(words) < 12
        assert sorted(each.cookie for each in said) == list(range(len(said)))
        assert [each.length for each in said] == [3100 - word for word in words]
        assert taken == len(said)


REFUSED = [
    # key, address in the owner's memory, what the port and the region let the peer do
    pytest.param(KEY + 1, 0, 3, 3, id="no such key"),
    pytest.param(KEY, SIZE - 3999, 3, 3, id="beyond it"),
    pytest.param(KEY, -1, 3, 3, id="before it"),
    pytest.param(KEY, 0, 0, 3, id="the port does not permit it"),
    pytest.param(KEY, 0, 3, 0, id="the region does not permit it"),
    pytest.param(KEY, 0, -1, 3, id="another domain"),
]


def refuse(operation, key, offset, rights, region, level, word=None, length=4000, faults=None):
    """A remote operation that is not permitted, and a send behind it; what each end has heard."""

    async def asker(process, memory):
        pieces = at(memory, [(0, length)]) if length else []
        await ask(process, operation, pieces, offset, key, immediate=word)
        await process.post_gather(SEND, at(memory, [(0, 30)]))
        ended = [(await process.ended()).status for _ in range(2)]
        await process.sleep(5000)
        return ended, state_of(process, "state"), work_world.troubles(process)

    async def owner(process, memory):
        port = process._ports.table[process.node, process.port]
        record = process._ports.work.regions[process.node, KEY % work_world.REGIONS]
        allowed = MAY_WRITE if operation == WRITE else MAY_FETCH
        if rights < 0:
            record["domain"] += 1
            await work_world.register(process, KEY + 2, memory.address, PAGE)
        port["rights"] = rights if rights == 3 else MAY_WRITE | MAY_FETCH ^ allowed
        if rights == 0:
            port["rights"] = (MAY_WRITE | MAY_FETCH) & ~allowed
        if region == 0:
            record["rights"] = (MAY_WRITE | MAY_FETCH) & ~allowed
        own = KEY if rights >= 0 else KEY + 2
        await process.post_receive(0, [(memory.address + 100, 50, own)])
        said = await process.received()
        await process.sleep(5000)
        same = await memory.read() == world.content(2, SIZE) or said.status == "done"
        return said.status, same, state_of(process, "state"), work_world.troubles(process)

    return run(asker, owner, level, faults)


@pytest.mark.parametrize(("key", "offset", "rights", "region"), REFUSED)
@pytest.mark.parametrize("operation", [WRITE, FETCH])
@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
def test_what_the_peer_does_not_permit_ends_the_connection_and_moves_nothing(
    key, offset, rights, region, operation, level
):
    faults = None if level == DELIVERY else Faults(seed=2, loss=0.2)
    sent, heard = refuse(operation, key, offset, rights, region, level, faults=faults)
    assert sent == (["remote memory not permitted", "flushed"], BROKEN, [CONNECTION_LOST])
    code = WRITE_REFUSED if operation == WRITE else FETCH_REFUSED
    assert heard == ("flushed", True, BROKEN, [code])


@pytest.mark.parametrize(("key", "offset", "rights", "region"), REFUSED)
@pytest.mark.parametrize("word", [None, 5])
@pytest.mark.parametrize("length", [0, 4000])
def test_an_unreliable_write_that_is_not_permitted_is_dropped_and_its_receive_waits(
    key, offset, rights, region, word, length
):
    if length == 0 and offset > 0:
        offset = SIZE + 1
    sent, heard = refuse(WRITE, key, offset, rights, region, UNRELIABLE, word, length)
    assert sent == (["done", "done"], CONNECTED, [])
    assert heard == ("done", True, CONNECTED, [WRITE_REFUSED])


@pytest.mark.parametrize("operation", [WRITE, FETCH])
def test_an_empty_operation_on_memory_that_is_not_permitted_is_refused_too(operation):
    sent, _ = refuse(operation, KEY + 1, 0, 3, 3, RECEPTION, length=0)
    assert sent[0] == ["remote memory not permitted", "flushed"]


def test_an_empty_fetch_is_done():
    async def asker(process, memory):
        await ask(process, FETCH, [], 17)
        await process.post_gather(SEND, at(memory, [(0, 30)]))
        return [(await process.ended())[:4] for _ in range(2)]

    async def owner(process, memory):
        await process.post_receive(0, at(memory, [(100, 50)]))
        said = await process.received()
        await process.sleep(3000)
        return said.status

    assert run(asker, owner, RECEPTION) == [
        [(0, "done", FETCH, 0), (1, "done", SEND, 30)],
        "done",
    ]


@pytest.mark.parametrize("level", [UNRELIABLE, RECEPTION])
def test_a_write_with_a_word_that_finds_no_receive_writes_nothing(level):
    async def asker(process, memory):
        await ask(process, WRITE, at(memory, [(0, 4000)]), 0, immediate=3)
        status = (await process.ended()).status
        await process.sleep(3000)
        return status, state_of(process, "state")

    async def owner(process, memory):
        await process.sleep(6000)
        same = await memory.read() == world.content(2, SIZE)
        return same, state_of(process, "state"), work_world.troubles(process)

    sent, heard = run(asker, owner, level)
    if level == UNRELIABLE:
        assert (sent, heard) == (("done", CONNECTED), (True, CONNECTED, [RECEIVES_EMPTY]))
    else:
        assert (sent, heard) == (("no receive posted", BROKEN), (True, BROKEN, [RECEIVES_EMPTY]))


def test_what_is_posted_behind_a_fetch_waits_for_its_answer():
    """The write behind it changes what it has read."""

    async def asker(process, memory):
        await ask(process, FETCH, at(memory, [(0, 3 * PAGE)]), 0)
        await ask(process, WRITE, at(memory, [(4 * PAGE, 100)]), 3 * PAGE - 100)
        assert [(await process.ended()).status for _ in range(2)] == ["done"] * 2
        await process.sleep(2000)
        return await read(memory, [(0, 3 * PAGE)])

    async def owner(process, _):
        await process.sleep(8000)

    assert run(asker, owner, RECEPTION)[0] == world.content(2, SIZE)[: 3 * PAGE]


def test_a_fetch_whose_memory_is_registered_no_more_when_the_answer_comes_is_an_error():
    async def asker(process, memory):
        await ask(process, FETCH, at(memory, [(0, 3 * PAGE)]), 0)
        while state_of(process, "reading") == 0:
            await process.sleep(1)
        process._ports.work.regions[process.node, KEY % work_world.REGIONS]["key"] = 0
        status = (await process.ended()).status
        await process.sleep(3000)
        return status, state_of(process, "state"), await memory.read() == world.content(1, SIZE)

    async def owner(process, _):
        await process.sleep(8000)
        return work_world.troubles(process)

    found, heard = run(asker, owner, RECEPTION)
    assert found == ("not the port's memory", BROKEN, True)
    assert heard == [CONNECTION_LOST]


@pytest.mark.parametrize("after", [0, 30, 60, 100, 150, 200, 300])
def test_a_connection_that_ends_while_memory_is_fetched_or_written_leaves_nothing(after):
    contents = {}

    async def asker(process, memory):
        await ask(process, WRITE, at(memory, [(0, 2 * PAGE)]), 3 * PAGE)
        await ask(process, FETCH, at(memory, [(2 * PAGE, 3 * PAGE)]), 0)
        ended = [(await process.ended()).status for _ in range(2)]
        before = await memory.read()
        await process.sleep(5000)
        return ended, await memory.read() == before

    async def owner(process, memory):
        while state_of(process, "state") != CONNECTED:
            await process.sleep(1)
        await process.sleep(after)
        work_world.disconnect(process)
        await process.sleep(30)  # what the engine is at comes to its end
        contents["then"] = await memory.read()
        await process.sleep(5000)
        return await memory.read() == contents["then"]

    (ended, mine), theirs = run(asker, owner, RECEPTION)
    assert ended in (["flushed", "flushed"], ["done", "flushed"], ["done", "done"])
    assert (mine, theirs) == (True, True)


def test_a_fetch_from_a_node_that_dies_ends_so():
    async def asker(process, memory):
        await process.sleep(500)
        await ask(process, FETCH, at(memory, [(0, 100)]), 0)
        await process.post_gather(SEND, at(memory, [(0, 30)]))
        return [(await process.ended()).status for _ in range(2)], state_of(process, "reading")

    async def owner(process, _):
        await process.sleep(1e6)

    async def first(process):
        memory = await with_memory(process, PAGES, 1)
        await process.sleep(1000)
        connect(process, RECEPTION)
        return await asker(process, memory)

    cluster = cluster_of(transport=TRANSPORT, faults=Faults(seed=1, node_deaths={1: 1_540_000_000}))
    cluster.start(0, first)
    cluster.start(1, lambda process: _own(process, owner))
    assert cluster.run()[0] == (["peer dead", "flushed"], 0)


async def _own(process, owner):
    return await owner(process, await with_memory(process, PAGES, 2))
