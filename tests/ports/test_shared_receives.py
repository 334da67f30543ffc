"""Several ports draw their receives from one queue, against what the twin says is fair."""

import msgspec
import pytest
import work_world as work
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.simulate.ports.build import Faults, Transport
from nicscope.drivers.simulate.ports.connections import connect_ports
from nicscope.nic.ports.layout import DELIVERY, NAMED_QUEUE, RECEPTION, SEND, UNRELIABLE
from nicscope.nic.ports.work_queues import RECEIVES_LOW
from oracle.shared_receives import first_low, is_fair
from suite import share

QUICK = Transport(time_out_ps=200_000_000, most_retries=40)
WRONG = Faults(seed=7, loss=0.1, duplication=0.1, reordering=0.1, corruption=0.1)
SIZE = msgspec.structs.replace(work.SIZE, connections=8)
SHARED = 9  # the port that is the shared queue
FIRST = 5  # of those that draw from it
ROOM = 1200  # bytes of a receive
PORTS = 10


def open_shared(process, ports, limit=0):
    """Have such a queue, and ports that share it; their domain is the same."""
    table = process._ports.table
    for port in (SHARED, *ports):
        process._map_port(port)
        table[process.node, port]["takes"] = 1
        table[process.node, port]["domain"] = work.DOMAIN
        table[process.node, port]["longest"] = 1 << 16
        table[process.node, port]["shares"] = 0 if port == SHARED else SHARED
    table[process.node, SHARED]["shared"] = 1
    table[process.node, SHARED]["limit"] = limit


def of_message(sender, number):
    """What that message holds."""
    return bytes([sender + 1, number + 1]) * 300


def exchange(plans, level=RECEPTION, posted=16, limit=0, design="vmmc-static", **how):
    """Each program sends so many messages; what each port of the receiver has had of them.

    By port: cookie, status and content.  Then the troubles of the queue, and how sends ended.
    """
    cluster = work.cluster_of(design, size=SIZE, ports=PORTS, **how)
    over = []

    def sender(number, many):
        async def program(process):
            work.have_queues(process)
            memory = process.allocate(work.PAGE)
            key = work.KEY + process.port
            await work.register(process, key, memory.address, len(memory))
            await process.sleep(3000)
            ends = (0, process.port), (1, FIRST + number)
            connect_ports(process._ports, *ends, level, work.UNIT)
            ended = []
            for each in range(many):
                await memory.write(of_message(number, each))
                await process.post_gather(SEND, [(memory.address, 600, key)])
                ended.append((await process.ended()).status)
            over.append(True)
            return ended

        return program

    async def receiver(process):
        ports = range(FIRST, FIRST + len(plans))
        work.have_queues(process)
        memory = process.allocate(8 * work.PAGE)
        open_shared(process, ports, limit)
        await work.register(process, work.KEY, memory.address, len(memory))
        for cookie in range(posted):
            pieces = work.at(memory, [(cookie * ROOM, 500), (cookie * ROOM + 500, 700)])
            await process.post_receive(cookie, pieces, port=SHARED)
        while len(over) < len(plans):
            await process.sleep(1000)
        await process.sleep(5000)
        said = []
        for port in ports:
            said.append([])
            while process.waiting(port):
                one = await process.received(port=port)
                found = await memory.part(ROOM * one.cookie, one.length).read()
                said[-1].append((one.cookie, one.status, found))
        async_errors = process._ports.work.async_errors[process.node, SHARED]
        count = process._ports.table[process.node, SHARED]["async_errors"]
        return said, [int(each) for each in async_errors[:count]]

    cluster.start(1, receiver)
    for number, many in enumerate(plans):
        cluster.start(0, sender(number, many))
    (said, async_errors), *ended = cluster.run()
    assert work.world.stale(cluster) == 0
    return said, async_errors, ended


