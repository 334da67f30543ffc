"""Wormhole paths: links are taken one after another, held to the packet's end, granted in order.

A sender has at most one packet on the network, so a link's queue is a chain through the senders.
Source: Trapeze, 3.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.fabric.topology import Topology

NOBODY = -1


class Paths(NamedTuple):
    """Routes, and who holds and who waits for each link."""

    # shape (ways * nodes * nodes + 1,): where a pair's links begin in ``route``, way by way
    first: NDArray[np.int64]
    route: NDArray[np.int64]  # links
    hops: NDArray[np.int64]  # shape (ways * nodes * nodes,): switches on the way; -1: no path
    holder: NDArray[np.int64]  # shape (links,): sender or NOBODY
    queue_head: NDArray[np.int64]  # shape (links,): the sender that waits longest, or NOBODY
    queue_tail: NDArray[np.int64]
    next_waiting: NDArray[np.int64]  # shape (nodes,): behind this sender in its queue, or NOBODY
    held: NDArray[np.int64]  # shape (nodes,): links of its path that the sender holds
    # shape (nodes,): which path, as (way * nodes + sender) * nodes + destination
    pair: NDArray[np.int64]
    way: NDArray[np.int64]  # shape (nodes, nodes): the one that new packets take


def new_paths(topology: Topology) -> Paths:
    """The idle network of ``topology``."""
    n = topology.nodes
    pairs = [(s, d) for s in range(n) for d in range(n)]
    ways = (topology.paths, *topology.spare)
    lengths = [len(paths.get(pair, ())) for paths in ways for pair in pairs]
    route = [link for paths in ways for pair in pairs for link in paths.get(pair, ())]
    return Paths(
        first=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        route=np.array(route, np.int64),
        hops=np.array([topology.hops.get(pair, -1) for pair in pairs] * len(ways), np.int64),
        holder=np.full(topology.links, NOBODY, np.int64),
        queue_head=np.full(topology.links, NOBODY, np.int64),
        queue_tail=np.full(topology.links, NOBODY, np.int64),
        next_waiting=np.full(n, NOBODY, np.int64),
        held=np.zeros(n, np.int64),
        pair=np.zeros(n, np.int64),
        way=np.zeros((n, n), np.int64),
    )


@step
def ways_of(paths):
    """How many ways there are between any two nodes."""
    return paths.hops.size // paths.way.size


@step
def path_to(paths, sender, destination):
    """The path that a packet takes which leaves now."""
    nodes = paths.way.shape[0]
    return (paths.way[sender, destination] * nodes + sender) * nodes + destination


@step
def path_length(paths, sender):
    """Links on the sender's present path."""
    pair = paths.pair[sender]
    return paths.first[pair + 1] - paths.first[pair]


@step
def link_of(paths, sender, place):
    """The link at ``place`` of the sender's present path."""
    return paths.route[paths.first[paths.pair[sender]] + place]


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
    """Wait no longer for the link behind those that the sender holds."""
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
