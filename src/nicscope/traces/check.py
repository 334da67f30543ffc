"""What makes a request believable, checked in one pass at the edge of the program."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.errors import TraceError
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.traces.schema import Requests

NO_NODE = -1
LONG_AGO = np.iinfo(np.int64).min
LAST_ADDRESS = np.uint64(2**64 - 1)
ONE = np.uint64(1)
FIRST_CAPACITY = 1024


class Fault(enum.IntEnum):
    """What is wrong with a request."""

    NONE = 0
    NEGATIVE_NODE = 1
    NEGATIVE_PID = 2
    ZERO_LENGTH = 3
    WRAPPING = 4
    BACKWARDS = 5
    TOO_MANY_NODES = 6  # no fault of the trace: the table of clocks has to grow


class Clocks(NamedTuple):
    """The latest time seen on each node: an open hash table, its capacity a power of two."""

    node: np.ndarray  # int64, NO_NODE where the slot is free
    time_ns: np.ndarray  # int64


@kernel
def slot_of(clocks, node):
    """Slot of ``node`` in ``clocks``, taken for it if need be; -1 if every slot is taken."""
    mask = clocks.node.size - 1
    slot = ((node * 2654435769) >> 12) & mask
    for _ in range(clocks.node.size):
        if clocks.node[slot] == NO_NODE:
            clocks.node[slot] = node
        if clocks.node[slot] == node:
            return slot
        slot = (slot + 1) & mask
    return -1


@kernel
def fault_of(requests, row):
    """What is wrong with one request, its time left aside."""
    if requests.node[row] < 0:
        return Fault.NEGATIVE_NODE
    if requests.pid[row] < 0:
        return Fault.NEGATIVE_PID
    if requests.length[row] == 0:
        return Fault.ZERO_LENGTH
    if requests.address[row] > LAST_ADDRESS - (np.uint64(requests.length[row]) - ONE):
        return Fault.WRAPPING
    return Fault.NONE


@kernel
def first_fault(requests, clocks, start):
    """First bad row from ``start`` on and what is wrong with it; advances ``clocks``."""
    for row in range(start, requests.node.size):
        fault = fault_of(requests, row)
        if fault != Fault.NONE:
            return row, fault
        slot = slot_of(clocks, np.int64(requests.node[row]))
        if slot < 0:
            return row, Fault.TOO_MANY_NODES
        if requests.time_ns[row] < clocks.time_ns[slot]:
            return row, Fault.BACKWARDS
        clocks.time_ns[slot] = requests.time_ns[row]
    return -1, Fault.NONE


def _empty_clocks(capacity: int) -> Clocks:
    return Clocks(np.full(capacity, NO_NODE, np.int64), np.full(capacity, LONG_AGO, np.int64))


class Checker:
    """Checks the batches of one trace in their order; remembers rows and clocks between them."""

    def __init__(self, source: str) -> None:
        self._source = source
        # Where a row of the batch to come stands; importers say line numbers instead.
        self.place: Callable[[int], str] = self._row_of_the_file
        self._clocks = _empty_clocks(FIRST_CAPACITY)
        self.rows = 0  # seen so far

    def check(self, requests: Requests) -> None:
        """Errors: ``TraceError`` naming the source, the first bad row and its value."""
        row, fault = first_fault(requests, self._clocks, 0)
        while fault == Fault.TOO_MANY_NODES:
            self._grow()
            row, fault = first_fault(requests, self._clocks, row)
        if fault != Fault.NONE:
            raise self.error(row, self._describe(requests, row, Fault(fault)))
        self.rows += requests.node.size

    def error(self, row: int, what: str) -> TraceError:
        """The error that says ``what`` is wrong with row ``row`` of the batch to come."""
        return TraceError(f"{self._source}: {self.place(row)}: {what}")

    def _row_of_the_file(self, row: int) -> str:
        return f"row {self.rows + row} (the first is 0)"

    def _grow(self) -> None:
        old = self._clocks
        self._clocks = _empty_clocks(2 * old.node.size)
        for node, time_ns in zip(old.node, old.time_ns, strict=True):
            self._clocks.time_ns[slot_of(self._clocks, node)] = time_ns

    def _describe(self, requests: Requests, row: int, fault: Fault) -> str:
        node, time_ns = int(requests.node[row]), int(requests.time_ns[row])
        address, length = int(requests.address[row]), int(requests.length[row])
        if fault == Fault.NEGATIVE_NODE:
            return f"node is {node}; nodes are numbered from 0"
        if fault == Fault.NEGATIVE_PID:
            return f"pid is {requests.pid[row]}; must not be negative"
        if fault == Fault.ZERO_LENGTH:
            return "length is 0; a request moves at least 1 byte"
        if fault == Fault.WRAPPING:
            return f"address {address:#x} with length {length} wraps past 2^64"
        before = self._clocks.time_ns[slot_of(self._clocks, np.int64(node))]
        return (
            f"time_ns is {time_ns}, after {before} on the same node {node}; "
            "time must not go backwards within a node"
        )
