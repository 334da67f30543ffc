"""Miss-ratio curves of traces: what ``nicscope curve`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import in_one_line
from nicscope.library.command import command_line, number, span, whole, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of
from nicscope.library.workers import check_alone, workers_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.curve import ShownCurves


@in_one_line
def curve(
    trace: TraceLike | Sequence[TraceLike],
    *,
    ways: Word = None,
    line: Word = 1,
    entries: Word = None,
    by: str = "trace",
    sample: float | None = None,
    seed: int | None = None,
    offset: bool = True,
    page_size: str | int | None = None,
    skip: int = 0,
    workers: int | None = None,
    scheduler: str | None = None,
) -> ShownCurves:
    """What every size of translation cache misses: exact, from one pass over the trace.

    Args:
        trace: a path, ``bundled:NAME``, or a table; or a list of them.  A folder is one trace.
        ways: of set-associative caches, such as ``[1, 4]``; None: 1, 2, 4 and 8.
        line: pages that share a line of the cache, one number or several.
        entries: the least and the most, such as ``(64, 8192)``; None: as the trace suggests.
        by: a curve for each ``trace``, ``node`` or ``process``.
        sample: the share of the pages to estimate from; None: all, and exact.
        seed: other pages are sampled than those of seed 0.
        offset: whether processes begin at sets of their own.
        page_size: such as ``"2MiB"``; None: the trace's.
        skip: requests that warm the caches up and are not counted.
        workers: processes that share out the nodes of folders; None: one for each processor.
        scheduler: of a Dask cluster that does, such as ``"tcp://10.0.0.1:8786"``.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.studies.curves import ask

    set_ways, lines = word("ways", ways), word("line", line) or "1"
    ends, size = span("entries", entries), word("page_size", page_size)
    sample, seed, skip = number("sample", sample), whole("seed", seed), whole("skip", skip) or 0
    question = ask(
        ways=set_ways,
        line=lines,
        entries=ends,
        by=by,
        sample=sample,
        seed=seed,
        offset=offset,
        page_size=size,
        skip=skip,
    )
    from nicscope.reports.curve import ShownCurves
    from nicscope.studies.curves import report

    options = {
        "--ways": set_ways,
        "--line": lines if lines != "1" else None,
        "--entries": ends,
        "--by": by if by != "trace" else None,
        "--sample": sample,
        "--seed": seed,
        "--page-size": size,
        "--skip": skip or None,
        "--no-offset": not offset,
    }
    command = command_line(["curve", *words_of(trace)], options)
    traces = all_opened(trace, folders=True)
    check_alone(skip, workers, scheduler)
    opened = [one for _, one in traces]
    with (
        workers_for(opened, workers, scheduler, alone=bool(skip)) as hired,
        progress("measuring", "rows") as watch,
    ):
        return ShownCurves(report(traces, question, command, watch, hired))
