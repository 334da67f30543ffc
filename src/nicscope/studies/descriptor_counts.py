"""How many descriptors transfer libraries make of a trace's requests, and of which sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.traces.schema import Requests

BINS = 48  # of sizes, each twice the one before


class Rule(NamedTuple):
    """What becomes of requests: those that adjoin each other may be joined, long ones are cut."""

    joins: bool
    slice_bytes: int | None
    most_bytes: int = 1 << 30  # of a descriptor


# NIXL asks for each; Mooncake's transfer engine cuts what it is asked for into slices, of which the
# last may be a quarter longer; the third is what either could do where requests adjoin.
RULES = {"nixl": Rule(False, None), "mooncake": Rule(False, 1 << 16), "joined": Rule(True, None)}


class DescriptorCounts:
    """Descriptors by rule, fed batch by batch; adjoining requests may lie in two batches."""

    def __init__(self, rule: Rule, packet_bytes: int, pcie_bytes: int) -> None:
        """``packet_bytes``, ``pcie_bytes``: payload of a packet of the link, and of PCIe."""
        self._rule = rule
        self._packet_bytes, self._pcie_bytes = packet_bytes, pcie_bytes
        self._open: NDArray[np.int64] | None = None  # a run that may go on: who, begin, length
        self.descriptors = self.byte_count = self.packets = self.pcie_packets = 0
        self.smallest, self.largest = 0, 0
        self.by_size = np.zeros(BINS, np.int64)  # by the power of two that a size is at least

    def feed(self, batch: Requests) -> None:
        """Take the requests of a batch, in the order of issue."""
        who = batch.node.astype(np.int64) << 36 | batch.pid.astype(np.int64) << 4
        rows = np.empty((len(batch.length), 3), np.int64)
        rows[:, 0] = who | batch.op
        rows[:, 1] = batch.address.astype(np.int64)
        rows[:, 2] = batch.length
        if not self._rule.joins:
            self._cut(rows[:, 2])
            return
        if self._open is not None:
            rows = np.concatenate([self._open[None], rows])
        runs = self._joined(rows)
        self._open = runs[-1].copy() if len(runs) else None
        self._cut(runs[:-1, 2])

    def end(self) -> None:
        """Count what was left open."""
        if self._open is not None:
            self._cut(self._open[2:])
            self._open = None

    def _joined(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Runs of requests that each begin where the one before ends."""
        begins = np.ones(len(rows), bool)
        same = rows[1:, 0] == rows[:-1, 0]
        begins[1:] = ~(same & (rows[1:, 1] == rows[:-1, 1] + rows[:-1, 2]))
        first = np.flatnonzero(begins)
        runs = rows[first].copy()
        if len(first):
            runs[:, 2] = np.add.reduceat(rows[:, 2], first)
        return runs

    def _cut(self, lengths: NDArray[np.int64]) -> None:
        """Count the descriptors of runs of these lengths."""
        lengths = lengths[lengths > 0]
        size = self._rule.slice_bytes
        most = self._rule.most_bytes if size is None else size
        whole, rest = np.divmod(lengths, most)
        # A remainder of at most a quarter of a slice belongs to the slice before it.
        longer = np.zeros(len(lengths), bool)
        if size is not None:
            longer = (whole > 0) & (rest > 0) & (rest <= size // 4)
        self._count(np.array([most]), np.array([int((whole - longer).sum())]))
        self._count(*np.unique(most + rest[longer], return_counts=True))
        self._count(*np.unique(rest[(rest > 0) & ~longer], return_counts=True))

    def _count(self, sizes: NDArray[np.int64], many: NDArray[np.int64]) -> None:
        sizes, many = sizes[many > 0], many[many > 0]
        if not len(sizes):
            return
        self.smallest = int(min(self.smallest or sizes.min(), sizes.min()))
        self.largest = max(self.largest, int(sizes.max()))
        self.descriptors += int(many.sum())
        self.byte_count += int((sizes * many).sum())
        self.packets += int((-(-sizes // self._packet_bytes) * many).sum())
        self.pcie_packets += int((-(-sizes // self._pcie_bytes) * many).sum())
        np.add.at(self.by_size, np.log2(sizes).astype(np.int64), many)
