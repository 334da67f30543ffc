"""``nicscope path``: the bottleneck between an RDMA NIC and its host's memory.

PCIe, the IOMMU and a window of reads each allow so many bytes a second; the least of them is what
a NIC gets at most.  The IOMMU's is T = p / (l0 + M lm) of F&S (SOSP'24), with M counted: bytes over
accesses x l0 + reads of its tables x lm, times the walks that it carries out at once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.costs import GENERATIONS, RangedCosts, Span
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.drivers.iommu import IommuReplay, Translating
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.sources import RowsDone, extent_of, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nicscope.traces.reader import Trace

MODES = ("off", "pt", "strict")
TRANSLATING = "strict"
PAGES = (1 << 12, 1 << 21, 1 << 30)
PIECE = 4096  # bytes
MOST_ENTRIES = 1 << 20
MOST_AT_ONCE = 1 << 10
GBITS = 8 / 1000  # of a byte per microsecond


class Host(NamedTuple):
    """One configuration of the path."""

    mode: str
    page: int | None  # bytes of the mapping's; None where nothing is translated
    iotlb: int | None  # entries
    walks: int | None  # at once
    pcie: str

    @property
    def translates(self) -> bool:
        """Whether the NIC's accesses are translated by the IOMMU."""
        return self.mode == TRANSLATING


class Window(NamedTuple):
    """The NIC's outstanding reads of host memory."""

    reads: int
    byte_count: int  # of each


class Path(NamedTuple):
    """The rates (Gb/s) that a path's components allow, and the counts behind them."""

    host: Host
    counts: dict[str, int] | None  # of the IOMMU, if it translates
    allows: dict[str, Span]  # by what allows it
    each_mapped_us: Span | None  # for a request that is mapped for its use alone

    @property
    def bound(self) -> str:
        """The component with the lowest rate."""
        return min(self.allows, key=lambda name: (self.allows[name].low, self.allows[name].high))

    @property
    def gbits(self) -> Span:
        """The lowest rate."""
        return self.allows[self.bound]

    @property
    def reads_per_piece(self) -> float | None:
        """Page table reads for each 4 KiB: M."""
        return None if self.counts is None else self.counts["reads"] / self.counts["pieces"]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "iommu": self.host.mode,
            "page_size": self.host.page,
            "iotlb_entries": self.host.iotlb,
            "walks_at_once": self.host.walks,
            "pcie": self.host.pcie,
            "counts": self.counts,
            "reads_per_piece": self.reads_per_piece,
            "allows_gbits": {name: list(span) for name, span in self.allows.items()},
            "bound": self.bound,
            "each_mapped_us": None if self.each_mapped_us is None else list(self.each_mapped_us),
        }


class PathReport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the rates of every path."""

    trace: dict[str, Any]
    walk_cache: int
    found: list[Path]
    costs: Any  # RangedCosts
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "walk_cache_entries": self.walk_cache,
            "costs": self.costs.name,
            "evidence": {name: each.to_json() for name, each in self.costs.origins.items()},
            "paths": [each.to_json() for each in self.found],
            "repeat": self.repeat,
        }


def hosts(iommu: str, page: str, iotlb: str, walks: str, pcie: str) -> list[Host]:
    """Parse the options into configurations.  Errors: ``StudyError`` naming the option."""
    found = []
    for mode, generation in itertools.product(iommu.split(","), pcie.split(",")):
        if mode not in MODES:
            raise StudyError(f"--iommu: no {mode!r}{did_you_mean(mode, MODES)}")
        if generation not in GENERATIONS:
            raise StudyError(f"--pcie: no {generation!r}{did_you_mean(generation, GENERATIONS)}")
        setups = itertools.product(
            [page_bytes(each) for each in page.split(",")],
            [entries("--iotlb", each) for each in iotlb.split(",")],
            [_at_once("--walks", each) for each in walks.split(",")],
        )
        if mode == TRANSLATING:
            found += [Host(mode, *setup, generation) for setup in setups]
        else:
            found.append(Host(mode, None, None, None, generation))
    return found


def page_bytes(text: str) -> int:
    """Bytes of a mapping's page.  Errors: ``StudyError``."""
    page = read_bytes(text)
    if page not in PAGES:
        raise StudyError(f"--page-size must be 4KiB, 2MiB or 1GiB, got {text!r}")
    return page


