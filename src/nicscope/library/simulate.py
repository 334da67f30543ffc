"""A trace's requests in virtual time, and programs timed: what ``nicscope simulate`` reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from nicscope.errors import SimulationError
from nicscope.library.command import (
    Assignments,
    Option,
    Values,
    as_given,
    command,
    designs,
    platform_option,
)
from nicscope.library.progress import progress
from nicscope.library.traces import open_file, trace_path, words_of

if TYPE_CHECKING:
    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.library.traces import TraceLike
    from nicscope.reports.simulation import ShownTiming, ShownTrace
    from nicscope.traces.programs.schema import ProgramTrace
    from nicscope.traces.reader import Trace


def opened(given: Any) -> tuple[str, ProgramTrace] | Trace:
    """Open a program trace, with its name; else the request trace.

    A stream is read once, so it is looked into where it is opened.  Errors: ``TraceError``.
    """
    from nicscope.traces.files import open_bytes
    from nicscope.traces.folders import is_folder
    from nicscope.traces.formats import any_of
    from nicscope.traces.imported import Choices
    from nicscope.traces.programs.reader import program_of
    from nicscope.traces.programs.schema import ENDING, ProgramTrace
    from nicscope.traces.programs.writer import PROGRAM, program_format

    if isinstance(given, ProgramTrace):
        return given.metadata.program or "a program", given
    path = trace_path(given) if isinstance(given, str) else given
    if not isinstance(path, Path) or is_folder(path):
        return open_file(given)
    source = open_bytes(path)
    if not path.name.endswith(ENDING) and program_format(source, None) != PROGRAM:
        return any_of(source, Choices())
    with source, progress("reading", "rows", always_say=True) as watch:
        return str(given), program_of(source, watch)


MOST_WINDOW = 64  # packets


@command(
    "nicscope simulate mine.py",
    "nicscope simulate mine.py --timeline mine.json",
    "nicscope simulate bundled:redis_server --design utlb --design vmmc-interrupt",
    "nicscope simulate mine.parquet --design mini --set entries=64 --json",
    "nicscope simulate fft.program.parquet --design mini --design utlb",
    out="Folder for results.json and two tables.",
)
def simulate(
    repeat: list[str],
    /,
    trace: Annotated[
        TraceLike | ProgramTrace,
        Option(
            "FILE.py|TRACE",
            "A program whose main() runs clusters, or a trace (Parquet, or bundled:NAME).",
            offers="traces",
            read=as_given,
            words=words_of,
            is_argument=True,
        ),
    ],
    designs: Annotated[
        Values,
        designs("Of a trace; may be repeated; left out: every design of the catalog."),
    ] = None,
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("Of a trace: what things cost; left out: the design's own."),
    ] = None,
    *,
    requests: Annotated[
        int | None, Option("N", "Only the first N requests of the trace.", least=1)
    ] = None,
    timed: Annotated[bool, Option("", "A request waits for its time in the trace.")] = False,
    window: Annotated[
        int,
        Option(
            "PACKETS",
            "That may be outstanding; with 1 the counts are a replay's.",
            least=1,
            most=MOST_WINDOW,
        ),
    ] = 1,
    assignments: Assignments = None,
    **_settings: One,
) -> ShownTrace | ShownTiming:
    """Run a program's clusters, or a trace, in virtual time: what it cost, and why.

    Of a program trace (NAME.program.parquet) all processes run on one machine, and wait for each
    other as they did.
    """
    from nicscope.reports.simulation import ShownTiming, ShownTrace
    from nicscope.studies.simulating import choose_runnable, simulate_trace, time_program

    found = opened(trace)
    if isinstance(found, tuple):
        name, program = found
        given = {"--requests": requests, "--timed": timed, "--window": window != 1}
        if wrong := [option for option, value in given.items() if value]:
            raise SimulationError(
                f"{name}: is a program trace, whose operations wait for each other; {wrong[0]} is "
                "for request traces"
            )
        runnable, skipped = choose_runnable(designs, platform, assignments)
        with progress("timing", "operations", always_say=True) as watch:
            return ShownTiming(
                time_program(program, name, runnable, skipped=skipped, command=repeat, watch=watch)
            )
    runnable, skipped = choose_runnable(designs, platform, assignments)
    with progress("simulating", "requests", always_say=True) as watch:
        return ShownTrace(
            simulate_trace(
                found,
                runnable,
                skipped=skipped,
                most=requests,
                timed=timed,
                window=window,
                command=repeat,
                watch=watch,
            )
        )
