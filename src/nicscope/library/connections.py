"""``nicscope connections``: how many queue pairs and outstanding operations a NIC takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import Option, Text, command
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.connections import ShownConnections

NUMBERS = "N,...|LOW..HIGH"


@command(
    "nicscope connections",
    "nicscope connections --threads 96 --qps 96 --outstanding 1..64 --operation read,write",
    "nicscope connections --threads 32 --qps 1,32 --outstanding 8 --doorbells context,own",
    out="Folder for results.json, connections.parquet and a figure.",
)
def connections(
    repeat: list[str],
    /,
    *,
    qps: Annotated[Text, Option(NUMBERS, "Queue pairs in all.")] = "16..16384",
    outstanding: Annotated[
        Text, Option(NUMBERS, "Operations of each thread that wait for answers.")
    ] = "32",
    threads: Annotated[Text, Option(NUMBERS, "Threads that post.")] = "16",
    operation: Annotated[Text, Option("read|write|read,write", "Small ones.")] = "read",
    read_window: Annotated[
        Text, Option(NUMBERS, "Reads of a queue pair on their way; default as the NIC.")
    ] = None,
    doorbells: Annotated[
        Text,
        Option(
            "context|own",
            "Registers: those that one context of a process has, or one for each queue pair.",
        ),
    ] = "own",
    replacement: Annotated[
        Text, Option("random|lru", "Whom the NIC gives up where it has no room; or both.")
    ] = "random",
    nic: Annotated[
        Text, Option("NAME|FILE", "What the NIC costs and keeps.", offers="nics")
    ] = "connectx-6",
) -> ShownConnections:
    """Show how many queue pairs and outstanding operations a NIC takes before its rate falls."""
    from nicscope.config.rdma_costs import load_nic_costs
    from nicscope.reports.connections import ShownConnections
    from nicscope.studies import connections as study
    from nicscope.studies.sources import numbers

    priced = load_nic_costs(nic)
    every = study.ways_to_post(
        operation.split(","),
        numbers("--threads", threads, study.MOST_THREADS),
        numbers("--qps", qps, study.MOST_PAIRS),
        numbers("--outstanding", outstanding, study.MOST_OUTSTANDING),
        [priced.count("read_window", 0)]
        if read_window is None
        else numbers("--read-window", read_window, study.MOST_OUTSTANDING),
        doorbells.split(","),
        replacement.split(","),
    )
    with progress("simulating", "runs") as watch:
        return ShownConnections(study.measure_all(every, priced, repeat, watch))