plans_of = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@share(0.5)
@given(
    plans=plans_of,
    level=st.sampled_from([DELIVERY, RECEPTION]),
    limit=st.integers(0, 20),
    wrong=st.booleans(),
    seed=st.integers(0, 99),
)
def test_messages_have_the_oldest_receives_each_once(plans, level, limit, wrong, seed):
    faults = msgspec.structs.replace(WRONG, seed=seed) if wrong else Faults()

    said, async_errors, ended = exchange(plans, level, limit=limit, faults=faults, transport=QUICK)

    assert ended == [["done"] * many for many in plans]
    assert is_fair(list(range(16)), [[cookie for cookie, _, _ in port] for port in said])
    for sender, port in enumerate(said):
        wished = [("done", of_message(sender, each)) for each in range(plans[sender])]
        assert [(status, found) for _, status, found in port] == wished
    low = first_low(16, limit, sum(plans))
    assert async_errors == ([] if low is None else [RECEIVES_LOW])


@pytest.mark.parametrize("design", ["vmmc-interrupt", "utlb", "unet-mm-pca200"])
def test_so_it_is_under_every_translation(design):
    said, _, ended = exchange([3, 3], design=design, faults=WRONG, transport=QUICK)

    assert ended == [["done"] * 3] * 2
    assert is_fair(list(range(16)), [[cookie for cookie, _, _ in port] for port in said])


def test_an_unreliable_port_keeps_a_receive_of_which_the_message_was_lost():
    said, _, ended = exchange(
        [8, 8], UNRELIABLE, posted=14, faults=Faults(seed=3, loss=0.25), transport=QUICK
    )

    assert ended == [["done"] * 8] * 2
    took = [[cookie for cookie, _, _ in port] for port in said]
    assert 0 < sum(map(len, took)) < 14
    assert all(port == sorted(set(port)) for port in took)
    assert not set(took[0]) & set(took[1])


def test_who_finds_the_queue_empty_loses_its_connection_alone():
    said, _, ended = exchange([3, 2], posted=4)

    assert sorted(each for one in ended for each in one) == ["done"] * 4 + ["no receive posted"]
    assert sum(len(port) for port in said) == 4


def named(group, name=SHARED):
    """Two messages that name the queue; which receives they had, and who was told at which port."""
    cluster = work.cluster_of(size=SIZE, ports=PORTS)

    async def sender(process):
        memory = await work.with_memory(process, 2, seed=1)
        await process.sleep(3000)
        connect_ports(process._ports, (0, 1), (1, FIRST), RECEPTION, work.UNIT)
        for _ in range(2):
            await process.post_gather(SEND, work.at(memory, [(0, 300)]), swap=name)
        return [(await process.ended()).status for _ in range(2)]

    async def receiver(process):
        work.have_queues(process)
        memory = process.allocate(8 * work.PAGE)
        open_shared(process, [FIRST])
        table = process._ports.table
        table[1, FIRST]["shares"] = NAMED_QUEUE
        table[1, SHARED]["group"], table[1, FIRST]["group"] = 3, group
        queue = process._ports.work.queues[1, 1]
        queue["open"], queue["entries"] = 1, 8
        table[1, SHARED]["receive_queue"] = 1
        await work.register(process, work.KEY, memory.address, len(memory))
        for cookie in range(2):
            pieces = work.at(memory, [(cookie * ROOM, ROOM)])
            await process.post_receive(cookie, pieces, port=SHARED)
        await process.sleep(8000)
        told = [tuple(map(int, each)) for each in process._ports.work.entries[1, 1][:4]]
        many = int(process._ports.work.queues[1, 1]["written"])
        cookies = []
        while process.waiting(FIRST):
            cookies.append((await process.received(port=FIRST)).cookie)
        return cookies, told[:many]

    return work.run_on_nodes(cluster, sender, receiver)


def test_a_message_may_name_the_queue_whose_completions_are_told_there():
    ended, (cookies, told) = named(group=3)

    assert ended == ["done"] * 2
    assert cookies == [0, 1]
    assert told == [(FIRST, 1, 0, 0), (FIRST, 1, 1, 0)]  # the reports' numbers, none urgent


@pytest.mark.parametrize(("group", "name"), [(4, SHARED), (3, FIRST), (3, 0), (3, PORTS + 7)])
def test_what_is_no_queue_of_its_group_has_no_receive(group, name):
    ended, (cookies, told) = named(group, name)

    assert ended == ["no receive posted", "flushed"]
    assert cookies == told == []
