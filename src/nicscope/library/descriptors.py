"""``nicscope descriptors``: how many descriptors a trace's requests become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import Option, Text, command
from nicscope.library.traces import OneTrace, one_watched

if TYPE_CHECKING:
    from nicscope.reports.descriptors import ShownDescriptors

NUMBERS = "N,...|LOW..HIGH"


@command(
    "nicscope descriptors bundled:redis_server",
    "nicscope descriptors kv.parquet --engine nixl,mooncake --threads 1,4",
    "nicscope descriptors conversation.jsonl --model llama-3-70b --tp 8 --slice whole",
    "nicscope descriptors kv.parquet --nic efa-p5en --engine mooncake --threads 16 --json",
    out="Folder for results.json and descriptors.parquet.",
)
def descriptors(
    repeat: list[str],
    /,
    trace: OneTrace,
    *,
    engine: Annotated[
        Text,
        Option(
            "NAME,...",
            "nixl: one for each request; mooncake: slices of 64 KiB; joined: one for requests that "
            "adjoin each other.",
        ),
    ] = "nixl,mooncake,joined",
    threads: Annotated[Text, Option(NUMBERS, "Threads that post.")] = "1",
    nics: Annotated[Text, Option(NUMBERS, "NICs that share the work.")] = "1",
    qps: Annotated[Text, Option(NUMBERS, "Queue pairs of each NIC.")] = "2",
    nic: Annotated[
        Text, Option("NAME|FILE", "What the NIC costs and carries.", offers="nics")
    ] = "connectx-7",
) -> ShownDescriptors:
    """Show how many descriptors a trace's requests become, and what binds their transfer."""
    from nicscope.config.rdma_costs import load_nic_costs
    from nicscope.reports.descriptors import ShownDescriptors
    from nicscope.studies import descriptors as study
    from nicscope.studies.sources import numbers

    counts = [
        numbers(option, text, study.MOST)
        for option, text in (("--threads", threads), ("--nics", nics), ("--qps", qps))
    ]
    ways = study.ways_through(engine.split(","), *counts)
    priced = load_nic_costs(nic)
    with one_watched(trace, "counting") as (requests, watch):
        return ShownDescriptors(study.transfer_all(requests, ways, priced, repeat, watch))
