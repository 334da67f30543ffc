"""Sends that are refused and receives that no message fits: who learns what, and what goes on."""

import pytest
import work_world
from work_world import (
    KEY,
    PAGE,
    at,
    cluster_of,
    connect,
    digest,
    of,
    read,
    run_on_nodes,
    state_of,
    with_memory,
)

from nicscope.config.design import Transport, load_design, with_settings
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.interfaces.ways import BY_PROCESSOR
from nicscope.nic.ports.layout import (
    AS_ALL,
    BAD_DESCRIPTOR,
    BROKEN,
    CONNECTED,
    DELIVERY,
    FETCH,
    IDLE,
    MAY_WRITE,
    RECEPTION,
    REPLY,
    SEND,
    UNRELIABLE,
)
from nicscope.nic.ports.work_queues import (
    CONNECTION_LOST,
    POSTED_BADLY,
    RECEIVE_FAILED,
    RECEIVES_EMPTY,
)

APART = 5000  # bytes between two receives
TOO_MUCH = [(0, 5000), (0, 5001)]
BAD = [
    # what is posted, the key's change, state of the port -> how it ends
    pytest.param(SEND, [(0, 100)], 0, True, "flushed", id="without a connection"),
    pytest.param(REPLY, TOO_MUCH, 1, False, "bad descriptor", id="no such operation"),
    pytest.param(SEND, [(0, 10), (-PAGE, -5)], 1, False, "bad descriptor", id="no such length"),
    pytest.param(SEND, TOO_MUCH, 1, False, "not the port's memory", id="another key"),
    pytest.param(SEND, [(0, 1), (4090, 4103)], 0, False, "not the port's memory", id="past it"),
    pytest.param(FETCH, TOO_MUCH, 0, False, "too long", id="longer than a message"),
    pytest.param(FETCH, [(0, 10)], 0, False, "remote memory not permitted", id="no right"),
]


@pytest.mark.parametrize(("operation", "pieces", "other", "idle", "status"), BAD)
@pytest.mark.parametrize("reliable", [True, False])
def test_the_first_thing_wrong_with_a_send_says_how_it_ends(
    operation, pieces, other, idle, status, reliable
):
    async def sender(process):
        memory = await with_memory(process, 2, 1, longest=10_000)
        process._ports.table[process.node, process.port]["rights"] = MAY_WRITE
        await process.sleep(500)
        if not idle:
            connect(process)
        bad = [(address, length, KEY + other) for address, length, _ in at(memory, pieces)]
        requests = [await process.post_gather(operation, bad)]
        requests.append(await process.post_gather(SEND, at(memory, [(7, 9)])))
        ended = [await process.ended() for _ in requests]
        assert [each.cookie for each in ended] == requests
        state, told = state_of(process, "state"), work_world.async_errors(process)
        return [(each.status, each.length) for each in ended], state, told

    async def receiver(process):
        memory = await with_memory(process, 2)
        await process.post_receive(5, at(memory, [(0, 100)]))
        await process.sleep(3000)
        return [(await process.received())[:2] for _ in range(process.waiting())]

    cluster = cluster_of(transport=Transport(reliable=reliable))
    (ended, state, told), came = run_on_nodes(cluster, sender, receiver)

    if operation == FETCH and not reliable:
        status = "bad descriptor"  # before all that: nobody would learn that it is lost
    assert ended[0] == (status, 0)
    if idle:
        assert (ended[1], state, told, came) == (("flushed", 0), IDLE, [], [])
    elif reliable:
        assert (ended[1], state, told) == (("flushed", 0), BROKEN, [POSTED_BADLY])
        assert came == [(5, "flushed")]
    else:
        assert (ended[1], state, told, came) == (("done", 9), CONNECTED, [], [(5, "done")])


async def _post(process, memory, lengths):
    requests = []
    for number, length in enumerate(lengths):
        requests.append(
            await process.post_gather(SEND, at(memory, [(100 * number, length)]), immediate=number)
        )
    return requests


