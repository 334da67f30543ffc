"""Connections end while messages are on their way, on networks that lose, double and damage."""

import random

import msgspec
import port_world as world
import pytest
import work_world
from work_world import (
    KEY,
    PAGE,
    at,
    cluster_of,
    connect,
    digest,
    disconnect,
    of,
    read,
    state_of,
    with_memory,
)

from nicscope.config.design import Transport
from nicscope.drivers.simulate.ports.build import Faults
from nicscope.errors import SimulationError
from nicscope.nic.ports.layout import (
    BROKEN,
    CONNECTED,
    DELIVERY,
    IDLE,
    RECEPTION,
    SEND,
    UNRELIABLE,
)
from nicscope.nic.ports.work_queues import CONNECTION_LOST, RECEIVE_FAILED, RECEIVES_EMPTY

LEVELS = [UNRELIABLE, DELIVERY, RECEPTION]
TRANSPORT = Transport(time_out_ps=200_000_000, most_retries=8)
ROUNDS = 6
SIZE = msgspec.structs.replace(work_world.SIZE, connections=ROUNDS + 1)
ROOM = 1000  # bytes of a receive
MESSAGES = 12


class Meeting:
    """Where both processes wait for each other."""

    def __init__(self):
        self.came = [0, 0]

    async def wait(self, process):
        self.came[process.node] += 1
        while self.came[1 - process.node] < self.came[process.node]:
            await process.sleep(20)


def live_through(level, seed, faults, design="vmmc-static"):
    """Connect, send both ways, end the connection at some time, and again; what each round told."""
    meeting = Meeting()

    async def program(process):
        rng = random.Random(2 * seed + process.node)
        memory = await with_memory(process, 4, process.node)
        into = process.allocate(4 * PAGE)
        await work_world.register(process, KEY + 1, into.address, len(into))
        told = []
        for number in range(ROUNDS):
            for receive in range(MESSAGES):
                piece = (into.address + receive * ROOM, ROOM, KEY + 1)
                await process.post_receive(receive, [piece])
            await meeting.wait(process)
            if process.node == 0:
                connect(process, level, unit=400)
            await process.sleep(30)
            await _send_until_it_ends(process, memory, rng, number % 3)
            ended = [await process.ended() for _ in range(MESSAGES)]
            received = [await process.received() for _ in range(MESSAGES)]
            contents = [
                digest(await read(into, [(each.cookie * ROOM, each.length)])) for each in received
            ]
            await meeting.wait(process)  # with what is on its way still
            told.append((ended, received, contents))
        return told

    cluster = cluster_of(design, transport=TRANSPORT, faults=faults, size=SIZE)
    both = world.run_on_nodes(cluster, program, program)
    assert world.stale(cluster) == 0
    assert work_world.uses_left(cluster) == [0, 0]
    ports = cluster.simulation.machine.ports
    assert int(ports.pool[0]["kept"]) == 0
    return both


async def _send_until_it_ends(process, memory, rng, breaker):
    """Send messages; node ``breaker`` ends the connection at some time, 2: both do."""
    breaks_at = rng.randrange(MESSAGES + 1) if breaker in (process.node, 2) else -1
    for number in range(MESSAGES):
        if number == breaks_at:
            disconnect(process)
        pieces = at(memory, [(number * 50, 1 + number * 83)])
        await process.post_gather(SEND, pieces, immediate=number)
        await process.sleep(rng.choice([0.1, 30, 200]))
    if breaks_at < 0:
        while state_of(process, "state") == CONNECTED:
            await process.sleep(50)
        assert state_of(process, "state") == BROKEN
    disconnect(process)
    assert state_of(process, "state") == IDLE


def check_round(level, sends, receives, contents, sender):
    """What one end has sent in a round against what the other has received."""
    assert [each.cookie for each in sends] == sorted(each.cookie for each in sends)
    statuses = [each.status for each in sends]
    done = statuses.count("done")
    assert set(statuses) <= {"done", "flushed"}
    if level != UNRELIABLE:
        assert statuses == ["done"] * done + ["flushed"] * (MESSAGES - done)
    came = [each for each in receives if each.status == "done"]
    assert [each.status for each in receives[len(came) :]] == ["flushed"] * (MESSAGES - len(came))
    assert [each.cookie for each in receives] == list(range(MESSAGES))
    messages = [each.immediate for each in came]
    assert messages == sorted(set(messages))
    if level != UNRELIABLE:
        assert messages == list(range(len(came)))
    if level == RECEPTION:
        assert done <= len(came)
    for message, each, content in zip(messages, came, contents, strict=False):
        assert each.length == 1 + message * 83
        assert content == digest(of(sender, 4, [(message * 50, each.length)]))
    return len(came)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("faulty", [False, True])
def test_whatever_is_posted_ends_once_and_what_arrives_is_of_its_own_connection(
    level, seed, faulty
):
    wrong = Faults(seed=seed, loss=0.08, duplication=0.05, reordering=0.05, corruption=0.03)
    both = live_through(level, seed, wrong if faulty else Faults())
    came = 0
    for number in range(ROUNDS):
        for node in (0, 1):
            ended = both[node][number][0]
            _, received, contents = both[1 - node][number]
            came += check_round(level, ended, received, contents, node)
    assert 0 < came < 2 * ROUNDS * MESSAGES


