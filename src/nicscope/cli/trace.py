"""``nicscope trace``: look at request traces and convert them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nicscope.cli.out import output_path, text_beside
from nicscope.cli.progress import progress
from nicscope.cli.tables import print_json
from nicscope.errors import printable
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from rich.table import Table

    from nicscope.traces.convert import Conversion
    from nicscope.traces.summary import TraceSummary

app = typer.Typer(
    name="trace",
    help="Look at request traces and convert them from and to other formats.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

WIDTH = 100
BAR = 40
EIGHTHS = " ▏▎▍▌▋▊▉"


@app.command(
    epilog="Example: [bold]nicscope trace info redis.parquet[/bold]   "
    "[bold]nicscope trace info redis.parquet --json | jq .reuse[/bold]"
)
def info(
    file: Annotated[Path, typer.Argument(help="A trace (Parquet).", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Show what a trace holds: requests, pages, reuse, operations, sizes, origin."""
    from nicscope.traces.reader import open_trace
    from nicscope.traces.summary import summarize

    trace = open_trace(file)
    with progress("reading", "rows") as watch:
        summary = summarize(trace, watch)
    if json:
        print_json({"file": trace.name, **summary.as_json()})
    else:
        _print_summary(trace.name, summary)


@app.command(
    epilog="Examples: [bold]nicscope trace convert server.strace server.parquet[/bold]   "
    "[bold]nicscope trace convert run.log run.parquet --from lackey --pid 7[/bold]   "
    "[bold]nicscope trace convert redis.parquet redis.oracleGeneral.zst[/bold]"
)
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", show_default=False)],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            parser=output_path,
            help="A file, a device or FIFO, or - for standard output.",
            show_default=False,
        ),
    ],
    from_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="parquet, csv, strace, lackey, libcachesim-csv or oracle-general; told by the "
            "file if left out.",
        ),
    ] = None,
    to_format: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="parquet, csv or oracle-general; told by OUT's ending if left out.",
        ),
    ] = None,
    node: Annotated[int, typer.Option(min=0, help="Node, where IN names none.")] = 0,
    pid: Annotated[int, typer.Option(min=0, help="Process, where IN names none.")] = 0,
    op: Annotated[
        str, typer.Option(help="Operation, where IN's accesses have no direction.")
    ] = "send",
    page_size: Annotated[
        int, typer.Option(min=1, help="Bytes that one object stands for, where IN names objects.")
    ] = 4096,
    renumber: Annotated[
        bool,
        typer.Option("--renumber", help="Number objects 0, 1, 2... as they appear (hashed ids)."),
    ] = False,
    columns: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="libCacheSim CSV: time-col=1,obj-id-col=2,obj-size-col=3."
        ),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Convert a trace; IN and OUT may be compressed (.zst, .gz)."""
    from nicscope.errors import TraceError, did_you_mean
    from nicscope.traces.convert import convert as convert_trace
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import OP_CODES, check_page_size

    if op not in OP_CODES:
        raise TraceError(f"unknown --op {op!r}{did_you_mean(op, OP_CODES)}")
    check_page_size(page_size, "--page-size")
    for name, value in (("--node", node), ("--pid", pid)):
        if value >= 1 << 31:
            raise TraceError(f"{name} must be less than 2^31, got {value}")
    choices = Choices(node, pid, op, page_size, renumber, columns)
    with text_beside(target, json):
        with progress("converting", "") as watch:
            done = convert_trace(source, target, from_format, to_format, choices, watch)
        if json:
            print_json(
                {
                    "file": printable(str(target)),
                    "requests": done.rows,
                    "from": done.from_format,
                    "to": done.to_format,
                    "observed": done.metadata.observed,
                    "lost": done.lost,
                }
            )
        else:
            _print_conversion(target, done)


def _print_conversion(target: Path, done: Conversion) -> None:
    formats = f"{done.from_format} to {done.to_format}"
    print(f"{printable(str(target))}: {done.rows:,} requests ({formats})")
    observed = {} if done.from_format == "parquet" else done.metadata.observed
    for name, value in observed.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {count:,}" for key, count in value.items())
        if value and name != "requests":
            text = f"{value:,}" if isinstance(value, int) else value
            print(f"  {name.replace('_', ' ')}: {text}")
    for what in done.lost:
        print(f"  not kept in {done.to_format}: {what}")


def _print_summary(name: str, summary: TraceSummary) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    console.print(f"\n[bold]{_escaped(Path(name).name)}[/bold]")
    console.print(_facts(summary))
    console.print(_operations(summary))
    console.print(_sizes(summary))


def _facts(summary: TraceSummary) -> Table:
    from rich.table import Table

    lowest, highest = summary.lowest_address or 0, summary.highest_address or 0
    page_size = summary.metadata.page_size
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("requests", f"{summary.requests:,}")
    table.add_row("nodes, processes", f"{summary.nodes:,}, {summary.processes:,}")
    table.add_row("bytes moved", f"{summary.bytes:,} ({byte_size(summary.bytes)})")
    footprint = byte_size(summary.pages * page_size)
    table.add_row("pages touched", f"{summary.pages:,} of {byte_size(page_size)} ({footprint})")
    table.add_row("page lookups", f"{summary.lookups:,}, {summary.reuse:,.1f} per page")
    span = byte_size(highest - lowest + 1)
    table.add_row("addresses", f"{lowest:#x} to {highest:#x} ({span})")
    table.add_row("duration", _duration(summary.duration_ns))
    notes = dict(summary.metadata.origin) | {
        f"observed {name}": value for name, value in summary.metadata.observed.items()
    }
    for name, value in notes.items():
        table.add_row(_escaped(name.replace("_", " ")), _escaped(_spelt(value)))
    return table


def _operations(summary: TraceSummary) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from nicscope.traces.schema import FIRST_RECEIVE, OP_CODES

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, justify in (("operation", "left"), ("path", "left"), ("requests", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    for name, count in summary.requests_per_op.items():
        if count:
            path = "receive" if OP_CODES[name] >= FIRST_RECEIVE else "send"
            share = f"{count / summary.requests:.1%}"
            table.add_row(name, path, f"{count:,}", share, byte_size(summary.bytes_per_op[name]))
    return table


def _sizes(summary: TraceSummary) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    counts = summary.requests_per_size_class
    used = [size_class for size_class, count in enumerate(counts) if count]
    most = max(counts, default=0)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("request size", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=BAR)
    table.add_column("requests", justify="right", no_wrap=True)
    for size_class in range(used[0], used[-1] + 1) if used else ():
        low, high = 1 << size_class, (2 << size_class) - 1
        label = f"{byte_size(low)}" if low == high else f"{byte_size(low)} … {byte_size(high + 1)}"
        count = counts[size_class]
        table.add_row(label, f"[green]{_bar(count, most)}[/green]", f"{count:,}")
    return table


def _bar(count: int, most: int) -> str:
    """Draw a bar in eighths of a character; whatever is not 0 can be seen."""
    eighths = max(round(8 * BAR * count / most), 1) if count else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _duration(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "unknown (no times)"
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= factor:
            return f"{nanoseconds / factor:,.3f} {unit}"
    return f"{nanoseconds} ns"


def _spelt(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_spelt(count)}" for key, count in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))
