"""Runs a command line: streams, signals, and what errors come to; knows of no command.

Apart from ``app``, which loads what all commands are declared by, and from Typer, so that a command
that has to start quickly does without them.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

from nicscope.cli.streams import (
    ENDINGS,
    Interrupted,
    ending_status,
    hide_pandas,
    interrupts_delivered,
    standard_streams,
)
from nicscope.errors import NicscopeError, one_line
from nicscope.inputs import small_streams_kept
from nicscope.library.progress import progress_in_logs
from nicscope.outputs import ReaderGone

if TYPE_CHECKING:
    from collections.abc import Callable

# These run programs of the user's, which may need pandas.
_RUN_PROGRAMS = ("simulate", "verbs", "compile")


def run(command: Callable[[list[str] | None], Any], arguments: list[str] | None = None) -> int:
    """Run ``command``, which reads ``arguments``; returns the exit status.

    0: done.  1: a check failed, or the program that was run.  2: wrong use.
    """
    if arguments is None and sys.argv[1:2] and sys.argv[1] not in _RUN_PROGRAMS:
        hide_pandas()  # Arrow imports it, if it is there, for the first array that it hands on
    with standard_streams(), progress_in_logs():
        try:
            return _run(command, arguments)
        except ReaderGone:
            return 128 + signal.SIGPIPE  # quietly, as what a shell knows dies of it
        except NicscopeError as error:
            print(f"nicscope: {error}", file=sys.stderr)
            return 2
        except Exception as error:
            # Where programs of the user's are run, their module has been loaded.
            programs = sys.modules.get("nicscope.studies.programs")
            if programs is None or not isinstance(error, programs.ProgramError):
                raise
            print(error.told, end="", file=sys.stderr)
            return 1


def _run(command: Callable[[list[str] | None], Any], arguments: list[str] | None) -> int:
    """The exit status; errors: ``NicscopeError``, ``ProgramError``, ``ReaderGone``."""
    try:
        with interrupts_delivered(), small_streams_kept():
            status = command(arguments)
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if _is_interrupt(error):
            status = ending_status()
            for note in _notes(error):
                print(f"  {one_line(note)}", file=sys.stderr)  # where each program stands
            said = ENDINGS[status]
            print(f"nicscope: {said}; nothing half-written was left", file=sys.stderr)
        elif hasattr(error, "format_message") and hasattr(error, "exit_code"):  # Click's own errors
            from nicscope.cli.usage import told

            if message := told(error):  # none where the help was wanted and is shown
                print(f"nicscope: {message}", file=sys.stderr)
            return int(error.exit_code)
        elif isinstance(error, Exception) and (said := _os_refusal_text(error)):
            raise NicscopeError(said) from error
        else:
            raise
    return status if isinstance(status, int) else 0


def _is_interrupt(error: BaseException) -> bool:
    """Whether a command was ended by Ctrl-C or the like; Typer's own word for it counts."""
    typer = sys.modules.get("typer")
    if typer is not None and isinstance(error, typer.Abort):
        return True
    return isinstance(error, (Interrupted, KeyboardInterrupt))


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
