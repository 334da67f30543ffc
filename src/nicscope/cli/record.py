"""``nicscope record -o FILE -- COMMAND ...``, or ``--pid PID``: a real program's socket buffers."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the command line reads it
from typing import Annotated

import typer

from nicscope.cli.arguments import option, output_path
from nicscope.cli.recording import record_sockets, record_verbs

# Options end where the program begins: what follows is the program's own.
CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}
EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope record -o redis.parquet -- redis-server --port 7777[/bold]\n\n"
    "[bold]nicscope record -o fetch.parquet --quiet -- curl -s http://localhost/[/bold]\n\n"
    "[bold]nicscope record -o busy.parquet --pid 4711 --seconds 10[/bold]\n\n"
    "[bold]nicscope record --verbs -o card.parquet -- ib_write_bw server[/bold]\n\n"
    "[bold]nicscope record -o - -- curl -s http://localhost/ | nicscope replay -[/bold]"
)


def record(
    output: Annotated[
        Path,
        option(
            "FILE",
            "The trace to write; its ending sets the format: .parquet, .csv (.zst, .gz) "
            "or .oracleGeneral; a device, a FIFO or - (standard output) gets Parquet.",
            "-o",
            "--output",
            parser=output_path,
        ),
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...", help="The program and its arguments.", show_default=False
        ),
    ] = None,
    pid: Annotated[
        int | None,
        option("PID", "Record this running process instead of a COMMAND.", "--pid"),
    ] = None,
    seconds: Annotated[
        float | None,
        option(
            "SECONDS",
            "With --pid: record for this long. Default: until it ends, or Ctrl-C.",
            "--seconds",
        ),
    ] = None,
    verbs: Annotated[
        bool,
        typer.Option(
            "--verbs",
            help="Record an RDMA program: memory it registers, requests it posts and completions "
            "it polls, through whatever libibverbs it loads.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show neither the live count nor the summary.")
    ] = False,
) -> int:
    """Record the buffer of every socket send and receive of a program.

    The program's input, output, signals and exit status do not change; with -o - its output goes
    to the error stream, so that the trace can go through a pipe. Each call on a socket takes some
    25 to 70 microseconds longer, up to 140 where the program and the recorder wake each other
    across processors: bench/record_overhead.py measures it.

    With --pid, a running process is recorded, and the processes that it starts from then on;
    Ctrl-C ends the recording, and the process runs on. While it is recorded, every one of its
    system calls takes that much longer.

    With --verbs, the recorder loads a library in front of the program's libibverbs, of a real card
    or of verbs exec; a posted request takes less than 100 nanoseconds longer.
    """
    if verbs:
        return record_verbs(output, command or [], pid=pid, seconds=seconds, quiet=quiet)
    return record_sockets(output, command or [], pid=pid, seconds=seconds, quiet=quiet)
