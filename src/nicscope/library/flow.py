"""``nicscope flow``: where every microsecond of a packet's way goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from nicscope.library.command import (
    Bytes,
    Option,
    Text,
    Values,
    byte_count,
    command,
    each_given,
    platform_option,
)
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.config.platform import Platform
    from nicscope.library.command import One
    from nicscope.reports.flow import ShownFlow


@command(
    "nicscope flow --platform p6-natoma --policy adaptive --payload 8192 --count 8",
    "nicscope flow --policy cut-through --gap 130us --out results",
    "nicscope flow --platform alcor --to miata --payload 4KiB --logging --json",
    "nicscope flow --topology trunk --nodes 4 --set link_per_byte=5ns/B",
    out="Folder for results.json, tables, figures and a timeline.",
)
def flow(
    repeat: list[str],
    /,
    platform: Annotated[str | Path | Platform, platform_option("Of the senders.")] = "p6-natoma",
    to: Annotated[
        str | Path | Platform | None, platform_option("Of the receivers; left out: the same.")
    ] = None,
    *,
    policy: Annotated[
        Text,
        Option(
            "NAME",
            "store-and-forward, cut-through, cut-through-minpulse, adaptive or "
            "message-store-and-forward.",
        ),
    ] = "adaptive",
    payload: Annotated[Text, Option("BYTES", "Of each message, such as 8192 or 8KiB.")] = "8192",
    count: Annotated[int, Option("N", "Messages of each sender.")] = 8,
    gap: Annotated[Text, Option("TIME", "At least, from start to start, such as 130us.")] = "0us",
    minpulse: Annotated[
        Bytes, Option("BYTES", "On both sides; left out: the policy's, 128.", read=byte_count)
    ] = None,
    buffers: Annotated[
        int | None, Option("N", "On a NIC, each way; left out: the policy's.")
    ] = None,
    ring: Annotated[int | None, Option("N", "Entries of each ring; left out: 64.")] = None,
    max_payload: Annotated[Text, Option("BYTES", "What each buffer holds; left out: 8192.")] = None,
    logging: Annotated[bool, Option("", "Let the firmware log, at its cost.")] = False,
    topology: Annotated[Text, Option("crossbar|pair|trunk", "Who is joined how.")] = "crossbar",
    nodes: Annotated[int, Option("N", "The first half sends, each to one of the second.")] = 2,
    bus_master: Annotated[
        Text,
        Option("HOLD/PERIOD", "Another master has each host's bus so long of every so long."),
    ] = None,
    assignments: Annotated[
        Values,
        Option(
            "COST=VALUE",
            "Set on both platforms, such as firmware_start=2us; may be repeated.",
            ("--set",),
            read=each_given,
            is_repeated=True,
        ),
    ] = None,
    **_costs: One,
) -> ShownFlow:
    """Send messages in virtual time and show where every microsecond of their way goes."""
    from nicscope.studies.flow.question import ask

    question = ask(
        platform=platform,
        to=to,
        policy=policy,
        payload=payload,
        count=count,
        gap=gap,
        minpulse=minpulse,
        buffers=buffers,
        ring=ring,
        max_payload=max_payload,
        logging=logging,
        topology=topology,
        nodes=nodes,
        bus_master=bus_master,
        assignments=assignments,
    )
    from nicscope.reports.flow import ShownFlow
    from nicscope.studies.flow.report import report

    with progress("simulating", "messages") as watch:
        return ShownFlow(report(question, repeat, watch))
