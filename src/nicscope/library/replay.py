"""A trace through designs: what ``nicscope replay`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import in_one_line
from nicscope.library.command import assignments as set_of
from nicscope.library.command import command_line, several
from nicscope.library.progress import progress
from nicscope.library.traces import open_trace, words_of
from nicscope.library.workers import workers_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.library.traces import TraceLike
    from nicscope.reports.comparison import ReplayReport


@in_one_line
def replay(
    trace: TraceLike,
    designs: str | Path | Design | Sequence[str | Path | Design] | None = None,
    platform: str | Path | Platform | None = None,
    *,
    kinds: bool = True,
    counters: str | None = None,
    assignments: str | Iterable[str] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    **settings: One,
) -> ReplayReport:
    """What each of ``designs`` makes of ``trace``: misses, pins, interrupts, time and memory.

    Args:
        trace: a path, ``bundled:NAME``, or a table of Arrow, pandas or Polars; a folder of files
            is one trace.
        designs: names of the catalog, files or ``Design`` objects; None: the whole catalog.
        platform: that prices every design; None: each design's own.
        kinds: whether misses are parted by cause, which takes time.
        counters: ``neohost``, ``freebsd`` or ``rdma``: RDMA NICs' counts by that tool's names too.
        assignments: ``KEY=VALUE``, one or several, set on every design.
        workers: processes that share out the nodes of a folder; None: one for each processor.
        scheduler: of a Dask cluster that does, such as ``"tcp://10.0.0.1:8786"``.
        settings: the same by name, such as ``entries=1024``; None removes a limit.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.reports.comparison import ReplayReport
    from nicscope.studies.replaying import choose_subjects, compare, tool_named

    names, overrides = several(designs), set_of(assignments, settings)
    subjects = choose_subjects(names, platform, overrides)
    tool = None if counters is None else tool_named(counters, [one.design for one in subjects])
    options = {
        "--design": names,
        "--platform": platform,
        "--set": overrides,
        "--counters": counters,
    }
    command = command_line(["replay", *words_of(trace)], {**options, "--no-kinds": not kinds})
    requests = open_trace(trace)
    with (
        workers_for([requests], workers, scheduler) as hired,
        progress("replaying", "rows") as watch,
    ):
        return ReplayReport(
            compare(
                requests,
                subjects,
                kinds=kinds,
                overrides=overrides,
                command=command,
                watch=watch,
                tool=tool,
                workers=hired,
            )
        )
