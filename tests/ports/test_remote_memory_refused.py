"""Remote writes and fetches of memory that may not be used so, or of peers that go."""

import port_world as world
import pytest
import work_world
from remote_world import (
    PAGES,
    SIZE,
    TRANSPORT,
    ask,
    own_memory,
    run,
)
from work_world import KEY, PAGE, at, cluster_of, connect, state_of, with_memory

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
        return ended, state_of(process, "state"), work_world.async_errors(process)

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
        return said.status, same, state_of(process, "state"), work_world.async_errors(process)

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
        return same, state_of(process, "state"), work_world.async_errors(process)

    sent, heard = run(asker, owner, level)
    if level == UNRELIABLE:
        assert (sent, heard) == (("done", CONNECTED), (True, CONNECTED, [RECEIVES_EMPTY]))
    else:
        assert (sent, heard) == (("no receive posted", BROKEN), (True, BROKEN, [RECEIVES_EMPTY]))


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
        return work_world.async_errors(process)

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
        await process.post_gather(SEND, at(memory, [(0, 30)]), fenced=True)
        return [(await process.ended()).status for _ in range(2)], state_of(process, "reading")

    async def owner(process, _):
        await process.sleep(1e6)

    async def first(process):
        memory = await with_memory(process, PAGES, 1)
        await process.sleep(1000)
        connect(process, RECEPTION)
        return await asker(process, memory)

    cluster = cluster_of(transport=TRANSPORT, faults=Faults(seed=1, node_deaths={1: 1_540_000_000}))
    assert world.run_on_nodes(cluster, first, lambda process: own_memory(process, owner))[0] == (
        ["peer dead", "flushed"],
        0,
    )
