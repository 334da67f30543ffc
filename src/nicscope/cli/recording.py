"""What ``nicscope record`` does and prints, and its usual command line, read without Typer.

Typer takes longer to load than all that the recorder needs, and the recorded program waits for it.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.cli.running import run
from nicscope.outputs import STDOUT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nicscope.traces.recording.connections import Observed
    from nicscope.traces.recording.record import Progress, Recording

LINGER_S = 2.0  # before we say that the program has left processes behind
_CLEAR_LINE = "\r\x1b[K"


def run_usual(words: Sequence[str]) -> int | None:
    """Run ``record`` with the words behind it; the exit status, or None if these are unusual."""
    usual = read_usual(words)
    if usual is None:
        return None
    output, command, quiet = usual
    return run(lambda _words: record_sockets(output, command, quiet=quiet))


def read_usual(words: Sequence[str]) -> tuple[Path, list[str], bool] | None:
    """File, program and whether ``--quiet``, from ``-o FILE [--quiet] [--] COMMAND...``.

    None for everything else, as help and mistakes: those are for the whole command line to read.
    """
    output: Path | None = None
    quiet = False
    left = [*words]
    while left and left[0].startswith("-"):
        word = left.pop(0)
        if word in ("-o", "--output") and output is None and left:
            name = left.pop(0)
            if name.startswith("-") and name != "-":
                return None
            output = STDOUT if name == "-" else Path(name)
        elif word == "--quiet":
            quiet = True
        elif word == "--":
            break
        else:
            return None
    return None if output is None or not left else (output, left, quiet)


def record_sockets(
    output: Path,
    command: list[str],
    *,
    pid: int | None = None,
    seconds: float | None = None,
    quiet: bool = False,
) -> int:
    """Record a program or a process, and report what was recorded; the exit status."""
    from nicscope.traces.recording.record import record, record_running

    _check_question(command, pid, seconds)
    watch = None if quiet else _LiveCount(pid is not None)
    with watch or contextlib.nullcontext():
        if pid is None:
            recording = record(command, output, watch)
        else:
            recording = record_running(pid, output, watch, seconds)
    return _report(recording, output, pid, quiet)


def record_verbs(
    output: Path, command: list[str], *, pid: int | None, seconds: float | None, quiet: bool
) -> int:
    """Record a program's verbs, and report what was recorded; its exit status."""
    from nicscope.errors import RecordError
    from nicscope.traces.recording.record import held_signals

    if pid is not None:
        raise RecordError(
            f"--pid {pid} with --verbs: a library can be put before a program's own only as it "
            "starts; end the line in -- COMMAND"
        )
    _check_question(command, pid, seconds)
    with held_signals() as mask:
        # Only now, as NumPy starts threads, and these must not take the program's signals.
        from nicscope.studies.verbs_recording import nothing_recorded
        from nicscope.studies.verbs_recording import record_verbs as record

        found = record(command, output, mask)
    if not found.rows:
        if found.status == 0:
            raise RecordError(nothing_recorded(found.observed))
        print(f"nicscope: {nothing_recorded(found.observed)}", file=sys.stderr)
    elif not quiet:
        shown = "standard output" if output == STDOUT else str(output)
        for line in [
            f"{shown}: {found.rows:,} rows, {found.seconds:.1f} s",
            *found.observed.lines(),
            *_ending(found.status, None),
        ]:
            print(f"nicscope: {line}", file=sys.stderr)
    return found.status


def _check_question(command: list[str] | None, pid: int | None, seconds: float | None) -> None:
    """Errors: ``RecordError`` unless one program is named, and a time only with a process."""
    from nicscope.errors import RecordError

    if command and pid is not None:
        raise RecordError(
            f"--pid {pid} and the command {command[0]!r}: only one of them can be recorded; "
            "leave the other out"
        )
    if not command and pid is None:
        raise RecordError("nothing to record; end the line in -- COMMAND, or name a --pid")
    if seconds is not None and pid is None:
        raise RecordError(
            "--seconds goes with --pid, whose process runs on; end a command with: "
            "nicscope record -o FILE -- timeout SECONDS COMMAND"
        )
    if seconds is not None and not 0 < seconds < float("inf"):
        raise RecordError(f"--seconds {seconds}: must be more than 0")


