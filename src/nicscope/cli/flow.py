"""``nicscope flow``: where every microsecond of a packet's way goes."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from nicscope.cli.answer import answer, command_line
from nicscope.cli.arguments import AsJson, option
from nicscope.cli.progress import progress

EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope flow --platform p6-natoma --policy adaptive --payload 8192 --count 8[/bold]\n\n"
    "[bold]nicscope flow --policy cut-through --gap 130us --out results[/bold]\n\n"
    "[bold]nicscope flow --platform alcor --to miata --payload 4KiB --logging --json[/bold]\n\n"
    "[bold]nicscope flow --topology trunk --nodes 4 --set link_per_byte=5ns/B[/bold]"
)
DEFAULT_PLATFORM = "p6-natoma"


def flow(
    platform: Annotated[str, option("NAME|FILE", "Of the senders.")] = DEFAULT_PLATFORM,
    to: Annotated[str | None, option("NAME|FILE", "Of the receivers; left out: the same.")] = None,
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
        int | None, option("BYTES", "On both sides; left out: the policy's, 128.")
    ] = None,
    minpulse_send: Annotated[int | None, option("BYTES", "On the sending side only.")] = None,
    minpulse_receive: Annotated[int | None, option("BYTES", "On the receiving side only.")] = None,
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
) -> None:
    """Send messages in virtual time and show where every microsecond of their way goes."""
    from nicscope.studies.flow.question import ask

    question = ask(
        platform=platform,
        to=to,
        policy=policy,
        payload=payload,
        count=count,
        gap=gap,
        minpulse=(
            minpulse if minpulse_send is None else minpulse_send,
            minpulse if minpulse_receive is None else minpulse_receive,
        ),
        buffers=buffers,
        ring=ring,
        max_payload=max_payload,
        logging=logging,
        topology=topology,
        nodes=nodes,
        bus_master=bus_master,
        assignments=assignments or [],
    )
    options = {
        "--platform": platform,
        "--to": to,
        "--policy": policy,
        "--payload": payload,
        "--count": count,
        "--gap": gap if question.gap_ps else None,
        "--minpulse": minpulse,
        "--minpulse-send": minpulse_send,
        "--minpulse-receive": minpulse_receive,
        "--buffers": buffers,
        "--ring": ring,
        "--max-payload": max_payload,
        "--topology": topology if topology != "crossbar" else None,
        "--nodes": nodes if nodes != 2 else None,
        "--logging": logging,
        "--bus-master": bus_master,
        "--set": assignments,
    }
    command = command_line(["flow"], options)
    from nicscope.reports.flow import ShownFlow, existing_parent

    def sent() -> ShownFlow:
        with progress("simulating", "messages") as watch:
            from nicscope.studies.flow.report import report

            return ShownFlow(report(question, command, watch))

    existing_parent(out)
    report = answer(sent, out, as_json)
    if out is not None and report.missing:
        print(f"nicscope: {report.missing}", file=sys.stderr)
