"""``nicscope odp``: whether an RDMA NIC's faults would do instead of registering ahead."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Explain,
    OneTrace,
    Registering,
    Service,
    option,
    reads_services,
)

if TYPE_CHECKING:
    from nicscope.reports.odp import ShownDemand

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope odp bundled:redis_server[/bold]\n\n"
    "[bold]nicscope odp mine.parquet --fault-bytes 4KiB --prefetch none,async --ahead 16[/bold]\n\n"
    "[bold]nicscope odp mine.parquet --resident 1GiB,4GiB --untouched --json[/bold]"
)


@reads_services
def odp(
    trace: OneTrace,
    fault_bytes: Annotated[
        str | None,
        option(
            "BYTES|request,...",
            "What a fault brings: aligned pieces of so many bytes, or all of its request; default "
            "4KiB,64KiB,request, less what is smaller than a page.",
        ),
    ] = None,
    prefetch: Annotated[
        str,
        option("none|sync|async,...", "Whether the program advises of pages, and waits for them."),
    ] = "none,sync,async",
    ahead: Annotated[int, option("N", "Requests between an async advice and its request.")] = 4,
    resident: Annotated[
        str, option("BYTES|none,...", "Memory of a node that may hold such pages; none: any.")
    ] = "none",
    page_size: Annotated[str, option("BYTES", "Of the host.")] = "4KiB",
    untouched: Annotated[
        bool,
        typer.Option("--untouched", help="Nobody has touched the memory before the NIC does."),
    ] = False,
    costs: Registering = "connectx",
    faults: Annotated[
        str, option("NAME|FILE", "What faults cost.", autocompletion=arguments.faults)
    ] = "connectx",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, odp.parquet and figures.")
    ] = None,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show whether on-demand paging would do instead of registering memory, and what waits."""
    from nicscope.library.odp import odp as page_on_demand

    def paged() -> ShownDemand:
        return page_on_demand(
            service.opened(trace),
            fault_bytes=fault_bytes,
            prefetch=prefetch,
            ahead=ahead,
            resident=resident,
            page_size=page_size,
            touched=not untouched,
            costs=costs,
            faults=faults,
        )

    answer(paged, out, as_json, explain)
