"""``nicscope sweep``: a trace through every design of a grid, into one table."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import check_explained, tell
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Explain,
    Service,
    Traces,
    WithoutKinds,
    option,
    output_path,
    reads_services,
    text_beside,
)
from nicscope.cli.streams import exit_resumable

if TYPE_CHECKING:
    from nicscope.studies.sweep.sweeping import Done

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope sweep bundled:redis_server --design utlb --grid entries=1024,4096,16384 "
    "--grid pin_limit=512,2048,none --grid replacement=lru,mru --out grid.parquet[/bold]\n\n"
    "[bold]nicscope sweep mine.parquet --design utlb --grid prefetch=1,4,16 "
    "--grid costs.interrupt=5us,10us --out grid.parquet --workers 8[/bold]\n\n"
    "[bold]nicscope sweep /shared/mine.parquet --design mini --grid line=8,64 --out grid.parquet "
    "--scheduler tcp://10.0.0.1:8786[/bold]"
)


@reads_services
def sweep(
    traces: Traces,
    design: Annotated[
        str,
        option(
            "NAME|FILE", "What is varied.", show_default=False, autocompletion=arguments.designs
        ),
    ],
    out: Annotated[
        Path,
        option(
            "FILE",
            "The table, as its ending says: .parquet, or .csv (.zst, .gz); a device, a FIFO "
            "or - (standard output) gets CSV. Until it is complete, a journal lies beside a file.",
            parser=output_path,
            show_default=False,
        ),
    ],
    grid: Annotated[
        list[str] | None,
        option(
            "KEY=V1,V2,...",
            "A setting, scheme, platform or costs.NAME, and its values; may be repeated.",
        ),
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "Prices all; left out: the design's own platform.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    workers: Annotated[int | None, option("N", "Threads; left out: one per processor.")] = None,
    scheduler: Annotated[
        str | None,
        option(
            "tcp://HOST:PORT",
            "A Dask cluster to count on; its workers read the traces by the same paths.",
        ),
    ] = None,
    no_kinds: WithoutKinds = False,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, a million points or more.")] = False,
    service: Service = UNSAID,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Replay traces through every design of a grid; killed, the same command continues."""
    from nicscope.library.translation import sweep as run
    from nicscope.studies.sweep.table import journal_path

    check_explained(explain, as_json)
    with text_beside(out, as_json):
        try:
            report = run(
                [service.opened(one) for one in traces],
                design,
                grid or [],
                platform,
                out=out,
                workers=workers,
                scheduler=scheduler,
                kinds=not no_kinds,
                many=yes,
                begun=_say_found,
            )
        except KeyboardInterrupt:
            exit_resumable(journal_path(out))
            raise
        if report.done.was_there:
            print(f"nicscope: {out}: this sweep is there already, complete", file=sys.stderr)
        tell(report, [out], as_json, explain)


def _say_found(done: Done) -> None:
    if done.found:
        print(
            f"nicscope: continuing: {done.found:,} of {done.replays:,} replays were done before",
            file=sys.stderr,
        )
