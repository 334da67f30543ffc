"""A program trace on one machine in virtual time: what ``nicscope simulate`` reports of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import SimulationError
from nicscope.library.command import command_line
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
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
