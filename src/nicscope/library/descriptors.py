"""Descriptors that a trace's requests become: what ``nicscope descriptors`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, word
from nicscope.library.progress import progress
from nicscope.library.traces import all_opened, words_of

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.library.traces import TraceLike
    from nicscope.reports.descriptors import ShownDescriptors


@in_one_line
def descriptors(
    trace: TraceLike,
    *,
    engine: Word = "nixl,mooncake,joined",
    threads: Word = 1,
    nics: Word = 1,
    qps: Word = 2,
    nic: str = "connectx-7",
) -> ShownDescriptors:
    """Tell how many descriptors a trace's requests become, and what binds their transfer.

    Args:
        trace: a path, ``bundled:NAME``, or a table.
        engine: ``nixl``: one for each request; ``mooncake``: slices of 64 KiB; ``joined``: one for
            requests that adjoin each other; one or several.
        threads: that post; one number or several.
        nics: that share the work; likewise.
        qps: queue pairs of each NIC; likewise.
        nic: what it costs and carries, by name or a TOML file.

    Errors: ``NicscopeError``, before the trace is read if it can be.

    """
    from nicscope.config.rdma_costs import load_nic_costs
    from nicscope.reports.descriptors import ShownDescriptors
    from nicscope.studies import descriptors as study
    from nicscope.studies.sources import numbers

    options = {
        "--engine": word("engine", engine),
        "--threads": word("threads", threads),
        "--nics": word("nics", nics),
        "--qps": word("qps", qps),
        "--nic": nic,
    }
    if None in options.values():
        raise StudyError("engine, threads, nics and qps: give at least one of each")
    counts = [
        numbers(option, str(options[option]), study.MOST)
        for option in ("--threads", "--nics", "--qps")
    ]
    ways = study.ways_through(str(options["--engine"]).split(","), *counts)
    priced = load_nic_costs(nic)
    command = command_line(["descriptors", *words_of(trace)], options)
    [(_, opened)] = all_opened(trace)
    with progress("counting", "rows") as watch:
        return ShownDescriptors(study.transfer_all(opened, ways, priced, command, watch))
