"""Workers for a folder of traces: this process, several processes, or a Dask cluster."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from nicscope.errors import StudyError
from nicscope.library.command import whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.studies.workers import Workers
    from nicscope.traces.reader import Trace

# Assumed: rows that take about as long as starting a process; less is done here.
FEW_ROWS = 1 << 24


def check_alone(skip: int, workers: int | None, scheduler: str | None) -> None:
    """Errors: ``StudyError`` for several workers with ``skip``, which needs one process."""
    if skip and (scheduler is not None or (workers or 1) > 1):
        raise StudyError("--skip counts requests of all nodes, so one process does; --workers 1")


@contextlib.contextmanager
def workers_for(
    traces: Sequence[Trace], workers: int | None, scheduler: str | None, *, alone: bool = False
) -> Iterator[Workers | None]:
    """Workers for ``traces`` during the block; None: this process alone.

    ``workers`` None is a process for each processor, if there is much to do and it need not be
    done ``alone``.  Errors:
    ``StudyError`` if a trace is no folder and workers were asked for, for fewer than 1 or too
    many, or if the cluster at ``scheduler`` cannot be had.
    """
    from nicscope.studies.sweep.grid import worker_count
    from nicscope.traces.folders import FolderTrace

    asked = workers is not None or scheduler is not None
    hands = worker_count(whole("workers", workers), scheduler)
    files = [trace for trace in traces if not isinstance(trace, FolderTrace)]
    if files and asked:
        raise StudyError(
            f"{files[0].name}: is one file, which one process reads; 'nicscope trace split' makes "
            "a folder, whose nodes are shared out among workers"
        )
    if scheduler is not None:
        from nicscope.studies.workers import connected

        with connected(scheduler) as cluster:
            yield cluster
        return
    few = workers is None and sum(trace.rows for trace in traces) < FEW_ROWS
    if files or few or alone or hands == 1:
        yield None
        return
    from nicscope.studies.workers import LocalWorkers

    with LocalWorkers(hands) as local:
        yield local
