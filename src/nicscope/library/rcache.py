"""``nicscope rcache``: what a library's cache of registrations makes of a trace's buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import Option, Registering, Text, command
from nicscope.library.traces import OneTrace, one_watched

if TYPE_CHECKING:
    from nicscope.reports.rcache import ShownCaches


@command(
    "nicscope rcache bundled:redis_server",
    "nicscope rcache mine.parquet --policy page,merge --entries 64..65536",
    "nicscope rcache mine.parquet --bytes 1GiB --json",
    "nicscope rcache conversation.jsonl --model llama-3-70b --tp 8",
    out="Folder for results.json, caches.parquet and a figure.",
)
def rcache(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    policy: Annotated[
        Text,
        Option(
            "NAME,...",
            "exact and page: as libfabric, which drops what a new region overlaps; merge: as UCX, "
            "which makes one of them.",
        ),
    ] = "exact,page,merge",
    entries: Annotated[
        Text, Option("none|N,...|LOW..HIGH", "Regions that a process may keep registered.")
    ] = "none",
    align: Annotated[
        Text,
        Option("BYTES", "Regions are widened to it; default 1, 4096 and 64, by policy."),
    ] = None,
    most_bytes: Annotated[
        Text,
        Option("BYTES", "Memory that a process may keep registered; default any.", ("--bytes",)),
    ] = None,
    costs: Registering = "connectx",
) -> ShownCaches:
    """Show how often a library's registration cache has a buffer, and what it pins for that."""
    from nicscope.config.rdma_costs import load_registration_costs
    from nicscope.reports.rcache import ShownCaches
    from nicscope.studies.registration_caches import libraries, use_caches

    tried = libraries(policy, entries, align, most_bytes)
    priced = load_registration_costs(costs)
    with one_watched(trace, "registering") as (requests, watch):
        return ShownCaches(use_caches(requests, tried, priced, repeat, watch))
