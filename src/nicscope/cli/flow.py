"""``nicscope flow``: where every microsecond of a packet's way goes."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import answer
from nicscope.cli.arguments import AsJson, Explain, byte_count, option
from nicscope.library.flow import PLATFORM

if TYPE_CHECKING:
    from nicscope.reports.flow import ShownFlow

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope flow --platform p6-natoma --policy adaptive --payload 8192 --count 8[/bold]\n\n"
    "[bold]nicscope flow --policy cut-through --gap 130us --out results[/bold]\n\n"
    "[bold]nicscope flow --platform alcor --to miata --payload 4KiB --logging --json[/bold]\n\n"
    "[bold]nicscope flow --topology trunk --nodes 4 --set link_per_byte=5ns/B[/bold]"
)


def flow(
    platform: Annotated[
        str, option("NAME|FILE", "Of the senders.", autocompletion=arguments.platforms)
    ] = PLATFORM,
    to: Annotated[
        str | None,
        option(
            "NAME|FILE",
            "Of the receivers; left out: the same.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    policy: Annotated[
        str,
        option(
            "NAME",
            "store-and-forward, cut-through, cut-through-minpulse, adaptive or "
            "message-store-and-forward.",
        ),
    ] = "adaptive",
    payload: Annotated[str, option("BYTES", "Of each message, such as 8192 or 8KiB.")] = "8192",
    count: Annotated[int, option("N", "Messages of each sender.")] = 8,
    gap: Annotated[str, option("TIME", "At least, from start to start, such as 130us.")] = "0us",
    minpulse: Annotated[
        int | None,
        option("BYTES", "On both sides; left out: the policy's, 128.", parser=byte_count),
    ] = None,
    minpulse_send: Annotated[
        int | None, option("BYTES", "On the sending side only.", parser=byte_count)
    ] = None,
    minpulse_receive: Annotated[
        int | None, option("BYTES", "On the receiving side only.", parser=byte_count)
    ] = None,
    buffers: Annotated[
        int | None, option("N", "On a NIC, each way; left out: the policy's.")
    ] = None,
    ring: Annotated[int | None, option("N", "Entries of each ring; left out: 64.")] = None,
    max_payload: Annotated[
        str | None, option("BYTES", "What each buffer holds; left out: 8192.")
    ] = None,
    logging: Annotated[
        bool, typer.Option("--logging", help="Let the firmware log, at its cost.")
    ] = False,
    topology: Annotated[str, option("crossbar|pair|trunk", "Who is joined how.")] = "crossbar",
    nodes: Annotated[int, option("N", "The first half sends, each to one of the second.")] = 2,
    bus_master: Annotated[
        str | None,
        option("HOLD/PERIOD", "Another master has each host's bus so long of every so long."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        option(
            "COST=VALUE",
            "Set on both platforms, such as firmware_start=2us; may be repeated.",
            "--set",
        ),
    ] = None,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json, tables, figures and a timeline.")
    ] = None,
    as_json: AsJson = False,
    explain: Explain = False,
) -> None:
    """Send messages in virtual time and show where every microsecond of their way goes."""
    from nicscope.library.flow import flow as send
    from nicscope.reports.flow import existing_parent

    def sent() -> ShownFlow:
        return send(
            platform,
            to,
            policy=policy,
            payload=payload,
            count=count,
            gap=gap,
            minpulse=minpulse,
            minpulse_send=minpulse_send,
            minpulse_receive=minpulse_receive,
            buffers=buffers,
            ring=ring,
            max_payload=max_payload,
            logging=logging,
            topology=topology,
            nodes=nodes,
            bus_master=bus_master,
            assignments=assignments,
        )

    existing_parent(out)
    answer(sent, out, as_json, explain)
