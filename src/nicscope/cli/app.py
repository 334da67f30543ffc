"""The ``nicscope`` command: arguments only, no logic.

Each command lives in a file of its own and imports what it needs when it runs, so that
``nicscope --help`` does not wait for the compiler.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
import typer.core

from nicscope import __version__
from nicscope.cli import (
    calibrate,
    coverage,
    curve,
    demo,
    designs,
    flow,
    latency,
    platforms,
    record,
    replay,
    reproduce,
    simulate,
    size,
    sweep,
    trace,
)
from nicscope.cli.interrupt import INTERRUPTED, heeded_interrupts
from nicscope.errors import NicscopeError, one_line
from nicscope.inputs import small_streams_kept


class _Interrupted(Exception):  # noqa: N818 - nobody's error
    """Ctrl-C, before Typer turns it into an exit status that a command may have as well."""


class _Commands(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _Interrupted from interrupt


app = typer.Typer(
    name="nicscope",
    cls=_Commands,
    help="A laboratory for user-level network interfaces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nicscope {__version__}")
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


app.add_typer(designs.commands, name="designs")
app.add_typer(platforms.commands, name="platforms")
app.add_typer(trace.app)
app.command(epilog=replay.EXAMPLES)(replay.replay)
app.command(epilog=simulate.EXAMPLES)(simulate.simulate)
app.command(epilog=curve.EXAMPLES)(curve.curve)
app.command(epilog=flow.EXAMPLES)(flow.flow)
app.command(epilog=calibrate.EXAMPLES)(calibrate.calibrate_platform)
app.command(epilog=size.EXAMPLES)(size.size)
app.command(epilog=sweep.EXAMPLES)(sweep.sweep)
app.command(epilog=latency.EXAMPLES)(latency.latency)
app.command(epilog=demo.EXAMPLE)(demo.demo)
app.command(epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command("coverage")(coverage.coverage)
app.command(context_settings=record.CONTEXT, epilog=record.EXAMPLE)(record.record)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a check failed, 2 wrong use."""
    try:
        with heeded_interrupts(), small_streams_kept():
            status = app(args=arguments, prog_name="nicscope", standalone_mode=False)
    except NicscopeError as error:
        print(f"nicscope: {error}", file=sys.stderr)
        return 2
    except (_Interrupted, KeyboardInterrupt, typer.Abort):
        print("nicscope: interrupted; nothing half-written was left", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; say nothing more to it, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # Click's own errors
            if message := error.format_message():  # none where the help was wanted and is shown
                print(f"nicscope: {one_line(message)}", file=sys.stderr)
            return int(error.exit_code)
        raise
    return status if isinstance(status, int) else 0
