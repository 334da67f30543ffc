"""``nicscope trace``: look at request traces, convert them, and make ones that nobody recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nicscope.cli import arguments
from nicscope.cli.answer import print_json, tell
from nicscope.cli.arguments import (
    UNSAID,
    AsJson,
    Service,
    byte_count,
    option,
    output_path,
    reads_services,
    text_beside,
)
from nicscope.cli.usage import Commands
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import TraceError, printable
from nicscope.library.progress import progress
from nicscope.library.traces import open_trace, trace_path

if TYPE_CHECKING:
    from nicscope.traces.formats import Conversion
    from nicscope.traces.reader import Trace


EXAMPLES = (
    "Examples:\n\n"
    "[bold]nicscope trace make zipf.parquet --requests 1000000 --pool 64GiB --size 4K:3,64K:1"
    "[/bold]\n\n"
    "[bold]nicscope trace make strided.parquet --pool 2MiB --size 4 --stride 8 --requests 262144"
    "[/bold]\n\n"
    "[bold]nicscope trace make cluster.parquet --nodes 8 --tenants 4 --zipf 1.2 "
    "--op serve_read:2,serve_write:1 --seed 7[/bold]"
)
USUAL_ZIPF = 0.99


def sizes_of(text: str) -> tuple[tuple[int, float], ...]:
    """Bytes and shares that ``--size`` spells; errors: ``TraceError``."""
    from nicscope.traces.synthetic import LONGEST, weighted

    parts = weighted("--size", text)
    sizes = [(read_bytes(name), share) for name, share in parts]
    for (size, _), (name, _) in zip(sizes, parts, strict=True):
        if size is None or not 1 <= size <= LONGEST:
            raise TraceError(
                f"--size: {name!r} is no length of a request, {BYTE_SPELLINGS}, below 4 GiB"
            )
    return tuple((size, share) for size, share in sizes if size is not None)


_Target = Annotated[
    Path,
    typer.Argument(
        metavar="OUT",
        parser=output_path,
        help="A file, a device or FIFO, or - for standard output.",
        show_default=False,
    ),
]


def make(
    target: _Target,
    requests: Annotated[int, option("N", "Requests of all tenants together.")] = 1_000_000,
    pool: Annotated[
        int, option("BYTES", "Memory that each tenant has registered.", parser=byte_count)
    ] = 1 << 30,
    regions: Annotated[
        int, option("N", "Regions of equal size that a tenant's pool is divided into.")
    ] = 1,
    size: Annotated[
        str, option("BYTES[:WEIGHT],...", "Sizes of requests, drawn by weight.")
    ] = "4K",
    zipf: Annotated[
        float | None,
        option(
            "S",
            "Popularity of places: rank r is drawn in proportion to r^-S; 0 makes all alike. "
            f"Default: {USUAL_ZIPF}. Places are as far apart as the longest request.",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        option(
            "BYTES",
            "Instead of --zipf: distance from a tenant's request to its next,"
            " region after region, and then again.",
            parser=byte_count,
        ),
    ] = None,
    op: Annotated[str, option("NAME[:WEIGHT],...", "Operations, drawn by weight.")] = "send",
    tenants: Annotated[int, option("N", "Processes of each node; they take turns.")] = 1,
    nodes: Annotated[int, option("N", "Nodes; they take turns.")] = 1,
    rate: Annotated[int, option("N", "Requests per second of all tenants together.")] = 1_000_000,
    arrivals: Annotated[
        str,
        option("even|poisson", "Time between requests: even, or random and independent."),
    ] = "even",
    page_size: Annotated[
        int, option("BYTES", "Page size that the trace states.", parser=byte_count)
    ] = 4096,
    seed: Annotated[int, option("N", "Seed; the same seed gives the same bytes.")] = 0,
    to_format: Annotated[
        str | None,
        option(
            "FORMAT",
            "Format: parquet, csv or oracle-general. Default: as OUT's ending says.",
            "--to",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a trace of a given size, popularity or stride.

    Tenants of nodes send from pools of their own.

    What it is like is assumed, and the file says so; its requests are the same for the same seed.
    """
    from nicscope.reports.wording import in_words
    from nicscope.traces.synthetic import Recipe, ops_of
    from nicscope.traces.synthetic import make as make_trace

    recipe = Recipe(
        requests=requests,
        sizes=sizes_of(size),
        ops=ops_of(op),
        zipf=USUAL_ZIPF if zipf is None and stride is None else zipf,
        stride=stride,
        pool=pool,
        regions=regions,
        tenants=tenants,
        nodes=nodes,
        rate=rate,
        page_size=page_size,
        seed=seed,
        arrivals=arrivals,
    )
    with text_beside(target, as_json):
        with progress("making", "rows") as watch:
            done = make_trace(recipe, target, to_format, watch)
        if as_json:
            print_json(
                {
                    "file": printable(str(target)),
                    "requests": done.rows,
                    "to": done.to_format,
                    "recipe": recipe.said(),
                    "lost": done.lost,
                }
            )
            return
        print(f"{printable(str(target))}: {in_words(done.rows, 'request')} ({done.to_format})")
        places = recipe.places * recipe.regions
        print(
            f"  {in_words(nodes * tenants, 'tenant')}, each with {pool:,} bytes of pool in "
            f"{in_words(regions, 'region')} and {in_words(places, 'place')} where requests begin"
        )
        for what in done.lost:
            print(f"  not kept in {done.to_format}: {what}")


