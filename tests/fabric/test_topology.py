"""Paths of every pair by a rule: what a table of them all would say, without the table."""

import sys

import pytest

from nicscope.fabric.paths import (
    acquire,
    links_of,
    make_path,
    make_wanted_paths,
    needs_path,
    new_paths,
    path_to,
    release,
)
from nicscope.fabric.topology import EveryPair, Topology, crossbar, pair, redundant, trunk


@pytest.mark.parametrize("nodes", [-1, 0, 1, 2, 5])
def test_there_is_a_value_for_each_two_nodes_and_for_no_other_pair(nodes):
    every = EveryPair(nodes, lambda s, d: 10 * s + d)
    table = {(s, d): 10 * s + d for s in range(nodes) for d in range(nodes) if s != d}

    assert dict(every) == table
    assert every == table
    assert len(every) == len(table)
    for here in range(-2, nodes + 2):
        for there in range(-2, nodes + 2):
            assert ((here, there) in every) == ((here, there) in table)
            assert every.get((here, there)) == table.get((here, there))


def test_trunks_cross_between_the_switches_and_only_there():
    topology = trunk(2, 3)

    assert topology.paths[0, 1] == (0, 6)
    assert topology.paths[1, 4] == (1, 10, 9)
    assert topology.paths[4, 1] == (4, 11, 6)
    assert topology.paths[2, 3] == (2, 8)
    assert [topology.hops[each] for each in ((0, 1), (1, 4), (2, 3))] == [1, 2, 1]


def test_a_topology_of_many_nodes_takes_no_more_memory_than_one_of_few():
    few, many = (
        sum(map(sys.getsizeof, (each, each.paths, each.hops, each.leads)))
        for each in (redundant(2, 3), redundant(10_000, 3))
    )

    assert few == many


@pytest.mark.parametrize("topology", [pair(), crossbar(4), trunk(2, 2), redundant(3, 2)])
def test_a_path_is_made_there_and_back_when_it_is_first_wanted_and_once(topology):
    paths = new_paths(topology)
    assert path_to(paths, 0, 1) == path_to(paths, 1, 0) == 0

    assert needs_path(paths, 0, 1)
    make_wanted_paths(paths, topology)
    made = [path_to(paths, 0, 1), path_to(paths, 1, 0)]
    assert sorted(made) == [1, 2]
    assert paths.summary[0]["made"] == 3
    assert not needs_path(paths, 0, 1)
    assert not needs_path(paths, 1, 0)
    make_path(paths, topology, 0, 1)
    assert paths.summary[0]["made"] == 3
    routes = paths.routes
    links = routes.links[routes.first[made[0]] : routes.first[made[0] + 1]]
    nic = (topology.links + 1,) * topology.has_several_ports()
    assert tuple(links) == (*topology.paths[0, 1], *nic)
    assert links_of(paths, made[0]) == topology.paths[0, 1]
    assert routes.hops[made[0]] == topology.hops[0, 1]


def test_a_nic_takes_one_packet_at_a_time_where_they_come_over_different_links():
    own = Topology("own", 3, 4, {(0, 2): (0,), (1, 2): (1,)}, {(0, 2): 1, (1, 2): 1})
    assert own.has_several_ports()
    paths = new_paths(own)
    for s in (0, 1):
        make_path(paths, own, s, 2)
        paths.path[s] = path_to(paths, s, 2)

    assert acquire(paths, 0)
    assert not acquire(paths, 1)
    assert release(paths, 0) == 1
    assert acquire(paths, 1)
