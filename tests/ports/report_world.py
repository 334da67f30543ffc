"""Random programs whose every packet is written down, and a report made again from that alone."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import port_world as world
from hypothesis import strategies as st

from nicscope.config.design import Scheme
from nicscope.drivers.simulate.observe import Engine
from nicscope.drivers.simulate.ports.build import Faults, HostSize, PortSize, Transport
from nicscope.drivers.simulate.records import REGISTER
from nicscope.fabric.faults import CORRUPTED, LOST, REORDERED, fate
from nicscope.nic.ports.layout import ACKNOWLEDGEMENT, FETCH, SEND, WRITE
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.traffic import ENDED_NAMES, FIRST_DROPPED, MADE_NAMES

LOG = 40_000  # records
HOSTS = (0, 0, 1, 2)  # of each process
ROOM = 6 * world.PAGE  # of a process's source, and of its export
UNIT = 3000
ALL = range(len(HOSTS))
PATIENCE_US = 120_000.0  # far beyond the last time-out


class Move(NamedTuple):
    """One thing that a process does to another."""

    operation: int
    peer: int
    at: int
    length: int


class Seen(NamedTuple):
    """What the programs themselves have seen, by process."""

    statuses: list[Counter[str]]
    messages: list[int]
    message_bytes: list[int]


def moves(operations):
    """What each process does."""

    def of(me):
        return st.lists(
            st.builds(
                Move,
                st.sampled_from(operations),
                st.sampled_from([peer for peer in ALL if HOSTS[peer] != HOSTS[me]]),
                st.integers(0, ROOM // 2),
                st.one_of(st.integers(1, 64), st.integers(1, ROOM // 2)),
            ),
            max_size=6,
        )

    return st.tuples(*map(of, ALL)).map(list)


rates = st.sampled_from([0.0, 0.05, 0.2])
networks = st.builds(
    Faults,
    seed=st.integers(0, 1000),
    loss=rates,
    duplication=rates,
    reordering=rates,
    corruption=rates,
    node_deaths=st.sampled_from([{}, {}, {}, {2: 25_000_000_000}]),
)


def run(design, plans, buffers, ring, **how):
    """The cluster, and what its programs have seen; they take what comes until all is over."""
    cluster = world.cluster_of(
        design,
        nodes=3,
        keep_log=LOG,
        host=HostSize(frames=256, pages_per_space=128),
        size=PortSize(ring=ring, longest=16, events=4),
        **how,
    )
    seen = Seen([Counter() for _ in HOSTS], [0] * len(HOSTS), [0] * len(HOSTS))
    for number, node in enumerate(HOSTS):
        cluster.start(
            node, lambda process, me=number: _program(process, me, plans[me], buffers, seen)
        )
    cluster.run()
    return cluster, seen


async def _program(process, me, plan, buffers, seen):
    source, exported, back = (process.allocate(ROOM) for _ in range(3))
    await source.write(bytes(ROOM))
    await exported.write(bytes(ROOM))
    world.export(process, process.number, exported.address, ROOM)
    if process.cluster.design.scheme not in (Scheme.INTERRUPT, Scheme.UNET_MM, Scheme.PINNED):
        await process._sim_process.ask(
            REGISTER, peer=process.port, address=exported.address, payload=ROOM
        )
    for peer, node in enumerate(HOSTS):
        if peer != me:
            world.join(process, _tag(me, peer), node, _tag(peer, me), unit=UNIT)
            number = peer - HOSTS.index(node)
            world.import_from(process, _tag(me, peer), node, number, exported.address, ROOM)
    free = process.allocate(buffers * world.PAGE) if buffers else None
    for place in range(buffers):
        assert free is not None
        await process.provide(free.address + place * world.PAGE)
    await process.sleep(20_000)
    port = process._ports.table[process.node, process.port]
    for move in plan:
        while port["posted"] + port["refused"] - port["reaped"] >= process._ports.rules[0]["ring"]:
            seen.statuses[me][(await process.done()).status] += 1
        address = back.address if move.operation == FETCH else source.address
        segment = [(address + move.at, move.length)]
        await process.post(move.operation, _tag(me, move.peer), segment, offset=move.at)
        await _take(process, me, port, seen)
    end = process.now_us + PATIENCE_US
    while process.now_us < end:
        await _take(process, me, port, seen)
        await process.sleep(500)


def _tag(me, peer):
    return 1 + me * len(HOSTS) + peer


async def _take(process, me, port, seen):
    while port["reported"] > port["reaped"]:
        seen.statuses[me][(await process.done()).status] += 1
    while port["received"] > port["read"]:
        arrival = await process.arrival()
        if arrival.operation == SEND:
            seen.messages[me] += 1
            seen.message_bytes[me] += arrival.length
            for buffer in arrival.buffers:
                await process.provide(buffer)


def sent_again_from_log(machine, n):
    """``Sent`` of node ``n`` as its records of packets made say, by what each of them is."""
    found = Counter(dict.fromkeys(MADE_NAMES, 0))
    numbers, numbered = [], set()
    for record in _records(machine, n, came=0):
        numbers.append(int(record["number"]))
        place = (int(record["destination"]), int(record["sequence"]))
        if record["copied"]:
            found["copies"] += 1
        elif record["kind"] == ACKNOWLEDGEMENT:
            found["acknowledgements"] += 1
        else:
            found["again" if place in numbered else "first"] += 1
            numbered.add(place)
    assert numbers == list(range(len(numbers)))  # every packet once
    return {"total": len(numbers), **found}


def received_from_log(machine, d):
    """What became of the packets that came to node ``d``, and why some of them were dropped.

    What the network did is asked of the fates anew; of the rest, the record's word is taken and
    ``assert_possible`` looks at whether it can be true.
    """
    found = Counter(dict.fromkeys(ENDED_NAMES, 0))
    for record in _records(machine, d, came=1):
        found[_ended(machine, record)] += 1
    plain = {name: found[name] for name in ENDED_NAMES[:FIRST_DROPPED]}
    dropped = {name.removeprefix("no_"): found[name] for name in ENDED_NAMES[FIRST_DROPPED:]}
    return plain, dropped


def _ended(machine, record):
    said = ENDED_NAMES[int(record["what"])]
    if said in ("cut_off", "void") or record["copied"] or not machine.ports.rules[0]["faults"]:
        return said
    happens = fate(machine.ports.faults[0], int(record["sender"]), int(record["number"]), 0)
    if happens & LOST:
        return "lost"
    if happens & REORDERED:
        return "overtaken"
    if happens & CORRUPTED and record["payload"] == 0:
        return "corrupted"
    assert said not in ("lost", "overtaken")
    assert said != "corrupted" or happens & CORRUPTED
    assert not (said == "delivered" and happens & CORRUPTED)
    return said


def assert_possible(machine, d):
    """Each packet ended once; what a reliable transport has confirmed, each number once."""
    ports = machine.ports
    names = Counter()
    confirmed = {}
    times = Counter()
    for record in ports.happenings[: ports.happened[0]]:
        if record["destination"] == d and not record["came"]:
            times[int(record["sender"]), int(record["sequence"])] += 1
    for record in _records(machine, d, came=1):
        sender, sequence = int(record["sender"]), int(record["sequence"])
        names[sender, int(record["number"])] += 1
        said = ENDED_NAMES[int(record["what"])]
        if said in ("delivered", "refused", "incomplete"):
            confirmed.setdefault(sender, []).append(sequence)
        if said == "duplicates":
            assert times[sender, sequence] > 1
        assert (record["kind"] == ACKNOWLEDGEMENT) == (said == "acknowledgements") or said in (
            *("lost", "overtaken", "corrupted", "cut_off", "void"),
        )
    assert set(names.values()) <= {1}
    if ports.rules[0]["reliable"]:
        for sender in range(len(machine.nodes)):
            numbers = sorted(confirmed.get(sender, []))
            assert numbers == list(range(int(stream_to(ports, d, sender)["confirmed"])))


def control_messages_in(machine, d):
    """Headers that came to node ``d``, as the log of transfers has them."""
    log = machine.log[: machine.tally[0]["log"]]
    return int(
        ((log["node"] == d) & (log["engine"] == Engine.NET_RCV) & (log["control"] == 1)).sum()
    )


def _records(machine, node, came):
    ports = machine.ports
    assert ports.happened[0] <= ports.happenings.size, "the log was too small"
    records = ports.happenings[: ports.happened[0]]
    return [one for one in records if one["node"] == node and one["came"] == came]


QUICK = Transport(time_out_ps=2_000_000_000, most_retries=6)
EVERY = (SEND, WRITE, FETCH)
