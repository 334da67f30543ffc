"""``nicscope register``: how long a pool of memory takes to register, and what shortens that."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, Registering, option
from nicscope.errors import StudyError

if TYPE_CHECKING:
    from nicscope.reports.register import ShownRegistrations

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope register 1TiB --nics 8 --threads 1,8 --touched no,yes[/bold]\n\n"
    "[bold]nicscope register 500GiB --page 4K,2M --nics 8 --at-once no,yes --touched yes[/bold]\n\n"
    "[bold]nicscope register --regions buffers.txt --order descending --costs efa-gpu[/bold]\n\n"
    "[bold]nicscope register --regions tensors.csv --cache none,range --touched yes[/bold]"
)


def register(
    byte_count: Annotated[
        str | None,
        typer.Argument(
            metavar="BYTES", help="Of the pool, such as 500GiB or 1TiB.", show_default=False
        ),
    ] = None,
    bytes_too: Annotated[str | None, option("BYTES", "The same, as an option.", "--bytes")] = None,
    page: Annotated[
        str,
        option(
            "BYTES,...",
            "The host's pages, and what an entry of a NIC maps.",
            "--page-size",
            "--page",
        ),
    ] = "4K,64K,2M,1G",
    regions: Annotated[
        str,
        option(
            "N|FILE", "Equal regions of the pool, or a file: a size a line, or bytes and address."
        ),
    ] = "1",
    order: Annotated[
        str, option("given|ascending|descending", "In which a file's regions are registered.")
    ] = "given",
    nics: Annotated[str, option("N,...", "NICs at which all of it is registered.")] = "1",
    threads: Annotated[str, option("N,...", "Threads that touch and pin.")] = "1",
    at_once: Annotated[
        str, option("no|yes|no,yes", "Whether NICs are served at the same time.")
    ] = "no",
    touched: Annotated[
        str, option("no|yes|no,yes", "Whether the memory has been touched before.")
    ] = "no",
    cache: Annotated[
        str,
        option("none|exact|range,...", "What a library joins of a file's lines with addresses."),
    ] = "none",
    costs: Registering = "connectx",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, registrations.parquet and figures.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show how long registering memory takes at RDMA NICs, by parts, and what shortens it."""
    from nicscope.library.register import register as work_out

    if None not in (byte_count, bytes_too):
        raise StudyError("BYTES and --bytes are the same; leave one of them out")

    def worked_out() -> ShownRegistrations:
        return work_out(
            byte_count or bytes_too,
            page=page,
            regions=regions,
            order=order,
            nics=nics,
            threads=threads,
            at_once=at_once,
            touched=touched,
            cache=cache,
            costs=costs,
        )

    answer(worked_out, out, as_json, explain)
