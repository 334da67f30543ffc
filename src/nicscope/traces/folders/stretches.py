"""Which files of a folder have nodes in common, and how the rows of a node are put in order.

Files without a node in common are read one after the other.  So are those that follow each other
in time.  Others are merged: side by side if each is in the order of time over all its nodes, else
node by node.
"""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.traces.folders.members import Span, open_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.traces.folders.members import Member

EVERYTHING = Span(-(2**63), 2**63 - 1)


class Order(enum.Enum):
    """How the rows of some files are put in order."""

    IN_TURN = "in turn"
    SIDE_BY_SIDE = "side by side"
    NODE_BY_NODE = "node by node"


class Stretch(NamedTuple):
    """Files whose nodes are in no other file."""

    members: tuple[Member, ...]  # in the order in which they are read, or come in a tie
    order: Order
    nodes: Span
    listed: tuple[int, ...] = ()  # every node, if rows come node by node

    @property
    def rows(self) -> int:
        """Of all its files."""
        return sum(member.rows for member in self.members)


class Scan(NamedTuple):
    """What the rows of a file say."""

    nodes: frozenset[int]
    times: Span
    is_in_time: bool  # over all its nodes


def stretches(members: Sequence[Member]) -> list[Stretch]:
    """The files ``members``, given by name, in stretches; rows are read only if they must be.

    Errors: ``TraceError`` at the first row of those that the schema does not allow.
    """
    found = []
    for together in _touching(members):
        if len(together) == 1 or _follow_in_time(together):
            found.append(_in_turn(together))
        else:
            found += _looked_into(together)
    place = {member.path: number for number, member in enumerate(members)}
    return sorted(found, key=lambda each: min(place[member.path] for member in each.members))


def _in_turn(members: Sequence[Member]) -> Stretch:
    ordered = tuple(sorted(members, key=_by_time))
    return Stretch(ordered, Order.IN_TURN, _over(members))


def _by_time(member: Member) -> Span:
    return member.times or EVERYTHING  # sorting is stable: then by name


def _over(members: Iterable[Member]) -> Span:
    spans = [member.nodes or EVERYTHING for member in members]
    return Span(min(span.low for span in spans), max(span.high for span in spans))


def _touching(members: Sequence[Member]) -> list[list[Member]]:
    """Files in groups whose nodes lie in ranges apart from each other."""
    groups: list[tuple[int, list[Member]]] = []
    for member in sorted(members, key=lambda each: (each.nodes or EVERYTHING).low):
        span = member.nodes or EVERYTHING
        if groups and span.low <= groups[-1][0]:
            high, group = groups.pop()
            groups.append((max(high, span.high), [*group, member]))
        else:
            groups.append((span.high, [member]))
    place = {member.path: number for number, member in enumerate(members)}
    return [sorted(group, key=lambda each: place[each.path]) for _, group in groups]


def _follow_in_time(members: Sequence[Member]) -> bool:
    """Whether each file ends before the next begins, or as it begins and comes first by name."""
    if any(member.times is None for member in members):
        return False
    place = {member.path: number for number, member in enumerate(members)}
    ordered = sorted(members, key=_by_time)
    for before, after in itertools.pairwise(ordered):
        end, begin = (before.times or EVERYTHING).high, (after.times or EVERYTHING).low
        if end > begin or (end == begin and place[before.path] > place[after.path]):
            return False
    return True


def _looked_into(members: Sequence[Member]) -> list[Stretch]:
    """Files that may have nodes in common, by what their rows say."""
    scans = {member.path: scan(member) for member in members}
    exact = [
        member._replace(nodes=_span(scans[member.path].nodes), times=scans[member.path].times)
        for member in members
    ]
    found = []
    for together in _sharing(exact, scans):
        if len(together) == 1 or _follow_in_time(together):
            found.append(_in_turn(together))
            continue
        nodes = sorted(set().union(*(scans[member.path].nodes for member in together)))
        in_time = all(scans[member.path].is_in_time for member in together)
        order = Order.SIDE_BY_SIDE if in_time else Order.NODE_BY_NODE
        listed = () if in_time else tuple(nodes)
        found.append(Stretch(tuple(together), order, _span(nodes), listed))
    return found


def _span(values: Iterable[int]) -> Span:
    listed = list(values)
    return Span(min(listed), max(listed))


def _sharing(members: Sequence[Member], scans: dict[str, Scan]) -> list[list[Member]]:
    """Files in groups without a node in common."""
    groups: list[tuple[set[int], list[int]]] = []
    for place, member in enumerate(members):
        nodes, places = set(scans[member.path].nodes), [place]
        apart = []
        for others, theirs in groups:
            if nodes & others:
                nodes, places = nodes | others, places + theirs
            else:
                apart.append((others, theirs))
        groups = [*apart, (nodes, places)]
    return [[members[place] for place in sorted(places)] for _, places in groups]


def scan(member: Member) -> Scan:
    """Look at node and time of every row; errors: ``TraceError``."""
    nodes: set[int] = set()
    low, high, last, in_time = 2**63 - 1, -(2**63), -(2**63), True
    for batch in open_member(member).batches_of_rows():
        nodes.update(np.unique(batch.node).tolist())
        times = batch.time_ns
        low, high = min(low, int(times.min())), max(high, int(times.max()))
        in_time = in_time and int(times[0]) >= last and bool(np.all(times[1:] >= times[:-1]))
        last = int(times[-1])
    return Scan(frozenset(nodes), Span(low, high), in_time)
