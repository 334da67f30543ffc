"""Random programs on several nodes: every byte arrives, in order, and no other byte changes."""

from __future__ import annotations

from typing import NamedTuple

import port_world as world
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.ports.connections import connect
from nicscope.drivers.simulate.records import REGISTER
from nicscope.nic.ports.layout import FETCH, INLINE_BYTES, SEND, WRITE
from suite import share

HOSTS = (0, 0, 1, 2)  # of each process
MANY = len(HOSTS)
SLICE = 3 * world.PAGE + 500  # of an export, for each who may store there
SOURCE = 4 * world.PAGE
EXPORT = MANY * SLICE
BUFFERS = 24
UNIT = 3000
PINNING = ("vmmc-static", "utlb", "mini")


class Move(NamedTuple):
    """One thing that a process does."""

    operation: int
    peer: int
    at: int  # in its source
    length: int
    there: int  # in its slice of the peer's export


def moves(process):
    """What one process does; it never talks to its neighbour on the node by itself."""
    peers = [other for other in range(MANY) if HOSTS[other] != HOSTS[process]]
    length = st.one_of(st.integers(1, INLINE_BYTES), st.integers(1, SLICE // 2))
    return st.lists(
        st.builds(
            Move,
            st.sampled_from((SEND, SEND, WRITE, FETCH)),
            st.sampled_from(peers),
            st.integers(0, SOURCE - SLICE // 2),
            length,
            st.integers(0, SLICE // 2),
        ),
        max_size=8,
    )


class World:
    """One random cluster, and what must come of it."""

    def __init__(self, plans):
        self.plans = plans
        self.exports = [bytearray(EXPORT) for _ in HOSTS]
        self.sources = [world.content(number, SOURCE) for number in range(MANY)]
        self.messages = {}
        self.streams = {}
        for me, plan in enumerate(plans):
            for move in plan:
                piece = self.sources[me][move.at : move.at + move.length]
                if move.operation == SEND:
                    self.messages.setdefault((me, move.peer), []).append(piece)

    def stream(self, process, me, peer):
        """What the node of ``me`` knows the stream of these two by."""
        if (me, peer) not in self.streams:
            here, there = connect(process._ports, HOSTS[me], HOSTS[peer])
            self.streams[me, peer], self.streams[peer, me] = here, there
        return self.streams[me, peer]

    def tag(self, me, peer):
        """Of ``me``, for messages to and from ``peer``."""
        return 1 + me * MANY + peer

    async def program(self, process, me):
        """Do the moves of ``me``, take what comes, and check all of it."""
        source, exported, guard, free, back = await self.prepare(process, me)
        await process.sleep(20_000)
        expected = {
            peer: list(self.messages.get((peer, me), ())) for peer in range(MANY) if peer != me
        }
        posted = 0
        record = process._ports.table[process.node, process.port]
        for move in self.plans[me]:
            posted += await self.move(process, me, move, source, back)
            while record["received"] > record["read"]:
                await self.take(process, me, expected)
        while any(expected.values()):
            await self.take(process, me, expected)
        for _ in range(posted):
            assert (await process.done()).ok
        await process.sleep(200_000)
        assert await source.read() == self.sources[me]
        assert await guard.read() == b"G" * len(guard)
        assert await exported.read() == bytes(self.exports[me])
        return free.address

    async def prepare(self, process, me):
        """Memory, tags, an export for everybody and imports of everybody's."""
        parts = [process.allocate(size) for size in (SOURCE, EXPORT, 2 * world.PAGE)]
        source, exported, guard = parts
        await source.write(self.sources[me])
        await exported.write(bytes(EXPORT))
        await guard.write(b"G" * len(guard))
        free = process.allocate(BUFFERS * world.PAGE)
        back = process.allocate(SLICE)
        world.export(process, process.number, exported.address, EXPORT)
        if process.cluster.design.name in PINNING or "utlb" in process.cluster.design.name:
            await process._sim_process.ask(
                REGISTER, peer=process.port, address=exported.address, payload=EXPORT
            )
        for peer in range(MANY):
            if peer != me:
                tag, theirs = self.tag(me, peer), self.tag(peer, me)
                world.join(process, tag, HOSTS[peer], theirs, unit=UNIT)
                number = peer - HOSTS.index(HOSTS[peer])
                # All processes lay their memory out alike.
                world.import_from(process, tag, HOSTS[peer], number, exported.address, EXPORT)
                stream = self.stream(process, me, peer)
                for named in (process._ports.channels, process._ports.shared.imports):
                    named[process.node, tag]["stream"] = stream
        for place in range(BUFFERS):
            await process.provide(free.address + place * world.PAGE + 37 * (place % 5))
        return source, exported, guard, free, back

    async def move(self, process, me, move, source, back):
        """Post it; a fetch is awaited and checked at once.  How many reports are to come."""
        tag = self.tag(me, move.peer)
        piece = self.sources[me][move.at : move.at + move.length]
        there = me * SLICE + move.there
        segment = [(source.address + move.at, move.length)]
        if move.operation == SEND and move.length <= INLINE_BYTES and move.at % 2:
            await process.post_inline(SEND, tag, piece)
        elif move.operation == SEND:
            await process.post(SEND, tag, segment)
        elif move.operation == WRITE:
            await process.post(WRITE, tag, segment, offset=there)
            self.exports[move.peer][there : there + move.length] = piece
        else:
            before = bytes(self.exports[move.peer][there : there + move.length])
            request = await process.post(
                FETCH, tag, [(back.address + move.at % 100, move.length)], offset=there
            )
            early = 0
            while (ended := await process.done()).request != request:
                assert ended.ok
                early += 1
            assert ended.ok
            assert await back.read(move.length, offset=move.at % 100) == before
            return -early
        return 1

    async def take(self, process, me, expected):
        """One message: the next of its sender's."""
        arrival = await process.arrival()
        peer = arrival.name - 1 - me * MANY
        found = arrival.content
        if found is None:
            found = world.buffers_of(process, arrival.buffers, arrival.length, UNIT)
            for buffer in arrival.buffers:
                await process.provide(buffer)
        assert found == expected[peer].pop(0)


def play(design, plans, apart, **how):
    """Run it all; ``apart``: each two processes have a stream of their own."""
    made = World(plans)
    patience = Transport(time_out_ps=15_000_000_000, most_retries=60, by_connection=apart)
    cluster = world.cluster_of(design, nodes=3, transport=patience, **how)
    for number, node in enumerate(HOSTS):
        cluster.start(node, lambda process, number=number: made.program(process, number))
    cluster.run()
    assert world.stale(cluster) == 0
    pages = EXPORT_PAGES * (design in PINNING or "utlb" in design)
    assert world.uses_left(cluster) == [pages * HOSTS.count(node) for node in range(3)]


EXPORT_PAGES = -(-EXPORT // world.PAGE)


@pytest.mark.parametrize("design", [*world.DESIGNS, "utlb-shared", "utlb-process"])
@share(0.04, suppress_health_check=list(HealthCheck))
@given(plans=st.tuples(*(moves(process) for process in range(MANY))), apart=st.booleans())
def test_every_byte_arrives_in_order_and_no_other_changes(design, plans, apart):
    play(design, list(plans), apart)


@pytest.mark.parametrize("design", world.DESIGNS)
@share(0.04, suppress_health_check=list(HealthCheck))
@given(
    plans=st.tuples(*(moves(process) for process in range(MANY))),
    apart=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_so_it_is_on_a_network_that_fails(design, plans, apart, seed):
    wrong = Faults(seed=seed, loss=0.05, duplication=0.05, reordering=0.05, corruption=0.05)
    play(design, list(plans), apart, faults=wrong)
