"""Ports whose messages take a receive each: gathers of registered memory go to scatter lists."""

from __future__ import annotations

import port_world as world
import pytest
import work_world
from hypothesis import given
from hypothesis import strategies as st
from work_world import (
    PAGE,
    SEGMENTS,
    at,
    cluster_of,
    connect,
    converse,
    digest,
    of,
    read,
    with_memory,
)

from nicscope.config.design import POLICIES, Transport, Way, load_design, with_settings
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.nic.ports.layout import SEND
from nicscope.nic.ports.traffic import NO_TRANSLATION
from suite import share

PAGES = 8
SENT = [(100, 3000), (5000, 1), (8000, 4500)]
INTO = [(4000, 200), (7, 1), (9000, 7000), (20_000, 300)]
QUICK = Transport(time_out_ps=200_000_000, most_retries=40)


def pieces_of(total):
    """Where a receive for ``total`` bytes may have its pieces, over page ends and within pages."""
    return [(4090, 20), (8191, 2), (9000, total - 22 + 7)] if total >= 22 else [(4095, total + 1)]


def expected(messages, pages=PAGES, seed=1):
    """What ``converse`` is to find of messages that all arrive."""
    return [
        (
            (number, "done", SEND, sum(length for _, length in sent), -number),
            digest(of(seed, pages, sent)),
        )
        for number, (sent, _) in enumerate(messages)
    ]


def check(cluster, messages, **how):
    ended, received = converse(cluster, messages, **how)
    assert [(each.status, each.length) for each in ended] == [
        ("done", sum(length for _, length in sent)) for sent, _ in messages
    ]
    assert received == expected(messages)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_gather_arrives_in_the_pieces_of_a_receive(policy):
    check(
        cluster_of(policy=policy),
        [(SENT, INTO), (INTO, [(24_000, 8000)]), ([(0, 22)], [(1, 3), (23_000, 40)])],
    )


@pytest.mark.parametrize("design", world.DESIGNS)
def test_every_scheme_translates_each_page_that_a_receive_touches(design):
    # Pieces of few bytes over the ends of pages: one packet goes to eight pages.
    into = [(PAGE * page - 3, 6) for page in (1, 3, 5, 7)]
    behind = [(100, 30), (4200, 4000), (8300, 3500)]
    patience = Transport(time_out_ps=20_000_000_000)
    check(cluster_of(design, transport=patience), [([(0, 24)], into), (SENT, behind)])


@pytest.mark.parametrize("way", [way.value for way in Way if way != Way.PCI])
def test_every_way_brings_the_same_bytes(way):
    messages = [(SENT, INTO), ([(3, 9000)], [(64, 128), (5120, 3072), (24_576, 8192)])]
    check(cluster_of("utlb", way), [*messages, ([], [])])


@pytest.mark.parametrize(
    "way", ["dma", "edt", *(pytest.param(way, marks=pytest.mark.long) for way in ("pio", "cni"))]
)
def test_every_way_brings_what_comes_again(way):
    messages = [
        ([(number * 1700 + 1, 1300 + 711 * number)], [(number * 4200 + 3, 1000), (28_000, 3400)])
        for number in range(4)
    ]
    # Of the second pieces, which share their memory, only the last one's bytes are left.
    wrong = Faults(seed=3, loss=0.1, corruption=0.1, duplication=0.05)
    cluster = cluster_of("utlb", way, faults=wrong, transport=QUICK)

    ended, received = converse(cluster, messages)

    assert [each.status for each in ended] == ["done"] * 4
    assert [said for said, _ in received] == [said for said, _ in expected(messages)]
    assert received[-1] == expected(messages)[-1]


def test_a_message_of_nothing_takes_a_receive_in_its_turn():
    one, other = [(0, 4000)], [(4096, 3)]
    check(cluster_of(), [(one, INTO), ([], [(0, 10)]), (other, [(24_000, 9)]), ([(9, 0)], [])])


def test_packets_are_cut_at_the_unit_of_the_connection():
    made = []
    for unit in (1500, 256):
        cluster = cluster_of()
        converse(cluster, [([(0, 3000)], [(0, 3000)])], unit=unit)
        made.append(int(cluster.simulation.machine.ports.made[0, 0]))
    assert made == [2, 12]


@pytest.mark.parametrize(
    "wrong",
    [
        Faults(seed=3, loss=0.2),
        Faults(seed=4, corruption=0.2),
        Faults(seed=5, loss=0.1, duplication=0.1, reordering=0.1, corruption=0.1),
    ],
)
def test_a_reliable_connection_brings_each_message_once_and_in_order(wrong):
    messages = [
        ([(number * 1700 + 1, 1300 + 211 * number)], pieces_of(1300 + 211 * number))
        for number in range(8)
    ]
    cluster = cluster_of(faults=wrong, transport=QUICK)

    ended, received = converse(cluster, messages)

    assert [each.status for each in ended] == ["done"] * len(messages)
    # All receives share their memory, so what is there is the last message's.
    assert [said for said, _ in received] == [said for said, _ in expected(messages)]
    assert received[-1][1] == expected(messages)[-1][1]


