"""``nicscope sweep``: a trace through every design of a grid, into one table."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli.answer import command_line, tell
from nicscope.cli.arguments import (
    AsJson,
    Traces,
    WithoutKinds,
    option,
    output_path,
    text_beside,
    trace_name,
    trace_path,
)
from nicscope.cli.interrupt import ENDINGS, ending_status
from nicscope.cli.progress import progress

if TYPE_CHECKING:
    from nicscope.studies.sweep.sweeping import Done, Sweep
    from nicscope.studies.sweep.table import TableOutput

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope sweep bundled:redis_server --design utlb --grid entries=1024,4096,16384 "
    "--grid pin_limit=512,2048,none --grid replacement=lru,mru --out grid.parquet[/bold]\n\n"
    "[bold]nicscope sweep mine.parquet --design utlb --grid prefetch=1,4,16 "
    "--grid costs.interrupt=5us,10us --out grid.parquet --workers 8[/bold]\n\n"
    "[bold]nicscope sweep /shared/mine.parquet --design mini --grid line=8,64 --out grid.parquet "
    "--scheduler tcp://10.0.0.1:8786[/bold]"
)


def sweep(
    traces: Traces,
    design: Annotated[str, option("NAME|FILE", "What is varied.", show_default=False)],
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
        str | None, option("NAME|FILE", "Prices all; left out: the design's own platform.")
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
    as_json: AsJson = False,
) -> None:
    """Replay traces through every design of a grid; killed, the same command continues."""
    from nicscope.studies.sweep.grid import ask, worker_count

    assignments = grid or []
    points = ask(design, platform, assignments, many=yes)
    hands = worker_count(workers, scheduler)
    from nicscope.studies.sweep.sweeping import Sweep
    from nicscope.studies.sweep.table import table_output
    from nicscope.traces.reader import open_trace

    with text_beside(out, as_json), table_output(out) as output:
        opened = [(trace_name(trace), open_trace(trace_path(trace))) for trace in traces]
        what = Sweep(points, opened, out, kinds=not no_kinds)
        _run(what, hands, scheduler, output)
        from nicscope.reports.sweep import ShownSweep
        from nicscope.studies.sweep.table import Table

        options = {"--design": design, "--grid": assignments, "--platform": platform}
        command = command_line(
            ["sweep", *traces], {**options, "--out": str(out), "--no-kinds": no_kinds}
        )
        tell(ShownSweep(what, Table(output.readable), command), [out], as_json)


def _run(what: Sweep, workers: int, scheduler: str | None, output: TableOutput) -> None:
    """Sweep; after Ctrl-C or the like say how to go on, and exit with its status."""
    from nicscope.studies.sweep.journal import journal_path
    from nicscope.studies.sweep.sweeping import sweep as run

    try:
        with contextlib.ExitStack() as stack:
            cluster = None
            if scheduler is not None:
                from nicscope.studies.sweep.cluster import connected

                cluster = stack.enter_context(connected(scheduler))
            watch = stack.enter_context(progress("sweeping", "designs"))
            done = run(what, workers, cluster, watch, _say_found, output)
    except KeyboardInterrupt:
        kept = journal_path(what.out)
        if output.is_stream or not kept.exists():
            raise
        status = ending_status()
        print(
            f"nicscope: {ENDINGS[status]}; what is done is kept in {kept}: the same command "
            "continues",
            file=sys.stderr,
        )
        raise typer.Exit(status) from None
    if done.was_there:
        print(f"nicscope: {what.out}: this sweep is there already, complete", file=sys.stderr)


def _say_found(done: Done) -> None:
    if done.found:
        print(
            f"nicscope: continuing: {done.found:,} of {done.replays:,} replays were done before",
            file=sys.stderr,
        )
