"""``nicscope path``: what lies between an RDMA NIC and memory, and which part of it bounds."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Explain,
    OneTrace,
    Service,
    option,
    reads_services,
)

if TYPE_CHECKING:
    from nicscope.reports.path import ShownPaths

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope path bundled:redis_server[/bold]\n\n"
    "[bold]nicscope path mine.parquet --iommu strict --page-size 4KiB,2MiB --iotlb 32,64,128"
    "[/bold]\n\n"
    "[bold]nicscope path mine.parquet --pcie gen3,gen4,gen5 --reads 32 --json[/bold]"
)


@reads_services
def path(
    trace: OneTrace,
    iommu: Annotated[
        str, option("off|pt|strict,...", "The IOMMU: off, passed through, or translating.")
    ] = "off,pt,strict",
    page_size: Annotated[
        str, option("BYTES,...", "Pages of its mappings: 4KiB, 2MiB, 1GiB.")
    ] = "4KiB,2MiB",
    iotlb: Annotated[str, option("N,...", "Entries of its cache of translations.")] = "64",
    walk_cache: Annotated[int, option("N", "Entries of each level of its caches of tables.")] = 32,
    walks: Annotated[str, option("N,...", "Walks that it carries out at once.")] = "1,4",
    pcie: Annotated[str, option("gen3|gen4|gen5,...", "PCIe, of 16 lanes.")] = "gen4",
    reads: Annotated[
        int | None, option("N", "Reads of memory that the NIC has under way; default any.")
    ] = None,
    read_bytes: Annotated[str, option("BYTES", "Of each of these reads.")] = "512",
    costs: Annotated[
        str, option("NAME|FILE", "What the path costs.", autocompletion=arguments.paths)
    ] = "connectx",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, paths.parquet and a figure.")
    ] = None,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show what PCIe, the IOMMU and reads under way allow a NIC, and which of them bounds it."""
    from nicscope.library.path import path as look_at_paths

    def looked_at() -> ShownPaths:
        return look_at_paths(
            service.opened(trace),
            iommu=iommu,
            page_size=page_size,
            iotlb=iotlb,
            walk_cache=walk_cache,
            walks=walks,
            pcie=pcie,
            reads=reads,
            read_bytes=read_bytes,
            costs=costs,
        )

    answer(looked_at, out, as_json, explain)