def lose(receives, lengths, faults=None, level=RECEPTION):
    """Messages for receives that cannot take one of them; what each end has heard."""

    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(1500)
        connect(process, level, unit=1000)
        for length in lengths:
            await process.post_gather(SEND, at(memory, [(0, length)]))
        ended = [(await process.ended()).status for _ in lengths]
        await process.sleep(5000)
        return ended, state_of(process, "state"), work_world.async_errors(process)

    async def receiver(process):
        memory = await with_memory(process, 4)
        for number, length in enumerate(receives):
            await process.post_receive(number, at(memory, [(0, length)]))
        heard = [(await process.received()).status for _ in receives]
        while state_of(process, "state") == CONNECTED:
            await process.sleep(100)
        return heard, state_of(process, "state"), work_world.async_errors(process)

    cluster = cluster_of(transport=TRANSPORT, faults=faults)
    found = world.run_on_nodes(cluster, sender, receiver)
    assert work_world.uses_left(cluster) == [0, 0]
    return found


LOSSES = [None, *(Faults(seed=seed, loss=0.2) for seed in range(1, 6))]


@pytest.mark.parametrize("faults", LOSSES)
@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
@pytest.mark.parametrize("length", [2500, 0])
def test_who_finds_no_receive_learns_that_and_those_behind_are_flushed(faults, level, length):
    sent, heard = lose([3000, 3000], [2500, 10, length, 20, 30], faults, level)
    ended = ["done", "done", "no receive posted", "flushed", "flushed"]
    assert sent == (ended, BROKEN, [CONNECTION_LOST])
    assert heard == (["done", "done"], BROKEN, [RECEIVES_EMPTY])


@pytest.mark.parametrize("faults", LOSSES)
@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
def test_a_message_that_does_not_fit_is_done_when_delivered_and_failed_when_not_received(
    faults, level
):
    sent, heard = lose([3000, 9, 9], [2500, 10, 1], faults, level)
    status = "done" if level == DELIVERY else "remote receive failed"
    assert sent == (["done", status, "flushed"], BROKEN, [CONNECTION_LOST])
    assert heard == (["done", "too long", "flushed"], BROKEN, [RECEIVE_FAILED])


@pytest.mark.parametrize("level", [DELIVERY, RECEPTION])
def test_what_is_sent_to_a_node_that_dies_ends_so(level):
    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(500)
        connect(process, level)
        requests = [await process.post_gather(SEND, at(memory, [(0, 3 * PAGE)])) for _ in range(12)]
        ended = [(await process.ended()).status for _ in requests]
        requests = [await process.post_gather(SEND, at(memory, [(0, 10)]))]
        ended.append((await process.ended()).status)
        return ended, state_of(process, "state"), work_world.async_errors(process)

    async def receiver(process):
        memory = await with_memory(process, 4)
        for number in range(16):
            await process.post_receive(number, at(memory, [(0, 3 * PAGE)]))
        await process.sleep(1e6)

    faults = Faults(seed=1, node_deaths={1: 1_500_000_000})
    cluster = cluster_of(transport=TRANSPORT, faults=faults)
    (ended, state, async_errors), _ = world.run_on_nodes(cluster, sender, receiver)
    done, dead = ended.count("done"), ended.count("peer dead")
    assert ended == ["done"] * done + ["peer dead"] * dead + ["flushed"] * (13 - done - dead)
    assert done > 0
    assert dead > 0
    assert ended[-1] == "flushed"
    assert (state, async_errors) == (BROKEN, [CONNECTION_LOST])
    assert work_world.uses_left(cluster)[0] == 0


@pytest.mark.parametrize("level", [UNRELIABLE, RECEPTION])
def test_sends_are_told_of_in_the_order_in_which_they_were_posted(level):
    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(500)
        connect(process, level)
        requests = [await process.post_gather(SEND, at(memory, [(0, 3 * PAGE)]))]
        bad = [(memory.address, 10, KEY + 1)]
        requests += [await process.post_gather(SEND, bad) for _ in range(3)]
        requests.append(await process.post_gather(SEND, at(memory, [(0, 1)])))
        ended = [await process.ended() for _ in requests]
        assert [each.cookie for each in ended] == requests
        return [each.status for each in ended]

    async def receiver(process):
        await with_memory(process, 4)

    cluster = cluster_of(transport=TRANSPORT)
    cluster.start(0, sender)
    cluster.start(1, receiver)
    bad = "not the port's memory"
    ended = cluster.run()[0]
    if level == UNRELIABLE:
        assert ended == ["done", bad, bad, bad, "done"]
    else:
        assert ended == ["flushed", bad, "flushed", "flushed", "flushed"]


def test_a_port_that_is_connected_gets_no_second_connection():
    async def program(process):
        await with_memory(process, 1)
        await process.sleep(100)
        if process.node == 0:
            connect(process)
            with pytest.raises(SimulationError, match="end that first"):
                connect(process)

    cluster = cluster_of()
    world.run_on_nodes(cluster, program, program)
