"""Paths are taken link by link, held, and handed on in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.fabric.paths import (
    NOBODY,
    acquire,
    leave_queue,
    make_path,
    new_paths,
    path_to,
    release,
)
from nicscope.fabric.topology import Topology, crossbar, pair, trunk


def asks(paths, topology, sender, destination):
    make_path(paths, topology, sender, destination)
    paths.path[sender] = path_to(paths, sender, destination)
    paths.held[sender] = 0
    return acquire(paths, sender)


def lets_go(paths, sender):
    """Release all; senders whose path is now whole."""
    whole = []
    while paths.held[sender] > 0:
        heir = release(paths, sender)
        if heir != NOBODY and acquire(paths, heir):
            whole.append(heir)
    return whole


@pytest.mark.requirement("TR-50")
def test_a_sender_holds_what_it_has_while_it_waits():
    topology = trunk(2, 2)
    paths = new_paths(topology)

    assert asks(paths, topology, 0, 2)
    assert not asks(paths, topology, 1, 3)  # waits for the trunk, holding its own link

    assert paths.held[1] == 1
    assert lets_go(paths, 0) == [1]


def test_who_waits_longest_goes_first():
    topology = crossbar(4)
    paths = new_paths(topology)
    assert asks(paths, topology, 0, 3)
    assert not asks(paths, topology, 2, 3)
    assert not asks(paths, topology, 1, 3)

    assert lets_go(paths, 0) == [2]
    assert lets_go(paths, 2) == [1]


@pytest.mark.parametrize("leaver", [1, 2, 3])
def test_who_leaves_the_queue_is_passed_over(leaver):
    topology = crossbar(5)
    paths = new_paths(topology)
    assert asks(paths, topology, 0, 4)
    for sender in (1, 2, 3):
        assert not asks(paths, topology, sender, 4)

    leave_queue(paths, leaver)
    lets_go(paths, leaver)

    order, holder = [], 0
    while True:
        heirs = lets_go(paths, holder)
        if not heirs:
            break
        (holder,) = heirs
        order.append(holder)
    assert order == [sender for sender in (1, 2, 3) if sender != leaver]


@given(st.data())
def test_no_link_has_two_holders_and_nobody_waits_for_ever(data):
    topology = trunk(3, 3)
    paths = new_paths(topology)
    on_the_way, waiting = {}, {}
    for _ in range(30):
        idle = [s for s in range(6) if s not in on_the_way and s not in waiting]
        if idle and data.draw(st.booleans()):
            sender = data.draw(st.sampled_from(idle))
            others = [d for d in range(6) if d != sender]
            destination = data.draw(st.sampled_from(others))
            if asks(paths, topology, sender, destination):
                on_the_way[sender] = destination
            else:
                waiting[sender] = destination
        elif on_the_way:
            sender = data.draw(st.sampled_from(sorted(on_the_way)))
            del on_the_way[sender]
            for heir in lets_go(paths, sender):
                on_the_way[heir] = waiting.pop(heir)
        held = [link for s, d in on_the_way.items() for link in topology.paths[s, d]]
        assert len(held) == len(set(held))
        for s, d in on_the_way.items():
            assert all(paths.holder[link] == s for link in topology.paths[s, d])
    while on_the_way:
        sender = min(on_the_way)
        del on_the_way[sender]
        for heir in lets_go(paths, sender):
            on_the_way[heir] = waiting.pop(heir)
    assert not waiting


@pytest.mark.parametrize("topology", [pair(), crossbar(3), trunk(1, 2)])
def test_every_pair_of_nodes_has_a_path(topology: Topology):
    pairs = {(s, d) for s in range(topology.nodes) for d in range(topology.nodes) if s != d}

    assert set(topology.paths) == pairs == set(topology.hops)
    assert all(0 <= link < topology.links for path in topology.paths.values() for link in path)
