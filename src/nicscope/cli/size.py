"""``nicscope size``: the best design of each family within a memory budget."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from nicscope.cli.progress import progress
from nicscope.cli.replay import print_written, trace_path
from nicscope.cli.tables import print_json
from nicscope.errors import printable

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope size bundled:redis_server --nic-memory 128KiB "
    "--platform utlb-prototype[/bold]\n\n"
    "[bold]nicscope size mine.parquet --nic-memory 64KiB --pin-memory 4MiB "
    "--platform utlb-prototype --target-us 2.5 --out results[/bold]\n\n"
    "[bold]nicscope size mine.parquet --nic-memory 1MiB --page-size 4KiB,2MiB,1GiB[/bold]"
)


def size(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            help="Traces (Parquet), or bundled:NAME for one that comes with nicscope.",
            show_default=False,
        ),
    ],
    nic_memory: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            help="For translation, on each NIC, such as 128KiB.",
            show_default=False,
        ),
    ],
    pin_memory: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="That each host may pin, such as 4MiB; default: all."),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="The cheapest design there is best; left out: the one that misses least.",
        ),
    ] = None,
    target_us: Annotated[
        float | None,
        typer.Option(metavar="US", help="Tell the least NIC memory for that cost per lookup."),
    ] = None,
    page_size: Annotated[
        str | None,
        typer.Option(metavar="BYTES,...", help="Such as 4KiB,2MiB,1GiB, to be set side by side."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for results.json, sizes.parquet and a figure."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find the best design of each family within NIC memory, and what other memory would buy."""
    from nicscope.studies.sizing.question import ask

    question = ask(
        nic_memory,
        pin_memory=pin_memory,
        platform=platform,
        target_us=target_us,
        page_sizes=page_size,
    )
    from nicscope.reports.folder import folder_for
    from nicscope.reports.size_folder import write_sizes
    from nicscope.reports.size_terminal import print_sizes

    options = {
        "--nic-memory": nic_memory,
        "--pin-memory": pin_memory,
        "--platform": platform,
        "--target-us": None if target_us is None else f"{target_us!r}",
        "--page-size": page_size,
    }
    command = ["nicscope", "size", *traces]
    for option, value in options.items():
        command += [] if value is None else [option, value]
    with folder_for(out) as folder:
        from nicscope.studies.sizing.sizings import report
        from nicscope.traces.reader import open_trace

        opened = [(printable(trace), open_trace(trace_path(trace))) for trace in traces]
        with progress("sizing", "rows") as watch:
            found = report(opened, question, command, watch)
        written = [] if folder is None else write_sizes(found, folder)
    if as_json:
        print_json(found.to_json())
        return
    print_sizes(found)
    print_written(written)
