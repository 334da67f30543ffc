"""``nicscope record -o FILE -- COMMAND ...``: record a real program's socket buffers."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nicscope.traces.recording.observed import Observed
    from nicscope.traces.recording.record import Recording

# Options end where the program begins: what follows is the program's own.
CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
EXAMPLE = (
    "Example: [bold]nicscope record -o redis.parquet -- redis-server --port 7777[/bold]   "
    "[bold]nicscope record -o fetch.parquet --quiet -- curl -s http://localhost/[/bold]"
)
_CLEAR_LINE = "\r\x1b[K"


def record(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="The program and its arguments."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The trace to write (Parquet).")],
    quiet: Annotated[bool, typer.Option("--quiet", help="No live count, no summary.")] = False,
) -> int:
    """Run a program and record the buffer of every socket send and receive of it and its children.

    Input, output, signals and exit status are the program's own. Each call it makes on a socket
    takes some 20 microseconds more.
    """
    from nicscope.traces.recording.signals import held_signals

    live = not quiet and sys.stderr.isatty()
    with held_signals():  # before libraries start threads, which inherit it
        from nicscope.traces.recording.record import record as run

        try:
            recording = run(command, output, _LiveCount() if live else None)
        finally:
            if live:
                print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)
    return _report(recording, quiet)


class _LiveCount:
    """One line on the terminal that says how far the recording has come."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, observed: Observed) -> None:
        print(
            f"{_CLEAR_LINE}recording: {observed.rows:,} rows of {observed.processes:,} processes, "
            f"{time.monotonic() - self._start:.0f} s",
            end="",
            file=sys.stderr,
            flush=True,
        )


def _report(recording: Recording, quiet: bool) -> int:
    """Say what was recorded and what was not; the exit status."""
    from nicscope.errors import RecordError

    if recording.path is None:
        message = _nothing(recording.observed)
        if recording.status == 0:
            raise RecordError(message)
        print(f"nicscope: {message}", file=sys.stderr)
    elif not quiet:
        for line in _summary(recording, recording.path):
            print(f"nicscope: {line}", file=sys.stderr)
    return recording.status


def _nothing(observed: Observed) -> str:
    seen = _unseen(observed)
    return (
        "nothing was recorded and no file written: no bytes moved through the program's sockets "
        f"({observed.not_sockets:,} reads and writes were of files, pipes and terminals"
        f"{''.join(f'; {line}' for line in seen)}); check that it did its work"
    )


def _summary(recording: Recording, path: Path) -> list[str]:
    observed = recording.observed
    lines = [
        f"{path}: {observed.rows:,} rows, {observed.bytes_sent:,} bytes sent and "
        f"{observed.bytes_received:,} received, by {observed.processes:,} processes "
        f"({observed.threads:,} threads) in {recording.seconds:.1f} s"
    ]
    without = []
    if observed.failed:
        without.append(f"{observed.failed.total():,} calls failed ({_listed(observed.failed)})")
    if observed.empty:
        without.append(f"{observed.empty:,} moved nothing")
    if observed.interrupted:
        without.append(f"{observed.interrupted:,} were interrupted and made again")
    if observed.unfinished:
        without.append(f"{observed.unfinished:,} never ended")
    if without:
        lines.append(f"without a row: {', '.join(without)}")
    unseen = _unseen(observed)
    if unseen:
        lines.append(f"not seen: {', '.join(unseen)}")
    if recording.status > 128:
        lines.append(f"the program was ended by signal {recording.status - 128}; this is kept")
    return lines


def _unseen(observed: Observed) -> list[str]:
    lines = []
    if observed.copies:
        lines.append(
            f"{observed.copied_bytes:,} bytes that have no user buffer ({_listed(observed.copies)})"
        )
    if observed.ring_calls:
        lines.append(f"whatever io_uring moved ({_listed(observed.ring_calls)})")
    if observed.foreign_calls:
        lines.append(f"{observed.foreign_calls:,} calls of 32-bit programs")
    if observed.hidden:
        lines.append(f"{observed.hidden:,} calls whose buffers may not be looked at")
    return lines


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
