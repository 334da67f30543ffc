"""``nicscope apps collective``: broadcast, all-reduce, all-to-all, barrier, lock on any NIC."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotation
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Assignments, Explain, option
from nicscope.library.collectives import NODES, REPEAT, SIZES

if TYPE_CHECKING:
    from nicscope.reports.collectives import ShownCollectives

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope apps collective allreduce --on vmmc --nodes 8 --sizes 8:1M:8[/bold]\n\n"
    "[bold]nicscope apps collective barrier,lock --on all[/bold]\n\n"
    "[bold]nicscope apps collective broadcast --on via --way cni --algorithm tree,ring[/bold]\n\n"
    "[bold]nicscope apps collective allreduce --on mini --loss 0.01 --seed 3 --json[/bold]"
)


def _names(incomplete: str) -> list[str]:
    from nicscope.library.collectives import collective_names

    return [name for name in [*collective_names(), "all"] if name.startswith(incomplete)]


def collective(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME,...",
            help="broadcast, allreduce, alltoall, barrier, lock, or all.",
            autocompletion=_names,
            show_default=False,
        ),
    ],
    on: Annotated[
        str, option("NAME,...", "Interface: unet, vmmc, mini, via, trapeze, or all.")
    ] = "vmmc",
    nodes: Annotated[int, option("N", "Machines, with a process each.", min=1, max=64)] = NODES,
    sizes: Annotated[
        str,
        option(
            "LOW:HIGH",
            "Bytes of each process's array, doubling; LOW:HIGH:FACTOR, or a list such as 8,1500.",
        ),
    ] = SIZES,
    algorithm: Annotated[
        str | None,
        option(
            "NAME,...",
            "tree or ring (broadcast, allreduce), manager or remote (lock), or all; the usual one.",
        ),
    ] = None,
    design: Annotated[
        str | None,
        option("NAME", "What translates on the NIC.", autocompletion=arguments.designs),
    ] = None,
    platform: Annotated[
        str | None, option("NAME", "What things cost.", autocompletion=arguments.platforms)
    ] = None,
    way: Annotated[
        str | None, option("NAME", "Into the NIC: pci, edt, cni, dma and others.")
    ] = None,
    type_: Annotated[str, option("NAME", "Of numbers: u1, i4, i8, f4 or f8.", "--type")] = "f8",
    operation: Annotated[str, option("NAME", "sum, max or min.")] = "sum",
    repeat: Annotated[int, option("N", "Calls after the first.", min=1)] = REPEAT,
    seed: Annotated[int, option("N", "Of numbers, and of what goes wrong.", min=0)] = 0,
    loss: Annotated[float, option("SHARE", "Of packets that are lost.", min=0, max=1)] = 0.0,
    duplication: Annotated[float, option("SHARE", "That come twice.", min=0, max=1)] = 0.0,
    corruption: Annotated[float, option("SHARE", "That are damaged.", min=0, max=1)] = 0.0,
    dead: Annotated[
        list[str] | None, option("NODE@US", "Who dies after how many us.  Again for another.")
    ] = None,
    add: Annotated[
        float, option("NS", "The processor takes for a byte of two arrays.", min=0)
    ] = 0.0,
    override: Assignments = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json and collectives.parquet.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Run collectives on NICs in virtual time, check their results, and tell how long they take."""
    from nicscope.library.collectives import run_collective

    def measured() -> ShownCollectives:
        return run_collective(
            name,
            on,
            nodes=nodes,
            sizes=sizes,
            algorithm=algorithm,
            design=design,
            platform=platform,
            way=way,
            kind=type_,
            operation=operation,
            repeat=repeat,
            seed=seed,
            loss=loss,
            duplication=duplication,
            corruption=corruption,
            dead=dead,
            add=add,
            assignments=override,
        )

    answer(measured, out, as_json, explain)
