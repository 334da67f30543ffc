"""A trace through every design of a grid: what ``nicscope sweep`` reports."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.errors import in_one_line
from nicscope.library.command import command_line, texts, whole, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nicscope.config.design import Design
    from nicscope.config.platform import Platform
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.sweep import ShownSweep
    from nicscope.studies.sweep.sweeping import Done


@in_one_line
def sweep(
    trace: TraceLike | Sequence[TraceLike],
    design: str | Path | Design,
    grid: Mapping[str, Word] | Iterable[str] = (),
    platform: str | Path | Platform | None = None,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    kinds: bool = True,
    many: bool = False,
    begun: Callable[[Done], None] = lambda _: None,
) -> ShownSweep:
    """What a trace costs under every combination of some settings of a design.

    Args:
        trace: a path, ``bundled:NAME``, or a table; or a list of them.
        design: what is varied.
        grid: values by setting, such as ``{"entries": [64, 128], "pin_limit": [512, None]}``; or
            ``KEY=V1,V2,...``, one by one.
        platform: that prices all; None: the design's own.
        out: a file for the table, .parquet or .csv; if the sweep is interrupted, the same call
            continues.  None: the result alone has it.
        workers: threads; None: one for each processor.
        scheduler: of a Dask cluster to count on, such as ``"tcp://10.0.0.1:8786"``.
        kinds: whether misses are parted by cause, which takes time.
        many: whether a million points or more are wanted.
        begun: is told how much an interrupted sweep had done.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.studies.sweep.grid import ask, worker_count

    assignments = _spelt(grid)
    points = ask(design, platform, assignments, many=many)
    hands = worker_count(whole("workers", workers), scheduler)
    from nicscope.reports.sweep import ShownSweep
    from nicscope.studies.sweep.sweeping import Sweep
    from nicscope.studies.sweep.sweeping import sweep as run
    from nicscope.studies.sweep.table import Table, in_memory, table_output

    path = None if out is None else Path(out)
    options = {"--design": design, "--grid": assignments, "--platform": platform}
    command = command_line(
        ["sweep", *words_of(trace)], {**options, "--out": path, "--no-kinds": not kinds}
    )
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(in_memory() if path is None else table_output(path))
        what = Sweep(points, all_opened(trace), output.path, kinds=kinds)
        cluster: Any = None
        if scheduler is not None:
            from nicscope.studies.sweep.sweeping import CONTINUES
            from nicscope.studies.workers import connected

            cluster = stack.enter_context(connected(scheduler, CONTINUES))
        watch = stack.enter_context(progress("sweeping", "designs"))
        done = run(what, hands, cluster, watch, begun, output)
        return ShownSweep(what, Table(output.readable), command, done)


def _spelt(grid: Mapping[str, Word] | Iterable[str]) -> list[str]:
    """The axes of ``grid`` as ``--grid`` takes them."""
    if not isinstance(grid, Mapping):
        return texts(grid)
    every = {key: [None] if values is None else values for key, values in grid.items()}
    return [f"{key}={word(key, values)}" for key, values in every.items()]
