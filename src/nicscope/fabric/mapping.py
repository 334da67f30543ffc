"""Mapping: which routes through the switches are alive, found by probing links breadth first.

As Myrinet's mapping has it: a NIC knows its own link and nothing else, and sends a probe over every
link of what it has reached, nearest first, until one reaches the node that it looks for.  A probe
over a dead link is not answered.  No route leads through another node's NIC.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.fabric.topology import Leads, Links


class Search(NamedTuple):
    """What the probes of one search came to."""

    links: Links  # of the shortest route that is alive, in order; none if there is no route
    answered: tuple[int, ...]  # switches that each probe passed which was answered
    silent: int  # probes that were not


class Fabric:
    """Nodes, switches and links, as probes find them."""

    def __init__(self, nodes: int, links: int, leads: Leads) -> None:
        self._nodes = nodes
        self._out: dict[int, list[tuple[int, int]]] = {}
        for link in range(links):
            begin, end = leads(link)
            self._out.setdefault(begin, []).append((link, end))

    def search(self, sender: int, destination: int, is_alive: Callable[[int], bool]) -> Search:
        """Look for a route between two nodes over links of which ``is_alive`` says yes."""
        came_by: dict[int, tuple[int, int]] = {}  # the place before, and the link
        depth = {sender: 0}  # links from the sender
        answered: list[int] = []
        silent = 0
        waiting = deque([sender])
        while waiting:
            place = waiting.popleft()
            for link, end in self._out.get(place, ()):
                if not is_alive(link):
                    silent += 1
                    continue
                answered.append(depth[place])
                if end in depth:
                    continue
                came_by[end] = place, link
                depth[end] = depth[place] + 1
                if end == destination:
                    return Search(_route(came_by, sender, end), tuple(answered), silent)
                if end >= self._nodes:
                    waiting.append(end)
        return Search((), tuple(answered), silent)


def _route(came_by: dict[int, tuple[int, int]], sender: int, place: int) -> Links:
    links: list[int] = []
    while place != sender:
        place, link = came_by[place]
        links.append(link)
    return tuple(reversed(links))