def fail(first, receives, *, reliable=False, undo=False, faults=None, **how):
    """Messages of ``first`` bytes each, to receives of these bytes; what the receiver has heard.

    ``undo``: the second receive's memory is registered no more when its message comes.
    """

    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(1000)
        connect(process, AS_ALL if reliable else UNRELIABLE)
        requests = await _post(process, memory, first)
        return [await process.ended() for _ in requests] if not reliable else []

    async def receiver(process):
        memory = await with_memory(process, 20)
        own = memory.address
        await work_world.register(process, KEY + 1, own + 19 * PAGE, PAGE)
        for number, length in enumerate(receives):
            pieces = at(memory, [(number * APART, length)])
            if undo and number == 1:
                pieces = [(own + 19 * PAGE, length, KEY + 1)]
            await process.post_receive(number, pieces)
        await process.sleep(300)
        if undo:
            process._ports.work.regions[process.node, (KEY + 1) % work_world.REGIONS]["key"] = 0
        await process.sleep(20_000)
        said = [await process.received() for _ in range(process.waiting())]
        contents = [
            digest(await read(memory, [(each.cookie * APART, each.length)])) for each in said
        ]
        if reliable and cluster.way in BY_PROCESSOR:
            assert cluster.simulation.machine.bus.ways.nics.tags["valid"][1].sum() == 0
        return said, contents, state_of(process, "state"), work_world.async_errors(process)

    cluster = cluster_of(transport=Transport(reliable=reliable), faults=faults, **how)
    ended, heard = run_on_nodes(cluster, sender, receiver)
    assert all(each.status == "done" for each in ended)
    return heard


def came(number, message, length):
    """A receive that has the message: and its content."""
    return (number, "done", SEND, length, message), digest(of(1, 4, [(100 * message, length)]))


def gone(number, status):
    return (number, status, SEND, 0, None), digest(b"")


def both(heard):
    return list(zip(heard[0], heard[1], strict=True))


@pytest.mark.parametrize("length", [4000, 50])
def test_a_message_longer_than_its_receive_ends_that_and_the_next_one_arrives(length):
    heard = fail([30, length, 40], [100, 49, 100])
    assert both(heard) == [came(0, 0, 30), gone(1, "too long"), came(2, 2, 40)]
    assert heard[2:] == (CONNECTED, [])


@pytest.mark.parametrize("length", [1000, 0])
def test_a_receive_in_memory_that_is_registered_no_more_takes_no_byte(length):
    heard = fail([30, length, 40], [100, 1000, 100], undo=True)
    middle = gone(1, "not the port's memory") if length else came(1, 1, 0)
    assert both(heard) == [came(0, 0, 30), middle, came(2, 2, 40)]
    assert heard[2:] == (CONNECTED, [])


@pytest.mark.parametrize("length", [4000, 0])
def test_a_message_without_a_receive_is_lost_and_its_process_learns_of_it(length):
    heard = fail([30, 40, length, length], [100, 100])
    assert both(heard) == [came(0, 0, 30), came(1, 1, 40)]
    assert heard[2:] == (CONNECTED, [RECEIVES_EMPTY, RECEIVES_EMPTY])


@pytest.mark.parametrize("way", [None, "pio-combined", "cni"])
def test_what_does_not_fit_breaks_a_reliable_connection(way):
    """And where messages wait on the NIC, they have no room there any more."""
    how = {"design": "utlb", "way": way} if way else {}
    heard = fail([30, 4000, 40], [100, 49, 100], reliable=True, **how)
    assert both(heard) == [came(0, 0, 30), gone(1, "too long"), gone(2, "flushed")]
    assert heard[2:] == (BROKEN, [RECEIVE_FAILED])


def test_a_missing_receive_breaks_a_reliable_connection():
    heard = fail([30, 4000, 40], [100], reliable=True)
    assert both(heard) == [came(0, 0, 30)]
    assert heard[2:] == (BROKEN, [RECEIVES_EMPTY])


@pytest.mark.parametrize("reliable", [True, False])
def test_a_receive_that_is_none_ends_at_once_and_those_before_it_keep_their_turn(reliable):
    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(1000)
        connect(process)
        await process.sleep(500)
        if not reliable:
            await _post(process, memory, [3000, 20])

    async def receiver(process):
        memory = await with_memory(process, 4)
        await process.post_receive(0, at(memory, [(0, 5000)]))
        await process.post_receive(1, at(memory, [(1500, 100)]), status=BAD_DESCRIPTOR)
        first = await process.received()
        await process.post_receive(2, at(memory, [(3000, 100)]))
        await process.sleep(1200)
        await process.post_receive(3, [], status=BAD_DESCRIPTOR)
        rest = [await process.received() for _ in range(3)]
        return [each[:2] for each in [first, *rest]], state_of(process, "state")

    cluster = cluster_of(transport=Transport(reliable=reliable))
    _, (heard, state) = run_on_nodes(cluster, sender, receiver)

    bad = "bad descriptor"
    assert state == (BROKEN if reliable else CONNECTED)
    rest = "flushed" if reliable else "done"
    assert heard == [(1, bad), (3, bad), (0, rest), (2, rest)]


