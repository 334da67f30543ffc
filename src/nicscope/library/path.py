"""Paths between an RDMA NIC and memory: what ``nicscope path`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.path import ShownPaths


@in_one_line
def path(
    trace: TraceLike,
    *,
    iommu: Word = "off,pt,strict",
    page_size: Word = "4KiB,2MiB",
    iotlb: Word = 64,
    walk_cache: int = 32,
    walks: Word = "1,4",
    pcie: Word = "gen4",
    reads: int | None = None,
    read_bytes: str | int = 512,
    costs: str = "connectx",
) -> ShownPaths:
    """Tell what PCIe, the IOMMU and a window of reads allow a NIC that carries out a trace.

    Args:
        trace: a path, ``bundled:NAME``, or a table.
        iommu: ``off``, ``pt`` (passed through) or ``strict``; one or several.
        page_size: of mappings: ``4KiB``, ``2MiB``, ``1GiB``; one or several.
        iotlb: entries of the IOMMU's cache of translations; one number or several.
        walk_cache: entries of each level of its caches of tables.
        walks: that it carries out at once; one number or several.
        pcie: ``gen3``, ``gen4`` or ``gen5``, of 16 lanes; one or several.
        reads: of the host's memory that the NIC has under way; None: as many as it needs.
        read_bytes: of each of them.
        costs: of the path, by name or a TOML file.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.config.rdma_costs import load_path_costs
    from nicscope.reports.path import ShownPaths
    from nicscope.studies.paths import entries, hosts, look_at_paths, window

    given = {
        "--iommu": word("iommu", iommu),
        "--page-size": word("page_size", page_size),
        "--iotlb": word("iotlb", iotlb),
        "--walks": word("walks", walks),
        "--pcie": word("pcie", pcie),
    }
    if None in given.values():
        raise StudyError("iommu, page_size, iotlb, walks and pcie: give at least one of each")
    tried = hosts(*(str(each) for each in given.values()))
    cached = entries("--walk-cache", str(walk_cache))
    under_way = window(reads, str(read_bytes))
    priced = load_path_costs(costs)
    options = {
        **given,
        "--walk-cache": str(walk_cache),
        "--reads": None if reads is None else str(reads),
        "--read-bytes": None if reads is None else str(read_bytes),
        "--costs": costs,
    }
    command = command_line(["path", *words_of(trace)], options)
    [(_, opened)] = all_opened(trace)
    with progress("translating", "rows") as watch:
        return ShownPaths(look_at_paths(opened, tried, cached, under_way, priced, command, watch))
