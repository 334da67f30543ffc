"""``nicscope curve``: how much a larger, or wider, translation cache would buy."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from nicscope.cli.progress import progress
from nicscope.cli.replay import print_written, trace_name, trace_path
from nicscope.cli.tables import print_json

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope curve bundled:redis_server[/bold]\n\n"
    "[bold]nicscope curve mine.parquet --ways 1,4 --line 1,8 --entries 64..8192[/bold]\n\n"
    "[bold]nicscope curve mine.parquet --by process --page-size 2MiB --json[/bold]\n\n"
    "[bold]nicscope curve huge.parquet --sample 0.01 --out results[/bold]"
)


def curve(
    traces: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE...",
            help="Traces (Parquet), or bundled:NAME for one that comes with nicscope.",
            show_default=False,
        ),
    ],
    ways: Annotated[
        str | None,
        typer.Option(metavar="N,...", help="Ways of set-associative caches; default 1,2,4,8."),
    ] = None,
    line: Annotated[
        str, typer.Option(metavar="N,...", help="Pages that share a line of the cache.")
    ] = "1",
    entries: Annotated[
        str | None,
        typer.Option(
            metavar="LOW..HIGH", help="Default 256..65536; smaller if the trace has few pages."
        ),
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            metavar="trace|node|process",
            help="A curve for each; a process as if it had the NIC alone.",
        ),
    ] = "trace",
    sample: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Estimate from this share of the pages, with an interval; no sets then.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Sample other pages than those of seed 0."),
    ] = None,
    no_offset: Annotated[
        bool, typer.Option("--no-offset", help="Let all processes begin at the same set.")
    ] = False,
    page_size: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Such as 2MiB; default the trace's.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for results.json, curves.parquet and figures."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what every size of translation cache misses: exact, from one pass over the trace."""
    from nicscope.studies.curve_question import ask

    question = ask(
        ways=ways,
        line=line,
        entries=entries,
        by=by,
        sample=sample,
        seed=seed,
        offset=not no_offset,
        page_size=page_size,
    )
    from nicscope.reports.curve_folder import write_curves
    from nicscope.reports.curve_terminal import print_curves
    from nicscope.reports.folder import folder_for

    options = {
        "--ways": ways,
        "--line": line if line != "1" else None,
        "--entries": entries,
        "--by": by if by != "trace" else None,
        "--sample": None if sample is None else f"{sample!r}",
        "--seed": None if seed is None else str(seed),
        "--page-size": page_size,
    }
    command = ["nicscope", "curve", *traces]
    for option, value in options.items():
        command += [] if value is None else [option, value]
    command += ["--no-offset"] * no_offset
    with folder_for(out) as folder:
        from nicscope.studies.curves import report
        from nicscope.traces.reader import open_trace

        opened = [(trace_name(trace), open_trace(trace_path(trace))) for trace in traces]
        with progress("measuring", "rows") as watch:
            found = report(opened, question, command, watch)
        written = [] if folder is None else write_curves(found, folder)
    if as_json:
        print_json(found.to_json())
        return
    print_curves(found)
    print_written(written)
