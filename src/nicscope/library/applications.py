"""Programs whose requests become traces: what ``nicscope apps`` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nicscope.errors import OutputError, StudyError
from nicscope.library.command import Option, Text, as_given, command
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@command(
    "nicscope apps run fft --size 64K --out fft.parquet",
    "nicscope apps run radix --size 4M --nodes 4 --processes 4 --json",
    "nicscope apps run fft --nodes 8 --processes 1 --out fft.program.parquet",
    "nicscope apps run fft --on vmmc --faults loss=0.05 --faults seed=3",
    words="apps run",
)
def run_app(
    _repeat: list[str],
    /,
    name: Annotated[
        str,
        Option(
            "NAME",
            "Program to run; [bold]nicscope apps list[/bold] shows them.",
            offers="apps",
            is_argument=True,
        ),
    ],
    size: Annotated[
        Text,
        Option(
            "N",
            "Problem size, such as 64K or 4M. Default: a small one.",
            ("--size", "--points"),
            read=as_given,
        ),
    ] = None,
    *,
    nodes: Annotated[int, Option("N", "Nodes.", least=1)] = 4,
    processes: Annotated[int, Option("N", "Processes of each node.", least=1)] = 4,
    private: Annotated[
        bool, Option("", "Give each process copies of pages of its own, not shared within a node.")
    ] = False,
    seed: Annotated[int, Option("N", "Seed of the input.", least=0)] = 0,
    out: Annotated[
        str | Path | Sequence[str | Path] | None,
        Option(
            "FILE",
            "Traces to write: NAME.parquet of the requests to network "
            "interfaces, and beside it NAME.program.parquet of what processes"
            " do and wait for; or the latter alone.",
            read=as_given,
            is_repeated=True,
        ),
    ] = None,
    with_initial: Annotated[
        bool, Option("", "Also trace the first distribution of its data.")
    ] = False,
    skew: Annotated[
        int,
        Option(
            "US",
            "Largest time by which a process leaves a barrier late, drawn by "
            "the seed; 2000 bounds what runs of the original programs had.",
            least=0,
        ),
    ] = 0,
    on: Annotated[
        Text,
        Option(
            "INTERFACE",
            "Run on simulated machines whose NICs serve vmmc, mini, unet, via or trapeze. "
            "Default: in logical time.",
        ),
    ] = None,
    design: Annotated[
        str | Path | None,
        Option(
            "NAME",
            "With --on: design of the NICs; Trapeze has none.",
            (),
            "designs",
            read=as_given,
        ),
    ] = None,
    platform: Annotated[
        str | Path | None,
        Option(
            "NAME",
            "With --on: platform with the costs.",
            offers="platforms",
            read=as_given,
        ),
    ] = None,
    faults: Annotated[
        Given,
        Option(
            "KEY=VALUE",
            "With --on: faults of the network: loss=0.05, duplication, "
            "reordering, corruption, seed=3, link=1@600 or node=2@600, which "
            "dies at 600 us; may be repeated.",
            read=as_given,
            is_repeated=True,
        ),
    ] = None,
) -> ShownApplication | ShownMachineApplication:
    """Run a parallel program, check it and trace its requests.

    Its processes share memory over the nodes' NICs.
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
    placement = placed(nodes, processes, private=private)
    if on is not None:
        if outs:
            raise OutputError(f"{outs[0]}: traces are recorded in logical time; leave --on away")
        if skew:
            raise StudyError("--skew is of logical time; leave --on away")
        return _run_on_machines(name, size, placement, seed, (on, design, platform), faults)
    for option, value in (("--design", design), ("--platform", platform), ("--faults", faults)):
        if value:
            raise StudyError(f"{option} is of simulated machines; name their interface with --on")
    with progress(f"running {name}", "phases") as watch:
        found = run_application(
            name, size, placement, seed, watch, with_initial=with_initial, skew_us=skew
        )
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


@command(
    "nicscope apps record-sockets --users 32 --out sockets.parquet",
    words="apps record-sockets",
)
def record_sockets(
    _repeat: list[str],
    /,
    out: Annotated[str | Path, Option("FILE", "The trace to write (Parquet).", read=as_given)],
    *,
    users: Annotated[int, Option("N", "Users at once.", least=1, most=256)] = 32,
    seconds: Annotated[
        float, Option("S", "Seconds that each user pauses in all.", least=0.1, most=600)
    ] = 30.0,
    seed: Annotated[int, Option("N", "Seed of what users do, and when.", least=0)] = 0,
    receive_pages: Annotated[
        int, Option("N", "Pages that each process receives into.", least=1, most=4096)
    ] = 64,
) -> ShownSession:
    """Record simulated users of a shell, a web and a mail server.

    The servers are real programs, over loopback.

    Each user and each server is a program of this machine, in a network namespace of their own
    where one may be made. That every byte arrived is checked before the trace is written.
    """
    from nicscope.reports.applications import ShownSession
    from nicscope.studies.interactive import record_session

    _check_trace(Path(out))
    with progress("recording users", "users") as watch:
        return ShownSession(record_session(Path(out), users, seconds, seed, receive_pages, watch))