app = typer.Typer(
    name="trace",
    cls=Commands,
    help="Inspect, generate, convert and split request traces.",
    epilog="Example: [bold]nicscope trace info bundled:redis_server[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command(epilog=EXAMPLES)(make)


@app.command(
    epilog="Examples:\n\n"
    "[bold]nicscope trace info redis.parquet[/bold]\n\n"
    "[bold]nicscope trace info bundled:redis_server --json | jq .reuse[/bold]\n\n"
    "[bold]nicscope trace info conversation.jsonl --model llama-3-70b --tp 8 --page-size 2MiB"
    "[/bold]"
)
@reads_services
def info(
    file: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A trace (Parquet, GOAL), - for standard input, or bundled:NAME for one that "
            "comes with nicscope.",
            autocompletion=arguments.traces,
            show_default=False,
        ),
    ],
    page_size: Annotated[
        int | None,
        option("BYTES", "Page size to count by. Default: the trace's.", parser=byte_count),
    ] = None,
    service: Service = UNSAID,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a trace holds: requests, pages and their reuse.

    Of a program trace: its operations and how long it waits.
    """
    from nicscope.reports.trace import ShownProgramTrace, ShownSummary
    from nicscope.traces.files import open_bytes
    from nicscope.traces.folders import is_folder, open_folder
    from nicscope.traces.formats import any_of
    from nicscope.traces.imported import Choices
    from nicscope.traces.programs.writer import program_format, read_as_program, summarize_program
    from nicscope.traces.schema import check_page_size
    from nicscope.traces.summary import summarize

    path = trace_path(file)
    trace: Trace
    if service != UNSAID:
        trace = open_trace(file, **service._asdict())
    elif is_folder(path):
        trace = open_folder(path)
    else:
        source = open_bytes(path)
        kind = program_format(source, None)
        if kind is not None:
            with progress("reading", "rows" if kind == "program" else "") as watch:
                program = summarize_program(read_as_program(source, kind, Choices(), watch))
            tell(ShownProgramTrace(program, source.name), [], json)
            return
        trace = any_of(source, Choices())
    if page_size is not None:
        check_page_size(page_size, "--page-size")
        trace.metadata.page_size = page_size
    with progress("reading", "rows") as watch:
        summary = summarize(trace, watch)
    tell(ShownSummary(summary, trace.name), [], json)


@app.command(
    epilog="Examples:\n\n"
    "[bold]nicscope trace convert server.strace server.parquet[/bold]\n\n"
    "[bold]nicscope trace convert run.log run.parquet --from lackey --pid 7[/bold]\n\n"
    "[bold]nicscope trace convert redis.parquet redis.oracleGeneral.zst[/bold]\n\n"
    "[bold]nicscope trace convert allreduce.goal allreduce.program.parquet[/bold]\n\n"
    "[bold]nicscope trace convert conversation.jsonl kv.parquet --model llama-3-70b --tp 8"
    "[/bold]\n\n"
    "[bold]nicscope trace convert azure_llm_2023_conv.csv kv.parquet --model llama-3-70b --tp 8 "
    "--block-tokens 16 --prefix 256[/bold]"
)
@reads_services
def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="A file, a FIFO, or - for standard input.", show_default=False
        ),
    ],
    target: _Target,
    from_format: Annotated[
        str | None,
        option(
            "FORMAT",
            "Format of IN: parquet, csv, strace, lackey, libcachesim-csv, "
            "oracle-general, mooncake, azure-llm, burstgpt, program or goal. "
            "Default: as the file tells.",
            "--from",
        ),
    ] = None,
    to_format: Annotated[
        str | None,
        option(
            "FORMAT",
            "Format of OUT: parquet, csv, oracle-general, program or goal. "
            "Default: as OUT's ending says.",
            "--to",
        ),
    ] = None,
    node: Annotated[int, typer.Option(min=0, help="Node of the requests, if IN names none.")] = 0,
    pid: Annotated[int, typer.Option(min=0, help="Process of the requests, if IN names none.")] = 0,
    op: Annotated[
        str, typer.Option(help="Operation of the requests, if IN's accesses have no direction.")
    ] = "send",
    page_size: Annotated[
        int,
        option("BYTES", "Bytes of an object, if IN names objects.", parser=byte_count),
    ] = 4096,
    renumber: Annotated[
        bool,
        typer.Option("--renumber", help="Number objects 0, 1, 2... as they appear (hashed ids)."),
    ] = False,
    columns: Annotated[
        str, option("TEXT", "libCacheSim CSV: time-col=1,obj-id-col=2,obj-size-col=3.")
    ] = "",
    rank_pool: Annotated[
        int,
        option(
            "BYTES",
            "GOAL: memory of a rank to send from, and as much to receive into.",
            parser=byte_count,
        ),
    ] = 1 << 20,
    ranks_per_node: Annotated[int, option("N", "GOAL: ranks of a node.", min=1)] = 1,
    service: Service = UNSAID,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Convert a trace; IN and OUT may be compressed (.zst, .gz)."""
    from nicscope.errors import TraceError, did_you_mean
    from nicscope.traces.formats import convert as convert_trace
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import OP_CODES, check_page_size

    if op not in OP_CODES:
        raise TraceError(f"unknown --op {op!r}{did_you_mean(op, OP_CODES)}")
    check_page_size(page_size, "--page-size")
    for name, value in (("--node", node), ("--pid", pid)):
        if value >= 1 << 31:
            raise TraceError(f"{name} must be less than 2^31, got {value}")
    kv = service.choices()
    choices = Choices(node, pid, op, page_size, renumber, columns, rank_pool, ranks_per_node, kv)
    with text_beside(target, json):
        with progress("converting", "") as watch:
            done = convert_trace(source, target, from_format, to_format, choices, watch)
        if json:
            assumed = done.metadata.origin.get("assumed")
            print_json(
                {
                    "file": printable(str(target)),
                    "operations" if done.are_operations else "requests": done.rows,
                    **({"registrations": done.registrations} if done.registrations else {}),
                    "from": done.from_format,
                    "to": done.to_format,
                    "observed": done.metadata.observed,
                    **({"assumed": assumed} if assumed else {}),
                    "lost": done.lost,
                }
            )
        else:
            _print_conversion(target, done)