def test_a_receive_whose_message_loses_a_part_waits_for_the_next_one():
    """Whatever is lost or damaged, what arrives is whole, in order, and no receive is passed by."""
    for seed in range(1, 5):
        lengths = [(1 + number * 977) % 5000 for number in range(14)]
        wrong = Faults(seed=seed, loss=0.06, corruption=0.06)
        said, contents, state, told = fail(lengths, [5000] * 14, faults=wrong)

        messages = [each.immediate for each in said]
        assert messages == sorted(set(messages))
        assert 0 < len(messages) < 14
        assert [each.length for each in said] == [lengths[message] for message in messages]
        assert sorted(each.cookie for each in said) == list(range(len(said)))
        assert (state, told) == (CONNECTED, [])
        assert contents == [came(0, each.immediate, each.length)[1] for each in said]


@pytest.mark.parametrize(
    ("level", "too_long", "missing"),
    [
        (UNRELIABLE, "done", "done"),
        (DELIVERY, "done", "no receive posted"),
        (RECEPTION, "remote receive failed", "no receive posted"),
    ],
)
@pytest.mark.parametrize("length", [4000, 150, 0])
def test_the_level_says_what_a_sender_learns_of_a_receive_that_failed(
    level, too_long, missing, length
):
    async def sender(process):
        memory = await with_memory(process, 4, 1)
        await process.sleep(1000)
        connect(process, level)
        await _post(process, memory, [10, length])
        return [(await process.ended()).status for _ in range(2)], work_world.async_errors(process)

    def receiver(room):
        async def program(process):
            memory = await with_memory(process, 4)
            for number in range(1 if room is None else 2):
                await process.post_receive(number, at(memory, [(0, 100 if number == 0 else room)]))
            await process.sleep(20_000)
            return work_world.async_errors(process)

        return program

    lost = [] if level == UNRELIABLE else [CONNECTION_LOST]
    for room, status, trouble in ((None, missing, RECEIVES_EMPTY), (100, too_long, RECEIVE_FAILED)):
        cluster = cluster_of()
        (ended, here), there = run_on_nodes(cluster, sender, receiver(room))

        fits = room is not None and length <= room
        told = [trouble] if trouble == RECEIVES_EMPTY or (not fits and level != UNRELIABLE) else []
        assert ended == ["done", "done" if fits else status]
        assert there == told
        assert here == (lost if told else [])


@pytest.mark.parametrize(
    ("design", "parts"),
    [
        ("vmmc-interrupt", []),
        ("vmmc-interrupt", ["entries=1"]),
        ("unet-mm-pca200", []),
        ("mini", ["entries=8", "ways=1", "line=1"]),
    ],
)
def test_a_payload_for_more_pages_than_the_host_has_frames_is_given_up(design, parts):
    """Each page that is brought drives another out, and the packet finds no more than before."""

    async def sender(process):
        memory = await with_memory(process, 1, 1)
        await process.sleep(200_000)
        connect(process)
        await process.post_gather(SEND, at(memory, [(0, 24)]))
        return (await process.ended()).status

    async def receiver(process):
        memory = await with_memory(process, 8, 2)
        pieces = [(PAGE * page - 3, 6) for page in (1, 3, 5, 7)]
        await process.post_receive(0, at(memory, pieces))
        await process.allocate(6 * PAGE).write(b"x" * 6 * PAGE)
        return (await process.received()).status

    cluster = cluster_of(
        with_settings(load_design(design), parts),
        transport=Transport(time_out_ps=20_000_000_000, most_retries=5),
        host=HostSize(frames=8),
    )
    assert run_on_nodes(cluster, sender, receiver) == ["remote receive failed", "no room"]
    assert work_world.uses_left(cluster) == [0, 0]
