"""Queue pairs and outstanding operations of one NIC: what ``nicscope connections`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import StudyError, in_one_line
from nicscope.library.command import command_line, word
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.library.command import Word
    from nicscope.reports.connections import ShownConnections


@in_one_line
def connections(
    *,
    qps: Word = "16..16384",
    outstanding: Word = 32,
    threads: Word = 16,
    operation: Word = "read",
    read_window: Word | None = None,
    doorbells: Word = "own",
    replacement: Word = "random",
    nic: str = "connectx-6",
) -> ShownConnections:
    """Tell how many queue pairs and outstanding operations one NIC takes before its rate falls.

    Args:
        qps: queue pairs in all; a number, several, or a range such as ``"8..16384"``.
        outstanding: operations of each thread that wait for answers; likewise.
        threads: that post; likewise.
        operation: ``read``, ``write``, or both.
        read_window: reads of a queue pair on their way at once; None: as the NIC has it.
        doorbells: ``context``: the registers that one context of a process has; ``own``: one for
            each queue pair.
        replacement: ``random``, ``lru``, or both: whom the NIC gives up where it has no room.
        nic: what it costs and keeps, by name or a TOML file.

    Errors: ``NicscopeError`` for what cannot be.

    """
    from nicscope.config.rdma_costs import load_nic_costs
    from nicscope.reports.connections import ShownConnections
    from nicscope.studies import connections as study
    from nicscope.studies.sources import numbers

    priced = load_nic_costs(nic)
    window = None if read_window is None else word("read_window", read_window)
    options = {
        "--qps": word("qps", qps),
        "--outstanding": word("outstanding", outstanding),
        "--threads": word("threads", threads),
        "--operation": word("operation", operation),
        "--read-window": window,
        "--doorbells": word("doorbells", doorbells),
        "--replacement": word("replacement", replacement),
        "--nic": nic,
    }

    def several(option: str) -> str:
        text = options[option]
        if not text:
            raise StudyError(f"{option}: give at least one")
        return text

    every = study.ways_to_post(
        several("--operation").split(","),
        numbers("--threads", several("--threads"), study.MOST_THREADS),
        numbers("--qps", several("--qps"), study.MOST_PAIRS),
        numbers("--outstanding", several("--outstanding"), study.MOST_OUTSTANDING),
        [priced.count("read_window", 0)]
        if window is None
        else numbers("--read-window", window, study.MOST_OUTSTANDING),
        several("--doorbells").split(","),
        several("--replacement").split(","),
    )
    command = command_line(["connections"], options)
    with progress("simulating", "runs") as watch:
        return ShownConnections(study.measure_all(every, priced, command, watch))
