"""Recording a program from start to end: the whole of it in one call."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope import __version__
from nicscope.traces.recording.calls import NAMES, this_machine
from nicscope.traces.recording.filter import filter_program
from nicscope.traces.recording.launch import launch
from nicscope.traces.recording.observed import Observed
from nicscope.traces.recording.rows import IssueOrder
from nicscope.traces.recording.signals import Forwarder, held_signals, stop_if_interrupted
from nicscope.traces.recording.tracer import Tracer
from nicscope.traces.schema import TraceMetadata
from nicscope.traces.writer import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class Recording(NamedTuple):
    """What came of recording a program."""

    status: int  # of the program, 128 + number if a signal killed it
    seconds: float
    observed: Observed
    path: Path | None  # None if nothing was recorded, and so no file written


def record(
    command: Sequence[str], path: Path, watch: Callable[[Observed], None] | None = None
) -> Recording:
    """Run ``command`` and write every socket send and receive of it and its children to ``path``.

    The program has this process's input, output and signals for itself.  Call it from the main
    thread of a process that has no other children; ``watch`` is called a few times a second from
    another thread.  A trace that cannot hold a row is not written: ``path`` of the result says so.
    Errors: ``RecordError`` if the program cannot be started or traced, ``OutputError`` if
    ``path`` cannot be written.
    """
    machine = this_machine()
    observed = Observed()
    with IssueOrder(path) as rows, held_signals() as mask:
        stop_if_interrupted()
        started = datetime.datetime.now(datetime.UTC)
        clock = time.monotonic()
        program = launch(command, filter_program(machine), mask)
        try:
            tracer = Tracer(program.pid, machine, rows, observed)
            with Forwarder(
                program.pid, lambda: tracer.processes, lambda: watch(observed) if watch else None
            ):
                status = tracer.run()
            if not observed.programs:
                raise program.why_not()
        finally:
            os.close(program.complaints)
        seconds = time.monotonic() - clock
        if not observed.rows:
            return Recording(status, seconds, observed, None)
        metadata = TraceMetadata(
            page_size=os.sysconf("SC_PAGE_SIZE"),
            origin=_origin(command, started),
            observed=observed.as_json() | {"seconds": round(seconds, 6), "exit_status": status},
        )
        with TraceWriter(path, metadata) as writer:
            for batch in rows.batches():
                writer.write(_columns(batch))
        return Recording(status, seconds, observed, path)


def _origin(command: Sequence[str], started: datetime.datetime) -> dict[str, Any]:
    return {
        "program": os.path.basename(command[0]),  # noqa: PTH119 - a name, not a path
        "command": shlex.join(command),
        "recorder": f"nicscope record {__version__}",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "started": started.isoformat(timespec="seconds"),
    }


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
