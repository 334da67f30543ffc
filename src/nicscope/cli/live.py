"""``nicscope verbs exec -- COMMAND ...``: compiled RDMA programs between real processes."""

from __future__ import annotations

import functools
import sys
from pathlib import Path  # noqa: TC003 - the command line reads it
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.cli.answer import tell
from nicscope.cli.arguments import AsJson, option, output_path

if TYPE_CHECKING:
    from nicscope.reports.verbs import ShownLive

# Options end where the program begins: what follows is the program's own.
CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope verbs exec -- ibv_devinfo[/bold]\n\n"
    '[bold]nicscope verbs exec --peer "ibv_rc_pingpong -g 1 localhost" -- '
    "ibv_rc_pingpong -g 1[/bold]\n\n"
    '[bold]nicscope verbs exec --paced --peer "ib_read_lat localhost" -- ib_read_lat[/bold]\n\n'
    '[bold]nicscope verbs exec --record bw.parquet --peer "ib_write_bw localhost" -- '
    "ib_write_bw[/bold]\n\n"
    '[bold]nicscope verbs exec --pcap bw.pcapng --peer "ib_write_bw -n 20 localhost" -- '
    "ib_write_bw -n 20[/bold]"
)


def _share(text: str, name: str) -> Any:
    return option("SHARE", text, f"--{name}", min=0.0, max=1.0)


def execute(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...", help="The program and its arguments.", show_default=False
        ),
    ],
    peer: Annotated[
        list[str] | None,
        option(
            "COMMAND",
            "Another program with its arguments, quoted; it starts when "
            "the one before it waits. May be repeated.",
            "--peer",
        ),
    ] = None,
    design: Annotated[
        str | None,
        option("NAME|FILE", "Design of the NICs. Default: rnic, an RDMA NIC of today.", "--design"),
    ] = None,
    platform: Annotated[
        str | None,
        option("NAME|FILE", "Platform with the costs. Default: the design's own.", "--platform"),
    ] = None,
    seed: Annotated[int, option("N", "Seed of the faults.", "--seed", min=0)] = 0,
    loss: Annotated[float, _share("Share of packets that are lost.", "loss")] = 0.0,
    duplication: Annotated[
        float, _share("Share of packets that are duplicated.", "duplication")
    ] = 0.0,
    reordering: Annotated[
        float, _share("Share of packets that are reordered.", "reordering")
    ] = 0.0,
    corruption: Annotated[
        float, _share("Share of packets that are corrupted.", "corruption")
    ] = 0.0,
    record: Annotated[
        Path | None,
        option(
            "FILE",
            "Write a trace of the memory that the programs register and the requests that they "
            "post, as nicscope record --verbs does.",
            "--record",
            parser=output_path,
        ),
    ] = None,
    pcap: Annotated[
        Path | None,
        option(
            "FILE",
            "RoCE v2 frames that leave the NICs, at their virtual times, as pcapng for Wireshark.",
            "--pcap",
            parser=output_path,
        ),
    ] = None,
    paced: Annotated[
        bool,
        typer.Option(
            "--paced",
            help="The programs' clocks show virtual time, so that they measure the model.",
        ),
    ] = False,
    out: Annotated[
        Path | None, option("DIR", "Folder for results.json and tables.", "--out")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run unmodified compiled RDMA programs without a card.

    When they end, a report shows what their NICs did.

    Programs find a device nicscope0 through nicscope's own libibverbs, which the system's compiler
    builds on first use: no card, no kernel module, no root. Programs of a second shell join the
    same network; the first command ends when all programs have ended.
    """
    from nicscope.reports.result import folder_for
    from nicscope.reports.verbs import ShownLive
    from nicscope.studies.verbs_live import run_live
    from nicscope.studies.verbs_programs import Wanted

    stream = sys.stderr if as_json else sys.stdout
    shares = {
        "loss": loss,
        "duplication": duplication,
        "reordering": reordering,
        "corruption": corruption,
    }
    wanted = Wanted(designs=[design], platform=platform, seed=seed, faults=shares)
    with folder_for(out) as folder:
        found = run_live(
            [command, *(peer or [])],
            wanted,
            functools.partial(print, file=stream, flush=True),
            stream if as_json else None,
            record,
            paced,
            pcap,
        )
        if isinstance(found, list):
            return next(filter(None, found), 0)
        shown: ShownLive = ShownLive(found)
        written = [] if folder is None else shown.write(folder)
    tell(shown, written, as_json)
    return next(filter(None, found.statuses), 0)
