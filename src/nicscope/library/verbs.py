"""Programs of RDMA's verbs on the simulated device: what ``nicscope verbs run`` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from nicscope.errors import StudyError
from nicscope.library.command import (
    Assignments,
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
from nicscope.outputs import check_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.library.command import One
    from nicscope.reports.verbs import ShownVerbs

CommandLines: TypeAlias = "Mapping[int, str | Sequence[str]] | None"  # of programs, by node


def _share(help: str) -> Option:  # noqa: A002 - what it is everywhere here
    """An option for a share of packets."""
    return Option("SHARE", help, least=0, most=1)


@command(
    "nicscope verbs run pingpong.py",
    "nicscope verbs run --design utlb --design mini ring.py --size 4096",
    "nicscope verbs run --loss 0.01 --seed 3 tests/run_tests.py -v -k test_mr",
    "nicscope verbs run --timeline pingpong.html pingpong.py",
    'nicscope verbs run --node 0 server.py --node 1 "client.py 10.0.0.1"',
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
            "The program's own.",
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
            "Instead of FILE.py: what runs on node N, its arguments quoted with it; again for the "
            "nodes 0, 1 and so on, which one network joins.",
            ("--node",),
            read=as_given,
            is_repeated=True,
        ),
    ] = None,
    design: Annotated[
        Values, designs("What translates on the NIC; again to run the program on another.")
    ] = None,
    platform: Annotated[Any, platform_option("What things cost; left out: the design's own.")] = (
        None
    ),
    device: Annotated[
        Text, Option("NAME", "For programs that open one by name, such as mlx5_0.")
    ] = None,
    seed: Annotated[
        int, Option("N", "Of what goes wrong, and of the program's random numbers.", least=0)
    ] = 0,
    loss: Annotated[float, _share("Of packets that are lost.")] = 0.0,
    duplication: Annotated[float, _share("That come twice.")] = 0.0,
    reordering: Annotated[float, _share("That come late.")] = 0.0,
    corruption: Annotated[float, _share("That are damaged.")] = 0.0,
    topology: Annotated[
        Text,
        Option("crossbar|pair|trunk", "Of several nodes: who is joined how; default crossbar."),
    ] = None,
    timeline: Timeline = None,
    assignments: Assignments = None,
    **_settings: One,
) -> ShownVerbs:
    """Run a program that imports pyverbs, and show what its messages and translations cost.

    Options come before FILE.py; what follows it is the program's.  With --node there are several
    programs, each with a device of its own: node 0 is 10.0.0.1, node 1 is 10.0.0.2, and TCP between
    them works.
    """
    from nicscope.reports.verbs import ShownVerbs
    from nicscope.studies.timeline import MOST_RECORDS, write_timeline
    from nicscope.studies.verbs_programs import CROSSBAR, Wanted, run_programs, with_all_set

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
        keep_log=0 if timeline is None else MOST_RECORDS,
    )
    if (program is None) == (nodes is None):
        raise StudyError("give one program, or one for each node (nodes=...)")
    if nodes is None and topology is not None:
        raise StudyError(f"topology {topology!r} is of several nodes; give the program of each")
    if nodes is not None:
        from nicscope.studies.verbs_programs import programs_of, run_on_nodes

        programs = programs_of(nodes)
        with progress("running", "", always_say=True):
            found = run_on_nodes(programs, wanted)
    else:
        with progress("running", "", always_say=True):
            found = run_programs(Path(program), arguments, wanted)
    if timeline is not None and found.seen is not None:
        write_timeline(found.seen, Path(timeline), ("verbs", "run"))
    return ShownVerbs(found)
