"""``nicscope verbs``: RDMA programs on a simulated device, and perftest's questions of it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from nicscope.cli import arguments, derived
from nicscope.cli.answer import answer
from nicscope.cli.arguments import (
    AsJson,
    Assignments,
    Explain,
    Timeline,
    beside_timeline,
    option,
    report_omitted,
)
from nicscope.cli.usage import Commands
from nicscope.library.measurements import verbs_bandwidth, verbs_latency

if TYPE_CHECKING:
    from nicscope.reports.verbs import ShownVerbs


OPTION = "--node"


class RunCommand(typer.core.TyperCommand):
    """A command whose ``--node`` takes two words: a number, and a command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Have each be one word, as an option that may be repeated takes."""
        joined: list[str] = []
        left = [*args]
        while left:
            word = left.pop(0)
            joined.append(word)
            if word == OPTION and len(left) > 1 and left[0].isdecimal():
                joined.append(f"{left.pop(0)} {left.pop(0)}")
        return super().parse_args(ctx, joined)


def nodes_of(given: list[str]) -> dict[int, str]:
    """The program of each node.  Errors: ``BadParameter`` for no number, or one given twice."""
    found: dict[int, str] = {}
    for each in given:
        number, _, command = each.partition(" ")
        if not number.isdecimal() or not command.strip():
            raise typer.BadParameter(
                f'{each!r} is no node and its program, as in --node 1 "client.py 10.0.0.1"'
            )
        if int(number) in found:
            raise typer.BadParameter(f"node {int(number)} has two programs; give it one")
        found[int(number)] = command
    return found


app = typer.Typer(
    name="verbs",
    cls=Commands,
    help="Run programs of RDMA's verbs on a simulated device.",
    epilog="Example: [bold]nicscope verbs run pingpong.py[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
derived.add(app, verbs_bandwidth, verbs_latency)
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(
    cls=RunCommand,
    context_settings=CONTEXT,
    epilog="Examples:\n\n"
    "[bold]nicscope verbs run pingpong.py[/bold]\n\n"
    "[bold]nicscope verbs run --design utlb --design mini ring.py --size 4096[/bold]\n\n"
    "[bold]nicscope verbs run --loss 0.01 --seed 3 tests/run_tests.py -v -k test_mr[/bold]\n\n"
    "[bold]nicscope verbs run --timeline pingpong.html pingpong.py[/bold]\n\n"
    '[bold]nicscope verbs run --node 0 server.py --node 1 "client.py 10.0.0.1"[/bold]',
)
def run(
    program: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE.py", help="A program that imports pyverbs.", show_default=False
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGUMENT]...", help="The program's own.", show_default=False),
    ] = None,
    design: Annotated[
        list[str] | None,
        option(
            "NAME|FILE",
            "What translates on the NIC; again to run the program on another.",
            autocompletion=arguments.designs,
        ),
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "What things cost; left out: the design's own.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    assignments: Assignments = None,
    node: Annotated[
        list[str] | None,
        option(
            'N "FILE.py [ARGUMENT]..."',
            "Instead of FILE.py: what runs on node N, its arguments quoted with it; again for the "
            "nodes 0, 1 and so on, which one network joins.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        option("crossbar|pair|trunk", "Of several nodes: who is joined how; default crossbar."),
    ] = None,
    device: Annotated[
        str | None, option("NAME", "For programs that open one by name, such as mlx5_0.")
    ] = None,
    seed: Annotated[
        int, option("N", "Of what goes wrong, and of the program's random numbers.", min=0)
    ] = 0,
    loss: Annotated[float, option("SHARE", "Of packets that are lost.", min=0, max=1)] = 0.0,
    duplication: Annotated[float, option("SHARE", "That come twice.", min=0, max=1)] = 0.0,
    reordering: Annotated[float, option("SHARE", "That come late.", min=0, max=1)] = 0.0,
    corruption: Annotated[float, option("SHARE", "That are damaged.", min=0, max=1)] = 0.0,
    out: Annotated[Path | None, option("DIR", "Folder for results.json and three tables.")] = None,
    timeline: Timeline = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Run a program that imports pyverbs, and show what its messages and translations cost.

    Options come before FILE.py; what follows it is the program's.  With --node there are several
    programs, each with a device of its own: node 0 is 10.0.0.1, node 1 is 10.0.0.2, and TCP between
    them works.
    """
    from nicscope.library.verbs import run_verbs

    if program is None and not node:
        raise typer.BadParameter("give a program, FILE.py, or one for each node with --node")
    if program is not None and node:
        raise typer.BadParameter(
            f"with --node there is no other program; got {str(program)!r}: quote the arguments of "
            'each with it, as in --node 1 "client.py 10.0.0.1"'
        )
    # What the program prints is its own; with --json the standard output is one object.
    aside: Any = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()

    def measured() -> ShownVerbs:
        with aside:
            shown = run_verbs(
                program,
                arguments or [],
                nodes=nodes_of(node) if node else None,
                design=design,
                platform=platform,
                assignments=assignments,
                topology=topology,
                device=device,
                seed=seed,
                loss=loss,
                duplication=duplication,
                reordering=reordering,
                corruption=corruption,
                timeline=timeline,
            )
        if timeline is not None and shown.found.seen is not None:
            report_omitted(shown.found.seen, timeline)
        return shown

    with beside_timeline(timeline, as_json):
        also = [] if timeline is None else [timeline]
        shown = answer(measured, out, as_json, explain, also)
    if any(each.status for each in shown.found.runs):
        raise typer.Exit(1)
