"""Programs whose requests become traces: what ``nicscope apps`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import OutputError, StudyError, in_one_line
from nicscope.library.command import number, whole
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.reports.applications import (
        ShownApplication,
        ShownApplications,
        ShownMachineApplication,
        ShownSession,
    )
    from nicscope.studies.applications import Given, Placed


def app_names() -> list[str]:
    """The programs that ``run_app`` runs."""
    from nicscope.studies.applications import APPLICATIONS

    return list(APPLICATIONS)


def apps() -> ShownApplications:
    """The programs that ``run_app`` runs, and their sizes."""
    from nicscope.reports.applications import ShownApplications
    from nicscope.studies.applications import APPLICATIONS

    return ShownApplications(APPLICATIONS)


def traces_of(out: str | Path | Sequence[str | Path] | None) -> list[Path]:
    """The traces that ``out`` asks for: a request trace has its program trace beside it.

    Several are those that they are, and so is a stream.
    """
    from pathlib import Path

    from nicscope.traces.programs.schema import ENDING
    from nicscope.traces.programs.writer import is_program_file

    named = [] if out is None else [out] if isinstance(out, str | Path) else out
    outs = [Path(each) for each in named]
    if len(outs) != 1 or outs[0].suffix != ".parquet" or outs[0].name.endswith(ENDING):
        return outs
    beside = outs[0].with_suffix(ENDING)
    if beside.exists() and not is_program_file(beside):
        raise OutputError(
            f"{beside}: would be written beside {outs[0]}, and is there and no program trace; "
            "move it, or name both traces with --out"
        )
    return [outs[0], beside]


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
        out: a trace of what it asked of network interfaces (``NAME.parquet``), beside which one
            of what its processes did and waited for is written (``NAME.program.parquet``), or
            that one alone; those of a list as they are named; None: none.
        with_initial: the trace also holds the first distribution of data.
        on: ``"vmmc"``, ``"mini"`` or ``"unet"``: on simulated machines whose NICs serve that, so
            that pages, diffs, locks and barriers cross them; None: in logical time.
        design: of those NICs; None: the interface's first choice.
        platform: what things cost there; None: the design's.
        faults: what goes wrong there: ``Faults``, or texts such as ``"loss=0.05"``, ``"seed=3"``
            and ``"link=1@600"``, which dies at 600 us; several in a list.

    Errors: ``NicscopeError`` for what cannot run, and if the result is wrong.

    """
    from nicscope.reports.applications import ShownApplication
    from nicscope.studies.applications import (
        placed,
        run_application,
        write_application_program,
        write_requests,
    )
    from nicscope.traces.programs.schema import ENDING

    outs = traces_of(out)
    for path in outs:
        _check_trace(path)
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
    from nicscope.reports.applications import ShownMachineApplication
    from nicscope.studies.applications import Machines, faults_of, run_application_on_machines

    with progress(f"running {name}", "phases") as watch:
        found = run_application_on_machines(
            name, size, placement, Machines(*on, faults_of(faults)), seed, watch
        )
    return ShownMachineApplication(found)


def _check_trace(out: Path) -> None:
    """Refuse, before anything runs, what could not be a trace.  Errors: ``OutputError``."""
    from nicscope.outputs import check_output

    is_stream = check_output(out).is_stream
    if out.suffix != ".parquet" and not is_stream:
        raise OutputError(
            f"{out}: a trace in Parquet is written; name it .parquet, and have "
            "'nicscope trace convert' make another of it"
        )


@in_one_line
def record_sockets(
    out: str | Path,
    *,
    users: int = 32,
    seconds: float = 30,
    seed: int = 0,
    receive_pages: int = 64,
) -> ShownSession:
    """Run people's programs and their servers on this machine, and record what their sockets move.

    Args:
        out: the trace (Parquet).
        users: programs that are used by somebody: in turn a shell's, the web's and mail's.
        seconds: how long each user's pauses last in all.
        seed: of what they do, and of their pauses.
        receive_pages: pages that each process posts to receive into.

    Errors: ``NicscopeError`` where programs may not be traced, and if a byte did not arrive.

    """
    from pathlib import Path

    from nicscope.reports.applications import ShownSession
    from nicscope.studies.interactive import record_session

    _check_trace(Path(out))
    counts = [
        whole(called, count) or 0
        for called, count in (("users", users), ("seed", seed), ("receive_pages", receive_pages))
    ]
    lasting = number("seconds", seconds) or 0.0
    with progress("recording users", "users") as watch:
        found = record_session(Path(out), counts[0], lasting, counts[1], counts[2], watch)
    return ShownSession(found)
