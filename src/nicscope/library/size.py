"""The best design of each family within a memory budget: what ``nicscope size`` reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import in_one_line
from nicscope.library.command import command_line, number, texts, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.size import ShownSizes


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

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.studies.sizing.question import ask

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
    with progress("sizing", "rows") as watch:
        return ShownSizes(report(traces, question, command, watch))
