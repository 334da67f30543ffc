"""``nicscope verbs bw`` and ``lat``: the questions of perftest, asked of the simulated device."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

from nicscope.cli import completion
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, byte_count, option
from nicscope.library.verbs_measures import COUNT, DEPTH, TIMES

if TYPE_CHECKING:
    from nicscope.reports.verbs_measures import ShownBandwidths, ShownVerbsLatencies

Sizes = Annotated[
    str | None,
    option(
        "LOW..HIGH",
        "Bytes of messages by powers of two, or a list such as 64,1500; default 64..65536, "
        "and 8 of atomic operations.",
    ),
]
Inline = Annotated[
    int, option("BYTES", "Messages of up to so many go with the request.", parser=byte_count)
]
Designs = Annotated[
    list[str] | None,
    option(
        "NAME|FILE",
        "What translates on the NIC; again for another beside it.",
        autocompletion=completion.designs,
    ),
]
OnPlatform = Annotated[
    str | None,
    option(
        "NAME|FILE",
        "What things cost; left out: the design's own.",
        autocompletion=completion.platforms,
    ),
]
BW_EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope verbs bw[/bold]\n\n"
    "[bold]nicscope verbs bw --op read --size 64..4096 --qps 4 --tx-depth 8 --design utlb "
    "--design vmmc-interrupt[/bold]"
)
LAT_EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope verbs lat[/bold]\n\n"
    "[bold]nicscope verbs lat --op atomic --design utlb --design via-static --json[/bold]"
)


def bw(
    op: Annotated[str, option("OP", "send, write, read or atomic.")] = "write",
    size: Sizes = None,
    qps: Annotated[int, option("N", "Queue pairs on either side.", min=1)] = 1,
    iters: Annotated[int, option("N", "Messages of each queue pair.", min=2)] = COUNT,
    tx_depth: Annotated[
        int, option("N", "Of these, as many outstanding.", "--tx-depth", "--outstanding", min=1)
    ] = DEPTH,
    inline: Inline = 0,
    design: Designs = None,
    platform: OnPlatform = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, bandwidth.parquet and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Measure the bandwidth of verbs on the simulated device, as perftest does on a card."""
    from nicscope.library.verbs_measures import verbs_bandwidth

    def measured() -> ShownBandwidths:
        return verbs_bandwidth(
            op=op,
            size=size,
            qps=qps,
            iters=iters,
            tx_depth=tx_depth,
            inline=inline,
            design=design,
            platform=platform,
        )

    answer(measured, out, as_json, explain)


def lat(
    op: Annotated[
        str,
        option(
            "OP",
            "send: until its receiver knows of it; write, read or atomic: until they complete.",
        ),
    ] = "send",
    size: Sizes = None,
    iters: Annotated[int, option("N", "Messages, one after another.", min=2)] = TIMES,
    inline: Inline = 0,
    design: Designs = None,
    platform: OnPlatform = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, two tables and a figure.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Measure the latency of verbs on the simulated device, and where each microsecond went."""
    from nicscope.library.verbs_measures import verbs_latency

    def measured() -> ShownVerbsLatencies:
        return verbs_latency(
            op=op, size=size, iters=iters, inline=inline, design=design, platform=platform
        )

    answer(measured, out, as_json, explain)
