"""``nicscope odp``: whether an RDMA NIC's faults would do instead of registering ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.config.quantities import read_bytes
from nicscope.library.command import Option, Registering, Text, command
from nicscope.library.traces import OneTrace, one_watched

if TYPE_CHECKING:
    from nicscope.reports.odp import ShownDemand

FAULTS = ("4KiB", "64KiB", "request")  # what a fault brings, of which less than a page is left out


@command(
    "nicscope odp bundled:redis_server",
    "nicscope odp mine.parquet --fault-bytes 4KiB --prefetch none,async --ahead 16",
    "nicscope odp mine.parquet --resident 1GiB,4GiB --untouched --json",
    out="Folder for results.json, odp.parquet and figures.",
)
def odp(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    fault_bytes: Annotated[
        Text,
        Option(
            "BYTES|request,...",
            "What a fault brings: aligned pieces of so many bytes, or all of its request; default "
            "4KiB,64KiB,request, less what is smaller than a page.",
        ),
    ] = None,
    prefetch: Annotated[
        Text,
        Option("none|sync|async,...", "Whether the program advises of pages, and waits for them."),
    ] = "none,sync,async",
    ahead: Annotated[int, Option("N", "Requests between an async advice and its request.")] = 4,
    resident: Annotated[
        Text, Option("BYTES|none,...", "Memory of a node that may hold such pages; none: any.")
    ] = "none",
    page_size: Annotated[Text, Option("BYTES", "Of the host.")] = "4KiB",
    touched: Annotated[
        bool, Option("", "Nobody has touched the memory before the NIC does.", ("--untouched",))
    ] = True,
    costs: Registering = "connectx",
    faults: Annotated[Text, Option("NAME|FILE", "What faults cost.", offers="faults")] = "connectx",
) -> ShownDemand:
    """Show whether on-demand paging would do instead of registering memory, and what waits."""
    from nicscope.config.rdma_costs import load_fault_costs, load_registration_costs
    from nicscope.reports.odp import ShownDemand
    from nicscope.studies.paging_on_demand import Costs, page_bytes, page_on_demand, ways

    page = page_bytes(page_size)
    pieces = fault_bytes or ",".join(one for one in FAULTS if page <= (read_bytes(one) or page))
    tried = ways(pieces, prefetch, ahead, resident, page)
    priced = Costs(load_registration_costs(costs), load_fault_costs(faults), page, touched)
    with one_watched(trace, "paging") as (requests, watch):
        return ShownDemand(page_on_demand(requests, tried, priced, repeat, watch))
