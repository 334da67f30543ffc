"""Datagrams between ports without peers, against what the twin says may come."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec
import port_world as world
import pytest
import work_world as work
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.ports.connections import (
    DatagramStreams,
    end_connection,
    open_datagrams,
)
from nicscope.errors import SimulationError
from nicscope.kernel.entry import bound
from nicscope.nic.ports.layout import FETCH, SEND, STATUS_NAMES, WRITE
from oracle.datagrams import HEADER, Datagram, Had, is_part, wished
from suite import share

QUICK = Transport(time_out_ps=200_000_000, most_retries=10)
SIZE = msgspec.structs.replace(work.SIZE, connections=12)
MTU = 2048
QKEY = 0x1111
PORTS = 2  # of a node
RECEIVES, ROOM = 12, 2200
BLANK = b"\xaa" * ROOM
SENT_FROM, APART = RECEIVES * ROOM, 3000  # where messages are sent from
PAGES = 16


class Came(NamedTuple):
    """A receive that was filled."""

    cookie: int
    status: str
    length: int
    node: int
    port: int


class Process(work.Process):
    """A process that learns whence what it receives has come."""

    def _received(self, record):
        _, _, _, _, node, cookie, length, _, status, _, port = record
        return Came(cookie, STATUS_NAMES[status], length, node, port)


def cluster_of(design="vmmc-static", **how):
    """Nodes with two such ports each."""
    cluster = work.cluster_of(design, ports=PORTS, size=how.pop("size", SIZE), **how)
    cluster.process_type = Process
    cluster.ways = None
    return cluster


async def open_port(process, qkey=QKEY, unit=MTU):
    """Memory that is registered, of a process whose port sends datagrams."""
    work.have_queues(process)
    open_datagrams(process._ports, process.node, process.port, qkey, unit)
    memory = process.allocate(PAGES * work.PAGE)
    await work.register(process, key_of(process), memory.address, len(memory))
    if process.cluster.ways is None:
        process.cluster.ways = DatagramStreams(process._ports)
    return memory


def key_of(process):
    """Of its memory."""
    return work.KEY + process.port


async def have_receives(process, memory, many=RECEIVES, room=ROOM):
    """Receives of two pieces each, the first of which ends within the header."""
    await memory.part(0, RECEIVES * ROOM).write(BLANK * RECEIVES)
    for cookie in range(many):
        at = memory.address + cookie * ROOM
        pieces = [(at, 30, key_of(process)), (at + 30, room - 30, key_of(process))]
        await process.post_receive(cookie, pieces)


async def all_had(process, memory):
    """What has come, all at once."""
    had = []
    while process.waiting():
        one = await process.received()
        assert one.status == "done"
        found = await memory.part(ROOM * one.cookie, ROOM).read()
        had.append(Had(one.node, one.port, one.length, found))
    return had


def cut(length, cuts, begin):
    """Pieces of so many bytes in all, which lie apart from ``begin`` on."""
    ends = sorted({min(each, length) for each in cuts} | {length})
    pieces, place = [], begin
    for first, end in itertools.pairwise([0, *ends]):
        pieces.append((place, end - first))
        place += end - first + 13
    return pieces


async def send(process, memory, one, pieces):
    """Write what the datagram says into pieces of memory, and post it."""
    rest = one.content
    for offset, length in pieces:
        if length:
            await memory.part(offset, length).write(rest[:length])
        rest = rest[length:]
    assert not rest
    said = [(memory.address + at, length, key_of(process)) for at, length in pieces]
    way = process.cluster.ways.between(process.node, one.to[0])
    await process.post_gather(SEND, said, name=one.to[1], offset=way, swap=one.qkey)


def places_of(nodes):
    """Each port: its node, and its number there."""
    return [(node, port) for node in range(nodes) for port in range(1, PORTS + 1)]


def exchange(plans, nodes=2, qkeys=None, receives=RECEIVES, design="vmmc-static", **how):
    """Each port sends what its plan says: to whom, how long, cut where, with which key.

    How the sends of each ended, what each has had, all that was sent, and the ports' keys.
    """
    cluster = cluster_of(design, nodes=nodes, **how)
    keys = dict.fromkeys(places_of(nodes), QKEY) | (qkeys or {})
    numbers = itertools.count(1)
    sent = {
        place: [
            (Datagram(*place, to, qkey, world.content(next(numbers), MTU)[:length]), cuts)
            for to, length, cuts, qkey in plan
        ]
        for place, plan in zip(places_of(nodes), plans, strict=True)
    }

    async def program(process):
        me = process.node, process.port
        memory = await open_port(process, keys[me])
        await have_receives(process, memory, receives)
        await process.sleep(6000)
        for number, (one, cuts) in enumerate(sent[me]):
            pieces = cut(len(one.content), cuts, SENT_FROM + number * APART)
            await send(process, memory, one, pieces)
        ended = [(await process.ended()).status for _ in sent[me]]
        await process.sleep(20_000)
        return ended, await all_had(process, memory)

    for node, _ in places_of(nodes):
        cluster.start(node, program)
    found = cluster.run()
    assert world.stale(cluster) == 0
    every = [one for place in places_of(nodes) for one, _ in sent[place]]
    return [ended for ended, _ in found], [had for _, had in found], every, keys


def to_any(nodes):
    """Datagrams that a plan has: mostly with the key of their port."""
    return st.tuples(
        st.sampled_from(places_of(nodes)),
        st.sampled_from([0, 1, 40, 700, MTU]),
        st.lists(st.integers(0, MTU), max_size=3),
        st.sampled_from([QKEY, QKEY, QKEY, QKEY + 1]),
    )


@share(0.4)
@given(data=st.data(), nodes=st.sampled_from([1, 2, 3]))
def test_where_nothing_goes_wrong_each_comes_once_to_the_port_whose_key_it_shows(data, nodes):
    # Three of each port: no port gets more than there are receives.
    most = RECEIVES // (PORTS * nodes)
    plan = st.lists(to_any(nodes), max_size=min(3, most))
    plans = data.draw(st.lists(plan, min_size=PORTS * nodes, max_size=PORTS * nodes))

    ended, had, sent, keys = exchange(plans, nodes)

    assert ended == [["done"] * len(plan) for plan in plans]
    for place, mine in zip(places_of(nodes), had, strict=True):
        all_of_them = wished(sent, keys, place, BLANK)
        assert len(mine) == len(all_of_them)
        assert is_part(mine, all_of_them)


@share(0.3)
@given(data=st.data(), seed=st.integers(0, 99))
def test_over_a_bad_network_what_comes_was_sent_comes_once_and_in_order(data, seed):
    plan = st.lists(to_any(2), max_size=3)
    plans = data.draw(st.lists(plan, min_size=4, max_size=4))
    wrong = Faults(seed=seed, loss=0.2, duplication=0.2, reordering=0.2, corruption=0.2)

    ended, had, sent, keys = exchange(plans, faults=wrong, transport=QUICK)

    assert ended == [["done"] * len(plan) for plan in plans]
    for place, mine in zip(places_of(2), had, strict=True):
        # Behind its end a receive may have what came of one that was lost half-way.
        come = [one._replace(content=one.content[: one.length]) for one in mine]
        whole = wished(sent, keys, place, BLANK)
        assert is_part(come, [one._replace(content=one.content[: one.length]) for one in whole])


def busy(many=3, length=MTU):
    """All ports send to one, each message in four pieces."""
    plan = [((0, 1), length, [100, 900, 1300], QKEY)] * many
    return [plan] * 4


@pytest.mark.parametrize("design", ["vmmc-static", "vmmc-interrupt", "utlb", "unet-mm-pca200"])
def test_messages_of_many_senders_do_not_break_each_other(design):
    ended, had, sent, keys = exchange(busy(), design=design)

    assert ended == [["done"] * 3] * 4
    assert len(had[0]) == 12
    assert is_part(had[0], wished(sent, keys, (0, 1), BLANK))


def test_a_bad_network_loses_some_of_them_and_spoils_none():
    lost = Faults(seed=4, loss=0.1, corruption=0.1)

    ended, had, sent, keys = exchange(busy(), faults=lost, transport=QUICK)

    assert ended == [["done"] * 3] * 4
    assert 0 < len(had[0]) < 12
    assert is_part(had[0], wished(sent, keys, (0, 1), BLANK))


def test_what_finds_no_receive_is_dropped_in_silence():
    ended, had, _, _ = exchange(busy(), receives=5)

    assert ended == [["done"] * 3] * 4
    assert len(had[0]) == 5


def one_way(asked, room=ROOM, **how):
    """How one descriptor ends, and what of receives of ``room`` bytes ends at the other side."""
    cluster = cluster_of(**how)

    async def sender(process):
        memory = await open_port(process)
        await process.sleep(3000)
        way = process.cluster.ways.between(0, 1)
        operation, length, offset = asked(way)
        pieces = [(memory.address, length, key_of(process))]
        await process.post_gather(operation, pieces, name=1, offset=offset, swap=QKEY)
        status = (await process.ended()).status
        await process.post_gather(SEND, pieces[:0], name=1, offset=way, swap=QKEY)
        assert (await process.ended()).status == "done"
        return status

    async def receiver(process):
        memory = await open_port(process)
        await have_receives(process, memory, 2, room)
        await process.sleep(8000)
        return [
            (one.status, one.length)
            for one in [await process.received() for _ in range(process.waiting())]
        ]

    return world.run_on_nodes(cluster, sender, receiver)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (lambda way: (SEND, MTU + 1, way), "too long"),
        (lambda way: (WRITE, 8, way), "bad descriptor"),
        (lambda way: (FETCH, 8, way), "bad descriptor"),
        (lambda _: (SEND, 8, 1), "bad descriptor"),
        (lambda _: (SEND, 8, -1), "bad descriptor"),
        (lambda _: (SEND, 8, 2**40), "bad descriptor"),
        (lambda way: (SEND, 8, way + 1), "bad descriptor"),
        (lambda way: (SEND, PAGES * work.PAGE + 1, way), "not the port's memory"),
    ],
)
def test_what_may_not_go_ends_alone(asked, status):
    ended, had = one_way(asked)
    assert ended == status
    assert had == [("done", HEADER)]


def test_one_that_is_longer_than_its_receive_ends_that():
    ended, had = one_way(lambda way: (SEND, 100, way), room=HEADER + 99)
    assert ended == "done"
    assert had == [("too long", 0), ("done", HEADER)]


def test_a_port_that_ends_hears_no_more_and_begins_anew():
    cluster = cluster_of()

    async def sender(process):
        memory = await open_port(process)
        await process.sleep(3000)
        for number in range(8):
            one = Datagram(0, 1, (1, 1), QKEY, bytes([number + 1]) * MTU)
            await send(process, memory, one, [(0, 1000), (5000, MTU - 1000)])
            assert (await process.ended()).status == "done"
            await process.sleep(400)

    async def receiver(process):
        memory = await open_port(process)
        await have_receives(process, memory, 3)
        while process.waiting() < 2:
            await process.sleep(20)
        bound(end_connection, process._machine)(1, 1)
        first = [await process.received() for _ in range(process.waiting())]
        await process.post_gather(SEND, [], name=1, offset=0)
        assert (await process.ended()).status == "flushed"
        await process.sleep(1000)
        assert not process.waiting()
        open_datagrams(process._ports, 1, 1, QKEY, MTU)
        await have_receives(process, memory)
        await process.sleep(8000)
        return [one.status for one in first], await all_had(process, memory)

    _, (first, had) = world.run_on_nodes(cluster, sender, receiver)

    assert first == ["done"] * 2 + ["flushed"]
    numbers = [one.content[HEADER] for one in had]
    assert numbers == sorted(set(numbers))
    assert 0 < len(numbers) < 6
    assert all(one.content[HEADER:][:MTU] == bytes([one.content[HEADER]]) * MTU for one in had)


def test_a_node_has_tags_for_its_ways_or_none():
    cluster = cluster_of(nodes=3, size=msgspec.structs.replace(SIZE, channels=1 + PORTS + 1))

    async def program(process):
        await open_port(process)
        first = process.cluster.ways.between(0, 1)
        assert process.cluster.ways.between(0, 1) == first
        with pytest.raises(SimulationError, match="channels"):
            process.cluster.ways.between(0, 2)
        with pytest.raises(SimulationError, match="channels"):
            process.cluster.ways.between(2, 2)
        with pytest.raises(SimulationError, match="has a connection"):
            open_datagrams(process._ports, 0, 1, QKEY, MTU)
        return first >= 3

    assert world.run_on_nodes(cluster, program) == [True]
