"""``nicscope size``: the best design of each family within a memory budget."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

from nicscope.cli.answer import answer, command_line
from nicscope.cli.arguments import AsJson, Traces, option, trace_path
from nicscope.cli.progress import progress
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
    traces: Traces,
    nic_memory: Annotated[
        str, option("BYTES", "For translation, on each NIC, such as 128KiB.", show_default=False)
    ],
    pin_memory: Annotated[
        str | None, option("BYTES", "That each host may pin, such as 4MiB; default: all.")
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE", "The cheapest design there is best; left out: the one that misses least."
        ),
    ] = None,
    target_us: Annotated[
        float | None, option("US", "Tell the least NIC memory for that cost per lookup.")
    ] = None,
    page_size: Annotated[
        str | None, option("BYTES,...", "Such as 4KiB,2MiB,1GiB, to be set side by side.")
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, sizes.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
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
    from nicscope.reports.size import ShownSizes

    options = {
        "--nic-memory": nic_memory,
        "--pin-memory": pin_memory,
        "--platform": platform,
        "--target-us": target_us,
        "--page-size": page_size,
    }
    command = command_line(["size", *traces], options)

    def sized() -> ShownSizes:
        from nicscope.studies.sizing.sizings import report
        from nicscope.traces.reader import open_trace

        opened = [(printable(trace), open_trace(trace_path(trace))) for trace in traces]
        with progress("sizing", "rows") as watch:
            return ShownSizes(report(opened, question, command, watch))

    answer(sized, out, as_json)