@app.command(
    epilog="Examples:\n\n"
    "[bold]nicscope trace split cluster.parquet cluster --by node --files 16[/bold]\n\n"
    "[bold]nicscope trace split day.parquet day --by time --files 24[/bold]"
)
def split(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A trace (Parquet), a folder of them, - for standard input, or bundled:NAME.",
            autocompletion=arguments.traces,
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new folder.", show_default=False)
    ],
    by: Annotated[str, option("node|time", "Divide by nodes, or by time.")] = "node",
    files: Annotated[int, option("N", "Files at most; by node no more than there are nodes.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Divide a trace into files of a folder, by nodes or by time.

    The folder is a trace as well.
    """
    from nicscope.traces.folders import split as divide

    opened = open_trace(trace)
    with progress("splitting", "rows") as watch:
        done = divide(opened, folder, by, files, watch)
    shown = printable(str(folder))
    what = "row" if opened.registrations else "request"
    if as_json:
        listed = [{"file": name, f"{what}s": rows} for name, rows in done.files]
        print_json({"folder": shown, "by": by, f"{what}s": done.rows, "files": listed})
        return
    from nicscope.reports.wording import in_words

    print(f"{shown}: {in_words(done.rows, what)} in {in_words(len(done.files), 'file')}")
    for name, rows in done.files:
        print(f"  {name}: {in_words(rows, what)}")


def _print_conversion(target: Path, done: Conversion) -> None:
    from nicscope.reports.wording import in_words

    formats = f"{done.from_format} to {done.to_format}"
    what = "operation" if done.are_operations else "request"
    found = in_words(done.rows, what)
    if done.registrations:
        found += f", {in_words(done.registrations, 'row')} that register or deregister"
    print(f"{printable(str(target))}: {found} ({formats})")
    for what in done.metadata.origin.get("assumed", ()) if done.from_format != "parquet" else ():
        print(f"  assumed: {what}")
    observed = {} if done.from_format == "parquet" else done.metadata.observed
    for name, value in observed.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {count:,}" for key, count in value.items())
        if value and name != "requests":
            text = f"{value:,}" if isinstance(value, int) else value
            print(f"  {name.replace('_', ' ')}: {text}")
    for what in done.lost:
        print(f"  not kept in {done.to_format}: {what}")
