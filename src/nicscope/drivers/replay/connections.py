"""What an RDMA NIC keeps of connections while a trace is replayed: contexts and work requests.

A request that its process posts (send, write, read) has a work request, which the NIC fetches at
the doorbell, needs to execute it, and needs again for the answer, each time with the context of the
request's queue pair.  A request that comes (recv, serve_read, serve_write) needs the context once.
A trace has no time for answers: a queue pair has ``outstanding`` requests posted, and the oldest is
answered before the next is posted; what is outstanding at the trace's end is answered then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, step
from nicscope.kernel.records import records
from nicscope.nic.context_cache import ABSENT, Residents, bring, leave, look_up, new_residents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

COUNTS = np.dtype(
    [
        (name, "i8")
        for name in (
            "requests",
            "posted",  # of these, by the node's own processes
            "connections",
            "context_lookups",
            "context_misses",
            "work_request_lookups",
            "work_request_misses",  # they had been fetched, and were fetched again
            "unknown_connections",  # requests of which the trace does not say theirs
        )
    ],
    align=True,
)
CONNECTION = np.dtype(
    [("posted", "i8"), ("answered", "i8")],  # requests ever
    align=True,
)
FIRST = 1024  # connections that there is room for at first


class Sizes(NamedTuple):
    """How much a NIC keeps, and how many requests a queue pair has outstanding."""

    contexts: int
    work_requests: int
    outstanding: int
    replacement: int  # ``LRU`` or ``RANDOM`` of ``nic.context_cache``


class Case(NamedTuple):
    """One NIC; ``connection`` and ``is_posted`` are of the batch's requests."""

    counts: NDArray[Any]  # COUNTS, shape (1,)
    contexts: Residents  # by connection
    requests: Residents  # by connection and place among its outstanding requests
    connections: NDArray[Any]  # CONNECTION, shape (connections + room,)
    posted_at: NDArray[np.int64]  # by key of ``requests``: how many the NIC had been posted
    outstanding: NDArray[np.int64]  # shape (1,)
    connection: NDArray[np.int64]
    is_posted: NDArray[np.uint8]


@kernel
def replay_connections(case, begin, end):
    """Replays requests ``begin..end`` of the batch."""
    counts, outstanding = case.counts[0], case.outstanding[0]
    for row in range(begin, end):
        number = case.connection[row]
        counts.requests += 1
        if case.is_posted[row] == 0:
            _look_up_context(case, number)
            continue
        connection = case.connections[number]
        if connection.posted - connection.answered == outstanding:
            _answer(case, number)
        place = _place_of(case, number, np.int64(connection.posted))
        case.posted_at[place] = counts.posted
        connection.posted += 1
        counts.posted += 1
        bring(case.requests, place)
        _look_up_context(case, number)
        _look_up_request(case, place)


@kernel
def answer_oldest(case, numbers):
    """Answers the oldest outstanding request of each of these connections, in their order."""
    for i in range(numbers.size):
        _answer(case, numbers[i])


@step
def _place_of(case, number, request):
    return number * case.outstanding[0] + request % case.outstanding[0]


@step
def _answer(case, number):
    """Completes the oldest outstanding request of a connection."""
    connection = case.connections[number]
    place = _place_of(case, number, np.int64(connection.answered))
    connection.answered += 1
    _look_up_context(case, number)
    _look_up_request(case, place)
    leave(case.requests, place)


@step
def _look_up_context(case, number):
    counts = case.counts[0]
    counts.context_lookups += 1
    if not look_up(case.contexts, number):
        counts.context_misses += 1


@step
def _look_up_request(case, place):
    counts = case.counts[0]
    counts.work_request_lookups += 1
    if not look_up(case.requests, place):
        counts.work_request_misses += 1


class ConnectionNode:
    """The connections of one node, and what its NIC has of them."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._numbers: dict[tuple[int, ...], int] = {}
        self._counts = records(1, COUNTS)
        self._connections = records(FIRST, CONNECTION)
        places = FIRST * sizes.outstanding
        self._posted_at = np.zeros(places, np.int64)
        self._contexts = _residents(FIRST, sizes.contexts, sizes.replacement)
        self._requests = _residents(places, sizes.work_requests, sizes.replacement)

    def feed(self, keys: NDArray[np.int64], is_posted: NDArray[np.uint8], unknown: int) -> None:
        """Replays requests: ``keys`` has a row for each, equal for those of one connection.

        ``unknown``: requests whose connection the trace does not say, which are not among these.
        """
        self._counts["unknown_connections"] += unknown
        own, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        numbers = np.zeros(len(own), np.int64)
        for place in np.argsort(first).tolist():  # in order of appearance
            key = tuple(own[place].tolist())
            numbers[place] = self._numbers.setdefault(key, len(self._numbers))
        self._make_room(len(self._numbers))
        replay_connections(self._case(numbers[places.reshape(-1)], is_posted), 0, len(is_posted))

    def counts(self) -> dict[str, int]:
        """Every count, when all outstanding requests have been answered."""
        left = self._connections["posted"] - self._connections["answered"]
        order: list[tuple[int, int]] = []
        for number in np.flatnonzero(left).tolist():
            one = self._connections[number]
            for request in range(int(one["answered"]), int(one["posted"])):
                place = number * self._sizes.outstanding + request % self._sizes.outstanding
                order.append((int(self._posted_at[place]), number))
        nothing = np.zeros(0, np.int64), np.zeros(0, np.uint8)
        answer_oldest(self._case(*nothing), np.array([n for _, n in sorted(order)], np.int64))
        self._counts["connections"] = len(self._numbers)
        record = self._counts[0]
        return {name: int(record[name]) for name in COUNTS.names or ()}

    def _case(self, connection: NDArray[np.int64], is_posted: NDArray[np.uint8]) -> Case:
        return Case(
            self._counts,
            self._contexts,
            self._requests,
            self._connections,
            self._posted_at,
            np.array([self._sizes.outstanding], np.int64),
            connection,
            is_posted,
        )

    def _make_room(self, connections: int) -> None:
        room = len(self._connections)
        if connections <= room:
            return
        more = max(connections, 2 * room) - room
        grown = records(room + more, CONNECTION)
        grown[:room] = self._connections
        self._connections = grown
        places = more * self._sizes.outstanding
        self._posted_at = np.append(self._posted_at, np.zeros(places, np.int64))
        self._contexts = _with_keys(self._contexts, more)
        self._requests = _with_keys(self._requests, places)


def _residents(keys: int, slots: int, replacement: int) -> Residents:
    """An empty set of that many slots, however few keys there are so far."""
    made = new_residents(max(keys, slots), slots, replacement)
    return made._replace(slot_of=np.full(keys, ABSENT, np.int32))


def _with_keys(kept: Residents, more: int) -> Residents:
    return kept._replace(slot_of=np.append(kept.slot_of, np.full(more, ABSENT, np.int32)))


def summed(nodes: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """Sums over nodes."""
    return {name: sum(each[name] for each in nodes.values()) for name in COUNTS.names or ()}
