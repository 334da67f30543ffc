"""A trace's requests in virtual time, and programs timed: what ``nicscope simulate`` reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import SimulationError, in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.command import command_line, several, whole
from nicscope.library.progress import progress
from nicscope.library.traces import open_file, trace_path, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.library.traces import TraceLike
    from nicscope.reports.simulation import ShownTrace
    from nicscope.reports.timing import ShownTiming
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


def time_program(
    given: tuple[str, ProgramTrace],
    names: Sequence[str | Path | Design],
    platform: str | Path | Platform | None,
    overrides: Sequence[str],
    unfit: Mapping[str, Any],
) -> ShownTiming:
    """What becomes of a program trace, with its name, under each design.

    ``unfit``: options of request traces, by name, with what they were given as.  Errors:
    ``NicscopeError``, before anything is timed if it can be.
    """
    from nicscope.reports.timing import ShownTiming
    from nicscope.studies.simulating import choose_runnable
    from nicscope.studies.timing import time_program as time_it

    name, trace = given
    wrong = [option for option, value in unfit.items() if value]
    if wrong:
        raise SimulationError(
            f"{name}: is a program trace, whose operations wait for each other; {wrong[0]} is for "
            "request traces"
        )
    options = {"--design": names, "--platform": platform, "--set": overrides}
    command = command_line(["simulate", name], options)
    runnable, skipped = choose_runnable(names, platform, overrides)
    with progress("timing", "operations", always_say=True) as watch:
        return ShownTiming(
            time_it(trace, name, runnable, skipped=skipped, command=command, watch=watch)
        )


MOST_WINDOW = 64  # packets


@in_one_line
def simulate(
    trace: TraceLike | ProgramTrace,
    designs: str | Path | Design | Sequence[str | Path | Design] | None = None,
    platform: str | Path | Platform | None = None,
    *,
    requests: int | None = None,
    timed: bool = False,
    window: int = 1,
    assignments: str | Iterable[str] | None = None,
    **settings: One,
) -> ShownTrace | ShownTiming:
    """What becomes of a trace's requests in virtual time: what each took, and why.

    Of a program trace, whose operations wait for each other, all processes run on one machine, and
    what comes of it is how long the program takes.  Programs of one's own are started on a
    ``Cluster`` instead.

    Args:
        trace: a path, ``bundled:NAME``, a table of Arrow, pandas or Polars, or a program trace.
        designs: names of the catalog, files or ``Design`` objects; None: all that can run.
        platform: what things cost; None: each design's own.
        requests: only so many, from the beginning.
        timed: a request waits for its time in the trace.
        window: packets that may be outstanding; with 1 the counts are a replay's.
        assignments: ``KEY=VALUE``, one or several, set on every design.
        settings: the same by name, such as ``entries=64``; None removes a limit.

    Errors: ``NicscopeError``, before anything is simulated if it can be.

    """
    from nicscope.reports.simulation import ShownTrace
    from nicscope.studies.simulating import choose_runnable, simulate_trace

    requests, window = whole("requests", requests), whole("window", window) or 0
    if requests is not None and requests < 1:
        raise SimulationError(f"requests must be at least 1, got {requests}")
    if not 1 <= window <= MOST_WINDOW:
        raise SimulationError(f"window must be from 1 to {MOST_WINDOW} packets, got {window}")
    names, overrides = several(designs), set_of(assignments, settings)
    found = opened(trace)
    if isinstance(found, tuple):
        unfit = {"--requests": requests, "--timed": timed, "--window": window != 1}
        return time_program(found, names, platform, overrides, unfit)
    options = {
        "--design": names,
        "--platform": platform,
        "--set": overrides,
        "--requests": requests,
        "--timed": timed,
        "--window": window if window != 1 else None,
    }
    command = command_line(["simulate", *words_of(trace)], options)
    runnable, skipped = choose_runnable(names, platform, overrides)
    with progress("simulating", "requests", always_say=True) as watch:
        return ShownTrace(
            simulate_trace(
                found,
                runnable,
                skipped=skipped,
                most=requests,
                timed=timed,
                window=window,
                command=command,
                watch=watch,
            )
        )
