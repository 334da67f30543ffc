"""``nicscope apps``: parallel programs on shared virtual memory, and people's on sockets."""

from __future__ import annotations

import contextlib
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from nicscope.cli import arguments, derived
from nicscope.cli.answer import print_json, print_written, tell
from nicscope.cli.arguments import AsJson, option, output_path, text_beside
from nicscope.cli.usage import Commands
from nicscope.library.measurements import run_collective

app = typer.Typer(
    name="apps",
    cls=Commands,
    help="Run programs, parallel or of people at work, and record what they ask of NICs.",
    epilog="Example: [bold]nicscope apps run fft --size 64K --out fft.parquet[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
derived.add(app, run_collective)


def _names(incomplete: str) -> list[str]:
    from nicscope.library.applications import app_names

    return [name for name in app_names() if name.startswith(incomplete)]


@app.command(
    "list",
    epilog="Example: [bold]nicscope apps list[/bold]",
)
def list_(as_json: AsJson = False) -> None:
    """Show the programs, and the sizes that they have in UTLB's Table 3."""
    from nicscope.library.applications import apps

    tell(apps(), [], as_json)


@app.command(
    epilog="Examples:\n\n"
    "[bold]nicscope apps run fft --size 64K --out fft.parquet[/bold]\n\n"
    "[bold]nicscope apps run radix --size 4M --nodes 4 --processes 4 --json[/bold]\n\n"
    "[bold]nicscope apps run fft --nodes 8 --processes 1 --out fft.program.parquet[/bold]\n\n"
    "[bold]nicscope apps run fft --on vmmc --faults loss=0.05 --faults seed=3[/bold]"
)
def run(
    name: Annotated[
        str,
        typer.Argument(
            help="A program; [bold]nicscope apps list[/bold] has them.",
            autocompletion=_names,
            show_default=False,
        ),
    ],
    size: Annotated[
        str | None,
        option("N", "How much it computes, such as 64K or 4M; a small one.", "--size", "--points"),
    ] = None,
    nodes: Annotated[int, option("N", "Machines.", min=1, max=64)] = 4,
    processes: Annotated[int, option("N", "Processes of each.", min=1, max=64)] = 4,
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="Copies of pages are each process's own, not shared by a node's."
        ),
    ] = False,
    seed: Annotated[int, option("N", "Of its input.", min=0)] = 0,
    out: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "NAME.parquet: a trace of what it asks of network interfaces, and beside it "
            "NAME.program.parquet, of what its processes do and wait for; or that one alone.",
            parser=output_path,
        ),
    ] = None,
    with_initial: Annotated[
        bool,
        typer.Option("--with-initial", help="Also trace the first distribution of its data."),
    ] = False,
    on: Annotated[
        str | None,
        option(
            "INTERFACE",
            "vmmc, mini or unet: run on simulated machines whose NICs serve that; else in "
            "logical time.",
        ),
    ] = None,
    design: Annotated[
        str | None,
        option(
            "NAME",
            "With --on: a design of NICs, or a file of one.",
            autocompletion=arguments.designs,
        ),
    ] = None,
    platform: Annotated[
        str | None,
        option(
            "NAME",
            "With --on: what things cost, or a file of that.",
            autocompletion=arguments.platforms,
        ),
    ] = None,
    faults: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE",
            "With --on: loss=0.05, duplication, reordering, corruption, seed=3, link=1@600 or "
            "node=2@600, which dies at 600 us; may be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a parallel program on shared memory, check its result, and trace its requests."""
    from nicscope.library.applications import run_app, traces_of

    outs = traces_of(out)

    def work() -> None:
        report = run_app(
            name,
            size,
            nodes=nodes,
            processes=processes,
            private=private,
            seed=seed,
            out=outs,
            with_initial=with_initial,
            on=on,
            design=design,
            platform=platform,
            faults=faults,
        )
        if as_json:
            print_json(report.as_json())
        else:
            report.show()
            print_written(outs)

    with contextlib.ExitStack() as beside:
        for each in outs:
            beside.enter_context(text_beside(each, as_json))
        work()


@app.command(
    "record-sockets",
    epilog="Example: [bold]nicscope apps record-sockets --users 32 --out sockets.parquet[/bold]",
)
def record_sockets(
    out: Annotated[
        Path, option("FILE", "The trace to write (Parquet).", "--out", parser=output_path)
    ],
    users: Annotated[int, option("N", "Programs in use.", min=1, max=256)] = 32,
    seconds: Annotated[
        float, option("S", "How long each user's pauses last in all.", min=0.1, max=600)
    ] = 30.0,
    seed: Annotated[int, option("N", "Of what users do, and when.", min=0)] = 0,
    receive_pages: Annotated[
        int, option("N", "Pages that each process receives into.", min=1, max=4096)
    ] = 64,
    as_json: AsJson = False,
) -> None:
    """Record people at a shell, a web and a mail server: real programs, over loopback.

    Each user and each server is a program of this machine, in a network namespace of their own
    where one may be made. That every byte arrived is checked before the trace is written.
    """
    from nicscope.library.applications import record_sockets as record

    with text_beside(out, as_json):
        report = record(out, users=users, seconds=seconds, seed=seed, receive_pages=receive_pages)
        tell(report, [out], as_json)
