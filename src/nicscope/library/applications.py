"""Parallel programs on shared memory: what ``nicscope apps run`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import OutputError, StudyError, in_one_line
from nicscope.library.command import whole
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.reports.applications import ShownApplication, ShownApplications
    from nicscope.reports.applications_on_machines import ShownMachineApplication
    from nicscope.studies.applications_on_machines import Given, Placed


def app_names() -> list[str]:
    """The programs that ``run_app`` runs."""
    from nicscope.studies.applications import APPLICATIONS

    return list(APPLICATIONS)


def apps() -> ShownApplications:
    """The programs that ``run_app`` runs, and their sizes."""
    from nicscope.reports.applications import ShownApplications
    from nicscope.studies.applications import APPLICATIONS

    return ShownApplications(APPLICATIONS)


@in_one_line
def run_app(
    name: str,
    size: str | int | None = None,
    *,
    nodes: int = 4,
    processes: int = 4,
    private: bool = False,
    seed: int = 0,
    out: str | Path | Sequence[str | Path] | None = None,
    with_initial: bool = False,
    on: str | None = None,
    design: str | Path | None = None,
    platform: str | Path | None = None,
    faults: Given = None,
) -> ShownApplication | ShownMachineApplication:
    """Run a parallel program on shared virtual memory, check its result, and keep its requests.

    Args:
        name: fft, lu, radix, ocean, barnes, water-nsquared, water-spatial, raytrace or volrend.
        size: how much it computes, such as ``"4M"``; None: a small one.
        nodes: machines.
        processes: of each.
        private: every process has copies of pages of its own; else those of a node share theirs.
        seed: of its input.
        out: a trace of what it asked of network interfaces (``.parquet``), or of what its
            processes did and waited for (``.program.parquet``); several in a list; None: none.
        with_initial: the trace also holds the first distribution of data.
        on: ``"vmmc"``, ``"mini"`` or ``"unet"``: on simulated machines whose NICs serve that, so
            that pages, diffs, locks and barriers cross them; None: in logical time.
        design: of those NICs; None: the interface's first choice.
        platform: what things cost there; None: the design's.
        faults: what goes wrong there: ``Faults``, or texts such as ``"loss=0.05"``, ``"seed=3"``
            and ``"link=1@600"``, which dies at 600 us; several in a list.

    Errors: ``NicscopeError`` for what cannot run, and if the result is wrong.

    """
    from pathlib import Path

    from nicscope.outputs import check_output
    from nicscope.reports.applications import ShownApplication
    from nicscope.studies.application_programs import write_application_program
    from nicscope.studies.applications import placed, run_application, write_requests
    from nicscope.traces.programs.schema import ENDING

    named = [] if out is None else [out] if isinstance(out, str | Path) else out
    outs = [Path(each) for each in named]
    for path in outs:  # refused before anything runs
        is_stream = check_output(path).is_stream
        if path.suffix != ".parquet" and not is_stream:
            raise OutputError(
                f"{path}: a trace in Parquet is written; name it .parquet, and have "
                "'nicscope trace convert' make another of it"
            )
    if len({*outs}) < len(outs):
        raise OutputError(f"{outs[-1]}: is named twice; name a trace of each kind")
    for called, count, least in (
        ("nodes", nodes, 1),
        ("processes", processes, 1),
        ("seed", seed, 0),
    ):
        if (whole(called, count) or 0) < least:
            raise StudyError(f"{called} must be at least {least}, got {count}")
    placement = placed(nodes, processes, private=private)
    if on is not None:
        if outs:
            raise OutputError(f"{outs[0]}: traces are recorded in logical time; leave --on away")
        return _run_on_machines(name, size, placement, seed, (on, design, platform), faults)
    for option, value in (("--design", design), ("--platform", platform), ("--faults", faults)):
        if value:
            raise StudyError(f"{option} is of simulated machines; name their interface with --on")
    with progress(f"running {name}", "phases") as watch:
        found = run_application(name, size, placement, seed, watch, with_initial=with_initial)
    for path in outs:
        if path.name.endswith(ENDING):
            write_application_program(found, path)
        else:
            write_requests(found, path, with_initial=with_initial)
    return ShownApplication(found)


def _run_on_machines(
    name: str,
    size: str | int | None,
    placement: Placed,
    seed: int,
    on: tuple[str, str | Path | None, str | Path | None],
    faults: Given,
) -> ShownMachineApplication:
    """Run it on machines of an interface, a design and a platform."""
    from nicscope.reports.applications_on_machines import ShownMachineApplication
    from nicscope.studies.applications_on_machines import (
        Machines,
        faults_of,
        run_application_on_machines,
    )

    with progress(f"running {name}", "phases") as watch:
        found = run_application_on_machines(
            name, size, placement, Machines(*on, faults_of(faults)), seed, watch
        )
    return ShownMachineApplication(found)
