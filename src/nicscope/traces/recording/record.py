"""Recording a program from start to end: the whole of it in one call.

What it has seen, and what it could not see, is its result.
"""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope import __version__
from nicscope.outputs.file import PARQUET, format_to_write
from nicscope.traces.columns import Checker
from nicscope.traces.formats import FORMATS
from nicscope.traces.reader import requests_of
from nicscope.traces.recording.calls import NAMES, this_machine
from nicscope.traces.recording.ptrace import Forwarder, held_signals, stop_if_interrupted
from nicscope.traces.recording.tracer import Observed
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.whole import WRITTEN
from nicscope.traces.writer import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.traces.recording.rows import IssueOrder


def write_result(path: Path, written: str, rows: IssueOrder, metadata: TraceMetadata) -> None:
    """Write ``rows`` to ``path`` in the format called ``written``; errors as of its writer."""
    checker = Checker(str(path))
    with FORMATS[written].writer(path, metadata) as writer:  # type: ignore[misc]
        for found in rows.batches():
            batch = batch_of(_columns(found), checker)
            requests = requests_of(batch, checker)
            checker.check(requests)
            writer.append(requests, batch)


def _columns(rows: NDArray[Any]) -> dict[str, Any]:
    """The columns of a trace, and with them what only a recorder knows."""
    return {
        "time_ns": rows["time_ns"],
        "node": np.zeros(rows.size, np.int32),
        "pid": rows["pid"],
        "op": rows["op"],
        "address": rows["address"],
        "length": rows["length"],
        "posted": rows["posted"],
        "tid": rows["tid"],
        "syscall": pa.DictionaryArray.from_arrays(rows["call"].astype(np.int32), list(NAMES)),
    }


class Progress(NamedTuple):
    """How far a recording has come."""

    rows: int
    processes: int  # that are alive
    program_ended: bool  # and only what it started runs on


class Recording(NamedTuple):
    """What came of recording a program."""

    status: int  # of the program, 128 + number if a signal killed it
    seconds: float
    observed: Observed
    path: Path | None  # None if nothing was recorded, and so no file written


def record(
    command: Sequence[str], path: Path, watch: Callable[[Progress], None] | None = None
) -> Recording:
    """Run ``command`` and write every socket send and receive of it and its children to ``path``.

    The format is that of the path's ending; a stream without one gets Parquet.

    The program has this process's input, output and signals for itself.  Call it from the main
    thread of a process that has no other children; ``watch`` is called a few times a second from
    another thread.  A trace without a row is not written: ``path`` of the result says so.
    Errors: ``RecordError`` if the program cannot be started or traced, ``OutputError`` if
    ``path`` cannot be written.
    """
    written = format_to_write(path, WRITTEN, of_stream=PARQUET)
    machine = this_machine()
    observed = Observed()
    with held_signals() as mask:
        # Imported only now, as NumPy starts threads, and these must not take the signals.
        from nicscope.traces.recording.calls import filter_program
        from nicscope.traces.recording.launch import launch
        from nicscope.traces.recording.rows import IssueOrder
        from nicscope.traces.recording.tracer import Tracer

        with IssueOrder(path) as rows:
            stop_if_interrupted()
            started = datetime.datetime.now(datetime.UTC)
            clock = time.monotonic()
            program = launch(command, filter_program(machine), mask)
            tracer = Tracer(program.pid, machine, rows, observed)

            def tick() -> None:
                alive = tracer.processes
                if watch is not None:
                    watch(Progress(observed.rows, len(alive), program.pid not in alive))

            with program, Forwarder(program.pid, lambda: tracer.processes, tick):
                status = tracer.run()
                program.check_begun(observed.programs)
            seconds = time.monotonic() - clock
            if not observed.rows:
                return Recording(status, seconds, observed, None)
            counts = observed.as_json() | {"seconds": round(seconds, 6), "exit_status": status}
            write_result(path, written, rows, _metadata(command, started, counts))
            return Recording(status, seconds, observed, path)


def _metadata(
    command: Sequence[str], started: datetime.datetime, counts: dict[str, Any]
) -> TraceMetadata:
    origin = {
        "program": Path(command[0]).name,
        "command": shlex.join(command),
        "recorder": f"nicscope record {__version__}",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "started": started.isoformat(timespec="seconds"),
    }
    return TraceMetadata(page_size=os.sysconf("SC_PAGE_SIZE"), origin=origin, observed=counts)
