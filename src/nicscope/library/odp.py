"""Paging on demand instead of registration: what ``nicscope odp`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.quantities import read_bytes
from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.odp import ShownDemand

FAULTS = ("4KiB", "64KiB", "request")  # what a fault brings, of which less than a page is left out


@in_one_line
def odp(
    trace: TraceLike,
    *,
    fault_bytes: Word = None,
    prefetch: Word = "none,sync,async",
    ahead: int = 4,
    resident: Word = "none",
    page_size: str | int = 4096,
    touched: bool = True,
    costs: str = "connectx",
    faults: str = "connectx",
) -> ShownDemand:
    """Tell whether paging on demand would do for a trace's buffers instead of registering them.

    Args:
        trace: a path, ``bundled:NAME``, or a table.
        fault_bytes: what a fault brings: aligned pieces of so many bytes, or ``"request"``; None:
            4 and 64 KiB, where pages are no larger, and ``"request"``.
        prefetch: ``none``, ``sync`` (the program waits) or ``async``; one or several.
        ahead: requests between an asynchronous advice and the request that it is about.
        resident: memory of a node that may hold such pages: ``"none"`` for any, or bytes; several.
        page_size: of the host, in bytes.
        touched: whether the program has touched its buffers before the NIC does.
        costs: of registration, by name or a TOML file.
        faults: costs of faults, by name or a TOML file.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.config.rdma_costs import load_fault_costs, load_registration_costs
    from nicscope.reports.odp import ShownDemand
    from nicscope.studies.paging_on_demand import Costs, page_bytes, page_on_demand, ways

    page = page_bytes(page_size)
    pieces, hows, kept = (
        word(name, given)
        for name, given in (
            (
                "fault_bytes",
                fault_bytes or [one for one in FAULTS if page <= (read_bytes(one) or page)],
            ),
            ("prefetch", prefetch),
            ("resident", resident),
        )
    )
    if pieces is None or hows is None or kept is None:
        raise StudyError("fault_bytes, prefetch and resident: give at least one of each")
    tried = ways(pieces, hows, ahead, kept, page)
    priced = Costs(load_registration_costs(costs), load_fault_costs(faults), page, touched)
    options = {
        "--fault-bytes": pieces,
        "--prefetch": hows,
        "--ahead": str(ahead),
        "--resident": kept,
        "--page-size": str(page),
        "--untouched": None if touched else True,
        "--costs": costs,
        "--faults": faults,
    }
    command = command_line(["odp", *words_of(trace)], options)
    [(_, opened)] = all_opened(trace)
    with progress("paging", "rows") as watch:
        return ShownDemand(page_on_demand(opened, tried, priced, command, watch))
