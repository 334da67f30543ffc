"""Words of a peer's memory that are read and changed at one stroke, against the twin's orders."""

import msgspec
import pytest
import work_world as work
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.ports.connections import connect_ports
from nicscope.nic.ports.layout import (
    COMPARE_SWAP,
    DELIVERY,
    FETCH_ADD,
    MAY_ATOMIC,
    MAY_WRITE,
    RECEPTION,
    SEND,
    UNRELIABLE,
    WRITE,
)
from oracle.atomics import WORDS, Exchange, can_follow
from suite import share

QUICK = Transport(time_out_ps=200_000_000, most_retries=40)
WRONG = Faults(seed=7, loss=0.15, duplication=0.15, reordering=0.1, corruption=0.1)
SIZE = msgspec.structs.replace(work.SIZE, connections=8)
OPERATIONS = {"add": FETCH_ADD, "swap": COMPARE_SWAP}
RESULTS = 512  # where the asker has the words that it found
PLACE = 16  # of the word in its owner's memory


def signed(word):
    """The word as 64 bits with a sign."""
    return (word + WORDS // 2) % WORDS - WORDS // 2


async def offer(process, ports, word, rights=MAY_ATOMIC):
    """Have a word that the peers of these ports may change."""
    memory = process.allocate(work.PAGE)
    await memory.write(b"\7" * PLACE + word.to_bytes(8, "little") + b"\7" * 64)
    await work.register(process, work.KEY, memory.address, len(memory))
    regions = process._ports.work.regions
    regions[process.node, work.KEY % work.REGIONS]["rights"] = rights | MAY_WRITE
    for port in ports:
        record = process._ports.table[process.node, port]
        record["takes"], record["domain"], record["longest"] = 1, work.DOMAIN, 1 << 16
        record["rights"] = rights | MAY_WRITE
    process.cluster.offered = memory.address
    return memory


async def ask(process, memory, number, kind, operand, swap=0, place=PLACE, length=8):
    """Post one, whose answer goes to the place of that number."""
    pieces = [(memory.address + RESULTS + 8 * number, length, work.KEY + process.port)]
    await process.post_gather(
        OPERATIONS[kind],
        pieces,
        name=work.KEY,
        offset=process.cluster.offered + place,
        immediate=signed(operand),
        swap=signed(swap),
    )


async def results(memory, many):
    """What so many of them have found."""
    found = await memory.part(RESULTS, 8 * many).read()
    return [int.from_bytes(found[8 * each :][:8], "little") for each in range(many)]


def contend(plans, first, nodes=2, level=RECEPTION, **how):
    """Programs change one word at once; what each has found, and what the word is at last.

    The first of them is on the node of the word itself.
    """
    cluster = work.cluster_of(
        how.pop("design", "vmmc-static"), nodes=nodes, ports=2 + 2 * len(plans), size=SIZE, **how
    )
    over = []

    def asker(number, plan):
        node = 0 if number == 0 else 1

        async def program(process):
            work.have_queues(process)
            memory = process.allocate(work.PAGE)
            key = work.KEY + process.port
            await work.register(process, key, memory.address, len(memory))
            await process.sleep(2000)
            ends = (node, process.port), (0, 3 + len(plans) + number)
            connect_ports(process._ports, *ends, level, work.UNIT)
            for place, one in enumerate(plan):
                await ask(process, memory, place, *one)
            assert [(await process.ended()).status for _ in plan] == ["done"] * len(plan)
            over.append(True)
            return await results(memory, len(plan))

        return program

    async def owner(process):
        ports = range(3 + len(plans), 3 + 2 * len(plans))
        for port in ports:
            process._map_port(port)
        memory = await offer(process, ports, first)
        while len(over) < len(plans):
            await process.sleep(1000)
        content = await memory.read()
        assert content[:PLACE] == b"\7" * PLACE
        assert content[PLACE + 8 :][:64] == b"\7" * 64
        return int.from_bytes(content[PLACE:][:8], "little")

    cluster.start(0, owner)
    for number, plan in enumerate(plans):
        cluster.start(0 if number == 0 else 1, asker(number, plan))
    last, *found = cluster.run()
    assert work.world.stale(cluster) == 0
    return [
        tuple(Exchange(*(*one, 0)[:3], word) for one, word in zip(plan, words, strict=True))
        for plan, words in zip(plans, found, strict=True)
    ], last


words = st.one_of(st.integers(0, 3), st.sampled_from([2**63, WORDS - 1, 2**32]))
one = st.one_of(st.tuples(st.just("add"), words), st.tuples(st.just("swap"), words, words))
plans_of = st.lists(st.lists(one, min_size=1, max_size=4), min_size=1, max_size=3)


@share(1.5)
@given(plans=plans_of, first=words, wrong=st.booleans(), seed=st.integers(0, 99))
def test_what_they_found_is_what_some_order_of_them_leaves(plans, first, wrong, seed):
    faults = msgspec.structs.replace(WRONG, seed=seed) if wrong else Faults()

    found, last = contend(plans, first, faults=faults, transport=QUICK)

    assert can_follow(first, last, tuple(found)), (found, last)


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
@pytest.mark.parametrize("design", ["vmmc-static", "vmmc-interrupt", "utlb", "unet-mm-pca200"])
def test_each_of_many_additions_counts_once_whatever_the_network_does(design, level):
    plans = [[("add", 1)] * 8, [("add", 1000)] * 8, [("add", 10**6)] * 8]

    found, last = contend(
        plans, WORDS - 5, design=design, level=level, faults=WRONG, transport=QUICK
    )

    assert last == (WORDS - 5 + 8 * 1_001_001) % WORDS
    assert can_follow(WORDS - 5, last, tuple(found))


def test_the_twin_refuses_what_no_order_leaves():
    add = Exchange("add", 1, 0, 0)
    assert can_follow(0, 2, ((add,), (add._replace(found=1),)))
    assert not can_follow(0, 1, ((add,), (add,)))
    assert not can_follow(0, 2, ((add._replace(found=1), add),))


def refused(kind="add", rights=MAY_ATOMIC, way=None, level=RECEPTION, **how):
    """How one that may not be done ends, how the next does, and what the word is then."""
    cluster = work.cluster_of("utlb" if way else "vmmc-static", way)

    async def asker(process):
        memory = await work.with_memory(process, 2)
        process._ports.work.regions[0, (work.KEY + 1) % work.REGIONS] = process._ports.work.regions[
            0, work.KEY % work.REGIONS
        ]
        process._ports.work.regions[0, (work.KEY + 1) % work.REGIONS]["key"] = work.KEY + 1
        await process.sleep(2000)
        work.connect(process, level)
        await ask(process, memory, 0, kind, 1, 2, **how)
        await process.post_gather(SEND, [])
        return [(await process.ended()).status for _ in range(2)]

    async def owner(process):
        memory = await offer(process, [1], 5, rights)
        await process.post_receive(0, [])
        await process.sleep(8000)
        return (await memory.part(PLACE, 8).read())[0], work.async_errors(process)

    return work.run_on_nodes(cluster, asker, owner)


def test_without_the_right_nothing_is_changed_and_the_connection_ends():
    ended, (word, async_errors) = refused(rights=MAY_WRITE)
    assert ended == ["remote memory not permitted", "flushed"]
    assert word == 5
    assert async_errors == [7]


@pytest.mark.parametrize("place", [1, 4, 20])
def test_a_word_that_is_not_aligned_is_an_invalid_request(place):
    ended, (word, async_errors) = refused(place=place)
    assert ended == ["remote request invalid", "flushed"]
    assert word == 5
    assert async_errors == [12]


@pytest.mark.parametrize("length", [0, 4, 16])
def test_what_was_there_fits_a_word_alone(length):
    ended, (word, _) = refused(length=length)
    assert ended == ["too long", "flushed"]
    assert word == 5


def test_an_unreliable_connection_takes_none():
    ended, (word, _) = refused(level=UNRELIABLE)
    assert ended == ["bad descriptor", "done"]
    assert word == 5


@pytest.mark.parametrize("way", ["edt", "dma", "pio"])
def test_a_nic_beside_caches_takes_none(way):
    ended, (word, _) = refused(way=way)
    assert ended[0] == "bad descriptor"
    assert word == 5


def test_one_sees_what_was_written_before_it_by_the_same_connection():
    cluster = work.cluster_of()

    async def asker(process):
        memory = await work.with_memory(process, 2)
        process._ports.work.regions[0, (work.KEY + 1) % work.REGIONS] = process._ports.work.regions[
            0, work.KEY % work.REGIONS
        ]
        process._ports.work.regions[0, (work.KEY + 1) % work.REGIONS]["key"] = work.KEY + 1
        await memory.write((77).to_bytes(8, "little"))
        await process.sleep(2000)
        work.connect(process, RECEPTION)
        place = process.cluster.offered + PLACE
        pieces = work.at(memory, [(0, 8)])
        await process.post_gather(WRITE, pieces, name=work.KEY, offset=place)
        await ask(process, memory, 0, "swap", 77, 78)
        await ask(process, memory, 1, "swap", 77, 79)
        assert [(await process.ended()).status for _ in range(3)] == ["done"] * 3
        return await results(memory, 2)

    async def owner(process):
        memory = await offer(process, [1], 5)
        await process.sleep(8000)
        return int.from_bytes(await memory.part(PLACE, 8).read(), "little")

    assert work.run_on_nodes(cluster, asker, owner) == [[77, 78], 78]
