"""``nicscope connections``: how many queue pairs and outstanding operations a NIC takes."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, option

if TYPE_CHECKING:
    from nicscope.reports.connections import ShownConnections

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope connections[/bold]\n\n"
    "[bold]nicscope connections --threads 96 --qps 96 --outstanding 1..64 "
    "--operation read,write[/bold]\n\n"
    "[bold]nicscope connections --threads 32 --qps 1,32 --outstanding 8 "
    "--doorbells context,own[/bold]"
)


def connections(
    qps: Annotated[str, option("N,...|LOW..HIGH", "Queue pairs in all.")] = "16..16384",
    outstanding: Annotated[
        str, option("N,...|LOW..HIGH", "Operations of each thread that wait for answers.")
    ] = "32",
    threads: Annotated[str, option("N,...|LOW..HIGH", "Threads that post.")] = "16",
    operation: Annotated[str, option("read|write|read,write", "Small ones.")] = "read",
    read_window: Annotated[
        str | None,
        option("N,...|LOW..HIGH", "Reads of a queue pair on their way; default as the NIC."),
    ] = None,
    doorbells: Annotated[
        str,
        option(
            "context|own",
            "Registers: those that one context of a process has, or one for each queue pair.",
        ),
    ] = "own",
    replacement: Annotated[
        str, option("random|lru", "Whom the NIC gives up where it has no room; or both.")
    ] = "random",
    nic: Annotated[
        str, option("NAME|FILE", "What the NIC costs and keeps.", autocompletion=arguments.nics)
    ] = "connectx-6",
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, connections.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Show how many queue pairs and outstanding operations a NIC takes before its rate falls."""
    from nicscope.library.connections import connections as find_out

    def found() -> ShownConnections:
        return find_out(
            qps=qps,
            outstanding=outstanding,
            threads=threads,
            operation=operation,
            read_window=read_window,
            doorbells=doorbells,
            replacement=replacement,
            nic=nic,
        )

    answer(found, out, as_json, explain)
