"""The ``nicscope`` command: arguments only, no logic.

Each command is a function of ``library/``, or of a file here if it is more than a question, and
imports what it needs when it runs, so that ``nicscope --help`` does not wait for the compiler.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nicscope.cli import (
    apps,
    catalog,
    compiling,
    demo,
    explore,
    record,
    trace,
    verbs,
)
from nicscope.cli.answer import add_commands, answer_reproduction, answer_simulation, answer_sweep
from nicscope.cli.arguments import Timeline
from nicscope.cli.running import run
from nicscope.cli.usage import Commands, Root
from nicscope.library import rdma
from nicscope.library.measurements import flow, latency
from nicscope.library.reproduce import reproduce
from nicscope.library.simulate import simulate
from nicscope.library.translation import curve, replay, size, sweep
from nicscope.version import __version__

# The commands by what people come with, as ``nicscope --help`` lists them.
PANELS = {
    "My traffic": ("size", "replay", "curve", "sweep", "explore", "trace", "record"),
    "RDMA today": ("rdma", "verbs"),
    "Programs in virtual time": ("simulate", "latency", "flow", "apps"),
    "Papers": ("demo", "designs", "reproduce"),
    "Set-up": ("platforms", "compile"),
}


class _Commands(Root):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's
        return [name for names in PANELS.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        for panel, names in PANELS.items():
            if cmd_name in names:
                found.rich_help_panel = panel
        return found


app = typer.Typer(
    name="nicscope",
    cls=_Commands,
    help="A laboratory for user-level network interfaces.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nicscope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A laboratory for user-level network interfaces."""


app.add_typer(catalog.designs, name="designs")
app.add_typer(catalog.platforms, name="platforms")
app.add_typer(trace.app)
app.add_typer(apps.app)
app.add_typer(verbs.app)
add_commands(app, simulate, answering=answer_simulation, timeline=Timeline)
add_commands(app, size, replay, curve, flow, latency)
questions = typer.Typer(
    name="rdma",
    cls=Commands,
    help="Size and explain RDMA: registration, regions, queue pairs.",
    epilog="Example: [bold]nicscope rdma register 1TiB --nics 8[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
add_commands(
    questions,
    rdma.register,
    rdma.calibrate,
    rdma.copy,
    rdma.cache,
    rdma.odp,
    rdma.plan,
    rdma.connections,
    rdma.descriptors,
    rdma.path,
    rdma.explain,
    rdma.fit,
)
app.add_typer(questions)
app.command(epilog=explore.EXAMPLES)(explore.explore)
add_commands(app, sweep, answering=answer_sweep)
app.command(epilog=demo.EXAMPLE)(demo.demo)
add_commands(app, reproduce, answering=answer_reproduction)
app.command("compile", context_settings=compiling.CONTEXT, epilog=compiling.EXAMPLES)(
    compiling.compile_kernels
)
app.command(context_settings=record.CONTEXT, epilog=record.EXAMPLES)(record.record)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0: done.  1: a check failed, or the program that was run.  2: wrong use.
    """
    return run(
        lambda words: app(args=words, prog_name="nicscope", standalone_mode=False), arguments
    )
