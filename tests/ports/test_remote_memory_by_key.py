"""Remote writes and fetches of connected ports: memory of the peer, named by key and address."""

import random

import port_world as world
import pytest
import work_world
from remote_world import (
    FAULTS,
    SIZE,
    ask,
    changed,
    run,
    stretches,
    wait_for,
)
from work_world import PAGE, at, digest, read, state_of

from nicscope.config.design import Way
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.interfaces.ways import BY_PROCESSOR
from nicscope.nic.ports.layout import (
    DELIVERY,
    FETCH,
    RECEPTION,
    SEND,
    UNRELIABLE,
    WRITE,
)


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
    """Random writes and fetches, all fenced, have the effect of one after the other."""
    operations = random_operations(seed)
    over = []

    async def asker(process, memory):
        for operation, pieces, offset in operations:
            await ask(process, operation, at(memory, pieces), offset, fenced=True)
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


@pytest.mark.parametrize(
    "way",
    [  # by the processor, word by word: long; tests/ports/test_receives.py has messages go so
        pytest.param(way.value, marks=pytest.mark.long if way in BY_PROCESSOR else ())
        for way in Way
        if way != Way.PCI
    ],
)
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


@pytest.mark.parametrize("fenced", [True, False])
def test_what_is_posted_behind_a_fetch_waits_for_its_answer_where_it_asks_to(fenced):
    """The write behind it changes the last of what it reads."""

    async def asker(process, memory):
        await ask(process, FETCH, at(memory, [(0, 3 * PAGE)]), 0)
        await ask(process, WRITE, at(memory, [(4 * PAGE, 100)]), 3 * PAGE - 100, fenced=fenced)
        assert [(await process.ended()).status for _ in range(2)] == ["done"] * 2
        await process.sleep(2000)
        return await read(memory, [(0, 3 * PAGE)])

    async def owner(process, _):
        await process.sleep(8000)

    found = run(asker, owner, RECEPTION)[0]
    before = world.content(2, SIZE)[: 3 * PAGE]
    after = before[:-100] + world.content(1, SIZE)[4 * PAGE : 4 * PAGE + 100]
    assert found == (before if fenced else after)


@pytest.mark.parametrize("faults", [None, FAULTS])
def test_fetches_wait_for_their_answers_side_by_side_and_end_in_their_order(faults):
    """Each asks before the one before it has its answer; a send behind them does not wait."""

    async def asker(process, memory):
        for number in range(5):
            await ask(process, FETCH, at(memory, [(number * PAGE, PAGE)]), (4 - number) * PAGE)
        await process.post_gather(SEND, at(memory, [(5 * PAGE, 30)]))
        most = 0
        while state_of(process, "reported") < 6:
            most = max(most, state_of(process, "reading"))
            await process.sleep(1)
        ended = [(await process.ended())[:3] for _ in range(6)]
        return most, ended, await read(memory, [(0, 5 * PAGE)])

    async def owner(process, memory):
        await process.post_receive(0, at(memory, [(5 * PAGE, 50)]))
        await process.sleep(20_000)

    most, ended, found = run(asker, owner, RECEPTION, faults=faults)[0]
    there = world.content(2, SIZE)
    assert most == 5
    assert ended == [(each, "done", FETCH if each < 5 else SEND) for each in range(6)]
    assert found == b"".join(there[(4 - each) * PAGE :][:PAGE] for each in range(5))
