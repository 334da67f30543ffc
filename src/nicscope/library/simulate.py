"""Programs and traces in virtual time: what ``nicscope simulate`` and ``nicscope verbs run`` do."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from nicscope.errors import SimulationError, StudyError
from nicscope.library.command import (
    Assignments,
    Delay,
    Option,
    Text,
    Timeline,
    Values,
    as_given,
    command,
    designs,
    each_given,
    platform_option,
)
from nicscope.library.progress import progress
from nicscope.library.traces import open_file, trace_path, words_of
from nicscope.outputs import check_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.library.traces import TraceLike
    from nicscope.reports.simulation import ShownTiming, ShownTrace
    from nicscope.reports.verbs import ShownVerbs
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
        designs(
            "Design that a trace runs on; may be repeated. Default: every design of the catalog."
        ),
    ] = None,
    platform: Annotated[
        str | Path | Platform | None,
        platform_option("Costs that a trace runs with. Default: the design's own platform."),
    ] = None,
    *,
    requests: Annotated[
        int | None, Option("N", "Take the first N requests of the trace only.", least=1)
    ] = None,
    timed: Annotated[
        bool,
        Option("", "Start each request at its time in the trace, not when the one before is done."),
    ] = False,
    window: Annotated[
        int,
        Option(
            "PACKETS",
            "Packets that may be outstanding; with 1 the counts equal those of a replay.",
            least=1,
            most=MOST_WINDOW,
        ),
    ] = 1,
    assignments: Assignments = None,
    **_settings: One,
) -> ShownTrace | ShownTiming:
    """Run a program or a trace on simulated hosts and NICs.

    Shown are time, what each message cost, and which part of the machine it was spent in.

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


CommandLines: TypeAlias = "Mapping[int, str | Sequence[str]] | None"  # of programs, by node


def _share(help: str) -> Option:  # noqa: A002 - what it is everywhere here
    """An option for a share of packets."""
    return Option("SHARE", help, least=0, most=1)


@command(
    "nicscope verbs run pingpong.py",
    "nicscope verbs run --design utlb --design mini ring.py --size 4096",
    "nicscope verbs run --loss 0.01 --seed 3 tests/run_tests.py -v -k test_mr",
    "nicscope verbs run --timeline pingpong.html pingpong.py",
    "nicscope verbs run --pcap pingpong.pcapng pingpong.py",
    'nicscope verbs run --node 0 server.py --node 1 "client.py 10.0.0.1"',
    'nicscope verbs run --delay 40ms --node 0 server.py --node 1 "client.py 10.0.0.1"',
    words="verbs run",
    out="Folder for results.json and three tables.",
)
def run_verbs(
    _repeat: list[str],
    /,
    program: Annotated[
        Text, Option("FILE.py", "A program that imports pyverbs.", is_argument=True)
    ] = None,
    arguments: Annotated[
        Values,
        Option(
            "[ARGUMENT]...",
            "Arguments of the program.",
            read=each_given,
            is_argument=True,
            is_repeated=True,
        ),
    ] = (),
    *,
    nodes: Annotated[
        CommandLines,
        Option(
            'N "FILE.py [ARGUMENT]..."',
            "Instead of FILE.py: program of node N with its arguments, "
            "quoted; repeat it for nodes 0, 1 and so on, which one network "
            "joins.",
            ("--node",),
            read=as_given,
            is_repeated=True,
        ),
    ] = None,
    design: Annotated[
        Values,
        designs(
            "Design of the NICs; may be repeated to compare. Default: rnic, an RDMA NIC of today."
        ),
    ] = None,
    platform: Annotated[
        Any, platform_option("Platform with the costs. Default: the design's own.")
    ] = (None),
    device: Annotated[
        Text, Option("NAME", "Name of the device, for programs that open one such as mlx5_0.")
    ] = None,
    seed: Annotated[
        int, Option("N", "Seed of the faults and of the program's random numbers.", least=0)
    ] = 0,
    loss: Annotated[float, _share("Share of packets that are lost.")] = 0.0,
    duplication: Annotated[float, _share("Share of packets that are duplicated.")] = 0.0,
    reordering: Annotated[float, _share("Share of packets that are reordered.")] = 0.0,
    corruption: Annotated[float, _share("Share of packets that are corrupted.")] = 0.0,
    topology: Annotated[
        Text,
        Option("crossbar|pair|trunk", "Topology of several nodes. Default: crossbar."),
    ] = None,
    delay: Delay = None,
    timeline: Timeline = None,
    pcap: Annotated[
        str | Path | None,
        Option(
            "FILE",
            "RoCE v2 frames that leave the NICs of a design, at their virtual times, as pcapng for "
            "Wireshark; - for standard output.",
        ),
    ] = None,
    assignments: Assignments = None,
    **_settings: One,
) -> ShownVerbs:
    """Run programs that import pyverbs, unchanged, without a card.

    What their messages and translations cost is shown when they end.

    Options come before FILE.py; what follows it is the program's.  With --node there are several
    programs, each with a device of its own: node 0 is 10.0.0.1, node 1 is 10.0.0.2, and TCP between
    them works.
    """
    from msgspec.structs import replace

    from nicscope.reports.verbs import ShownVerbs
    from nicscope.studies.timeline import MOST_RECORDS, write_timeline
    from nicscope.studies.verbs_programs import (
        CROSSBAR,
        Wanted,
        captured_to,
        programs_of,
        run_on_nodes,
        run_programs,
        with_all_set,
    )

    if timeline is not None:
        check_output(timeline)
    wanted = Wanted(
        designs=with_all_set(design or [None], assignments),
        platform=platform,
        device=device,
        seed=seed,
        faults={
            "loss": loss,
            "duplication": duplication,
            "reordering": reordering,
            "corruption": corruption,
        },
        topology=CROSSBAR if topology is None else topology,
        delay=delay,
        keep_log=0 if timeline is None else MOST_RECORDS,
    )
    if (program is None) == (nodes is None):
        raise StudyError("give one program, or one for each node (nodes=...)")
    if nodes is None and topology is not None:
        raise StudyError(f"topology {topology!r} is of several nodes; give the program of each")
    if nodes is None and delay is not None:
        raise StudyError(
            f"--delay {delay}: it is between nodes; give the program of each (--node 0 ...)"
        )
    if pcap is not None and len(wanted.designs) != 1:
        raise StudyError(f"--pcap {pcap}: {len(wanted.designs)} designs; capture one at a time")
    with contextlib.ExitStack() as ending:
        capture = ending.enter_context(captured_to(pcap))
        ending.enter_context(progress("running", "", always_say=True))
        if nodes is not None:
            found = run_on_nodes(programs_of(nodes), wanted, capture)
        else:
            found = run_programs(Path(program), arguments, wanted, capture)
    if capture is not None:
        found = replace(found, captured=capture.summary())
    if timeline is not None and found.seen is not None:
        write_timeline(found.seen, Path(timeline), ("verbs", "run"))
    return ShownVerbs(found)