stretches = st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 5000)), max_size=SEGMENTS)


@share(2.5)
@given(sent=stretches, cuts=st.lists(st.integers(0, 40_000), max_size=SEGMENTS - 1), unit=...)
def test_any_gather_fits_any_receive_that_is_long_enough(sent: list, cuts: list, unit: bool):
    total = sum(length for _, length in sent)
    ends = sorted({min(cut, total) for cut in cuts} | {total})
    # Pieces that do not lie on each other, in an order that is not that of addresses.
    lengths = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    into, place = [], 17
    for length in reversed(lengths):
        into.append((place, length))
        place += length + 29
    into.reverse()
    pages = place // PAGE + 7

    ended, received = converse(
        cluster_of("vmmc-static", host=HostSize(pages_per_space=64)),
        [(sent, into)],
        pages=pages,
        unit=4096 if unit else 777,
    )

    assert ended[0].status == "done"
    assert received[0][1] == digest(of(1, pages, sent))


TIGHT = [
    ("vmmc-interrupt", ["entries=2", "ways=1"]),
    ("utlb", ["entries=2", "ways=1"]),
    ("mini", ["entries=8", "ways=1", "line=1"]),
    ("unet-mm-pca200", ["entries=16"]),
]


@pytest.mark.parametrize(("design", "parts"), TIGHT)
@pytest.mark.parametrize("frames", [1024, 13])
def test_a_payload_finds_its_pages_however_few_entries_and_frames_there_are(design, parts, frames):
    into = [(PAGE * page - 3, 6) for page in (1, 3, 5, 7)]
    messages = [([(0, 24)], into), ([(24, 9000)], [(0, 4000), (4200, 4000), (8300, 1500)])]

    async def sender(process):
        memory = await with_memory(process, PAGES, 1)
        await process.sleep(200_000)
        connect(process)
        for pieces, _ in messages:
            await process.post_gather(SEND, at(memory, pieces))
        return [(await process.ended()).status for _ in messages]

    async def receiver(process):
        memory = await with_memory(process, PAGES, 2)
        for number, (_, pieces) in enumerate(messages):
            await process.post_receive(number, at(memory, pieces))
        # What it writes then drives pages out that are not pinned yet.
        await process.allocate(10 * PAGE).write(b"x" * 10 * PAGE)
        said = [await process.received() for _ in messages]
        return [
            (each.status, digest((await read(memory, pieces))[: each.length]))
            for each, (_, pieces) in zip(said, messages, strict=True)
        ]

    cluster = cluster_of(
        with_settings(load_design(design), parts),
        transport=Transport(time_out_ps=20_000_000_000, most_retries=20),
        host=HostSize(frames=frames),
    )
    ended, heard = world.run_on_nodes(cluster, sender, receiver)
    assert ended == ["done", "done"]
    assert heard == [("done", digest(of(1, PAGES, sent))) for sent, _ in messages]
    assert world.stale(cluster) == 0
    assert work_world.uses_left(cluster) == [0, 0]
    ports = cluster.simulation.machine.ports
    # Of a page or a table that is out the packet that needs it is dropped, and comes again.
    assert frames == 1024 or ports.ended[1, NO_TRANSLATION] > 0


def test_a_receive_finds_room_when_the_report_of_an_earlier_one_has_been_read():
    many = work_world.RECEIVES

    async def sender(process):
        memory = await with_memory(process, 1, 1)
        await process.sleep(1000)
        connect(process)
        for _ in range(many):
            await process.post_gather(SEND, at(memory, [(0, 100)]))
        return [(await process.ended()).status for _ in range(many)]

    async def receiver(process):
        memory = await with_memory(process, 1)
        for number in range(many):
            await process.post_receive(number, at(memory, [(0, 100)]))
        await process.sleep(10_000)
        first = await process.received()
        before = process.now_us
        second = await process.received(after=process.posting_receive(98, at(memory, [(0, 1)])))
        took = process.now_us - before
        rest = [(await process.received()).cookie for _ in range(many - 2)]
        return first.cookie, second.cookie, took, rest, process.waiting()

    cluster = cluster_of()
    ended, (first, second, took, rest, left) = world.run_on_nodes(cluster, sender, receiver)
    assert ended == ["done"] * many
    assert (first, second, rest, left) == (0, 1, list(range(2, many)), 0)
    assert took < 50


def test_a_port_that_closes_lets_the_pages_of_its_receives_go():
    async def receiver(process):
        memory = await with_memory(process, 4)
        for number in range(3):
            await process.post_receive(number, at(memory, [(number * PAGE + 9, 5000)]))
        await process.close_port()

    async def sender(process):
        await process.sleep(1)

    cluster = cluster_of("utlb")
    world.run_on_nodes(cluster, sender, receiver)
    assert work_world.uses_left(cluster) == [0, 0]
