"""The ``nicscope`` command: arguments only, no logic.

Each command is a function of ``library/``, or of a file here if it is more than a question, and
imports what it needs when it runs, so that ``nicscope --help`` does not wait for the compiler.
"""

from __future__ import annotations

import signal
import sys
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
from nicscope.cli.streams import (
    ENDINGS,
    ending_status,
    hide_pandas,
    interrupts_delivered,
    standard_streams,
)
from nicscope.cli.usage import Commands, told
from nicscope.errors import NicscopeError, one_line
from nicscope.inputs import small_streams_kept
from nicscope.library import rdma
from nicscope.library.measurements import flow, latency
from nicscope.library.progress import progress_in_logs
from nicscope.library.reproduce import reproduce
from nicscope.library.simulate import simulate
from nicscope.library.translation import curve, replay, size, sweep
from nicscope.outputs import ReaderGone
from nicscope.studies.programs import ProgramError
from nicscope.version import __version__


class _Interrupted(Exception):  # noqa: N818 - nobody's error
    """Ctrl-C, re-raised so that Typer does not turn it into an ambiguous exit status."""


# The commands by what people come with, as ``nicscope --help`` lists them.
PANELS = {
    "My traffic": ("size", "replay", "curve", "sweep", "explore", "trace", "record"),
    "RDMA today": ("rdma", "verbs"),
    "Programs in virtual time": ("simulate", "latency", "flow", "apps"),
    "Papers": ("demo", "designs", "reproduce"),
    "Set-up": ("platforms", "compile"),
}


class _Commands(Commands):
    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's
        return [name for names in PANELS.values() for name in names]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        for panel, names in PANELS.items():
            if cmd_name in names:
                found.rich_help_panel = panel
        return found

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


# These run programs of the user's, which may need pandas.
_RUN_PROGRAMS = ("simulate", "verbs", "compile")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status.

    0: done.  1: a check failed, or the program that was run.  2: wrong use.
    """
    if arguments is None and sys.argv[1:2] and sys.argv[1] not in _RUN_PROGRAMS:
        hide_pandas()  # Arrow imports it, if it is there, for the first array that it hands on
    with standard_streams(), progress_in_logs():
        try:
            return _run(arguments)
        except ReaderGone:
            return 128 + signal.SIGPIPE  # quietly, as what a shell knows dies of it
        except ProgramError as error:
            print(error.told, end="", file=sys.stderr)
            return 1
        except NicscopeError as error:
            print(f"nicscope: {error}", file=sys.stderr)
            return 2


def _run(arguments: list[str] | None) -> int:
    """The exit status; errors: ``NicscopeError``, ``ProgramError``, ``ReaderGone``."""
    try:
        with interrupts_delivered(), small_streams_kept():
            status = app(args=arguments, prog_name="nicscope", standalone_mode=False)
            sys.stdout.flush()
    except (_Interrupted, KeyboardInterrupt, typer.Abort) as interrupt:
        status = ending_status()
        for note in _notes(interrupt):
            print(f"  {one_line(note)}", file=sys.stderr)  # where each program stands
        said = ENDINGS[status]
        print(f"nicscope: {said}; nothing half-written was left", file=sys.stderr)
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # Click's own errors
            if message := told(error):  # none where the help was wanted and is shown
                print(f"nicscope: {message}", file=sys.stderr)
            return int(error.exit_code)
        if said := _os_refusal_text(error):
            raise NicscopeError(said) from error
        raise
    return status if isinstance(status, int) else 0


def _notes(error: BaseException | None) -> list[str]:
    """The notes of an error and of its causes."""
    found: list[str] = []
    while error is not None:
        found += getattr(error, "__notes__", ())
        error = error.__cause__ or error.__context__
    return found


def _os_refusal_text(error: Exception) -> str:
    """One line for an operating system limit or permission; nothing for a defect."""
    out_of_room = isinstance(error, ImportError) and "map segment" in str(error)
    if isinstance(error, MemoryError) or out_of_room:
        text = " ".join(str(error).split())  # what NumPy says; Python itself says nothing
        why = f": {text[0].lower()}{text[1:]}" if text else ""
        return f"there is not enough memory{why}; ask for less"
    if not isinstance(error, OSError) or error.errno is None:  # one that Python made up is a fault
        return ""
    return f"{error.filename or 'the operating system says'}: {error.strerror or error}"
