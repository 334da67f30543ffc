"""``nicscope apps collective``: broadcast, all-reduce, all-to-all, barrier, lock on any NIC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import (
    Assignments,
    Option,
    Text,
    Values,
    command,
    each_given,
)
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.library.command import One
    from nicscope.reports.collectives import ShownCollectives


def collective_names() -> list[str]:
    """The collectives that ``run_collective`` runs."""
    from nicscope.studies.collectives.report import ALGORITHMS

    return list(ALGORITHMS)


@command(
    "nicscope apps collective allreduce --on vmmc --nodes 8 --sizes 8:1M:8",
    "nicscope apps collective barrier,lock --on all",
    "nicscope apps collective broadcast --on via --way cni --algorithm tree,ring",
    "nicscope apps collective allreduce --on mini --loss 0.01 --seed 3 --json",
    words="apps collective",
    out="Folder for results.json and collectives.parquet.",
)
def run_collective(
    repeat_line: list[str],
    /,
    name: Annotated[
        Text,
        Option(
            "NAME,...",
            "broadcast, allreduce, alltoall, barrier, lock, or all.",
            offers="collectives",
            is_argument=True,
        ),
    ],
    on: Annotated[
        Text, Option("NAME,...", "Interface: unet, vmmc, mini, via, trapeze, or all.")
    ] = "vmmc",
    *,
    nodes: Annotated[int, Option("N", "Machines, with a process each.", least=1, most=64)] = 4,
    sizes: Annotated[
        Text,
        Option(
            "LOW:HIGH",
            "Bytes of each process's array, doubling; LOW:HIGH:FACTOR, or a list such as 8,1500.",
        ),
    ] = "8:64K:8",
    algorithm: Annotated[
        Text,
        Option(
            "NAME,...",
            "tree or ring (broadcast, allreduce), manager or remote (lock), or all; the usual one.",
        ),
    ] = None,
    design: Annotated[Text, Option("NAME", "What translates on the NIC.", offers="designs")] = None,
    platform: Annotated[Text, Option("NAME", "What things cost.", offers="platforms")] = None,
    way: Annotated[Text, Option("NAME", "Into the NIC: pci, edt, cni, dma and others.")] = None,
    kind: Annotated[Text, Option("NAME", "Of numbers: u1, i4, i8, f4 or f8.", ("--type",))] = "f8",
    operation: Annotated[Text, Option("NAME", "sum, max or min.")] = "sum",
    repeat: Annotated[int, Option("N", "Calls after the first.", least=1)] = 3,
    seed: Annotated[int, Option("N", "Of numbers, and of what goes wrong.", least=0)] = 0,
    loss: Annotated[float, Option("SHARE", "Of packets that are lost.", least=0, most=1)] = 0.0,
    duplication: Annotated[float, Option("SHARE", "That come twice.", least=0, most=1)] = 0.0,
    corruption: Annotated[float, Option("SHARE", "That are damaged.", least=0, most=1)] = 0.0,
    dead: Annotated[
        Values,
        Option(
            "NODE@US",
            "Who dies after how many us.  Again for another.",
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    add: Annotated[
        float, Option("NS", "The processor takes for a byte of two arrays.", least=0)
    ] = 0.0,
    assignments: Assignments = None,
    **_settings: One,
) -> ShownCollectives:
    """Run collectives on NICs in virtual time, check their results, and tell how long they take."""
    from nicscope.studies.collectives.report import ask, dead_node, faults_of, measure

    question = ask(
        name,
        on,
        sizes=sizes,
        algorithms=algorithm,
        nodes=nodes,
        design=design,
        platform=platform,
        way=way,
        assignments=assignments,
        kind=kind,
        operation=operation,
        repeat=repeat,
        seed=seed,
        faults=faults_of(
            seed,
            loss=loss,
            duplication=duplication,
            corruption=corruption,
            deaths=[dead_node(one) for one in each_given("dead", dead)],
        ),
        add_ns_per_byte=add,
    )
    from nicscope.reports.collectives import ShownCollectives

    with progress("calling", "calls", always_say=True) as watch:
        return ShownCollectives(measure(question, repeat_line, watch))
