"""From a trace's columns to streams of page lookups, one stream per node.

Nodes are independent, so the rows of a batch are parted by node, in order; processes get small
ordinals in the order in which they first appear on their node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.hashing import place_of
from nicscope.jit import kernel, records, step
from nicscope.memory.numbering import BLOCK, NONE, number

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RequestColumns(Protocol):
    """What a batch of requests must offer: columns of equal length, already checked."""

    @property
    def node(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def pid(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def receive(self) -> NDArray[np.uint8]: ...  # noqa: D102
    @property
    def address(self) -> NDArray[np.uint64]: ...  # noqa: D102
    @property
    def length(self) -> NDArray[np.uint32]: ...  # noqa: D102


class Stream(NamedTuple):
    """Requests of one node as kernels want them; all of shape (requests,)."""

    process: NDArray[np.int32]  # ordinal on the node
    first: NDArray[np.int64]  # page number of the first page
    pages: NDArray[np.int32]
    receive: NDArray[np.uint8]
    length: NDArray[np.uint32]  # bytes


def slice_of(stream: Stream, begin: int, end: int) -> Stream:
    """Rows ``begin..end`` of ``stream``, as views."""
    rows = slice(begin, end)
    return Stream(
        stream.process[rows],
        stream.first[rows],
        stream.pages[rows],
        stream.receive[rows],
        stream.length[rows],
    )


PROCESS_SLOT = np.dtype([("key", "i8"), ("node", "i4"), ("ordinal", "i4")], align=True)
FREE = 0  # ``node`` holds the place of the node plus 1


class Directory(NamedTuple):
    """Which processes and nodes have appeared, in which order."""

    slots: NDArray[Any]  # PROCESS_SLOT, shape (2**k,): an open-addressing table of (node, pid)
    counts: NDArray[np.int64]  # shape (2,): nodes, processes
    nodes: NDArray[np.int64]  # shape (nodes + room,): their numbers in order of appearance
    processes: NDArray[np.int64]  # shape (nodes + room,): processes of each node


def new_directory(room: int = 256) -> Directory:
    """Nobody yet, with room for ``room`` (a power of two) nodes and processes."""
    return Directory(
        records(4 * room, PROCESS_SLOT),
        np.zeros(2, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )


def grown_directory(old: Directory) -> Directory:
    """The same nodes and processes with four times the room."""
    bigger = new_directory(len(old.slots))
    for slot in old.slots[old.slots["node"] != FREE]:
        bigger.slots[_slot_of(bigger.slots, int(slot["key"]))] = slot
    bigger.counts[:] = old.counts
    bigger.nodes[: len(old.nodes)] = old.nodes
    bigger.processes[: len(old.processes)] = old.processes
    return bigger


@step
def _slot_of(slots, key):
    mask = slots.size - 1
    place = np.int64(place_of(key, 0, slots.size))
    while slots[place].node != FREE and slots[place].key != key:
        place = (place + 1) & mask
    return place


@step
def _enter(directory, key):
    """The slot of ``key`` = node << 32 | pid, taken now if it is new."""
    place = _slot_of(directory.slots, key)
    slot = directory.slots[place]
    if slot.node == FREE:
        where = 0
        while where < directory.counts[0] and directory.nodes[where] != key >> 32:
            where += 1
        if where == directory.counts[0]:
            directory.nodes[where] = key >> 32
            directory.counts[0] += 1
        slot.key = key
        slot.node = where + 1
        slot.ordinal = directory.processes[where]
        directory.processes[where] += 1
        directory.counts[1] += 1
    return place


@kernel
def enter_processes(directory, node, pid, begin, owner):
    """Write each row's slot in the directory to ``owner``; the row where room ran out, or the end.

    ``node``, ``pid``, ``owner``: shape (rows,).
    """
    last = np.int64(-1)
    place = np.int64(0)
    for row in range(begin, node.size):
        key = np.int64(node[row]) << 32 | np.int64(pid[row])
        if key != last:
            if directory.counts[1] == directory.nodes.size:
                return row
            place = _enter(directory, key)
            last = key
        owner[row] = place
    return node.size


@kernel
def count_by_node(directory, owner, ends):
    """Set ``ends`` (shape (nodes,), zeros) to where each node's rows end when parted."""
    for row in range(owner.size):
        ends[directory.slots[owner[row]].node - 1] += 1
    for node in range(1, ends.size):
        ends[node] += ends[node - 1]


@kernel
def part_by_node(directory, owner, columns, page_bits, nexts, out):
    """Fill ``out`` with the rows of ``columns``, in order within each node.

    ``columns``: (address, length, receive).  ``nexts``: int64, one per node in order of
    appearance: where its rows begin, and after the call where they end.
    """
    for row in range(owner.size):
        slot = directory.slots[owner[row]]
        to = nexts[slot.node - 1]
        nexts[slot.node - 1] = to + 1
        _settle(columns, row, slot.ordinal, page_bits, out, to)


@kernel
def take_one_node(directory, owner, columns, page_bits, out):
    """As ``part_by_node`` where there is one node only."""
    for row in range(owner.size):
        _settle(columns, row, directory.slots[owner[row]].ordinal, page_bits, out, row)


@step
def _settle(columns, row, process, page_bits, out, to):
    address, length, receive = columns
    shift = np.uint64(page_bits)
    first = address[row] >> shift
    last = (address[row] + (np.uint64(length[row]) - np.uint64(1))) >> shift
    out.process[to] = process
    out.first[to] = np.int64(first)
    out.pages[to] = np.int32(last - first + np.uint64(1))
    out.receive[to] = receive[row]
    out.length[to] = length[row]


@kernel
def tally(stream):
    """Pages of all requests of ``stream``, and of those on the receive path."""
    pages = np.int64(0)
    received = np.int64(0)
    for row in range(stream.pages.size):
        pages += stream.pages[row]
        received += stream.pages[row] * np.int64(stream.receive[row])
    return pages, received


@kernel
def end_within(pages, begin, budget):
    """The first row after ``begin`` at which ``budget`` pages are exceeded; at least one row on."""
    total = np.int64(pages[begin])
    row = begin + 1
    while row < pages.size and total + pages[row] <= budget:
        total += pages[row]
        row += 1
    return row


@kernel
def number_stream(numbering, stream, begin, unit_bits, reach, numbers):
    """Write the numbers of the stream's units to ``numbers``; the row where room ran out.

    A unit is 2**unit_bits pages.  Units are numbered in request order from row ``begin``, whose
    numbers start at ``numbers[0]``; ``reach`` units beyond a request get numbers too, as pinning
    ahead may touch them.  Returns (row, numbers written).
    """
    at = 0
    for row in range(begin, stream.first.size):
        first = stream.first[row] >> unit_bits
        last = (stream.first[row] + stream.pages[row] - 1) >> unit_bits
        process = np.int64(stream.process[row])
        name = number(numbering, process, first)
        if last + reach > first and name != NONE:
            name = _number_run(numbering, process, first, last, reach, numbers[at:])
        if name == NONE:
            return row, at
        numbers[at] = name
        at += last - first + 1
    return stream.first.size, at


@step
def _number_run(numbering, process, first, last, reach, numbers):
    """Write the numbers of units ``first..last``; the first one, or ``NONE`` if room ran out."""
    base = np.int64(0)
    for unit in range(first, last + reach + 1):
        if unit == first or unit & (BLOCK - 1) == 0:
            name = number(numbering, process, unit)
            if name == NONE:
                return name
            base = name - unit
        if unit <= last:
            numbers[unit - first] = base + unit
    return np.int64(numbers[0])
