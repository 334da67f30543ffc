"""Rates of paths between a NIC and memory: summary, table, paths.parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nicscope.reports.printing import Rows, heading, remark, rows_of
from nicscope.reports.result import Report, table_of_rows
from nicscope.reports.wording import (
    between,
    byte_size,
    evidence_classes,
    in_words,
    of_trace,
    per_hundred,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.reports.printing import Printed
    from nicscope.studies.paths import Host, Path, PathReport

# What shows on a machine that it is this that bounds.
COUNTERS = {
    "PCIe": "outbound_pci_stalled_wr and outbound_pci_buffer_overflow (ethtool -S), PCIe Outbound "
    "Used BW (Neo-Host)",
    "IOMMU": "IOTLB misses (pcm-iio), PCIe Avg Latency and Back Pressure from Internal MMU "
    "(Neo-Host)",
    "window": "outbound_pci_stalled_rd (ethtool -S), Read Stalled due to No Read Engines "
    "(Neo-Host)",
}
_PARTS = {"PCIe": "PCIe", "IOMMU": "the IOMMU", "window": "the window of reads"}
_NODES = (
    "Not judged, for no facts that carry it: the NUMA node and relaxed ordering. On the machine: "
    "numactl and the NIC's numa_node; 21 to 124 GB/s were measured with wrong ones."
)


class ShownPaths(Report):
    """A trace, and the rates of several paths."""

    found: PathReport
    topic = "path"
    drawn: ClassVar = {"paths": "rdma.draw_paths"}

    def summary(self) -> list[str]:
        """What bounds the best and the worst path, and which counter shows it."""
        every = self.found.found
        best = max(every, key=lambda one: one.gbits.low)
        worst = min(every, key=lambda one: one.gbits.high)
        named = _PARTS[best.bound]
        told = [
            f"{named[0].upper()}{named[1:]} bounds with {_called(best.host)}: "
            f"{between(*best.gbits)} Gb/s."
        ]
        if worst.gbits.high < best.gbits.low:
            reads = f", for {_reads(worst)} reads of tables for 4 KiB" if worst.counts else ""
            told.append(
                f"With {_called(worst.host)} it is {_PARTS[worst.bound]}: "
                f"{between(*worst.gbits)} Gb/s{reads}."
            )
        bounds = dict.fromkeys(one.bound for one in (best, worst))
        shown = (f"That {_PARTS[name]} bounds shows in {COUNTERS[name]}." for name in bounds)
        return [*told, *shown]

    def parts(self) -> Iterator[Printed]:
        """A table: each path."""
        found = self.found
        yield heading(
            f"{of_trace(found.trace)}, caches of {in_words(found.walk_cache, 'table')} a level"
        )
        yield path_rows(found)
        yield remark(f"Costs: {found.costs.name!r} ({evidence_classes(found.costs.origins)}).")
        yield remark(_NODES)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for each path."""
        counts = ("pieces", "misses", "reads")
        rows = []
        for each in self.found.found:
            row: dict[str, Any] = {
                "iommu": each.host.mode,
                "page_size_bytes": each.host.page,
                "iotlb_entries": each.host.iotlb,
                "walks_at_once": each.host.walks,
                "pcie": each.host.pcie,
                "bound": each.bound,
            }
            for name in counts:
                row[f"iommu_{name}"] = None if each.counts is None else each.counts[name]
            for name in COUNTERS:
                span = each.allows.get(name, (None, None))
                row[f"{name.lower()}_gbits_low"], row[f"{name.lower()}_gbits_high"] = span
            mapped = each.each_mapped_us or (None, None)
            row["each_mapped_us_low"], row["each_mapped_us_high"] = mapped
            rows.append(row)
        yield "paths", table_of_rows(rows, words=("iommu", "pcie", "bound"))


def path_rows(found: PathReport) -> Rows:
    """A row for each path: the rate of each component."""
    columns = {
        "IOMMU": lambda one: one.host.mode,
        "page": lambda one: "" if one.host.page is None else byte_size(one.host.page),
        "IOTLB": lambda one: "" if one.host.iotlb is None else str(one.host.iotlb),
        "walks": lambda one: "" if one.host.walks is None else str(one.host.walks),
        "PCIe": lambda one: one.host.pcie,
        "missed": _missed,
        "reads/4 KiB": _reads,
        "PCIe allows": lambda one: between(*one.allows["PCIe"]),
        "IOMMU allows": lambda one: between(*one.allows["IOMMU"]) if one.counts else "",
        "window allows": lambda one: between(*one.allows["window"]),
        "bound": lambda one: one.bound,
        "us if mapped": lambda one: between(*one.each_mapped_us) if one.each_mapped_us else "",
    }
    if any("window" not in one.allows for one in found.found):
        del columns["window allows"]
    return rows_of(
        "Gb/s",
        found.found,
        columns,
        words=("IOMMU", "page", "PCIe", "bound"),
        key=5,
        least=("missed", "us if mapped"),
    )


def _missed(one: Path) -> str:
    if one.counts is None:
        return ""
    return f"{per_hundred(100 * one.counts['misses'] / one.counts['pieces'])} %"


def _reads(one: Path) -> str:
    return "" if one.reads_per_piece is None else per_hundred(one.reads_per_piece)


def host_name(host: Host) -> str:
    """A short name of a path configuration."""
    if host.page is None:
        return f"{host.mode}, {host.pcie}"
    walks = in_words(host.walks or 1, "walk")
    return f"{host.mode}, {byte_size(host.page)}, {host.iotlb} entries, {walks}, {host.pcie}"


def _called(host: Host) -> str:
    if host.page is None:
        named = {"off": "the IOMMU off", "pt": "the IOMMU passed through"}[host.mode]
        return f"{named} on PCIe {host.pcie}"
    return (
        f"the IOMMU translating pages of {byte_size(host.page)} with {host.iotlb} entries, "
        f"{in_words(host.walks or 1, 'walk')} at once, on PCIe {host.pcie}"
    )
