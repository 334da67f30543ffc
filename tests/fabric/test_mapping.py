"""The search for routes, held against a slow twin that walks every path there is."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nicscope.fabric.topology import Fabric, crossbar, pair, redundant, routed, trunk
from suite import share

NODES, SWITCHES = 3, 4


def every_route(wires, place, destination, seen=()):
    """All routes from ``place`` to ``destination`` that lead through no place twice, as links."""
    if place == destination:
        yield ()
        return
    if seen and place < NODES:
        return  # a NIC forwards nothing
    for link, (begin, end) in enumerate(wires):
        if begin == place and end not in seen:
            for rest in every_route(wires, end, destination, (*seen, place)):
                yield link, *rest


networks = st.lists(
    st.tuples(st.integers(0, NODES + SWITCHES - 1), st.integers(0, NODES + SWITCHES - 1)),
    min_size=1, max_size=12,
)  # fmt: skip


@pytest.mark.requirement("UT-54")
@share(8)
@given(networks, st.sets(st.integers(0, 11)))
@example([(0, 3), (0, 4), (4, 5), (5, 1), (3, 1)], set())  # two ways, the shorter first
@example([(0, 3), (0, 4), (4, 5), (5, 1), (3, 1)], {0})
def test_a_shortest_of_the_living_routes_is_found_if_there_is_any(wires, dead):
    living = [route for route in every_route(wires, 0, 1) if not dead.intersection(route)]

    fabric = Fabric(NODES, len(wires), wires.__getitem__)
    found = fabric.search(0, 1, lambda link: link not in dead)

    assert bool(found.links) == bool(living)
    if living:
        assert found.links in living
        assert len(found.links) == min(map(len, living))


def test_each_link_that_is_reached_costs_a_probe_and_each_dead_one_a_silence():
    wires = [(0, 3), (3, 1), (3, 4), (4, 1), (2, 4), (3, 2)]
    fabric = Fabric(NODES, len(wires), wires.__getitem__)

    found = fabric.search(0, 1, lambda link: link != 1)

    assert found.links == (0, 2, 3)
    # Its own link; of the first switch the links to the second and to node 2; then the last.
    assert found.answered == (0, 1, 1, 2)
    assert found.silent == 1


@pytest.mark.parametrize(
    "topology", [pair(), crossbar(3), trunk(2, 2), redundant(3, 3)], ids=lambda each: each.name
)
def test_links_lead_where_the_paths_of_every_topology_go(topology):
    for (s, d), links in topology.paths.items():
        at = s
        for link in links:
            begin, at_next = topology.leads(link)
            assert begin == at
            at = at_next
        assert at == d
        assert topology.hops[s, d] == len(links) - 1
    fabric = Fabric(topology.nodes, topology.links, topology.leads)
    for (s, d), links in topology.paths.items():
        assert fabric.search(s, d, lambda _link: True).links == links


def test_a_network_that_leaves_a_node_out_is_refused_in_one_line():
    with pytest.raises(ValueError, match="ring: no links lead from node 0 to node 1; add"):
        routed("ring", 2, [(0, 2), (2, 0), (1, 2)])
