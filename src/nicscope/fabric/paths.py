"""Wormhole paths: links are taken one after another, held to the packet's end, granted in order.

A sender has at most one packet on the network, so a link's queue is a chain through the senders.
Source: Trapeze, 3.5.  A path is made when its two nodes first talk: a sender that finds none wants
it, and the driver makes it before the packet goes on; a route that is found later is one more path.
Where packets may come to a node over different links, a path ends with its NIC, which takes one at
a time, as if that were a link.  What a node sends to itself crosses no switch: it holds only the
way into its NIC, so that it takes its turn with what others send there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.layout import Growing, renew
from nicscope.kernel.records import longer, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.fabric.topology import Links, Topology

NOBODY = -1


PATHS = np.dtype(
    [
        ("made", "i8"),  # paths, that of number 0 among them
        ("wanted", "i8"),  # pairs whose paths are still to be made
        ("port", "i8"),  # number of node 0's NIC as a link; 0: NICs are none
    ],
    align=True,
)
FIRST = 256  # paths that there is room for at first


class Routes(Growing):
    """The links of the paths that have been used: path p has first[p] up to first[p + 1]."""

    first: NDArray[np.int64]  # shape (paths + 1,)
    hops: NDArray[np.int64]  # shape (paths,): switches on the way; -1: no path
    links: NDArray[np.int64]


class Paths(NamedTuple):
    """Routes, and who holds and who waits for each link."""

    summary: NDArray[Any]  # PATHS, shape (1,)
    routes: Routes
    # shape (nodes, nodes): the path that new packets take; 0: none has been made
    path_of: NDArray[np.int32]
    wanted: NDArray[np.int64]  # shape (nodes, 2): pairs, a sender at most once
    holder: NDArray[np.int64]  # shape (links + nodes,): sender or NOBODY
    queue_head: NDArray[np.int64]  # likewise: the sender that waits longest, or NOBODY
    queue_tail: NDArray[np.int64]
    next_waiting: NDArray[np.int64]  # shape (nodes,): behind this sender in its queue, or NOBODY
    held: NDArray[np.int64]  # shape (nodes,): links of its path that the sender holds
    path: NDArray[np.int64]  # shape (nodes,): which path the sender's packet is on


def new_paths(topology: Topology) -> Paths:
    """The idle network of ``topology``, with no path made yet.

    With a delay there are as many senders again as nodes: the far ends of the wires to each.
    """
    n = topology.nodes
    senders = 2 * n if topology.delay_ps else n
    summary = records(1, PATHS)
    summary["made"] = 1
    summary["port"] = topology.links if topology.has_several_ports() else 0
    held = topology.links + n
    routes = {
        "first": np.zeros(FIRST + 1, np.int64),
        "hops": np.full(FIRST, -1, np.int64),
        "links": np.zeros(FIRST, np.int64),
    }
    return Paths(
        summary=summary,
        routes=Routes(routes),
        path_of=np.zeros((n, n), np.int32),
        wanted=np.zeros((n, 2), np.int64),
        holder=np.full(held, NOBODY, np.int64),
        queue_head=np.full(held, NOBODY, np.int64),
        queue_tail=np.full(held, NOBODY, np.int64),
        next_waiting=np.full(senders, NOBODY, np.int64),
        held=np.zeros(senders, np.int64),
        path=np.zeros(senders, np.int64),
    )


def make_wanted_paths(paths: Paths, topology: Topology) -> None:
    """Make the paths of the pairs that are wanted, there and back."""
    wanted = paths.summary["wanted"]
    for s, d in paths.wanted[: wanted[0]].tolist():
        make_path(paths, topology, s, d)
        make_path(paths, topology, d, s)
    wanted[0] = 0


def make_path(paths: Paths, topology: Topology, sender: int, destination: int) -> None:
    """Make the path between two nodes, unless it exists; where there is none, it has no link."""
    pair = (sender, destination)
    if paths.path_of[pair] == 0:
        if sender == destination:
            paths.path_of[pair] = _add_loop(paths, topology, sender)
            return
        links = topology.paths.get(pair, ())
        paths.path_of[pair] = add_path(paths, links, topology.hops.get(pair, -1), destination)


def _add_loop(paths: Paths, topology: Topology, node: int) -> int:
    """Make the path from a NIC back into itself; its number."""
    if paths.summary[0]["port"] > 0:
        return _add(paths, (int(paths.summary[0]["port"]) + node,), 0)
    others = (each for each in range(topology.nodes) if each != node)
    ways_in = (topology.paths.get((other, node), ()) for other in others)
    return _add(paths, next((links[-1:] for links in ways_in if links), ()), 0)


def add_path(paths: Paths, links: Links, hops: int, destination: int) -> int:
    """Make a path over ``links`` and ``hops`` switches that packets may take; its number."""
    port = int(paths.summary[0]["port"])
    if links and port > 0:
        links = (*links, port + destination)
    return _add(paths, links, hops)


def _add(paths: Paths, links: Links, hops: int) -> int:
    made, routes = paths.summary["made"], paths.routes
    number = int(made[0])
    end = int(routes.first[number]) + len(links)
    _make_room(routes, number + 1, end)
    routes.hops[number] = hops
    for place, link in enumerate(links, end - len(links)):
        routes.links[place] = link
    routes.first[number + 1] = end
    made[0] = number + 1
    return number


def links_of(paths: Paths, path: int) -> Links:
    """The links of a path, in order, without the NIC that it may end with."""
    first, routes = paths.routes.first, paths.routes
    links = routes.links[first[path] : first[path + 1]].tolist()
    return tuple(links[:-1] if paths.summary[0]["port"] > 0 else links)


def _make_room(routes: Routes, paths: int, links: int) -> None:
    if paths > routes.hops.size:
        routes.hops = longer(routes.hops, 2 * paths)
        routes.first = longer(routes.first, 2 * paths + 1)
        renew(routes)
    if links > routes.links.size:
        routes.links = longer(routes.links, 2 * links)
        renew(routes)


@step
def needs_path(paths, sender, destination):
    """Whether the paths between two nodes have to be made before a packet can go on one."""
    if paths.path_of[sender, destination] != 0:
        return False
    summary = paths.summary[0]
    paths.wanted[summary.wanted, 0] = sender
    paths.wanted[summary.wanted, 1] = destination
    summary.wanted += 1
    return True


@step
def path_to(paths, sender, destination):
    """The path that a packet takes which leaves now."""
    return np.int64(paths.path_of[sender, destination])


@step
def set_path(paths, sender, destination, path):
    """Set the path that new packets between two nodes take."""
    paths.path_of[sender, destination] = path


@step
def path_length(paths, sender):
    """Links on the sender's present path."""
    path = paths.path[sender]
    return paths.routes.first[path + 1] - paths.routes.first[path]


