"""Recording a program from start to end, or a running process for a while, in one call.

What it has seen, and what it could not see, is its result.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope import __version__
from nicscope.outputs.file import PARQUET, check_output, format_to_write
from nicscope.traces.atomic_writer import WRITTEN
from nicscope.traces.recording.calls import this_machine
from nicscope.traces.recording.connections import Observed
from nicscope.traces.recording.signals import held_signals, stop_if_interrupted
from nicscope.traces.schema import TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nicscope.traces.recording.connections import Connection
    from nicscope.traces.recording.launch import Attached, Launched


MOST_LISTED = 10_000  # connections whose addresses the metadata tells


class Progress(NamedTuple):
    """The progress of a recording."""

    rows: int
    processes: int  # that are alive
    program_ended: bool  # and only what it started runs on


class Recording(NamedTuple):
    """The result of a recording."""

    status: int | None  # of the program, 128 + number if a signal killed it; None if it runs on
    seconds: float
    observed: Observed
    path: Path | None  # None if nothing was recorded, and so no file written


def record(
    command: Sequence[str], path: Path, watch: Callable[[Progress], None] | None = None
) -> Recording:
    """Run ``command`` and write every socket send and receive of it and its children to ``path``.

    The format is that of the path's ending; a stream without one gets Parquet.

    The program has this process's input, output and signals for itself; if ``path`` is standard
    output, it prints on the error stream.  Call it from the main
    thread of a process that has no other children; ``watch`` is called a few times a second from
    another thread.  A trace without a row is not written: ``path`` of the result says so.
    Errors: ``RecordError`` if the program cannot be started or traced, ``OutputError`` if
    ``path`` cannot be written.
    """

    def begin(mask: Collection[int]) -> Launched:
        from nicscope.traces.recording.calls import filter_program
        from nicscope.traces.recording.launch import launch

        aside = check_output(path).is_standard_output()
        return launch(command, filter_program(this_machine()), mask, aside=aside)

    return _record(begin, path, watch)


def record_running(
    pid: int,
    path: Path,
    watch: Callable[[Progress], None] | None = None,
    seconds: float | None = None,
) -> Recording:
    """Write every socket send and receive of process ``pid``, and of what it starts, to ``path``.

    That is until they end, a signal such as Ctrl-C comes, or ``seconds`` have passed; then the
    process runs on as if nothing had been.  All else is as ``record`` has it.
    Errors: ``RecordError`` if the process may not be traced, ``OutputError`` if ``path`` cannot
    be written.
    """

    def begin(_: Collection[int]) -> Attached:
        from nicscope.traces.recording.launch import Attached

        return Attached(pid, seconds)

    return _record(begin, path, watch)


def _record(
    begin: Callable[[Collection[int]], Launched | Attached],
    path: Path,
    watch: Callable[[Progress], None] | None,
) -> Recording:
    written = format_to_write(path, WRITTEN, of_stream=PARQUET)
    check_output(path)
    machine = this_machine()
    observed = Observed()
    with held_signals() as mask:
        # Imported only now, as NumPy starts threads, and these must not take the signals.
        from nicscope.traces.recording.rows import IssueOrder
        from nicscope.traces.recording.tracer import Tracer

        with IssueOrder(path) as rows:
            stop_if_interrupted()
            started = datetime.datetime.now(datetime.UTC)
            clock = time.monotonic()
            program = begin(mask)
            tracer = Tracer(machine, rows, observed, program.go_on)

            def tick() -> None:
                alive = tracer.processes
                if watch is not None:
                    watch(Progress(observed.rows, len(alive), program.pid not in alive))

            with program, contextlib.closing(tracer):
                status = program.trace(tracer, tick)
            seconds = time.monotonic() - clock
            if not observed.rows:
                return Recording(status, seconds, observed, None)
            counts = observed.as_json() | {"seconds": round(seconds, 6), "exit_status": status}
            met = tracer.connections.met
            metadata = _metadata(program, started, counts, met)
            from nicscope.traces.recording.result import write_result

            write_result(path, written, rows, metadata, met)
            return Recording(status, seconds, observed, path)


def _metadata(
    program: Launched | Attached,
    started: datetime.datetime,
    counts: dict[str, Any],
    connections: Sequence[Connection],
) -> TraceMetadata:
    origin = {
        "program": Path(program.command[0]).name,
        "command": shlex.join(program.command),
        "recorder": f"nicscope record {__version__}",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "started": started.isoformat(timespec="seconds"),
    }
    if program.attached:
        origin["attached"] = "yes"  # so that it neither begins nor ends with the program
    return TraceMetadata(
        page_size=os.sysconf("SC_PAGE_SIZE"),
        origin=origin,
        observed=counts | {"connections": len(connections)},
        connections=[each._asdict() for each in connections[:MOST_LISTED]],
    )
