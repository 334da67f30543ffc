"""How many descriptors transfer libraries make of a trace's requests, and of which sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import kernel, routine
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from nicscope.traces.schema import Requests

BINS = 48  # of sizes, each twice the one before


class Rule(NamedTuple):
    """How requests become descriptors: adjacent ones may be merged, long ones are split."""

    joins: bool
    slice_bytes: int | None
    most_bytes: int = 1 << 30  # of a descriptor


# NIXL asks for each; Mooncake's transfer engine cuts what it is asked for into slices, of which the
# last may be a quarter longer; the third is what either could do where requests adjoin.
RULES = {"nixl": Rule(False, None), "mooncake": Rule(False, 1 << 16), "joined": Rule(True, None)}

COUNTS = np.dtype(
    [
        (name, np.int64)
        for name in (
            # The rule, whose slices of 0 bytes mean that none is cut.
            *("joins", "slice_bytes", "most_bytes", "packet_bytes", "pcie_bytes"),
            # The open run, which the next request may continue.
            *("node", "pid", "op", "end", "length"),
            # Closed runs of one length, one after the other, whose descriptors are not counted yet.
            *("run_bytes", "runs"),
            *("descriptors", "byte_count", "packets", "pcie_packets", "smallest", "largest"),
        )
    ]
)


@routine
def count_sizes(counts, by_size, size, many):
    """Count ``many`` descriptors of ``size`` bytes."""
    if many == 0:
        return
    if counts.smallest == 0 or size < counts.smallest:
        counts.smallest = size
    counts.largest = max(counts.largest, size)
    counts.descriptors += many
    counts.byte_count += size * many
    counts.packets += -(-size // counts.packet_bytes) * many
    counts.pcie_packets += -(-size // counts.pcie_bytes) * many
    power = 0
    while size >> (power + 1):
        power += 1
    by_size[power] += many


@routine
def cut_runs(counts, by_size):
    """Count the descriptors of the closed runs of one length."""
    size, many = counts.run_bytes, counts.runs
    counts.runs = 0
    if size == 0 or many == 0:
        return
    most = counts.slice_bytes if counts.slice_bytes else counts.most_bytes
    whole, rest = size // most, size % most
    # A remainder of at most a quarter of a slice belongs to the slice before it.
    if counts.slice_bytes and whole and 0 < rest <= most // 4:
        count_sizes(counts, by_size, most + rest, many)
        whole, rest = whole - 1, 0
    count_sizes(counts, by_size, most, whole * many)
    if rest:
        count_sizes(counts, by_size, rest, many)


@kernel
def count_requests(totals, by_size, node, pid, op, address, length):
    """Count the descriptors of a batch of requests; its last run stays open for the next batch."""
    counts = totals[0]
    for row in range(length.size):
        begin, many = np.int64(address[row]), np.int64(length[row])
        if (
            counts.joins
            and begin == counts.end
            and node[row] == counts.node
            and pid[row] == counts.pid
            and op[row] == counts.op
        ):
            counts.length += many
        else:
            if counts.length != counts.run_bytes:
                cut_runs(counts, by_size)
                counts.run_bytes = counts.length
            counts.runs += 1
            counts.node, counts.pid, counts.op = node[row], pid[row], op[row]
            counts.length = many
        counts.end = begin + many


class DescriptorCounts:
    """Descriptors by rule, fed batch by batch; adjoining requests may lie in two batches."""

    def __init__(self, rule: Rule, packet_bytes: int, pcie_bytes: int) -> None:
        """``packet_bytes``, ``pcie_bytes``: payload of a packet of the link, and of PCIe."""
        self._counts = records(1, COUNTS)
        counts = self._counts[0]
        counts.joins, counts.most_bytes = rule.joins, rule.most_bytes
        counts.slice_bytes = rule.slice_bytes or 0
        counts.packet_bytes, counts.pcie_bytes = packet_bytes, pcie_bytes
        counts.node = -1  # no run is open
        self.by_size = np.zeros(BINS, np.int64)  # by the power of two that a size is at least

    def feed(self, batch: Requests) -> None:
        """Take the requests of a batch, in the order of issue."""
        columns = (batch.node, batch.pid, batch.op, batch.address, batch.length)
        count_requests(self._counts, self.by_size, *columns)

    def end(self) -> None:
        """Close the last run, and set the totals."""
        counts = self._counts[0]
        cut_runs(counts, self.by_size)
        counts.run_bytes, counts.runs, counts.length = counts.length, 1, 0
        cut_runs(counts, self.by_size)
        self.descriptors, self.byte_count = counts.descriptors, counts.byte_count
        self.packets, self.pcie_packets = counts.packets, counts.pcie_packets
        self.smallest, self.largest = counts.smallest, counts.largest