class _LiveCount:
    """A progress line on the terminal, if stderr is one."""

    def __init__(self, attached: bool) -> None:
        self._attached = attached
        self._start = time.monotonic()
        self._live = sys.stderr.isatty()
        self._ended_at: float | None = None
        self._told = False

    def __enter__(self) -> _LiveCount:
        return self

    def __exit__(self, *_: object) -> None:
        self._print("", end="")

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.program_ended and self._ended_at is None:
            self._ended_at = now
        if not self._told and self._ended_at is not None and now > self._ended_at + LINGER_S:
            self._told = True
            self._print(
                f"nicscope: the program has ended but {progress.processes:,} processes that it "
                "started run on and are recorded; Ctrl-C ends "
                f"{'the recording' if self._attached else 'them'}"
            )
        if self._live:
            self._print(
                f"recording: {progress.rows:,} rows, {progress.processes:,} processes alive, "
                f"{now - self._start:.0f} s",
                end="",
            )

    def _print(self, line: str, end: str = "\n") -> None:
        print(f"{_CLEAR_LINE if self._live else ''}{line}", end=end, file=sys.stderr, flush=True)


def _report(recording: Recording, output: Path, pid: int | None, quiet: bool) -> int:
    """Report what was recorded and what was not; the exit status."""
    from nicscope.errors import RecordError

    status = 0 if recording.status is None or pid is not None else recording.status
    if recording.path is None:
        message = _nothing(recording.observed)
        if status == 0:
            raise RecordError(message)
        print(f"nicscope: {message}", file=sys.stderr)
    elif not quiet:
        shown = "standard output" if output == STDOUT else str(output)
        for line in [*_summary(recording, shown), *_ending(recording.status, pid)]:
            print(f"nicscope: {line}", file=sys.stderr)
    return status


def _nothing(observed: Observed) -> str:
    seen = _unseen(observed)
    return (
        "nothing was recorded, no file written: no bytes moved through the program's sockets "
        f"({observed.not_sockets:,} reads and writes were of files, pipes and terminals"
        f"{''.join(f'; {line}' for line in seen)}); check that it did its work"
    )


def _ending(status: int | None, pid: int | None) -> list[str]:
    """How the program ended, if not as expected."""
    if pid is None:
        if status is None or status <= 128:
            return []
        return [f"the program was ended by signal {status - 128}; this is kept"]
    if status is None:
        return [f"process {pid} runs on"]
    how = f"by signal {status - 128}" if status > 128 else f"with exit status {status}"
    return [f"process {pid} has ended {how}"]


def _summary(recording: Recording, shown: str) -> list[str]:
    observed = recording.observed
    lines = [
        f"{shown}: {observed.rows:,} rows, {observed.bytes_sent:,} bytes sent and "
        f"{observed.bytes_received:,} received, processes: {observed.processes:,}, threads: "
        f"{observed.threads:,}, {recording.seconds:.1f} s"
    ]
    without = []
    if observed.failed:
        without.append(f"{observed.failed.total():,} calls failed ({_listed(observed.failed)})")
    if observed.empty:
        without.append(f"{observed.empty:,} moved nothing")
    if observed.interrupted:
        without.append(f"{observed.interrupted:,} were interrupted by signals")
    if observed.unfinished:
        without.append(f"{observed.unfinished:,} never ended")
    if without:
        lines.append(f"without a row: {', '.join(without)}")
    unseen = _unseen(observed)
    if unseen:
        lines.append(f"not seen: {', '.join(unseen)}")
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
