"""Sizes of caches from a NIC's counters: what ``nicscope fit`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.errors import StudyError, in_one_line
from nicscope.inputs import read_whole
from nicscope.library.command import command_line, number, span, whole, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.fit import ShownFit

MOST_FILE = 1 << 20  # bytes of counters


@in_one_line
def fit(
    counters: str | Path | dict[str, Any] | list[dict[str, Any]],
    trace: TraceLike,
    *,
    tolerance: float = 0.01,
    entries: Word = None,
    skip: int = 0,
    line: Word = "1,8",
) -> ShownFit:
    """Find the caches whose misses over a trace are those that a NIC has counted.

    Args:
        counters: a JSON file, or what it holds: hits and misses, with ``page_size`` if it is not
            the trace's; a list where pages of several sizes were tried over the same traffic.
        trace: that traffic: a path, ``bundled:NAME``, or a table.
        tolerance: the share by which a counted miss ratio may be off, beside chance.
        entries: the least and the most that a cache may have; None: 65536 with sets, else any.
        line: entries that the NIC fetches together (64 bytes are 8); one number or several.
        skip: requests that only warm the cache up and were not counted.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.reports.fit import ShownFit
    from nicscope.studies.fitting import fit as explain
    from nicscope.studies.fitting import read_counters

    is_given = isinstance(counters, dict | list)
    called = "counters" if is_given else str(counters)
    plain = counters if is_given else _read(called)
    read_counters(plain, called)
    ends, slack = span("entries", entries), number("tolerance", tolerance)
    warm = whole("skip", skip) or 0
    options = {
        "--trace": words_of(trace),
        "--tolerance": slack,
        "--entries": ends,
        "--skip": warm or None,
        "--line": word("line", line),
    }
    command = command_line(["fit", counters], options)
    [(name, opened)] = all_opened(trace)
    with progress("fitting", "rows") as watch:
        return ShownFit(
            explain(
                name,
                opened,
                called,
                plain,
                tolerance=0.01 if slack is None else slack,
                entries=ends,
                skip=warm,
                line=word("line", line) or "1",
                command=command,
                watch=watch,
            )
        )


def _read(path: str) -> Any:
    """What a JSON file holds.  Errors: ``StudyError`` naming it."""
    import json

    content = read_whole(path, MOST_FILE, StudyError)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise StudyError(f"{path}: is not JSON: {problem}") from problem
