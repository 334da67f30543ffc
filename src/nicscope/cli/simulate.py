"""``nicscope simulate``: a program, or a request trace, in virtual time."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.cli.answer import answer, check_explained, tell
from nicscope.cli.arguments import beside_timeline, output_path, report_omitted
from nicscope.errors import SimulationError
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.reports.result import Report

PROGRAM = ".py"


def answer_simulation(
    found: Callable[..., Report], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Run the program that was named, or simulate the trace, and print what was found."""
    what, out, timeline = given["trace"], given.pop("out"), given.pop("timeline")
    timeline = timeline and output_path(timeline)
    if not what.endswith(PROGRAM):
        if timeline is not None:
            raise SimulationError(f"{what}: --timeline is for programs; name a .py file")
        answer(found, out, as_json, explain)
        return
    check_explained(explain, as_json)
    options = {"designs": "--design", "assignments": "--set", "window": "--window"}
    for name, value in given.items():
        if name != "trace" and value and value != {"window": 1}.get(name):
            option = options.get(name, f"--{name}")
            raise SimulationError(f"{what} makes its own clusters; {option} is for traces")
    with beside_timeline(timeline, as_json):
        _run_program(Path(what), as_json, out, timeline, explain)


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
