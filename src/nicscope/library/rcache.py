"""Registration caches of libraries: what ``nicscope rcache`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.rcache import ShownCaches


@in_one_line
def rcache(
    trace: TraceLike,
    *,
    policy: Word = "exact,page,merge",
    entries: Word = "none",
    align: str | int | None = None,
    most_bytes: str | int | None = None,
    costs: str = "connectx",
) -> ShownCaches:
    """Show what a library's cache of registrations would make of a trace's buffers.

    Args:
        trace: a path, ``bundled:NAME``, or a table.
        policy: ``exact``, ``page`` or ``merge``; one or several.
        entries: regions that a cache may have at most: ``"none"``, a number, several, or a range
            such as ``"64..65536"``.
        align: bytes that regions are widened to; None: 1, 4096 and 64, by policy.
        most_bytes: registered memory of a process at most; None: any.
        costs: of registration, by name or a TOML file.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.config.rdma_costs import load_registration_costs
    from nicscope.reports.rcache import ShownCaches
    from nicscope.studies.registration_caches import libraries, use_caches

    policies, sizes = word("policy", policy), word("entries", entries)
    if policies is None or sizes is None:
        raise StudyError("policy and entries: give at least one of each")
    widened, limit = word("align", align), word("most_bytes", most_bytes)
    tried = libraries(policies, sizes, widened, limit)
    priced = load_registration_costs(costs)
    options = {
        "--policy": policies,
        "--entries": sizes,
        "--align": widened,
        "--bytes": limit,
        "--costs": costs,
    }
    command = command_line(["rcache", *words_of(trace)], options)
    [(_, opened)] = all_opened(trace)
    with progress("registering", "rows") as watch:
        return ShownCaches(use_caches(opened, tried, priced, command, watch))