def entries(option: str, text: str) -> int:
    """Entries of a cache.  Errors: ``StudyError`` naming the option."""
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MOST_ENTRIES or count & (count - 1):
        raise StudyError(f"{option} must be powers of two up to {MOST_ENTRIES}, got {text!r}")
    return count


def _at_once(option: str, text: str) -> int:
    count = int(text) if text.isdecimal() else 0
    if not 1 <= count <= MOST_AT_ONCE:
        raise StudyError(f"{option} must be whole numbers from 1 to {MOST_AT_ONCE}, got {text!r}")
    return count


def window(reads: int | None, size: str) -> Window | None:
    """Reads under way, of so many bytes each.  Errors: ``StudyError`` naming the option."""
    byte_count = read_bytes(size)
    if not byte_count or byte_count > PIECE:
        raise StudyError(f"--read-bytes must be up to {PIECE}, {BYTE_SPELLINGS}; got {size!r}")
    if reads is None:
        return None
    return Window(_at_once("--reads", str(reads)), byte_count)


def measure_paths(
    trace: Trace,
    tried: Sequence[Host],
    walk_cache: int,
    reads: Window | None,
    costs: RangedCosts,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> PathReport:
    """Run every request's pages through each IOMMU; ``watch`` counts rows."""
    setups = {
        (host.page, host.iotlb): Translating(host.page, host.iotlb, walk_cache)
        for host in tried
        if host.page is not None and host.iotlb is not None
    }
    replay = IommuReplay([*setups.values()])
    nodes: set[int] = set()
    rows = 0
    for batch in RowsDone(watch, trace.rows).through(trace):
        replay.feed(batch)
        nodes.update(set(batch.node.tolist()) - nodes)
        rows += len(batch.length)
    counted: dict[tuple[int | None, int | None], dict[str, int]] = dict(
        zip(setups, replay.counts(), strict=True)
    )
    return PathReport(
        trace=extent_of(trace, rows, len(nodes)),
        walk_cache=walk_cache,
        found=[_path(host, counted.get((host.page, host.iotlb)), reads, costs) for host in tried],
        costs=costs,
        repeat=repeat(command),
    )


def _path(
    host: Host, counts: Mapping[str, int] | None, reads: Window | None, costs: RangedCosts
) -> Path:
    allows = {"PCIe": _rate(PIECE, costs.each(host.pcie))}
    each_mapped = None
    if counts is not None:
        allows["IOMMU"] = _iommu_rate(host, counts, costs)
        each_mapped = Span(*(costs.each("map")[end] + costs.each("unmap")[end] for end in (0, 1)))
    if reads is not None:
        allows["window"] = _rate(reads.reads * reads.byte_count, costs.each("dma_read"))
    return Path(host, None if counts is None else dict(counts), allows, each_mapped)


def _iommu_rate(host: Host, counts: Mapping[str, int], costs: RangedCosts) -> Span:
    """T = p / (l0 + M lm) over the whole trace, times the concurrent walks."""
    ends = [
        counts["pieces"] * costs.each("access")[end]
        + counts["reads"] * costs.each("walk_read")[end]
        for end in (0, 1)
    ]
    return _rate(counts["bytes"] * (host.walks or 1), Span(*ends))


def _rate(byte_count: int, takes: Span) -> Span:
    """Gb/s of so many bytes in so many microseconds; the lowest from the longest time."""
    return Span(byte_count * GBITS / takes.high, byte_count * GBITS / takes.low)
