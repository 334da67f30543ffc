"""The best design of each family within a memory budget: what ``nicscope size`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import in_one_line
from nicscope.library.command import command_line, number, texts, whole, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of
from nicscope.library.workers import check_alone, workers_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.size import ShownSizes
    from nicscope.reports.size_targets import ShownTargets


@in_one_line
def size(
    trace: TraceLike | Sequence[TraceLike],
    nic_memory: str | int,
    platform: str | Path | Platform | None = None,
    *,
    pin_memory: str | int | None = None,
    target_us: float | None = None,
    page_size: Word = None,
    only: str | Sequence[str] = (),
    workers: int | None = None,
    scheduler: str | None = None,
) -> ShownSizes:
    """The best design of each family within NIC memory, and what other memory would buy.

    Args:
        trace: a path, ``bundled:NAME``, or a table; or a list of them.
        nic_memory: for translation, on each NIC: bytes, or a text such as ``"128KiB"``.
        platform: the cheapest design there is best; None: the one that misses least.
        pin_memory: that each host may pin; None: all.
        target_us: the least NIC memory is told for that cost per lookup.
        page_size: sizes to be set side by side, such as ``["4KiB", "2MiB"]``.
        only: families to be looked at, or ``"page-sizes"``; none: all.
        workers: processes that share out the nodes of folders; None: one for each processor.
        scheduler: of a Dask cluster that does, such as ``"tcp://10.0.0.1:8786"``.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.studies.sizing.targets import ask

    budget, pinned = word("nic_memory", nic_memory) or "", word("pin_memory", pin_memory)
    sizes = word("page_size", page_size)
    words, target_us = texts(only), number("target_us", target_us)
    question = ask(
        budget,
        pin_memory=pinned,
        platform=platform,
        target_us=target_us,
        page_sizes=sizes,
        only=words,
    )
    from nicscope.reports.size import ShownSizes
    from nicscope.studies.sizing.sizings import report

    options = {
        "--nic-memory": budget,
        "--pin-memory": pinned,
        "--platform": platform,
        "--target-us": target_us,
        "--page-size": sizes,
        "--only": words or None,
    }
    command = command_line(["size", *words_of(trace)], options)
    traces = all_opened(trace, as_given=True, folders=True)
    opened = [one for _, one in traces]
    with workers_for(opened, workers, scheduler) as hired, progress("sizing", "rows") as watch:
        return ShownSizes(report(traces, question, command, watch, hired))


@in_one_line
def entries_for(
    trace: TraceLike | Sequence[TraceLike],
    target_miss: str | float,
    *,
    page_size: Word = None,
    skip: int = 0,
    workers: int | None = None,
    scheduler: str | None = None,
) -> ShownTargets:
    """The fewest entries with which few enough lookups miss, in pages of several sizes: exact.

    Args:
        trace: a path, ``bundled:NAME``, or a table; or a list of them.
        target_miss: the share of lookups that may miss, such as ``"1%"`` or 0.01.
        page_size: such as ``["4KiB", "2MiB"]``; None: 4 KiB, 2 MiB and 1 GiB.
        skip: requests that fill the caches and are not counted.
        workers: processes that share out the nodes of folders; None: one for each processor.
        scheduler: of a Dask cluster that does, such as ``"tcp://10.0.0.1:8786"``.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.studies.sizing.targets import ask_target

    share, sizes = word("target_miss", target_miss) or "", word("page_size", page_size)
    skip = whole("skip", skip) or 0
    question = ask_target(share, sizes, skip)
    from nicscope.reports.size_targets import ShownTargets
    from nicscope.studies.sizing.targets import targets

    options = {"--target-miss": share, "--page-size": sizes, "--skip": skip or None}
    command = command_line(["size", *words_of(trace)], options)
    traces = all_opened(trace, as_given=True, folders=True)
    check_alone(skip, workers, scheduler)
    opened = [one for _, one in traces]
    with (
        workers_for(opened, workers, scheduler, alone=bool(skip)) as hired,
        progress("measuring", "rows") as watch,
    ):
        return ShownTargets(targets(traces, question, command, watch, hired))
