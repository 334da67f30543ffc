"""Ports whose messages take a receive each: gathers of registered memory go to scatter lists."""

from __future__ import annotations

import port_world as world
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_world import PAGE, SEGMENTS, cluster_of, converse, digest, of, read, with_memory

from nicscope.config.delivery import POLICIES, Transport, Way
from nicscope.drivers.simulate.ports.build import Faults, HostSize
from nicscope.nic.ports.layout import SEND

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


@settings(max_examples=25, deadline=None)
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


def test_reading_finds_what_came():
    """What the world of these tests reads is the process's own memory."""

    async def program(process):
        memory = await with_memory(process, 2, 5)
        return await read(memory, [(10, 20), (5000, 7)])

    cluster = cluster_of()
    cluster.start(0, program)
    assert cluster.run() == [of(5, 2, [(10, 20), (5000, 7)])]
