"""Replaying batches of requests through several designs at once.

Parting by node and numbering pages is done once per batch and shared by every design whose page
and line sizes allow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay.columns import (
    Stream,
    count_by_node,
    end_within,
    enter_processes,
    grown_directory,
    new_directory,
    number_stream,
    part_by_node,
    take_one_node,
    tally,
)
from nicscope.drivers.replay.node import Node, line_bits_of
from nicscope.drivers.replay.state import Stretch
from nicscope.memory.numbering import grown, new_numbering

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.memory.numbering import Numbering

Counts = dict[str, int | None]
DEFAULT_PAGE_SIZE = 4096
# Rows and units that are worked on at a time: few enough to stay in the cache between passes.
ROWS = 1 << 15
UNITS = 1 << 16


class ReplayResult(NamedTuple):
    """What one design made of a trace."""

    design: Design  # its page size settled
    total: Counts  # sums over nodes
    nodes: list[dict[str, int | None]]  # each with its "node" number, ascending
    nic_memory_bytes: dict[str, int]  # of the NIC that takes most, by structure


def replay(
    batches: Iterable[RequestColumns],
    designs: Sequence[Design],
    kinds: bool = True,
    page_size: int = DEFAULT_PAGE_SIZE,
) -> list[ReplayResult]:
    """Count what each of ``designs`` does with the requests, in the order of ``designs``.

    ``batches`` hold checked columns in the order of issue.  ``page_size`` is the trace's, used by
    designs that state none.  Without ``kinds`` the split of non-compulsory misses stays None,
    which is faster.  Source: docs/counts.md says what every count means.
    """
    replayer = Replayer(designs, kinds, page_size)
    for batch in batches:
        replayer.feed(batch)
    return replayer.results()


class Replayer:
    """A replay in progress."""

    def __init__(self, designs: Sequence[Design], kinds: bool, page_size: int) -> None:
        self._designs = [design.at_page_size(page_size) for design in designs]
        self._directory = new_directory()
        self._views = [
            _View(page_bits, [d for d in self._designs if _page_bits(d) == page_bits], kinds)
            for page_bits in sorted({_page_bits(design) for design in self._designs})
        ]

    def feed(self, batch: RequestColumns) -> None:
        """Replay one batch of any length."""
        for begin in range(0, len(batch.node), ROWS):
            rows = slice(begin, begin + ROWS)
            owner = self._owners(batch.node[rows], batch.pid[rows])
            columns = (batch.address[rows], batch.length[rows], batch.receive[rows])
            for view in self._views:
                view.feed(self._directory, owner, columns)

    def _owners(self, node: NDArray[np.int32], pid: NDArray[np.int32]) -> NDArray[np.int64]:
        owner = np.empty(len(node), np.int64)
        row = 0
        while (row := enter_processes(self._directory, node, pid, row, owner)) < len(node):
            self._directory = grown_directory(self._directory)
            row = 0  # slots have moved
        return owner

    def results(self) -> list[ReplayResult]:
        """What came of it so far."""
        nodes = {id(design): found for view in self._views for design, found in view.nodes()}
        return [_result(design, nodes[id(design)]) for design in self._designs]


class _View:
    """The trace as pages of one size, and every design that sees it so."""

    def __init__(self, page_bits: int, designs: list[Design], kinds: bool) -> None:
        self._page_bits = page_bits
        self._kinds = kinds
        self._groups = [
            _Group(bits, [d for d in designs if line_bits_of(d) == bits])
            for bits in sorted({line_bits_of(design) for design in designs})
        ]
        self._out = Stream(
            np.empty(ROWS, np.int32),
            np.empty(ROWS, np.int64),
            np.empty(ROWS, np.int32),
            np.empty(ROWS, np.uint8),
            np.empty(ROWS, np.uint32),
        )

    def feed(self, directory: Any, owner: NDArray[np.int64], columns: tuple[Any, ...]) -> None:
        ends = np.zeros(int(directory.counts[0]), np.int64)
        if len(ends) == 1:
            take_one_node(directory, owner, columns, self._page_bits, self._out)
            ends[0] = len(owner)
        else:
            count_by_node(directory, owner, ends)
            nexts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            part_by_node(directory, owner, columns, self._page_bits, nexts, self._out)
        begin = 0
        for place, end in enumerate(ends.tolist()):
            if end > begin:
                stream = Stream(*(column[begin:end] for column in self._out))
                processes = int(directory.processes[place])
                for group in self._groups:
                    if place == len(group.per_node):
                        self._add_node(group, int(directory.nodes[place]))
                    group.per_node[place].feed(stream, processes)
            begin = end

    def _add_node(self, group: _Group, number: int) -> None:
        nodes = [Node(d, self._page_bits, self._kinds, number) for d in group.designs]
        group.per_node.append(_NumberedNode(number, nodes, group.unit_bits, group.reach))

    def nodes(self) -> list[tuple[Design, list[Node]]]:
        return [
            (design, [numbered.designs[place] for numbered in group.per_node])
            for group in self._groups
            for place, design in enumerate(group.designs)
        ]


class _Group:
    """The designs that share numbers: the same page size and the same line."""

    def __init__(self, unit_bits: int, designs: list[Design]) -> None:
        self.unit_bits = unit_bits
        self.designs = designs
        self.reach = max((design.prepin or 1) - 1 for design in designs)
        self.per_node: list[_NumberedNode] = []


class _NumberedNode:
    """One node's numbering and its NIC under every design of a group."""

    def __init__(self, number: int, designs: list[Node], unit_bits: int, reach: int) -> None:
        self.number = number
        self.designs = designs
        self._unit_bits = unit_bits
        self._reach = reach
        self._numbering: Numbering = new_numbering()
        self._numbers = np.empty(UNITS, np.uint32)

    def feed(self, stream: Stream, processes: int) -> None:
        begin = 0
        fits = tally(stream)[0] <= UNITS
        while begin < len(stream.first):
            end = len(stream.first) if fits else end_within(stream.pages, begin, UNITS)
            part = Stream(*(column[begin:end] for column in stream))
            numbers = self._number(part)
            for node in self.designs:
                node.replay(self._numbering, Stretch(*part, numbers), processes)
            begin = end

    def _number(self, part: Stream) -> NDArray[np.uint32]:
        if part.pages[0] > len(self._numbers):  # one request that is longer than the budget
            self._numbers = np.empty(int(part.pages[0]), np.uint32)
        row = at = 0
        while True:
            row, written = number_stream(
                self._numbering, part, row, self._unit_bits, self._reach, self._numbers[at:]
            )
            at += written
            if row == len(part.first):
                return self._numbers[:at]
            needed = (int(part.pages[row]) + self._reach) // 16 + 3
            blocks = max(2 * len(self._numbering.owners), int(self._numbering.used[0]) + needed)
            self._numbering = grown(self._numbering, blocks)


def _page_bits(design: Design) -> int:
    assert design.page_size is not None
    return design.page_size.bit_length() - 1


def _result(design: Design, nodes: list[Node]) -> ReplayResult:
    nodes = sorted(nodes, key=lambda node: node.number)
    each = [{"node": node.number, **node.counts()} for node in nodes]
    total = {name: _sum([counts[name] for counts in each]) for name in each[0] if name != "node"}
    largest = max((node.nic_memory_bytes() for node in nodes), key=lambda sizes: sum(sizes.values()))
    return ReplayResult(design, total, each, largest)


def _sum(values: list[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)
