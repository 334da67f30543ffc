"""``nicscope path``: what lies between an RDMA NIC and memory, and which part of it bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import Option, Text, command
from nicscope.library.traces import OneTrace, one_watched

if TYPE_CHECKING:
    from nicscope.reports.path import ShownPaths


@command(
    "nicscope path bundled:redis_server",
    "nicscope path mine.parquet --iommu strict --page-size 4KiB,2MiB --iotlb 32,64,128",
    "nicscope path mine.parquet --pcie gen3,gen4,gen5 --reads 32 --json",
    out="Folder for results.json, paths.parquet and a figure.",
)
def path(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    iommu: Annotated[
        Text, Option("off|pt|strict,...", "The IOMMU: off, passed through, or translating.")
    ] = "off,pt,strict",
    page_size: Annotated[
        Text, Option("BYTES,...", "Pages of its mappings: 4KiB, 2MiB, 1GiB.")
    ] = "4KiB,2MiB",
    iotlb: Annotated[Text, Option("N,...", "Entries of its cache of translations.")] = "64",
    walk_cache: Annotated[int, Option("N", "Entries of each level of its caches of tables.")] = 32,
    walks: Annotated[Text, Option("N,...", "Walks that it carries out at once.")] = "1,4",
    pcie: Annotated[Text, Option("gen3|gen4|gen5,...", "PCIe, of 16 lanes.")] = "gen4",
    reads: Annotated[
        int | None, Option("N", "Reads of memory that the NIC has under way; default any.")
    ] = None,
    read_bytes: Annotated[Text, Option("BYTES", "Of each of these reads.")] = "512",
    costs: Annotated[
        Text, Option("NAME|FILE", "What the path costs.", offers="paths")
    ] = "connectx",
) -> ShownPaths:
    """Show what PCIe, the IOMMU and reads under way allow a NIC, and which of them bounds it."""
    from nicscope.config.rdma_costs import load_path_costs
    from nicscope.reports.path import ShownPaths
    from nicscope.studies.paths import entries, hosts, look_at_paths, window

    tried = hosts(iommu, page_size, iotlb, walks, pcie)
    cached = entries("--walk-cache", str(walk_cache))
    under_way = window(reads, read_bytes)
    priced = load_path_costs(costs)
    with one_watched(trace, "translating") as (requests, watch):
        return ShownPaths(look_at_paths(requests, tried, cached, under_way, priced, repeat, watch))
