"""``nicscope verbs``: RDMA programs on a simulated device, and perftest's questions of it."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import typer
import typer.core

from nicscope.cli import live
from nicscope.cli.answer import add_commands, answer
from nicscope.cli.arguments import beside_timeline, output_path, report_omitted
from nicscope.cli.usage import Commands
from nicscope.errors import printable
from nicscope.library.measurements import verbs_bandwidth, verbs_latency
from nicscope.library.simulate import run_verbs
from nicscope.outputs import check_output

if TYPE_CHECKING:
    from collections.abc import Callable

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
    help="Run RDMA programs without a card; measure as perftest does.",
    epilog="Example: [bold]nicscope verbs run pingpong.py[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
add_commands(app, verbs_bandwidth, verbs_latency)


def _answer_programs(
    found: Callable[..., ShownVerbs], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Run the programs and print what they cost; exit status 1 if one of them failed."""
    program, node, out = given["program"], given["nodes"], given.pop("out")
    if program is None and not node:
        raise typer.BadParameter("give a program, FILE.py, or one for each node with --node")
    if program is not None and node:
        raise typer.BadParameter(
            f"with --node there is no other program; got {program!r}: quote the arguments of "
            'each with it, as in --node 1 "client.py 10.0.0.1"'
        )
    given["nodes"] = nodes_of(node) if node else None
    timeline, pcap = (each and output_path(each) for each in (given["timeline"], given["pcap"]))
    given["timeline"], given["pcap"] = timeline, pcap
    if (
        timeline
        and pcap
        and all(check_output(each).is_standard_output() for each in (timeline, pcap))
    ):
        raise typer.BadParameter(f"{pcap}: the timeline goes there; name a file for --pcap")
    # What the program prints is its own; with --json the standard output is one object.
    aside: Any = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()

    def measured() -> ShownVerbs:
        with aside:
            shown = found()
        if timeline is not None and shown.found.seen is not None:
            report_omitted(shown.found.seen, timeline)
        if pcap is not None:
            print(f"nicscope: {printable(str(pcap))}: {shown.found.captured}", file=sys.stderr)
        return shown

    with beside_timeline(timeline, as_json), beside_timeline(pcap, as_json):
        also = [each for each in (timeline, pcap) if each is not None]
        shown = answer(measured, out, as_json, explain, also)
    if any(each.status for each in shown.found.runs):
        raise typer.Exit(1)


add_commands(
    app,
    run_verbs,
    answering=_answer_programs,
    typer_options={
        "cls": RunCommand,
        "context_settings": {"ignore_unknown_options": True, "allow_interspersed_args": False},
    },
)
app.command("exec", context_settings=live.CONTEXT, epilog=live.EXAMPLES)(live.execute)
