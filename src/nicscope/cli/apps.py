"""``nicscope apps``: parallel programs on shared virtual memory, and people's on sockets."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import typer

from nicscope.cli.answer import add_commands, check_explained, tell
from nicscope.cli.arguments import AsJson, output_path, text_beside
from nicscope.cli.usage import Commands
from nicscope.library.applications import record_sockets, run_app
from nicscope.library.measurements import run_collective, run_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.reports.result import Report

app = typer.Typer(
    name="apps",
    cls=Commands,
    help="Run parallel programs and collectives; record their requests.",
    epilog="Example: [bold]nicscope apps run fft --size 64K --out fft.parquet[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command(
    "list",
    epilog="Example: [bold]nicscope apps list[/bold]",
)
def list_(as_json: AsJson = False) -> None:
    """Show the programs and their sizes in UTLB's Table 3."""
    from nicscope.library.applications import apps

    tell(apps(), [], as_json)


def _answer_beside_traces(
    found: Callable[..., Report], given: dict[str, Any], as_json: bool, explain: bool
) -> None:
    """Print what was found beside the traces that ``--out`` names."""
    from nicscope.library.applications import traces_of

    check_explained(explain, as_json)
    several = isinstance(given["out"], list)
    named = [output_path(each) for each in (given["out"] if several else [given["out"]]) if each]
    outs = traces_of(named) if several else named
    given["out"] = outs if several else outs[0] if outs else None
    with contextlib.ExitStack() as beside:
        for each in outs:
            beside.enter_context(text_beside(each, as_json))
        tell(found(), outs, as_json, explain)


add_commands(app, run_app, record_sockets, answering=_answer_beside_traces)
add_commands(app, run_collective, run_kernel)
