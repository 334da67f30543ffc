"""``nicscope trace make``: a trace that nobody recorded, drawn by a seed."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from nicscope.cli.answer import print_json
from nicscope.cli.arguments import AsJson, byte_count, option, output_path, text_beside
from nicscope.errors import printable
from nicscope.library.progress import progress

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


def make(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            parser=output_path,
            help="A file, a device or FIFO, or - for standard output.",
            show_default=False,
        ),
    ],
    requests: Annotated[int, option("N", "Of all tenants together.")] = 1_000_000,
    pool: Annotated[int, option("BYTES", "That each tenant has registered.", parser=byte_count)] = 1
    << 30,
    regions: Annotated[int, option("N", "That share a tenant's pool, equal parts.")] = 1,
    size: Annotated[
        str, option("BYTES[:WEIGHT],...", "Of requests, each drawn by its weight.")
    ] = "4K",
    zipf: Annotated[
        float | None,
        option(
            "S",
            "Requests begin where they are drawn: the place of rank r in proportion to r^-S, 0 all "
            f"alike; default {USUAL_ZIPF}. Places are as far apart as the longest request.",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        option(
            "BYTES",
            "Instead: each begins so far after its tenant's last one, region after region, and "
            "then again.",
            parser=byte_count,
        ),
    ] = None,
    op: Annotated[
        str, option("NAME[:WEIGHT],...", "Operations, each drawn by its weight.")
    ] = "send",
    tenants: Annotated[int, option("N", "Processes of each node, which take turns.")] = 1,
    nodes: Annotated[int, option("N", "Nodes, which take turns.")] = 1,
    rate: Annotated[int, option("N", "Requests per second of all together.")] = 1_000_000,
    arrivals: Annotated[
        str,
        option("even|poisson", "At even distances, or at random ones, independent of each other."),
    ] = "even",
    page_size: Annotated[
        int, option("BYTES", "That the trace says it is of.", parser=byte_count)
    ] = 4096,
    seed: Annotated[int, option("N", "The same seed gives the same bytes.")] = 0,
    to_format: Annotated[
        str | None,
        option(
            "FORMAT", "parquet, csv or oracle-general; told by OUT's ending if left out.", "--to"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a trace: tenants of nodes, their pools, sizes, and what is popular or which stride.

    What it is like is assumed, and the file says so; its requests are the same for the same seed.
    """
    from nicscope.library.made_sizes import sizes_of
    from nicscope.reports.wording import in_words
    from nicscope.traces.making.recipe import Recipe, ops_of
    from nicscope.traces.making.requests import make as make_trace

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
                    "to": done.format,
                    "recipe": recipe.said(),
                    "lost": done.lost,
                }
            )
            return
        print(f"{printable(str(target))}: {in_words(done.rows, 'request')} ({done.format})")
        places = recipe.places * recipe.regions
        print(
            f"  {in_words(nodes * tenants, 'tenant')}, each with {pool:,} bytes of pool in "
            f"{in_words(regions, 'region')} and {in_words(places, 'place')} where requests begin"
        )
        for what in done.lost:
            print(f"  not kept in {done.format}: {what}")
