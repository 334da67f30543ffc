"""``nicscope rcache``: what a library's cache of registrations would do."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

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
    from nicscope.reports.rcache import ShownCaches

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope rcache bundled:redis_server[/bold]\n\n"
    "[bold]nicscope rcache mine.parquet --policy page,merge --entries 64..65536[/bold]\n\n"
    "[bold]nicscope rcache mine.parquet --bytes 1GiB --json[/bold]\n\n"
    "[bold]nicscope rcache conversation.jsonl --model llama-3-70b --tp 8[/bold]"
)


@reads_services
def rcache(
    trace: OneTrace,
    policy: Annotated[
        str,
        option(
            "NAME,...",
            "exact and page: as libfabric, which drops what a new region overlaps; merge: as UCX, "
            "which makes one of them.",
        ),
    ] = "exact,page,merge",
    entries: Annotated[
        str, option("none|N,...|LOW..HIGH", "Regions that a process may keep registered.")
    ] = "none",
    align: Annotated[
        str | None, option("BYTES", "Regions are widened to it; default 1, 4096 and 64, by policy.")
    ] = None,
    most_bytes: Annotated[
        str | None,
        option("BYTES", "Memory that a process may keep registered; default any.", "--bytes"),
    ] = None,
    costs: Registering = "connectx",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, caches.parquet and a figure.")
    ] = None,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show how often a library's registration cache has a buffer, and what it pins for that."""
    from nicscope.library.rcache import rcache as try_caches

    def measured() -> ShownCaches:
        return try_caches(
            service.opened(trace),
            policy=policy,
            entries=entries,
            align=align,
            most_bytes=most_bytes,
            costs=costs,
        )

    answer(measured, out, as_json, explain)
