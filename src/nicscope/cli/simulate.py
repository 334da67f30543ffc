"""``nicscope simulate``: a program, or a request trace, in virtual time."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer, check_explained, tell
from nicscope.cli.arguments import (
    AsJson,
    Assignments,
    Explain,
    Timeline,
    beside_timeline,
    option,
    report_omitted,
)
from nicscope.errors import SimulationError
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.simulation import ShownTrace
    from nicscope.reports.timing import ShownTiming

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope simulate mine.py[/bold]\n\n"
    "[bold]nicscope simulate mine.py --timeline mine.json[/bold]\n\n"
    "[bold]nicscope simulate bundled:redis_server --design utlb --design vmmc-interrupt[/bold]\n\n"
    "[bold]nicscope simulate mine.parquet --design mini --set entries=64 --json[/bold]\n\n"
    "[bold]nicscope simulate fft.program.parquet --design mini --design utlb[/bold]"
)
PROGRAM = ".py"


def simulate(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py|TRACE",
            help="A program whose main() runs clusters, or a trace (Parquet, or bundled:NAME).",
            autocompletion=arguments.traces,
            show_default=False,
        ),
    ],
    design: Annotated[
        list[str] | None,
        option(
            "NAME|FILE",
            "Of a trace; may be repeated; left out: every design of the catalog.",
            autocompletion=arguments.designs,
        ),
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "Of a trace: what things cost; left out: the design's own.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    assignments: Assignments = None,
    requests: Annotated[
        int | None, option("N", "Only the first N requests of the trace.", min=1)
    ] = None,
    timed: Annotated[
        bool, typer.Option("--timed", help="A request waits for its time in the trace.")
    ] = False,
    window: Annotated[
        int,
        option(
            "PACKETS", "That may be outstanding; with 1 the counts are a replay's.", min=1, max=64
        ),
    ] = 1,
    as_json: AsJson = False,
    explain: Explain = False,
    out: Annotated[Path | None, option("DIR", "Folder for results.json and two tables.")] = None,
    timeline: Timeline = None,
) -> None:
    """Run a program's clusters, or a trace, in virtual time: what it cost, and why.

    Of a program trace (NAME.program.parquet) all processes run on one machine, and wait for each
    other as they did.
    """
    chosen = {
        "--design": design,
        "--platform": platform,
        "--set": assignments,
        "--requests": requests,
        "--timed": timed,
        "--window": window != 1,
    }
    if what.endswith(PROGRAM):
        check_explained(explain, as_json)
        unfit = [name for name, value in chosen.items() if value]
        _simulate_program(Path(what), unfit, as_json, out, timeline, explain)
        return
    if timeline is not None:
        raise SimulationError(f"{what}: --timeline is for programs; name a .py file")
    from nicscope.library.simulate import simulate as run

    def simulated() -> ShownTrace | ShownTiming:
        return run(
            what,
            design,
            platform,
            requests=requests,
            timed=timed,
            window=window,
            assignments=assignments,
        )

    answer(simulated, out, as_json, explain)


def _simulate_program(
    path: Path,
    chosen: list[str],
    as_json: bool,
    out: Path | None,
    timeline: Path | None,
    explain: bool,
) -> None:
    if chosen:
        raise SimulationError(f"{path} makes its own clusters; {chosen[0]} is for traces")
    with beside_timeline(timeline, as_json):
        _run_program(path, as_json, out, timeline, explain)


def _run_program(
    path: Path, as_json: bool, out: Path | None, timeline: Path | None, explain: bool
) -> None:
    from nicscope.reports.result import folder_for
    from nicscope.reports.simulation import ShownProgram

    # What the program prints is its own; with --json the standard output is one object.
    aside: Any = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    with folder_for(out) as folder, progress("running", "", always_say=True):
        from nicscope.studies.programs import run_program

        records = 0
        if timeline is not None:
            from nicscope.studies.timeline import MOST_RECORDS

            records = MOST_RECORDS
        with aside:
            report = ShownProgram(run_program(path, records))
        written = [] if folder is None else report.write(folder)
        if timeline is not None:
            from nicscope.studies.timeline import write_timeline

            written.append(write_timeline(report.found, timeline))
            report_omitted(report.found, timeline)
    tell(report, written, as_json, explain)
