"""The search for routes in virtual time: which links are alive, and how long the probes take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.fabric.faults import is_dead
from nicscope.fabric.mapping import Fabric, Search
from nicscope.fabric.paths import add_path, links_of, path_to
from nicscope.nic.ports.streams import node_of

if TYPE_CHECKING:
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.fabric.topology import Topology


def search_wanted(machine: Machine, topology: Topology) -> None:
    """Find what the probes of each search come to that has begun now.

    One search is for the way there and one for the way back, which the peer makes; what still
    works stays as it is.  If both do, or there is no route one way, nothing is found.
    """
    serving = machine.ports.nodes
    for n in np.flatnonzero(serving["search_asked"]).tolist():
        serving[n]["search_asked"] = 0
        d = int(node_of(machine.ports, n, int(serving[n]["searching"])))
        assert topology.leads is not None
        fabric = Fabric(topology.nodes, topology.links, topology.leads)
        found = [_search(machine, fabric, *each) for each in ((n, d), (d, n))]
        takes = sum(_time_of(machine, n, each) for each in found)
        until = serving[n]["search_until"]
        serving[n]["search_until"] = max(until, machine.tally[0]["now"] + takes)
        used = [links_of(machine.paths, path_to(machine.paths, *each)) for each in ((n, d), (d, n))]
        links = [each.links for each in found]
        if all(links) and links != used:
            there, back = links
            serving[n]["search_there"] = add_path(machine.paths, there, len(there) - 1, d)
            serving[n]["search_back"] = add_path(machine.paths, back, len(back) - 1, n)


def _search(machine: Machine, fabric: Fabric, sender: int, destination: int) -> Search:
    """Look for a route, with a probe along the path that is used first."""
    deaths, now = machine.ports.deaths, machine.tally[0]["now"]
    ends = sender, destination

    def is_alive(link: int) -> bool:
        return not is_dead(deaths.links, link, now)

    used = links_of(machine.paths, path_to(machine.paths, *ends))
    is_silent = any(is_dead(deaths.nodes, node, now) for node in ends)
    if used and all(map(is_alive, used)) and not is_silent:
        return Search(used, (len(used) - 1,), 0)
    found = fabric.search(*ends, is_alive)
    if is_silent and found.links:  # the last probe reaches a NIC that does not answer
        found = Search((), found.answered[:-1], found.silent + 1)
    return found._replace(silent=found.silent + 1)


def _time_of(machine: Machine, n: int, found: Search) -> int:
    """How long probes take, one after the other: to where they are answered, and back."""
    cost = machine.costs[n]
    hops = sum(found.answered)
    there_and_back = 2 * (len(found.answered) * cost["link_start"] + hops * cost["switch_hop"])
    return int(there_and_back + found.silent * machine.ports.rules[0]["probe_time_out"])
