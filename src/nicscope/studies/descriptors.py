"""``nicscope descriptors``: into how many descriptors requests are split, and what bounds them.

What a transfer takes is bounded from below by each thing that it passes: threads that post, the
NIC, its fetches of work requests, PCIe, the link, and the window of reads.  They overlap, so the
longest binds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.costs import Span
from nicscope.errors import PlatformError, StudyError, did_you_mean
from nicscope.studies.sources import RowsDone, extent_of, repeat
from nicscope.traces.descriptor_counts import RULES, DescriptorCounts
from nicscope.traces.schema import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.costs import NicCosts
    from nicscope.traces.reader import Trace

ENGINES = tuple(RULES)
POSTS = {"nixl": "post_nixl", "mooncake": "post_mooncake", "joined": "post_nixl"}
MOST = 1024  # threads, NICs, queue pairs
NS, GB = 1e-9, 1e9
BOUNDS = ("posting", "NIC", "work requests", "PCIe", "link", "read window")


class Moved(NamedTuple):
    """The data to move: descriptors, bytes and packets, and bytes that reads request."""

    descriptors: int
    byte_count: int
    packets: int
    pcie_packets: int
    read_bytes: int


class Through(NamedTuple):
    """The engine, threads, NIC and queue pairs that move it."""

    engine: str
    threads: int  # that post
    nics: int
    queue_pairs: int  # of each NIC


class Transfer(NamedTuple):
    """One engine's descriptors, and the lower bounds of their transfer time in seconds."""

    through: Through
    moved: Moved
    smallest: int
    largest: int
    by_size: list[int]  # descriptors by the power of two that their size is at least
    bounds: dict[str, Span]

    @property
    def mean_bytes(self) -> float:
        """The mean size of a descriptor."""
        return self.moved.byte_count / max(self.moved.descriptors, 1)

    def gbytes_per_s(self, end: int) -> float:
        """Bytes over the longest bound; ``end``: 0 at the lowest costs, 1 at the highest."""
        longest = max(bound[end] for bound in self.bounds.values())
        return self.moved.byte_count / longest / GB if longest else 0.0

    def bound_by(self, end: int) -> str:
        """The longest bound at that end."""
        return max(self.bounds, key=lambda name: self.bounds[name][end])

    def threads_needed(self, end: int) -> int:
        """Threads with which posting would no longer be the bottleneck."""
        others = max(
            (one[end] for name, one in self.bounds.items() if name != "posting"), default=0
        )
        alone = self.bounds["posting"][end] * self.through.threads
        return max(1, math.ceil(alone / others)) if others else 1

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            **self.through._asdict(),
            **self.moved._asdict(),
            "smallest_bytes": self.smallest,
            "largest_bytes": self.largest,
            "by_size": {str(1 << power): many for power, many in enumerate(self.by_size) if many},
            "bounds_s": {name: list(bound) for name, bound in self.bounds.items()},
            "gbytes_per_s": [self.gbytes_per_s(1), self.gbytes_per_s(0)],
            "bound_by": [self.bound_by(1), self.bound_by(0)],
        }


class DescriptorReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the transfers of every engine."""

    trace: dict[str, Any]
    nic: Any  # NicCosts
    found: list[Transfer]
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "nic": self.nic.name,
            "evidence": {name: one.to_json() for name, one in self.nic.origins.items()},
            "transfers": [one.to_json() for one in self.found],
            "repeat": self.repeat,
        }


def bounds_of(moved: Moved, through: Through, nic: NicCosts) -> dict[str, Span]:
    """Lower bounds in seconds by resource; those unknown for this NIC are left out."""
    many, nics = moved.descriptors, through.nics

    def posting(end: int) -> float:
        own = POSTS[through.engine]
        known = own if own in nic.costs else "post_mooncake"
        return many * nic.cost(known, end) * NS / through.threads

    def executing(end: int) -> float:
        each = [nic.cost(f"execute_{kind}", end) for kind in ("read", "write")]
        return many * (max(each) if end else min(each)) * NS / nics

    def fetching(end: int) -> float:
        return many * nic.cost("fetch", end) * NS / nics

    def over_pcie(end: int) -> float:
        whole = moved.byte_count + moved.pcie_packets * nic.count("pcie_header", end)
        return whole / nic.rate("pcie", end) / GB / nics

    def over_link(end: int) -> float:
        whole = moved.byte_count + moved.packets * nic.count("packet_header", end)
        return whole / nic.rate("link", end) / GB / nics

    def in_windows(end: int) -> float:
        # Of each read of the window a packet is on its way.
        packets = nic.count("read_window", 1 - end) * nic.count("packet_bytes", 1 - end)
        rounds = moved.read_bytes / packets
        return rounds * nic.cost("answer", end) * NS / (through.queue_pairs * nics)

    found = {}
    parts = (posting, executing, fetching, over_pcie, over_link, in_windows)
    for name, part in zip(BOUNDS, parts, strict=True):
        try:
            found[name] = Span(part(0), part(1))
        except PlatformError:
            continue  # the NIC's file says that it is not known
    return found


def ways_through(
    engines: Sequence[str], threads: Sequence[int], nics: Sequence[int], queue_pairs: Sequence[int]
) -> list[Through]:
    """Every combination, engines first.  Errors: ``StudyError`` for an engine that is none."""
    for name in engines:
        if name not in ENGINES:
            raise StudyError(f"--engine: no {name!r}{did_you_mean(name, ENGINES)}")
    return [
        Through(engine, posting, many, pairs)
        for posting in threads
        for many in nics
        for pairs in queue_pairs
        for engine in engines
    ]


def transfer_all(
    trace: Trace,
    ways: Sequence[Through],
    nic: NicCosts,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> DescriptorReport:
    """Count every engine's descriptors and bound their transfers; ``watch`` counts rows."""
    packet = nic.count("packet_bytes", 0)
    pcie = int(nic.costs.get("pcie_bytes", (packet, packet))[0])
    counts = {
        engine: DescriptorCounts(RULES[engine], packet, pcie)
        for engine in dict.fromkeys(one.engine for one in ways)
    }
    nodes: set[int] = set()
    rows, bytes_of = 0, np.zeros(len(Op))
    for batch in RowsDone(watch, trace.rows).through(trace):
        for one in counts.values():
            one.feed(batch)
        changes = np.flatnonzero(np.diff(batch.node, prepend=-1))
        nodes.update(batch.node[changes].tolist())
        bytes_of += np.bincount(batch.op, batch.length, len(Op))  # exact up to 2^53
        rows += len(batch.length)
    for one in counts.values():
        one.end()
    read_bytes = int(bytes_of[Op.READ] + bytes_of[Op.SERVE_READ])
    found = [_transfer(through, counts[through.engine], read_bytes, nic) for through in ways]
    return DescriptorReport(
        trace=extent_of(trace, rows, len(nodes)), nic=nic, found=found, repeat=repeat(command)
    )


def _transfer(through: Through, counts: DescriptorCounts, reads: int, nic: NicCosts) -> Transfer:
    moved = Moved(counts.descriptors, counts.byte_count, counts.packets, counts.pcie_packets, reads)
    bounds = bounds_of(moved, through, nic)
    sizes = counts.by_size.tolist()
    return Transfer(through, moved, counts.smallest, counts.largest, sizes, bounds)