@step
def link_of(paths, sender, place):
    """The link at ``place`` of the sender's present path."""
    return paths.routes.links[paths.routes.first[paths.path[sender]] + place]


@step
def acquire(paths, sender):
    """Take the links that come next, as far as they are free; whether the path is whole.

    If it is not, the sender now waits for the first one that is held.
    """
    while paths.held[sender] < path_length(paths, sender):
        link = link_of(paths, sender, paths.held[sender])
        if paths.holder[link] != NOBODY:
            _enqueue(paths, link, sender)
            return False
        paths.holder[link] = sender
        paths.held[sender] += 1
    return True


@step
def _enqueue(paths, link, sender):
    paths.next_waiting[sender] = NOBODY
    if paths.queue_head[link] == NOBODY:
        paths.queue_head[link] = sender
    else:
        paths.next_waiting[paths.queue_tail[link]] = sender
    paths.queue_tail[link] = sender


@step
def release(paths, sender):
    """Give the last link that the sender holds to the first in its queue.

    That sender, or ``NOBODY``; it should then ``acquire`` the rest of its path.
    """
    paths.held[sender] -= 1
    link = link_of(paths, sender, paths.held[sender])
    heir = paths.queue_head[link]
    paths.holder[link] = heir
    if heir != NOBODY:
        paths.queue_head[link] = paths.next_waiting[heir]
        paths.held[heir] += 1
    return heir


@step
def leave_queue(paths, sender):
    """Leave the queue for the link behind those that the sender holds."""
    link = link_of(paths, sender, paths.held[sender])
    before = np.int64(NOBODY)
    here = paths.queue_head[link]
    while here != sender:
        before = here
        here = paths.next_waiting[here]
    after = paths.next_waiting[sender]
    if before == NOBODY:
        paths.queue_head[link] = after
    else:
        paths.next_waiting[before] = after
    if paths.queue_tail[link] == sender:
        paths.queue_tail[link] = before
