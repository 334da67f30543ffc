"""``nicscope verbs bw`` and ``lat``: perftest's questions of the simulated device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from nicscope.library.command import (
    Bytes,
    Option,
    Text,
    Values,
    byte_count,
    command,
    designs,
    platform_option,
)
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from nicscope.reports.verbs_measures import ShownBandwidths, ShownVerbsLatencies

Sizes = Annotated[
    Text,
    Option(
        "LOW..HIGH",
        "Bytes of messages by powers of two, or a list such as 64,1500; default 64..65536, "
        "and 8 of atomic operations.",
    ),
]
Inline = Annotated[
    Bytes, Option("BYTES", "Messages of up to so many go with the request.", read=byte_count)
]
Designs = Annotated[Values, designs("What translates on the NIC; again for another beside it.")]
OnPlatform = Annotated[Any, platform_option("What things cost; left out: the design's own.")]


@command(
    "nicscope verbs bw",
    "nicscope verbs bw --op read --size 64..4096 --qps 4 --tx-depth 8 --design utlb --design "
    "vmmc-interrupt",
    words="verbs bw",
    out="Folder for results.json, bandwidth.parquet and a figure.",
)
def verbs_bandwidth(
    repeat: list[str],
    /,
    *,
    op: Annotated[Text, Option("OP", "send, write, read or atomic.")] = "write",
    size: Sizes = None,
    qps: Annotated[int, Option("N", "Queue pairs on either side.", least=1)] = 1,
    iters: Annotated[int, Option("N", "Messages of each queue pair.", least=2)] = 1000,
    tx_depth: Annotated[
        int,
        Option("N", "Of these, as many outstanding.", ("--outstanding", "--tx-depth"), least=1),
    ] = 16,
    inline: Inline = 0,
    design: Designs = None,
    platform: OnPlatform = None,
) -> ShownBandwidths:
    """Measure the bandwidth of verbs on the simulated device, as perftest does on a card."""
    from nicscope.studies.verbs_measures import ask

    question = ask(
        operation=op,
        sizes=size,
        iterations=iters,
        pairs=qps,
        depth=tx_depth,
        inline=inline,
        designs=design or [None],
        platform=platform,
    )
    from nicscope.reports.verbs_measures import ShownBandwidths

    with progress("measuring", "messages", always_say=True) as watch:
        from nicscope.studies.verbs_measures import bandwidths

        return ShownBandwidths(bandwidths(question, repeat, watch))


@command(
    "nicscope verbs lat",
    "nicscope verbs lat --op atomic --design utlb --design via-static --json",
    words="verbs lat",
    out="Folder for results.json, two tables and a figure.",
)
def verbs_latency(
    repeat: list[str],
    /,
    *,
    op: Annotated[
        Text,
        Option(
            "OP",
            "send: until its receiver knows of it; write, read or atomic: until they complete.",
        ),
    ] = "send",
    size: Sizes = None,
    iters: Annotated[int, Option("N", "Messages, one after another.", least=2)] = 100,
    inline: Inline = 0,
    design: Designs = None,
    platform: OnPlatform = None,
) -> ShownVerbsLatencies:
    """Measure the latency of verbs on the simulated device, and where each microsecond went."""
    from nicscope.studies.verbs_measures import ask

    question = ask(
        operation=op,
        sizes=size,
        iterations=iters,
        inline=inline,
        designs=design or [None],
        platform=platform,
    )
    from nicscope.reports.verbs_measures import ShownVerbsLatencies

    with progress("measuring", "messages", always_say=True) as watch:
        from nicscope.studies.verbs_measures import all_latencies

        return ShownVerbsLatencies(all_latencies(question, repeat, watch))
