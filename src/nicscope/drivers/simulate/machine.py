"""All state of a simulation: records of nodes and of the network, routes, what grows on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.records import FLIGHTS, PATHS
from nicscope.drivers.simulate.wire import Wire, grow_wire
from nicscope.fabric.faults import is_dead
from nicscope.fabric.paths import Paths, add_path, links_of, make_wanted_paths, path_to
from nicscope.fabric.topology import Fabric, Search, Topology
from nicscope.nic.ports.streams import ROOM, grow, node_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.agenda import Agenda
    from nicscope.drivers.simulate.bus.state import Bus
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.store import Store
    from nicscope.drivers.simulate.traced.state import Traced


def time_route_searches(machine: Machine, topology: Topology) -> None:
    """Determines what the probes of each new route search come to.

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


class Machine(NamedTuple):
    """One cluster; what is kept by sender has rows for the far ends of wires behind the nodes'."""

    tally: NDArray[Any]  # TALLY, shape (1,)
    agenda: Agenda  # KINDS slots per node
    costs: NDArray[Any]  # COSTS, shape (nodes,)
    nodes: NDArray[Any]  # NODE, shape (nodes,)
    endpoints: NDArray[Any]  # ENDPOINT, shape (nodes,): the NICs' firmware state
    pci_flows: NDArray[Any]  # FLOW, shape (nodes,)
    link_flows: NDArray[Any]  # FLOW, shape (nodes,), by sender
    copy_flows: NDArray[Any]  # FLOW, shape (nodes,)
    sends: NDArray[Any]  # PACKET, shape (nodes, send_ring)
    arrivals: NDArray[Any]  # PACKET, shape (nodes, receive_ring): accepted, not yet completed
    inboxes: NDArray[Any]  # PACKET, shape (nodes, receive_ring): what the host sees
    paths: Paths
    runs: NDArray[Any]  # RUN, by sender
    messages: NDArray[Any]  # MESSAGE; as many as are kept
    log: NDArray[Any]  # LOG; as many as are kept
    processes: NDArray[Any]  # OPERATION, shape (processes,), by node
    outbox: NDArray[Any]  # OPERATION, shape (processes * CHAIN,): begun by programs, chains whole
    inbox: NDArray[Any]  # OPERATION, shape (processes,): ended
    chained: NDArray[Any]  # CHAINED, shape (processes,)
    chains: NDArray[Any]  # OPERATION, shape (processes, CHAIN): what follows what each waits for
    inlined: NDArray[np.uint8]  # shape (processes, CHAIN, CONTROL_BYTES): bytes of posts in these
    due: NDArray[np.int64]  # processes that go on with their chains at this time, rising
    begun: NDArray[np.int64]  # processes whose operations have been taken last, in that order
    script: NDArray[Any]  # ROW, of the scripted processes
    scripted: NDArray[Any]  # SCRIPTED, shape (processes,)
    traced: Traced
    account: NDArray[np.int64]  # ps of node 0 by what went on (``account``), if that is kept
    store: Store
    ports: Ports
    bus: Bus
    wire: Wire
    calls: NDArray[np.int64]  # addresses of what serves ports and buses (``ports.calls``)


def continue_run(
    entry: Callable[[int, int], int], machine: Machine, topology: Topology, most: int
) -> int:
    """Serves what ``advance`` stopped for and fires ``most`` more events.

    How many it has fired; fewer than ``most`` only as ``advance`` itself.
    """
    fired = 0
    wants = machine.tally["wants"]
    while wants[0]:
        make_what_is_wanted(machine, topology)
        fired += entry(0, most - fired)
    return fired


def make_what_is_wanted(machine: Machine, topology: Topology) -> None:
    """Make the paths and the room for which ``advance`` has stopped; it goes on when called."""
    wants = machine.tally["wants"]
    if wants[0] & PATHS:
        make_wanted_paths(machine.paths, topology)
        time_route_searches(machine, topology)
    if wants[0] & ROOM:
        grow(machine.ports.pools, machine.ports.pool)
    if wants[0] & FLIGHTS:
        grow_wire(machine.wire)
