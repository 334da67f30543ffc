"""A trace's requests in virtual time, and programs timed: what ``nicscope simulate`` reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import SimulationError, in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.command import command_line, several, whole
from nicscope.library.progress import progress
from nicscope.library.traces import open_file, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.library.traces import TraceLike
    from nicscope.reports.simulation import ShownTrace
    from nicscope.reports.timing import ShownTiming
    from nicscope.traces.programs.schema import ProgramTrace


def as_program(given: Any) -> tuple[str, ProgramTrace] | None:
    """The program trace that ``given`` is or names, with its name; None for anything else.

    Errors: ``TraceError`` for a program trace that is damaged.
    """
    from nicscope.traces.programs.schema import ENDING, ProgramTrace

    if isinstance(given, ProgramTrace):
        return given.metadata.program or "a program", given
    if not isinstance(given, str | Path):
        return None
    if not str(given).endswith(ENDING) and not _holds_program(Path(given)):
        return None
    from nicscope.traces.programs.reader import read_program

    with progress("reading", "rows", always_say=True) as watch:
        return str(given), read_program(given, watch)


def _holds_program(path: Path) -> bool:
    """Whether a file of another name holds one; whatever else is wrong with it is told later."""
    from nicscope.traces.columns import DAMAGE
    from nicscope.traces.programs.schema import is_program

    if not path.is_file():
        return False
    import pyarrow.parquet as pq

    try:
        return is_program(pq.read_schema(path))
    except DAMAGE:
        return False


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
    program = as_program(trace)
    if program is not None:
        unfit = {"--requests": requests, "--timed": timed, "--window": window != 1}
        return time_program(program, names, platform, overrides, unfit)
    options = {
        "--design": names,
        "--platform": platform,
        "--set": overrides,
        "--requests": requests,
        "--timed": timed,
        "--window": window if window != 1 else None,
    }
    command = command_line(["simulate", *words_of(trace)], options)
    checked = open_file(trace)  # type: ignore[arg-type]  # no program trace by now
    runnable, skipped = choose_runnable(names, platform, overrides)
    with progress("simulating", "requests", always_say=True) as watch:
        return ShownTrace(
            simulate_trace(
                checked,
                runnable,
                skipped=skipped,
                most=requests,
                timed=timed,
                window=window,
                command=command,
                watch=watch,
            )
        )
